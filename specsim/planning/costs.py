"""What one round costs, part by part, over a grid: from the roofline, from measurements, or from both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specsim.cost.machine import Machine
from specsim.cost.memory import LIMITS, Fit, fit, sequence_bytes
from specsim.cost.passes import Array, Pass
from specsim.cost.roofline import PassTime, pass_time
from specsim.drafting import Drafting, Round, drafting_of
from specsim.planning.lengths import RoundLengths
from specsim.planning.question import Axes, Question, plain_step
from specsim.planning.schedules import exposed_seconds
from specsim.specs.drafter import LookupDraft
from specsim.specs.scenario import MeasuredCosts
from specsim.specs.served import ServedModel


@dataclass(frozen=True, eq=False)
class RoundCosts:
    """Costs of a round; every array broadcasts to (gamma, batch, context).

    Attributes:
        plain_seconds: One plain decoding step [s]; 1 where no absolute time is known.
        drafting_seconds: All that a drafter does in a round, as far as verification waits for it [s].
        draft_cost_ratio: The same / (gamma x plain step), NaN at gamma 0.
        verification_seconds: Verifying gamma + 1 tokens [s].
        overhead_seconds: Fixed costs and repairs of a round [s].
        operations_ratio: Operations of a round / of a plain step.
        bytes_ratio: Bytes moved in a round / in a plain step.
        bound: What verification waits for most, None without a roofline.
        fit: Whether it fits in memory, None without cards.
        absolute: Whether the times are seconds, and not plain steps.
    """

    plain_seconds: Array
    drafting_seconds: Array
    draft_cost_ratio: Array
    verification_seconds: Array
    overhead_seconds: Array
    operations_ratio: Array
    bytes_ratio: Array
    bound: NDArray[np.int8] | None
    fit: Fit | None
    absolute: bool


def round_costs(question: Question, axes: Axes, lengths: RoundLengths) -> RoundCosts:
    """Costs of a round at every point of the axes: drafting, verification, repairs and fixed costs.

    Measured costs replace what the roofline would say; without cards they are all there is, in plain steps.
    """
    measured, drafts = question.costs or MeasuredCosts(), axes.gamma > 0
    known = None
    if question.machine is not None and question.target is not None:
        known = _Passes.of(question, question.machine, question.target, axes, lengths)
        plain = known.plain.seconds
    else:
        plain = np.asarray(measured.plain_step_seconds or 1.0)
    if measured.verify_cost_ratio is None and known is not None:
        verification = known.verification_seconds
    else:
        ratio = 1.0 if measured.verify_cost_ratio is None else measured.verify_cost_ratio
        verification = plain * np.where(drafts, ratio, 1.0)
    operations, moved = _work(measured, axes, lengths, known)
    drafting = exposed_seconds(question.draft, _drafting_seconds(measured, plain, lengths, known), verification)
    overhead = _overhead(question, plain, axes, lengths)
    if question.output_length and known is not None:
        overhead = overhead + known.prefill_seconds * lengths.tokens_per_round / question.output_length
    return RoundCosts(
        plain_seconds=plain,
        drafting_seconds=drafting,
        draft_cost_ratio=_draft_cost_ratio(measured, drafting, plain, axes, lengths),
        verification_seconds=verification,
        overhead_seconds=overhead,
        operations_ratio=operations,
        bytes_ratio=moved,
        bound=known.verification.bound if known is not None else None,
        fit=known.fit if known is not None else None,
        absolute=known is not None or measured.plain_step_seconds is not None,
    )


@dataclass(frozen=True, eq=False)
class _Passes:
    """The passes of a round that the roofline times.

    Attributes:
        verification: The pass over all tokens that are looked at.
        verification_seconds: Its time; a plain step's where nothing was found to verify [s].
        drafting: What the drafter does, None where only its cost is measured.
        lanes: The times of its passes, as they are laid out in ``drafting``.
        prefill_seconds: What the drafter's models take to read a context [s].
    """

    machine: Machine
    plain: PassTime
    verification: PassTime
    verification_seconds: Array
    drafting: Drafting | None
    lanes: tuple[tuple[PassTime, ...], ...]
    prefill_seconds: Array
    fit: Fit

    @classmethod
    def of(
        cls, question: Question, machine: Machine, target: ServedModel, axes: Axes, lengths: RoundLengths
    ) -> _Passes:
        batch, context = axes.batch_size, axes.context_length
        drafting = drafting_of(question.draft, target, round_of(axes, lengths))
        tokens = axes.verified_tokens
        if drafting is not None and drafting.verified_tokens is not None:
            tokens = drafting.verified_tokens
        plain = pass_time(plain_step(target, batch, context), machine)
        width, share = tokens, np.ones(())
        if isinstance(question.draft, LookupDraft) and question.draft.hit_rate < 1:
            width, share = _found(question.draft.hit_rate, axes, tokens)
        verification = pass_time(Pass(target, batch, width, context), machine)
        seconds = (
            verification.seconds if share.ndim == 0 else plain.seconds * (1 - share) + verification.seconds * share
        )
        lanes = drafting.lanes if drafting is not None else ()
        return cls(
            machine=machine,
            plain=plain,
            verification=verification,
            verification_seconds=seconds,
            drafting=drafting,
            lanes=tuple(tuple(pass_time(part.of, machine) for part in lane) for lane in lanes),
            prefill_seconds=_prefill_seconds(drafting if question.output_length else None, machine) * (axes.gamma > 0),
            fit=_fit(target, drafting, axes, tokens, machine),
        )


def round_of(axes: Axes, lengths: RoundLengths) -> Round:
    """What a drafter is told of the rounds of a grid."""
    return Round(axes.gamma.astype(float), lengths.drafted_per_round, axes.batch_size, axes.context_length)


def _found(hit_rate: float, axes: Axes, tokens: Array) -> tuple[Array, Array]:
    """Tokens of a sequence in a step in which something was found for some sequence, and how often that is.

    Of B sequences none finds anything with (1 - h)^B; otherwise the pass holds 1 + h gamma / (1 - (1 - h)^B) tokens
    of each on average. At batch 1 a step is plain or whole.
    """
    some = -np.expm1(axes.batch_size * np.log1p(-hit_rate)) if hit_rate < 1 else np.ones(axes.batch_size.shape)
    some = np.maximum(some, np.finfo(float).tiny)
    return 1 + (tokens - 1) * (hit_rate / some), np.where(axes.gamma > 0, some, 1.0)


def _prefill_seconds(drafting: Drafting | None, machine: Machine) -> Array:
    """What it takes the models of a drafter to read a context before they draft [s]."""
    total: Array = np.zeros(())
    seen: list[str] = []
    for part in (part for lane in (drafting.lanes if drafting is not None else ()) for part in lane):
        of, name = part.of, part.of.served.model.name
        if not of.bare and name not in seen and part.name != "prediction":
            seen.append(name)
            reading = Pass(of.served, of.sequences, np.maximum(of.context_length, 1.0), np.zeros(()), of.projections)
            total = total + pass_time(reading, machine).seconds
    return total


def _fit(target: ServedModel, drafting: Drafting | None, axes: Axes, tokens: Array, machine: Machine) -> Fit:
    """What fits on the target's devices, and on those that the drafter has to itself."""
    resident = drafting.resident if drafting is not None else Drafting().resident
    found = fit(target, resident, axes.batch_size, tokens, axes.context_length, machine)
    if drafting is None or drafting.apart is None:
        return found
    capacity = machine.hardware.memory.capacity_bytes * machine.runtime.memory_utilization
    caches = sum(sequence_bytes(model, tokens, axes.context_length) for model in drafting.apart.cached)
    too_large = (axes.gamma > 0) & (drafting.apart.weight_bytes + axes.batch_size * caches > capacity)
    limit = np.maximum(found.limit, too_large * np.int8(LIMITS.tolist().index("memory")))
    return Fit(found.needed_bytes, found.draft_bytes, limit, found.excess_bytes, found.max_batch_size)


