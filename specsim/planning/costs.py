"""What one round costs, part by part, over a grid: from the roofline, from measurements, or from both."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial, reduce

import numpy as np
from numpy.typing import NDArray

from specsim.cost.machine import Machine
from specsim.cost.memory import Fit, fit, with_apart
from specsim.cost.passes import Array, Pass
from specsim.cost.roofline import PassTime, pass_time
from specsim.drafting import Drafting, Repeated, Round, drafting_of
from specsim.planning.lengths import RoundLengths, hit_rate_of
from specsim.planning.question import Axes, Question, plain_step
from specsim.planning.schedules import exposed_seconds
from specsim.specs.drafter import AnyDraft, DraftModel, LookupDraft
from specsim.specs.scenario import MeasuredCosts
from specsim.specs.served import ServedModel


@dataclass(frozen=True, eq=False)
class RoundCosts:
    """Costs of a round; every array broadcasts to (gamma, batch, context).

    Attributes:
        plain_seconds: One plain decoding step [s]; 1 where no absolute time is known.
        drafting_seconds: All that a drafter does in a round, as far as verification waits for it [s].
        whole_drafting_seconds: The same with what verification hides [s].
        draft_cost_ratio: Drafting that verification waits for / (gamma x plain step), NaN at gamma 0.
        verified_tokens: Tokens of each sequence that verification looks at, shape (G, 1, 1); of a lookup, where
            something is found.
        verification_seconds: Verifying these tokens [s].
        overhead_seconds: Fixed costs and repairs of a round [s].
        bound: What verification waits for most, None without a roofline.
        fit: Whether it fits in memory, None without cards.
        absolute: Whether the times are seconds, and not plain steps.
        work: Gives operations and bytes of a round in plain steps; only rows need them.
    """

    plain_seconds: Array
    drafting_seconds: Array
    whole_drafting_seconds: Array
    draft_cost_ratio: Array
    verified_tokens: Array
    verification_seconds: Array
    overhead_seconds: Array
    bound: NDArray[np.int8] | None
    fit: Fit | None
    absolute: bool
    work: Callable[[], tuple[Array, Array]] = field(repr=False)

    @cached_property
    def _work(self) -> tuple[Array, Array]:
        return self.work()

    @property
    def operations_ratio(self) -> Array:
        """Operations of a round / of a plain step."""
        return self._work[0]

    @property
    def bytes_ratio(self) -> Array:
        """Bytes moved in a round / in a plain step."""
        return self._work[1]


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
        verification = known.mixed(known.verification_seconds, plain)
    else:
        ratio = 1.0 if measured.verify_cost_ratio is None else measured.verify_cost_ratio
        # A sequence for which a lookup found nothing adds what it adds to a plain step.
        verification = plain * np.where(drafts, 1 + hit_rate_of(question.draft) * (ratio - 1), 1.0)
    proposed = _proposed(question.draft, axes, lengths)
    whole = _drafting_seconds(measured, plain, axes, proposed, known)
    drafting = exposed_seconds(question.draft, whole, verification)
    overhead = _overhead(question, plain, axes, lengths, known)
    if question.output_length and known is not None:
        shared_by = question.output_length / lengths.per_output(question.output_length)
        overhead = overhead + known.reading_seconds / shared_by
    return RoundCosts(
        plain_seconds=plain,
        drafting_seconds=drafting,
        whole_drafting_seconds=whole,
        draft_cost_ratio=_draft_cost_ratio(question.draft, measured, drafting, plain, axes, proposed),
        verified_tokens=known.verified_tokens if known is not None else axes.verified_tokens,
        verification_seconds=verification,
        overhead_seconds=overhead,
        bound=known.verification.bound if known is not None else None,
        fit=known.fit if known is not None else None,
        absolute=known is not None or measured.plain_step_seconds is not None,
        work=partial(_work, measured, axes, lengths, known),
    )


@dataclass(frozen=True, eq=False)
class _Passes:
    """The passes of a round that the roofline times.

    Attributes:
        verification: The pass over all tokens that are looked at.
        verification_seconds: What it takes [s]; of a tree with what its mask costs.
        verifying: Share of the steps in which something was found to verify.
        drafting: What the drafter does, None where only its cost is measured.
        parts: Its passes with their times, in lanes as they are laid out in ``drafting``.
        reading_seconds: What the drafter's models take to read a context [s].
    """

    machine: Machine
    plain: PassTime
    verification: PassTime
    verification_seconds: Array
    verified_tokens: Array
    verifying: Array
    drafting: Drafting | None
    parts: tuple[tuple[tuple[Repeated, PassTime], ...], ...]
    reading_seconds: Array
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
        width, share, sequences = tokens, np.ones(()), batch
        if axes.shapes is not None and question.draft.path_by_path:
            width, sequences = axes.shapes.path_tokens / axes.shapes.paths, batch * axes.shapes.paths
        if isinstance(question.draft, LookupDraft) and question.draft.hit_rate < 1:
            width, share = _found(question.draft.hit_rate, axes, tokens)
        verification = _pass_time_by_width(Pass(target, sequences, width, context), machine, axes)
        lanes = drafting.lanes if drafting is not None else ()
        readings = drafting.readings if drafting is not None and question.output_length else ()
        return cls(
            machine=machine,
            plain=plain,
            verification=verification,
            verification_seconds=verification.seconds * _tree_factor(question, machine, axes),
            verified_tokens=tokens,
            verifying=share,
            drafting=drafting,
            parts=tuple(tuple((part, pass_time(part.of, machine.of_drafts)) for part in lane) for lane in lanes),
            reading_seconds=_slowest(_sum(pass_time(of, machine.of_drafts).seconds for of in lane) for lane in readings)
            * (axes.gamma > 0),
            fit=_fit(target, drafting, axes, tokens, machine),
        )

    def mixed(self, verification: Array, plain: Array) -> Array:
        """What a step takes on average, where those in which nothing was found are plain ones."""
        share = self.verifying
        return verification if share.ndim == 0 else verification * share + plain * (1 - share)


def _pass_time_by_width(verification: Pass, machine: Machine, axes: Axes) -> PassTime:
    """The time of a verification; of many trees once for each number of tokens, where that is all they differ in."""
    width = verification.tokens_per_sequence
    if axes.shapes is None or width.ndim < 3 or verification.sequences.ndim == 3:
        return pass_time(verification, machine)
    each, which = np.unique(width.reshape(-1), return_inverse=True)
    if 2 * each.size > width.size or width.size != len(width):
        return pass_time(verification, machine)
    found = pass_time(replace(verification, tokens_per_sequence=each.reshape(-1, 1, 1)), machine)
    parts = {one.name: getattr(found, one.name) for one in fields(PassTime)}
    spread = {name: part[which] if part.ndim == 3 and len(part) == each.size else part for name, part in parts.items()}
    return PassTime(**spread)


def round_of(axes: Axes, lengths: RoundLengths) -> Round:
    """What a drafter is told of the rounds of a grid."""
    points = (axes.gamma.astype(float), lengths.drafted_per_round, axes.batch_size, axes.context_length)
    return Round(*points) if axes.shapes is None else Round(*points, axes.shapes.wide, axes.shapes.nodes)


def _tree_factor(question: Question, machine: Machine, axes: Axes) -> Array | float:
    """By how much the mask of a tree slows verification down; candidates that are verified one by one have none."""
    if axes.shapes is None or question.draft.path_by_path:
        return 1.0
    return np.where(axes.shapes.is_tree, machine.runtime.tree_factor, 1.0)


def _found(hit_rate: float, axes: Axes, tokens: Array) -> tuple[Array, Array]:
    """Tokens of a sequence in a step in which something was found for some sequence, and how often that is.

    Of B sequences none finds anything with (1 - h)^B; otherwise the pass holds 1 + h gamma / (1 - (1 - h)^B) tokens
    of each on average. At batch 1 a step is plain or whole.
    """
    some = -np.expm1(axes.batch_size * np.log1p(-hit_rate)) if hit_rate < 1 else np.ones(axes.batch_size.shape)
    width = 1 + (tokens - 1) * (hit_rate / np.maximum(some, np.finfo(float).tiny))
    return width, np.where(axes.gamma > 0, some, 1.0)


def _fit(target: ServedModel, drafting: Drafting | None, axes: Axes, tokens: Array, machine: Machine) -> Fit:
    """What fits on the target's devices, and on those that the drafter has to itself."""
    resident = drafting.resident if drafting is not None else Drafting().resident
    # The nodes of one level of a tree stand at one position.
    positions = None if axes.shapes is None else np.asarray(axes.gamma + 1, dtype=float)
    found = fit(target, resident, axes.batch_size, tokens, axes.context_length, machine, positions)
    if drafting is None or drafting.apart is None:
        return found
    return with_apart(found, drafting.apart, axes.batch_size, tokens, axes.context_length, machine, positions)


