"""Where speculation stops paying: break-even acceptance, batch and context, and what a perfect stop would give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance import independent_tokens_per_round, rate_where
from specsim.cost.passes import Array
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
        return independent_tokens_per_round(rate, axes.gamma) - repair * (1 - rate**axes.gamma)

    # A round that costs less than a plain step pays at any rate.
    least = np.maximum(cost, gain(np.zeros(axes.shape)))
    return np.where(axes.gamma > 0, rate_where(gain, least), np.nan)


def paying_stretches(question: Question, axes: Axes, along: str) -> list[tuple[int, int, bool]]:
    """The stretches of batch sizes or contexts over which some draft length pays.

    Args:
        question: What is planned.
        axes: One context and many batches, or one batch and many contexts.
        along: ``batch_size`` or ``context_length``: the axis with many values.

    Returns:
        First value, last value, and whether the stretch goes on beyond the last feasible one; in rising order.
    """
    rounds = plan(question, axes)
    usable = rounds.feasible & (~rounds.lengths.extrapolated | question.extrapolate)
    pays = np.any((rounds.speedup > 1) & usable & (axes.gamma > 0), axis=0).reshape(-1)
    possible = np.broadcast_to(rounds.feasible, axes.shape).any(axis=0).reshape(-1)
    values = getattr(axes, along).reshape(-1).astype(int)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], pays, [False]]).astype(int)))
    return [
        (int(values[first]), int(values[last - 1]), _is_last(possible, int(last - 1)))
        for first, last in zip(edges[::2], edges[1::2], strict=True)
    ]


def _is_last(possible: NDArray[np.bool_], index: int) -> bool:
    return not possible[index + 1 :].any()


def perfect_stop_speedup(rate: float, draft_cost_ratio: float) -> float:
    """Speedup of a drafter that knew where it will be rejected and stopped there.

    It emits 1 / (1 - a) tokens a round for a / (1 - a) draft steps: 1 / ((1 - a) + c a), with verification as
    cheap as a plain step. No rule for choosing gamma does better (Leviathan et al. 2023, section 3.5).
    """
    return 1.0 / ((1.0 - rate) + draft_cost_ratio * rate) if rate < 1 or draft_cost_ratio > 0 else float("inf")