def _drafting_seconds(measured: MeasuredCosts, plain: Array, lengths: RoundLengths, known: _Passes | None) -> Array:
    """All that a drafter does in a round, one after another [s]."""
    if measured.draft_cost_ratio is not None:
        return plain * measured.draft_cost_ratio * lengths.drafted_per_round
    if known is None or known.drafting is None:
        raise ValueError("neither a drafter of known cost nor a measured draft cost is given")
    drafting = known.drafting
    seconds: Array = np.zeros(())
    for lane, times in zip(drafting.lanes, known.lanes, strict=True):
        in_lane: Array = np.zeros(())
        for part, time in zip(lane, times, strict=True):
            in_lane = in_lane + time.seconds * part.times
        seconds = np.maximum(seconds, in_lane)
    fixed = known.machine.runtime.draft_step_overhead_seconds * drafting.steps
    return seconds + (fixed + drafting.host_seconds * lengths.any_drafted)


def _draft_cost_ratio(
    measured: MeasuredCosts, drafting: Array, plain: Array, axes: Axes, lengths: RoundLengths
) -> Array:
    gamma = np.where(axes.gamma > 0, axes.gamma, np.nan)
    if measured.draft_cost_ratio is not None:
        # As it was given, and not by way of seconds.
        return measured.draft_cost_ratio * (lengths.drafted_per_round / gamma)
    return drafting / (gamma * plain)


def _work(measured: MeasuredCosts, axes: Axes, lengths: RoundLengths, known: _Passes | None) -> tuple[Array, Array]:
    """Operations and bytes of a round in plain steps.

    Without cards, verifying n tokens takes n times the operations and once the bytes of a plain step, and a draft
    step has the share in both that it has in time, unless its operations were given.
    """
    drafted = lengths.drafted_per_round
    if known is None or known.drafting is None:
        time_ratio = measured.draft_cost_ratio or 0.0
        operations_ratio = measured.draft_operations_ratio
        of_drafting = drafted * (time_ratio if operations_ratio is None else operations_ratio), drafted * time_ratio
        if known is None:
            return of_drafting[0] + axes.verified_tokens, of_drafting[1] + np.ones(())
    else:
        parts = [(p, t) for lane, times in zip(known.drafting.lanes, known.lanes, strict=True)
                 for p, t in zip(lane, times, strict=True)]  # fmt: skip
        operations = sum((t.operations * p.times for p, t in parts), np.zeros(()))
        moved = sum((t.moved_bytes * p.times for p, t in parts), np.zeros(()))
        of_drafting = operations / known.plain.operations, moved / known.plain.moved_bytes
    verify_operations = known.verification.operations / known.plain.operations
    verify_bytes = known.verification.moved_bytes / known.plain.moved_bytes
    return of_drafting[0] + verify_operations, of_drafting[1] + verify_bytes


def _overhead(question: Question, plain: Array, axes: Axes, lengths: RoundLengths) -> Array:
    """Fixed cost of a round that drafts, and its repairs: P(reject) x repair."""
    drafts, costs = axes.gamma > 0, question.costs
    fixed = question.machine.runtime.round_overhead_seconds if question.machine is not None else 0.0
    if costs is None or not (costs.overhead or costs.repair):
        return np.asarray(fixed * drafts)
    return fixed * drafts + plain * ((costs.overhead + costs.repair * lengths.rejection_probability) * drafts)