def _proposed(draft: AnyDraft, axes: Axes, lengths: RoundLengths) -> Array:
    """Drafts that are paid for where a draft step was measured: a lookup searches for all, found or not."""
    return axes.gamma.astype(float) if isinstance(draft, LookupDraft) else lengths.drafted_per_round


def _drafting_seconds(
    measured: MeasuredCosts, plain: Array, axes: Axes, proposed: Array, known: _Passes | None
) -> Array:
    """All that a drafter does in a round, one after another [s]."""
    if measured.draft_cost_ratio is not None:
        return plain * measured.draft_cost_ratio * proposed
    if known is None or known.drafting is None:
        raise ValueError("neither a drafter of known cost nor a measured draft cost is given")
    drafting = known.drafting
    seconds = _slowest(_sum(part.in_a_round(time.seconds) for part, time in lane) for lane in known.parts)
    fixed = known.machine.runtime.draft_step_overhead_seconds * drafting.steps
    # The host looks every time, whether it finds something or not.
    return seconds + (fixed + drafting.host_seconds * (axes.gamma > 0))


def _sum(terms: Iterable[Array]) -> Array:
    """The sum of some arrays; nothing is added where there is only one."""
    found = list(terms)
    return reduce(np.add, found) if found else np.zeros(())


def _slowest(lanes: Iterable[Array]) -> Array:
    """What lanes take that run at the same time."""
    return reduce(np.maximum, lanes, np.zeros(()))


