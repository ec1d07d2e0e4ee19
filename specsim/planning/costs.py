"""What one round costs, part by part, over a grid: from the roofline, from measurements, or from both."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance import AcceptedLengths
from specsim.cost.machine import Machine
from specsim.cost.memory import Fit, fit
from specsim.cost.passes import Array, Pass
from specsim.cost.roofline import PassTime, pass_time
from specsim.drafting.draft_model import draft_step
from specsim.planning.question import Axes, Question, plain_step
from specsim.specs.drafter import DraftModel
from specsim.specs.scenario import MeasuredCosts
from specsim.specs.served import ServedModel


@dataclass(frozen=True, eq=False)
class RoundLengths:
    """What an acceptance says of a round, along the axis of draft lengths; every array has shape (G, 1, 1).

    Attributes:
        tokens_per_round: Emitted tokens per round and sequence, bonus included.
        drafted_per_round: Proposed tokens per round and sequence.
        accepted_per_drafted: Accepted / proposed tokens.
        rejection_probability: P(a round rejects a draft).
        extrapolated: Whether the draft length lies beyond the recorded acceptance.
    """

    tokens_per_round: Array
    drafted_per_round: Array
    accepted_per_drafted: Array
    rejection_probability: Array
    extrapolated: NDArray[np.bool_]

    @classmethod
    def of(cls, lengths: AcceptedLengths) -> RoundLengths:
        """The expectations of accepted lengths."""
        return cls(*(getattr(lengths, field.name).reshape(-1, 1, 1) for field in dataclasses.fields(cls)))


@dataclass(frozen=True, eq=False)
class RoundCosts:
    """Costs of a round; every array broadcasts to (gamma, batch, context).

    Attributes:
        plain_seconds: One plain decoding step [s]; 1 where no absolute time is known.
        draft_step_seconds: One draft step [s].
        drafting_seconds: All draft steps of a round [s].
        verification_seconds: Verifying gamma + 1 tokens [s].
        overhead_seconds: Fixed costs and repairs of a round [s].
        operations_ratio: Operations of a round / of a plain step.
        bytes_ratio: Bytes moved in a round / in a plain step.
        bound: What verification waits for most, None without a roofline.
        fit: Whether it fits in memory, None without cards.
        absolute: Whether the times are seconds, and not plain steps.
    """

    plain_seconds: Array
    draft_step_seconds: Array
    drafting_seconds: Array
    verification_seconds: Array
    overhead_seconds: Array
    operations_ratio: Array
    bytes_ratio: Array
    bound: NDArray[np.int8] | None
    fit: Fit | None
    absolute: bool


def round_costs(question: Question, axes: Axes, lengths: RoundLengths) -> RoundCosts:
    """Costs of a round at every point of the axes: gamma draft steps, verification, repairs and fixed costs.

    Measured costs replace what the roofline would say; without cards they are all there is, in plain steps.
    """
    measured, drafts = question.costs or MeasuredCosts(), axes.gamma > 0
    known = None
    if question.machine is not None and question.target is not None:
        known = _Passes.of(question, question.machine, question.target, axes)
        plain = known.plain.seconds
    else:
        plain = np.asarray(measured.plain_step_seconds or 1.0)
    step = _draft_step(measured, plain, known)
    if measured.verify_cost_ratio is None and known is not None:
        verification = known.verification.seconds
    else:
        ratio = 1.0 if measured.verify_cost_ratio is None else measured.verify_cost_ratio
        verification = plain * np.where(drafts, ratio, 1.0)
    operations, moved = _work(measured, axes, lengths, known)
    return RoundCosts(
        plain_seconds=plain,
        draft_step_seconds=step,
        drafting_seconds=step * lengths.drafted_per_round,
        verification_seconds=verification,
        overhead_seconds=_overhead(question, plain, axes, lengths),
        operations_ratio=operations,
        bytes_ratio=moved,
        bound=known.verification.bound if known is not None else None,
        fit=known.fit if known is not None else None,
        absolute=known is not None or measured.plain_step_seconds is not None,
    )


@dataclass(frozen=True, eq=False)
class _Passes:
    """The passes of a round that the roofline times; no draft step where only its cost is measured."""

    machine: Machine
    plain: PassTime
    verification: PassTime
    draft: PassTime | None
    fit: Fit

    @classmethod
    def of(cls, question: Question, machine: Machine, target: ServedModel, axes: Axes) -> _Passes:
        batch, context, tokens = axes.batch_size, axes.context_length, axes.verified_tokens
        draft = question.draft if isinstance(question.draft, DraftModel) else None
        return cls(
            machine=machine,
            plain=pass_time(plain_step(target, batch, context), machine),
            verification=pass_time(Pass(target, batch, tokens, context), machine),
            draft=None if draft is None else pass_time(draft_step(draft, batch, context), machine),
            fit=fit(target, draft, batch, tokens, context, machine),
        )


def _draft_step(measured: MeasuredCosts, plain: Array, known: _Passes | None) -> Array:
    if measured.draft_cost_ratio is not None:
        return plain * measured.draft_cost_ratio
    if known is None or known.draft is None:
        raise ValueError("neither a draft model nor a measured draft cost is given")
    return known.draft.seconds + known.machine.runtime.draft_step_overhead_seconds


def _work(measured: MeasuredCosts, axes: Axes, lengths: RoundLengths, known: _Passes | None) -> tuple[Array, Array]:
    """Operations and bytes of a round in plain steps.

    Without cards, verifying n tokens takes n times the operations and once the bytes of a plain step, and a draft
    step has the share in both that it has in time, unless its operations were given.
    """
    drafted = lengths.drafted_per_round
    if known is not None and known.draft is not None:
        step_operations = known.draft.operations / known.plain.operations
        step_bytes = known.draft.moved_bytes / known.plain.moved_bytes
    else:
        time_ratio = measured.draft_cost_ratio or 0.0
        operations_ratio = measured.draft_operations_ratio
        step_operations = np.asarray(time_ratio if operations_ratio is None else operations_ratio)
        step_bytes = np.asarray(time_ratio)
    if known is not None:
        verify_operations = known.verification.operations / known.plain.operations
        verify_bytes = known.verification.moved_bytes / known.plain.moved_bytes
    else:
        verify_operations, verify_bytes = axes.verified_tokens, np.ones(())
    return step_operations * drafted + verify_operations, step_bytes * drafted + verify_bytes


def _overhead(question: Question, plain: Array, axes: Axes, lengths: RoundLengths) -> Array:
    """Fixed cost of a round that drafts, and its repairs: P(reject) x repair."""
    drafts, costs = axes.gamma > 0, question.costs
    fixed = question.machine.runtime.round_overhead_seconds if question.machine is not None else 0.0
    if costs is None or not (costs.overhead or costs.repair):
        return np.asarray(fixed * drafts)
    return fixed * drafts + plain * ((costs.overhead + costs.repair * lengths.rejection_probability) * drafts)
