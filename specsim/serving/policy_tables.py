"""The best round by batch and context as a table for engines, and what simpler rules give away to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specsim.serving.policies import ByTable
from specsim.serving.requests import Array


@dataclass(frozen=True)
class Cell:
    """A range of batches and contexts with one best choice.

    Attributes:
        batch_from: The smallest batch.
        batch_to: The largest.
        context_from: The shortest mean context [tokens].
        context_to: The longest [tokens].
        choice: The best choice there.
        kept: Choices that are left in force there, as nearly as good: the hysteresis.
        gain: Tokens in a second / those without drafts, at the middle.
        time_share: Share of the time of this load that is spent there.
    """

    batch_from: int
    batch_to: int
    context_from: int
    context_to: int
    choice: int
    kept: tuple[int, ...]
    gain: float
    time_share: float


def cells_of(table: ByTable, time_at: Array) -> Iterator[Cell]:
    """A table in ranges: batches with the same choices at all contexts, and in these contexts with the same choice.

    The hysteresis makes ranges wide: a neighbour's choice goes on while it is nearly as good as the best.

    Args:
        table: The policy.
        time_at: Time spent at each batch and context, shape (B, S) [s].
    """
    best, goodput = _smoothed(table), table.goodput
    weight = time_at / max(float(time_at.sum()), 1e-300)
    distance = table.tokens_per_entry
    for first, last in _runs((best[1:] != best[:-1]).any(-1)):
        row = best[first]
        for begin, end in _runs(row[1:] != row[:-1]):
            choice, middle = int(row[begin]), ((first + last) // 2, (begin + end) // 2)
            at = goodput[:, middle[0], middle[1]]
            kept = tuple(np.flatnonzero(at * (1 + table.hysteresis) >= at.max()).tolist())
            yield Cell(
                first + 1,
                last + 1,
                max(round((begin - 0.5) * distance), 0),
                round((end + 0.5) * distance),
                choice,
                kept,
                float(at[choice] / at[0]),
                float(weight[first : last + 1, begin : end + 1].sum()),
            )


def _smoothed(table: ByTable) -> NDArray[np.int64]:
    """A choice for each batch and context: that of the smaller batch or context beside it, where it is kept."""
    goodput = table.goodput
    stays, found = goodput * (1 + table.hysteresis) >= goodput.max(0), goodput.argmax(0)
    batches, contexts = found.shape
    for b in range(batches):
        for s in range(contexts):
            for near in ((b - 1, s), (b, s - 1)):
                if min(near) >= 0 and stays[found[near], b, s]:
                    found[b, s] = found[near]
                    break
    return found


def _runs(changes: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """First and last index of stretches between changes."""
    ends = [*np.flatnonzero(changes).tolist(), len(changes)]
    start = 0
    for end in ends:
        yield start, end
        start = end + 1


@dataclass(frozen=True)
class Regrets:
    """What simpler rules give away to the whole table, as a share of the tokens over the time of a load.

    Attributes:
        off: Of never drafting.
        fixed: Of the best fixed choice.
        fixed_choice: Which that is.
        by_batch: Of a table over the batch alone.
        by_context: Of a table over the context alone.
    """

    off: float
    fixed: float
    fixed_choice: int
    by_batch: float
    by_context: float


def regrets_of(table: ByTable, time_at: Array) -> Regrets:
    """What simpler rules give away to a table where a load spends its time, shape (B, S) [s]."""
    # A batch of b emits b times the tokens of one request.
    tokens = table.goodput * np.arange(1.0, table.goodput.shape[1] + 1)[:, None] * time_at
    whole = float(tokens.max(0).sum())
    if not whole > 0:
        return Regrets(0.0, 0.0, 0, 0.0, 0.0)
    fixed = tokens.sum((1, 2))

    def given_away(taken: float) -> float:
        return max(1 - float(taken) / whole, 0.0)

    return Regrets(
        off=given_away(fixed[0]),
        fixed=given_away(fixed.max()),
        fixed_choice=int(fixed.argmax()),
        by_batch=given_away(tokens.sum(2).max(0).sum()),
        by_context=given_away(tokens.sum(1).max(0).sum()),
    )
