"""Rounds over a grid: tokens, times and speedup at every batch, context and draft length, and the best of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from specsim.cost.memory import Fit
from specsim.cost.passes import Array
from specsim.planning.costs import RoundCosts, round_costs
from specsim.planning.lengths import RoundLengths, lengths_at
from specsim.planning.question import Axes, Question
from specsim.specs.acceptance import Point, Published, typical_of

NEAR_BEST = 0.02
"""A draft length this close to the best speedup is as good: the optimum is flat, and shorter drafts risk less."""

DECISIONS = np.array(["", "off", "unclear", "speculate"], dtype=object)
"""What to do at an operating point, in the order of the codes of ``Rounds.decision``."""


@dataclass(frozen=True, eq=False)
class Rounds:
    """One round at every point; every array broadcasts to (gamma, batch, context).

    Attributes:
        axes: The operating points.
        lengths: Tokens that a round drafts and emits.
        costs: Part by part what a round costs.
        round_seconds: Drafting, verification and overhead together [s].
        round_cost_ratio: Round / plain step.
        speedup: Plain time per output token / speculative time per output token.
        speedup_low: Speedup at the low end of a published acceptance, NaN where acceptance is a point.
        speedup_high: At the high end.
        best: Whether this draft length or tree is the best of its batch and context.
        near_best: The draft length, or the levels, of what verifies the fewest tokens within 2 % of the best; -1 where
            nothing is feasible, shape (batch, context).
    """

    axes: Axes
    lengths: RoundLengths
    costs: RoundCosts
    round_seconds: Array
    round_cost_ratio: Array
    speedup: Array
    speedup_low: Array
    speedup_high: Array
    best: NDArray[np.bool_]
    near_best: NDArray[np.int64]

    @property
    def fit(self) -> Fit | None:
        """What fits in memory, None without cards."""
        return self.costs.fit

    @cached_property
    def feasible(self) -> NDArray[np.bool_]:
        """Whether weights, caches and positions suffice."""
        return np.ones((), dtype=bool) if self.fit is None else self.fit.limit == 0

    @cached_property
    def decision(self) -> NDArray[np.int8]:
        """Whether drafting pays at each point, as an index into ``DECISIONS``.

        Unclear if the range of speedups includes 1; at gamma 0, where nothing is drafted, if some draft length that
        does not pay at the typical acceptance would pay at the high one.
        """
        pays = self.speedup > 1
        if self.speedup_low.ndim == 0:
            code = np.int8(1) + 2 * pays.view(np.int8)
        else:
            likely = self.speedup_high > 1
            code = np.int8(1) + likely.view(np.int8) + (self.speedup_low > 1).view(np.int8)
            off_but_perhaps = likely.any(axis=0) & ~pays.any(axis=0)
            code = np.where((self.axes.gamma == 0) & off_but_perhaps, np.int8(2), code)
        return code if self.fit is None else code * self.feasible


def plan(question: Question, axes: Axes, lengths: RoundLengths | None = None) -> Rounds:
    """One round at every operating point, and the best draft length or tree of each batch and context.

    The speedup is tokens_per_round x plain step / round; at gamma 0 it is exactly 1. Times are what a round would
    take, whether it fits or not; only what fits is called best.

    Args:
        question: What is planned.
        axes: The operating points.
        lengths: Tokens of the rounds where they are known already; from the acceptance of the draft if None.
    """
    acceptance = question.draft.acceptance
    low, high = (acceptance.low, acceptance.high) if isinstance(acceptance, Published) else (None, None)
    lengths = lengths or lengths_at(question.draft, typical_of(acceptance), axes)
    costs = round_costs(question, axes, lengths)
    round_seconds = costs.drafting_seconds + costs.verification_seconds + costs.overhead_seconds
    round_cost_ratio = round_seconds / costs.plain_seconds
    speedup = lengths.per_output(question.output_length) / round_cost_ratio
    candidate = ~lengths.extrapolated | question.extrapolate
    if costs.fit is not None and costs.fit.limit.any():
        candidate = candidate & (costs.fit.limit == 0)
    best, near_best = _best(speedup, candidate, axes)

    def at(spec: Point | None) -> Array:
        if spec is None:
            return np.full((), np.nan)
        return lengths_at(question.draft, spec, axes).per_output(question.output_length) / round_cost_ratio

    return Rounds(
        axes=axes,
        lengths=lengths,
        costs=costs,
        round_seconds=round_seconds,
        round_cost_ratio=round_cost_ratio,
        speedup=speedup,
        speedup_low=at(low),
        speedup_high=at(high),
        best=best,
        near_best=near_best,
    )


def _best(speedup: Array, candidate: NDArray[np.bool_], axes: Axes) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Where the largest speedup is, of the smaller draft on a tie, and the length of the smallest within 2 % of it."""
    # Every speedup is above 0, which is left for what is no candidate.
    value = speedup if candidate.all() else speedup * candidate
    largest = value.max(axis=0)
    some = largest > 0
    gamma = axes.gamma.reshape(-1)
    order = np.lexsort((gamma, axes.verified_tokens.reshape(-1)))
    best = _smallest(value == largest, order)
    near = gamma[_smallest(value >= (1 - NEAR_BEST) * largest, order)]
    here = np.arange(gamma.size).reshape(-1, 1, 1)
    return (here == best) & some, np.where(some, near, -1)


def _smallest(among: NDArray[np.bool_], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which draft is the smallest among those that are marked, at each batch and context.

    The smaller a draft, the larger its code, and the largest code of a point is the smallest of its drafts: small
    whole numbers are many times faster here than choosing by masks.

    Args:
        among: The marked drafts.
        order: Drafts from the smallest to the largest.
    """
    code = np.empty(order.size, dtype=np.int16)
    code[order] = np.arange(order.size, 0, -1)
    largest = (among * code.reshape(-1, 1, 1)).max(axis=0)
    return order[np.minimum(order.size - largest, order.size - 1)]
