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


BANDS = 4
"""Parts of the contexts, each with ranges of batches of its own."""


def cells_of(table: ByTable, time_at: Array) -> Iterator[Cell]:
    """A table in ranges: for each band of contexts the batches that want the same.

    A choice goes on to the next batch while the hysteresis keeps it, which makes ranges wide.

    Args:
        table: The policy.
        time_at: Time spent at each batch and context, shape (B, S) [s].
    """
    share = time_at / max(float(time_at.sum()), 1e-300)
    distance, entries = table.tokens_per_entry, table.goodput.shape[-1]
    for band in np.array_split(np.arange(entries), min(BANDS, entries)):
        # Contexts that the load sees count by their time, others alike.
        seen = share[:, band] + 1e-12
        goodput = (table.goodput[..., band] * seen).sum(-1) / seen.sum(-1)
        stays = goodput * (1 + table.hysteresis) >= goodput.max(0)
        for first, last, choice in _ranges(goodput.argmax(0).tolist(), stays):
            middle = goodput[:, (first + last) // 2]
            kept = tuple(np.flatnonzero(stays[:, (first + last) // 2]).tolist())
            yield Cell(
                first + 1,
                last + 1,
                max(round((int(band[0]) - 0.5) * distance), 0),
                round((int(band[-1]) + 0.5) * distance),
                choice,
                kept,
                float(middle[choice] / middle[0]),
                float(share[first : last + 1, band].sum()),
            )


def _ranges(best: list[int], stays: NDArray[np.bool_]) -> Iterator[tuple[int, int, int]]:
    """First and last batch, counted from 0, and the choice of each range."""
    first, choice = 0, best[0]
    for batch in range(1, len(best)):
        if not stays[choice, batch]:
            yield first, batch - 1, choice
            first, choice = batch, best[batch]
    yield first, len(best) - 1, choice


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
