"""Where speculation stops paying: break-even acceptance, batch and context, and what a perfect stop would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance import rate_where
from specsim.cost.passes import Array
from specsim.planning.lengths import (
    lengths_of,
    process_with,
    proposed_by,
    rejections_of_independent_drafts,
    tokens_of_independent_drafts,
)
from specsim.planning.question import Axes, Question
from specsim.planning.rounds import Rounds, plan
from specsim.specs.acceptance import Independent, typical_of
from specsim.specs.drafter import DraftModel
from specsim.specs.tree import Shape


def break_even_acceptance(question: Question, axes: Axes) -> Array:
    """The acceptance_rate of independent drafts at which a round costs no more than the tokens it gives.

    Solves tokens(a) = round(a) / plain for every draft length; the round depends on the rate where rejections
    cost a repair: round(a) = round(1) + repair P(reject).

    Returns:
        Shape (gamma, batch, context); NaN at gamma 0 and where no rate suffices.
    """
    certain = replace(question, draft=replace(question.draft, acceptance=Independent(rate=1.0)))
    rounds = plan(certain, axes)
    repair = question.costs.repair if question.costs is not None else 0.0
    cost = np.broadcast_to(rounds.round_seconds / rounds.costs.plain_seconds, axes.shape)

    def gain(rate: Array) -> Array:
        tokens = tokens_of_independent_drafts(question.draft, rate, axes.gamma)
        return tokens - repair * rejections_of_independent_drafts(question.draft, rate, axes.gamma)

    # A round that costs less than a plain step pays at any rate.
    least = np.maximum(cost, gain(np.zeros(axes.shape)))
    return np.where(axes.gamma > 0, rate_where(gain, least), np.nan)


@dataclass(frozen=True)
class Stretch:
    """Neighbouring batch sizes or contexts at which some draft length pays.

    Attributes:
        first: Where it begins.
        last: Where it ends.
        ended_by: Why: ``cost`` (it loses beyond), ``draft_memory`` (no room for the draft beyond), ``memory``
            (nothing fits beyond) or ``search`` (nothing beyond was looked at).
    """

    first: int
    last: int
    ended_by: str


def paying_batches(
    question: Question, context_length: int, gamma: NDArray[np.int64], most: int, trees: Sequence[Shape] = ()
) -> list[Stretch]:
    """Where speculation pays among batch sizes 1 to ``most``, at one context."""
    return _stretches([(question, Axes.of(np.arange(1, most + 1), [context_length], gamma, trees))])


def paying_contexts(
    question: Question, batch_size: int, gamma: NDArray[np.int64], most: int, trees: Sequence[Shape] = ()
) -> list[Stretch]:
    """Where speculation pays among contexts 0 to ``most``, at one batch size; every context is looked at."""
    starts = range(0, most + 1, _CONTEXTS_AT_ONCE)
    parts = [np.arange(start, min(start + _CONTEXTS_AT_ONCE, most + 1)) for start in starts]
    return _stretches([(question, Axes.of([batch_size], part, gamma, trees)) for part in parts])


_CONTEXTS_AT_ONCE = 8192


def _stretches(parts: list[tuple[Question, Axes]]) -> list[Stretch]:
    values, pays, drafts, fits = (np.concatenate(found) for found in zip(*map(_paying, parts), strict=True))
    edges = np.flatnonzero(np.diff(np.concatenate([[False], pays, [False]]).astype(int)))

    def ended_by(beyond: int) -> str:
        if beyond == len(values):
            return "search"
        return "cost" if drafts[beyond] else "draft_memory" if fits[beyond] else "memory"

    pairs = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    return [Stretch(int(values[first]), int(values[end - 1]), ended_by(end)) for first, end in pairs]


def _paying(part: tuple[Question, Axes]) -> tuple[NDArray[np.int64], ...]:
    """Values of the long axis; whether some draft length pays, whether one fits, whether anything fits."""
    question, axes = part
    rounds = plan(question, axes)
    feasible = np.broadcast_to(rounds.feasible, axes.shape)
    drafts = feasible & (axes.gamma > 0)
    pays = drafts & (rounds.speedup > 1) & (~rounds.lengths.extrapolated | question.extrapolate)
    long = axes.batch_size if axes.batch_size.size > 1 else axes.context_length
    masks = (mask.any(axis=0).reshape(-1) for mask in (pays, drafts, feasible))
    return (long.reshape(-1).astype(int), *masks)


@dataclass(frozen=True)
class PerfectStop:
    """A drafter that knew where it will be rejected and stopped there.

    Attributes:
        speedup: What it would reach at best.
        tokens: Tokens of its rounds.
        longest: Its longest draft.
    """

    speedup: float
    tokens: float
    longest: int


def perfect_stop(question: Question, axes: Axes, rounds: Rounds, also: int) -> PerfectStop:
    """The best that such a drafter would reach with drafts of up to each draft length of the axes.

    A round drafts what would be accepted and no more, so it is never rejected. It takes what a round of that draft
    length takes, of a batch that of its longest draft, and the fixed costs of the round; drafting beside verification
    takes the longer of both. Lookups find something as often as they do. Without these costs, for drafts of any length
    at batch 1, it is 1 / ((1 - a) + c a) (Leviathan et al. 2023, section 3.5).

    Args:
        question: What was planned.
        axes: One batch, one context, draft lengths from 0 upward.
        rounds: The rounds planned at these.
        also: A draft length that counts even beyond the recorded acceptance.
    """
    draft, gamma = question.draft, axes.gamma.reshape(-1)
    if isinstance(draft, DraftModel):
        draft = replace(draft, schedule="serial", prepared_share=None)
    acceptance = typical_of(draft.acceptance)
    lengths = lengths_of(draft, acceptance, gamma, axes.context_length)
    counted = lengths.per_output(question.output_length).reshape(-1)
    costs = rounds.costs
    drafting, verification, overhead, plain = (
        np.broadcast_to(seconds, axes.shape)[:, 0, 0]
        for seconds in (costs.whole_drafting_seconds, costs.verification_seconds, costs.overhead_seconds,
                        costs.plain_seconds)
    )  # fmt: skip
    overlaps = isinstance(question.draft, DraftModel) and question.draft.schedule != "serial"
    each = np.maximum(drafting, verification) if overlaps else drafting + verification
    repair = question.costs.repair if question.costs is not None else 0.0
    fixed = overhead - plain * repair * rounds.lengths.rejection_probability.reshape(-1)
    # The longest of a batch of drafts: of k tokens with the probability that all have at most k, and not all fewer.
    proposed = process_with(draft, acceptance).lengths(proposed_by(draft, gamma), axes.context_length).of_drafts
    at_most = (1 - proposed.at_least.reshape(len(gamma), -1)) ** axes.batch_size.item()
    found = []
    for index, longest in enumerate(gamma):
        shares = np.diff(at_most[index, 1 : longest + 2], prepend=0.0)
        seconds = shares @ each[: shares.size] + fixed[index]
        found.append(PerfectStop(float(counted[index] * plain[index] / seconds), float(counted[index]), int(longest)))
    candidate = ~rounds.lengths.extrapolated.reshape(-1) | question.extrapolate | (gamma == also)
    return max((one for one, is_one in zip(found, candidate, strict=True) if is_one), key=lambda one: one.speedup)
