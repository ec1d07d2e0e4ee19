"""Where speculation stops paying: break-even acceptance, batch and context, and what a perfect stop would give."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance import rate_where
from specsim.cost.passes import Array
from specsim.planning.lengths import tokens_of_independent_drafts
from specsim.planning.question import Axes, Question
from specsim.planning.rounds import plan
from specsim.specs.acceptance import Independent


def break_even_acceptance(question: Question, axes: Axes) -> Array:
    """The acceptance_rate of independent drafts at which a round costs no more than the tokens it gives.

    Solves tokens(a) = round(a) / plain for every draft length; the round depends on the rate where rejections
    cost a repair: round(a) = round(1) + repair (1 - a^gamma).

    Returns:
        Shape (gamma, batch, context); NaN at gamma 0 and where no rate suffices.
    """
    certain = replace(question, draft=replace(question.draft, acceptance=Independent(rate=1.0)))
    rounds = plan(certain, axes)
    repair = question.costs.repair if question.costs is not None else 0.0
    cost = np.broadcast_to(rounds.round_seconds / rounds.costs.plain_seconds, axes.shape)

    def gain(rate: Array) -> Array:
        return tokens_of_independent_drafts(question.draft, rate, axes.gamma) - repair * (1 - rate**axes.gamma)

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


def paying_batches(question: Question, context_length: int, gamma: NDArray[np.int64], most: int) -> list[Stretch]:
    """Where speculation pays among batch sizes 1 to ``most``, at one context."""
    return _stretches([(question, Axes.of(np.arange(1, most + 1), [context_length], gamma))])


def paying_contexts(question: Question, batch_size: int, gamma: NDArray[np.int64], most: int) -> list[Stretch]:
    """Where speculation pays among contexts 0 to ``most``, at one batch size; every context is looked at."""
    starts = range(0, most + 1, _CONTEXTS_AT_ONCE)
    parts = [np.arange(start, min(start + _CONTEXTS_AT_ONCE, most + 1)) for start in starts]
    return _stretches([(question, Axes.of([batch_size], part, gamma)) for part in parts])


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


def perfect_stop_speedup(rate: float, draft_cost_ratio: float) -> float:
    """Speedup of a drafter that knew where it will be rejected and stopped there.

    It emits 1 / (1 - a) tokens a round for a / (1 - a) draft steps: 1 / ((1 - a) + c a), with verification as
    cheap as a plain step. No rule for choosing gamma does better (Leviathan et al. 2023, section 3.5).
    """
    return 1.0 / ((1.0 - rate) + draft_cost_ratio * rate) if rate < 1 or draft_cost_ratio > 0 else float("inf")
