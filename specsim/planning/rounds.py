"""Rounds over a grid: tokens, times and speedup at every batch, context and draft length, and the best of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance import AcceptedLengths, process_of
from specsim.cost.memory import Fit
from specsim.cost.passes import Array
from specsim.planning.costs import RoundCosts, round_costs
from specsim.planning.question import Axes, Question
from specsim.specs.acceptance import Published

NEAR_BEST = 0.02
"""A draft length this close to the best speedup is as good: the optimum is flat, and shorter drafts risk less."""

DECISIONS = np.array(["", "off", "unclear", "speculate"], dtype=object)
"""What to do at an operating point, in the order of the codes of ``Rounds.decision``."""


@dataclass(frozen=True, eq=False)
class Rounds:
    """One round at every point; every array broadcasts to (batch, context, gamma).

    Attributes:
        axes: The operating points.
        costs: Part by part what a round costs.
        tokens_per_round: Emitted tokens per round and sequence, bonus included.
        accepted_per_drafted: Accepted / drafted tokens.
        round_seconds: Drafting, verification and overhead together [s].
        speedup: Plain time per output token / speculative time per output token.
        speedup_low: Speedup at the low end of a published acceptance, NaN where acceptance is a point.
        speedup_high: At the high end.
        extrapolated: Whether the draft length lies beyond the recorded acceptance.
        best: Whether this draft length is the best of its batch and context.
        near_best: The smallest draft length within 2 % of the best, -1 where nothing is feasible.
    """

    axes: Axes
    costs: RoundCosts
    tokens_per_round: Array
    accepted_per_drafted: Array
    round_seconds: Array
    speedup: Array
    speedup_low: Array
    speedup_high: Array
    extrapolated: NDArray[np.bool_]
    best: NDArray[np.bool_]
    near_best: NDArray[np.int64]

    @property
    def fit(self) -> Fit | None:
        """What fits in memory, None without cards."""
        return self.costs.fit

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """Whether weights, caches and positions suffice."""
        return np.ones(self.axes.shape, dtype=bool) if self.fit is None else self.fit.limit == 0

    @property
    def decision(self) -> np.ndarray:
        """Whether drafting pays at each point, as an index into ``DECISIONS``; unclear if the range includes 1."""
        low = np.where(np.isnan(self.speedup_low), self.speedup, self.speedup_low)
        high = np.where(np.isnan(self.speedup_high), self.speedup, self.speedup_high)
        code = np.where(low > 1, 3, np.where(high > 1, 2, 1))
        return np.where(self.feasible, code, 0)


def plan(question: Question, axes: Axes) -> Rounds:
    """One round at every operating point, and the best draft length of each batch and context.

    The speedup is tokens_per_round x plain step / round; at gamma 0 it is exactly 1.
    """
    acceptance = question.draft.acceptance
    if isinstance(acceptance, Published):
        low, typical, high = acceptance.low, acceptance.typical, acceptance.high
    else:
        low, typical, high = None, acceptance, None
    lengths = process_of(typical).lengths(axes.gamma)
    costs = round_costs(question, axes, lengths)
    round_seconds = costs.drafting_seconds + costs.verification_seconds + costs.overhead_seconds
    per_token = costs.plain_seconds / round_seconds
    feasible = np.True_ if costs.fit is None else costs.fit.limit == 0
    candidate = feasible & (~lengths.extrapolated | question.extrapolate)
    speedup = lengths.tokens_per_round * per_token
    best, near_best = _best(speedup, candidate, axes)

    def bound(spec: object) -> Array:
        if spec is None:
            return np.full((1, 1, 1), np.nan)
        return process_of(spec).lengths(axes.gamma).tokens_per_round * per_token  # type: ignore[arg-type]

    return Rounds(
        axes=axes,
        costs=costs,
        tokens_per_round=lengths.tokens_per_round,
        accepted_per_drafted=lengths.accepted_per_drafted,
        round_seconds=round_seconds,
        speedup=speedup,
        speedup_low=bound(low),
        speedup_high=bound(high),
        extrapolated=lengths.extrapolated,
        best=best,
        near_best=near_best,
    )


def _best(speedup: Array, candidate: NDArray[np.bool_], axes: Axes) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """The draft length of the largest speedup, the smaller one on a tie, and the smallest within 2 % of it."""
    value = np.where(candidate, speedup, -np.inf)
    order = np.argsort(axes.gamma, kind="stable")
    largest = value.max(-1, keepdims=True)
    some = np.isfinite(largest)

    def smallest(close: NDArray[np.bool_]) -> NDArray[np.int64]:
        return axes.gamma[order][np.argmax(close[..., order], axis=-1)][..., None]

    best_gamma = smallest(value == largest)
    near = smallest(value >= (1 - NEAR_BEST) * largest)
    return (axes.gamma == best_gamma) & some, np.where(some, near, -1)
