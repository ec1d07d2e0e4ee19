"""What one round costs, part by part, over a grid: from the roofline, from measurements, or from both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specsim.acceptance import AcceptedLengths
from specsim.cost.memory import Fit, fit
from specsim.cost.passes import Array, Pass
from specsim.cost.roofline import Machine, PassTime, pass_time
from specsim.drafting.draft_model import draft_step
from specsim.planning.question import Axes, Question
from specsim.specs.drafter import DraftModel
from specsim.specs.model import ServedModel
from specsim.specs.scenario import MeasuredCosts


@dataclass(frozen=True, eq=False)
class RoundCosts:
    """Costs of a round; every array broadcasts to (batch, context, gamma).

    Attributes:
        plain_seconds: One plain decoding step [s]; 1 where no absolute time is known.
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
    drafting_seconds: Array
    verification_seconds: Array
    overhead_seconds: Array
    operations_ratio: Array
    bytes_ratio: Array
    bound: np.ndarray | None
    fit: Fit | None
    absolute: bool


def round_costs(question: Question, axes: Axes, lengths: AcceptedLengths) -> RoundCosts:
    """Costs of a round at every point of the axes."""
    if question.machine is None or question.target is None:
        measured = question.costs or MeasuredCosts()
        return _measured_costs(measured, axes, lengths)
    return _roofline_costs(question, question.machine, question.target, axes, lengths)


def _measured_costs(measured: MeasuredCosts, axes: Axes, lengths: AcceptedLengths) -> RoundCosts:
    """A round in units of the plain step: gamma c + verification + P(reject) repair + overhead."""
    plain = np.full((1, 1, 1), measured.plain_step_seconds or 1.0)
    drafted, tokens = lengths.drafted_per_round, axes.gamma + 1.0
    step_ratio = measured.draft_cost_ratio or 0.0
    operations = step_ratio if measured.draft_operations_ratio is None else measured.draft_operations_ratio
    verify_ratio = 1.0 if measured.verify_cost_ratio is None else measured.verify_cost_ratio
    return RoundCosts(
        plain_seconds=plain,
        drafting_seconds=plain * (drafted * step_ratio),
        verification_seconds=plain * np.where(axes.gamma > 0, verify_ratio, 1.0),
        overhead_seconds=plain * _measured_overhead(measured, axes, lengths),
        operations_ratio=drafted * operations + tokens,
        bytes_ratio=drafted * step_ratio + 1.0,
        bound=None,
        fit=None,
        absolute=measured.plain_step_seconds is not None,
    )


def _measured_overhead(measured: MeasuredCosts, axes: Axes, lengths: AcceptedLengths) -> Array:
    """Fixed cost and repairs of a round in plain steps; nothing where nothing is drafted."""
    return (measured.overhead + measured.repair * lengths.rejection_probability) * (axes.gamma > 0)


def _roofline_costs(
    question: Question, machine: Machine, target: ServedModel, axes: Axes, lengths: AcceptedLengths
) -> RoundCosts:
    measured = question.costs or MeasuredCosts()
    batch, context, drafts = axes.batch_size, axes.context_length, axes.gamma > 0
    plain = pass_time(Pass(target, batch, np.ones(()), context), machine)
    verification = pass_time(Pass(target, batch, axes.gamma + 1.0, context), machine)
    drafting_seconds, draft_operations, draft_bytes = _drafting(question, machine, measured, plain, axes, lengths)
    if measured.verify_cost_ratio is None:
        verification_seconds = verification.seconds
    else:
        verification_seconds = plain.seconds * np.where(drafts, measured.verify_cost_ratio, 1.0)
    overhead = machine.runtime.round_overhead_seconds * drafts + plain.seconds * _measured_overhead(measured, axes, lengths)
    return RoundCosts(
        plain_seconds=plain.seconds,
        drafting_seconds=drafting_seconds,
        verification_seconds=verification_seconds,
        overhead_seconds=overhead,
        operations_ratio=(draft_operations + verification.operations) / plain.operations,
        bytes_ratio=(draft_bytes + verification.moved_bytes) / plain.moved_bytes,
        bound=verification.bound,
        fit=_fit(question.draft, machine, target, axes),
        absolute=True,
    )


def _drafting(
    question: Question,
    machine: Machine,
    measured: MeasuredCosts,
    plain: PassTime,
    axes: Axes,
    lengths: AcceptedLengths,
) -> tuple[Array, Array, Array]:
    """Seconds, operations and bytes of all draft steps of a round."""
    drafted, draft = lengths.drafted_per_round, question.draft
    step = pass_time(draft_step(draft, axes.batch_size, axes.context_length), machine) if isinstance(draft, DraftModel) else None
    if measured.draft_cost_ratio is not None:
        seconds = plain.seconds * (drafted * measured.draft_cost_ratio)
    elif step is not None:
        seconds = (step.seconds + machine.runtime.draft_step_overhead_seconds) * drafted
    else:
        raise ValueError("neither a draft model nor a measured draft cost is given")
    if step is not None:
        return seconds, step.operations * drafted, step.moved_bytes * drafted
    ratio = measured.draft_cost_ratio or 0.0
    operations = ratio if measured.draft_operations_ratio is None else measured.draft_operations_ratio
    return seconds, plain.operations * (operations * drafted), plain.moved_bytes * (ratio * drafted)


def _fit(draft: object, machine: Machine, target: ServedModel, axes: Axes) -> Fit:
    """Memory of the target alone where nothing is drafted, and of both models where something is."""
    models = (target, draft) if isinstance(draft, DraftModel) else (target,)
    together = fit(models, axes.batch_size, axes.gamma + 1.0, axes.context_length, machine)
    if len(models) == 1 or axes.gamma.all():
        return together
    alone = fit((target,), axes.batch_size, axes.gamma + 1.0, axes.context_length, machine)
    drafts = axes.gamma > 0
    return Fit(
        needed_bytes=np.where(drafts, together.needed_bytes, alone.needed_bytes),
        limit=np.where(drafts, together.limit, alone.limit),
        excess_bytes=np.where(drafts, together.excess_bytes, alone.excess_bytes),
        max_batch_size=np.where(drafts, together.max_batch_size, alone.max_batch_size),
    )