def _draft_cost_ratio(
    draft: AnyDraft, measured: MeasuredCosts, drafting: Array, plain: Array, axes: Axes, proposed: Array
) -> Array:
    gamma = np.where(axes.gamma > 0, axes.gamma, np.nan)
    if measured.draft_cost_ratio is not None and not (isinstance(draft, DraftModel) and draft.schedule != "serial"):
        # As it was given, and not by way of seconds.
        return measured.draft_cost_ratio * (proposed / gamma)
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
        plain, parts = known.plain, [pair for lane in known.parts for pair in lane]
        # Ratios of small arrays first: the number of passes makes the array of all points.
        of_drafting = (
            _sum(part.in_a_round(time.operations / plain.operations) for part, time in parts),
            _sum(part.in_a_round(time.moved_bytes / plain.moved_bytes) for part, time in parts),
        )
    operations = known.mixed(known.verification.operations, known.plain.operations)
    moved = known.mixed(known.verification.moved_bytes, known.plain.moved_bytes)
    return of_drafting[0] + operations / known.plain.operations, of_drafting[1] + moved / known.plain.moved_bytes


def _overhead(question: Question, plain: Array, axes: Axes, lengths: RoundLengths, known: _Passes | None) -> Array:
    """Fixed cost of a round that verifies drafts, and its repairs: P(reject) x repair."""
    drafts, costs = axes.gamma > 0, question.costs
    fixed = known.machine.runtime.round_overhead_seconds * known.verifying if known is not None else np.zeros(())
    if costs is None or not (costs.overhead or costs.repair):
        return np.asarray(fixed * drafts)
    return fixed * drafts + plain * ((costs.overhead + costs.repair * lengths.rejection_probability) * drafts)
