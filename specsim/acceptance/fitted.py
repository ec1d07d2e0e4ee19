"""What a fit is, and what fits of all sources share."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from specsim.specs.acceptance import Independent, Length, Regimes, Survival

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

PREDICTED = np.arange(1, 13)
"""Draft lengths for which tokens per round are told."""

INTERVAL = (0.05, 0.95)
ASSUMED_ROUNDS = 10_000
"""Rounds that rates are taken to stand for where nobody says how many there were."""

LEAST_ROUNDS = 100
"""Fewer rounds than these tell nothing."""

NAMES = {1: ("all",), 2: ("easy", "hard"), 3: ("easy", "medium", "hard")}
"""What regimes are called, in the order of falling acceptance."""


class CannotTell(ValueError):
    """What was recorded does not tell what was asked; the text says what to record instead."""


@dataclass(frozen=True, eq=False)
class Rates:
    """Survival by position, without the order of rounds.

    Attributes:
        survival: x_1 to x_g.
        gamma: Draft length of the rounds, g or more.
        rounds: Number of rounds, None if nobody says.
    """

    survival: tuple[float, ...]
    gamma: int
    rounds: int | None = None


@dataclass(frozen=True)
class MeanLength:
    """Tokens per round at one draft length, and nothing else."""

    tokens_per_round: float
    gamma: int


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted acceptance and what is known of it.

    Attributes:
        acceptance: The record.
        tokens_per_round: At the draft lengths ``PREDICTED``.
        low: Low end of the interval of 90 %, NaN where there is none.
        high: High end.
        recorded_gamma: Positions that were recorded; longer drafts are extrapolated.
        found: What was found, one sentence each without the full stop.
        assumed: What was assumed.
    """

    acceptance: Independent | Survival | Regimes | Length
    tokens_per_round: Array
    low: Array
    high: Array
    recorded_gamma: int
    found: tuple[str, ...]
    assumed: tuple[str, ...] = field(default=())


def positions_of(survival: Array) -> IntArray:
    """1 to g."""
    return np.arange(1, len(survival) + 1)


def short(value: float) -> float:
    """A number in eight digits."""
    return float(f"{value:.8g}")


def summing_to_1(law: Array) -> list[float]:
    """A law in eight digits that sums to 1."""
    digits = [round(float(entry), 8) for entry in law]
    digits[int(np.argmax(law))] += 1.0 - sum(digits)
    return [min(max(entry, 0.0), 1.0) for entry in digits]


def fit_of_survival(survival: Array, drawn: Array, gamma: int, lines: list[str], assumed: list[str]) -> Fit:
    """A fit of rates as they stand, with replicates of them, shape (b, g), behind its intervals."""
    tokens = _continued(survival[None])[0]
    if len(drawn):
        low, high = np.quantile(_continued(drawn), INTERVAL, axis=0)
    else:
        low = high = np.full(len(PREDICTED), np.nan)
    falling = np.minimum.accumulate(survival)
    record = Survival(survival=tuple(short(entry) for entry in falling))
    return Fit(record, tokens, low, high, gamma, tuple(lines), tuple(assumed))


def _continued(survival: Array) -> Array:
    """Tokens per round at ``PREDICTED``, the last conditional probability going on beyond, shape (b, P)."""
    before = np.concatenate([np.ones((len(survival), 1)), survival], axis=-1)
    conditional = np.divide(before[:, 1:], before[:, :-1], out=np.zeros(survival.shape), where=before[:, :-1] > 0)
    longest = int(PREDICTED.max())
    beyond = np.repeat(conditional[:, -1:], max(longest - survival.shape[-1], 0), -1)
    whole = np.cumprod(np.concatenate([conditional, beyond], -1)[:, :longest], -1)
    return np.asarray(1.0 + np.cumsum(whole, -1)[:, PREDICTED - 1])
