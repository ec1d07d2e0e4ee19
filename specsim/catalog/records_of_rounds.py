"""What a file of recorded rounds may hold, once read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specsim.errors import Fault, InputError, Place

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rounds:
    """Rounds in their order: drafted and accepted tokens, and which round is the first of its request.

    Where a log says both what was asked for and what was proposed, ``drafted`` is the former, ``proposed`` the latter.
    """

    drafted: IntArray
    accepted: IntArray
    first: NDArray[np.bool_]
    proposed: IntArray
    remarks: tuple[str, ...] = ()
    what: str = "counts in their order"

    @property
    def gamma(self) -> int:
        """Longest draft."""
        return int(self.drafted.max())


@dataclass(frozen=True, eq=False)
class Histogram:
    """Rounds by accepted tokens, 0 to gamma, at one draft length; and where that was read."""

    file: str
    line: int
    counts: IntArray
    remarks: tuple[str, ...] = ()
    what: str = "histograms"

    @property
    def gamma(self) -> int:
        """Draft length."""
        return len(self.counts) - 1


@dataclass(frozen=True, eq=False)
class SurvivalCounts:
    """Share of the rounds that accept a position, by position; how many rounds, and where that was read."""

    file: str
    line: int
    survival: tuple[float, ...]
    rounds: int | None
    gamma: int | None = None
    remarks: tuple[str, ...] = ()
    what: str = "rates by position"


Found = Rounds | Histogram | SurvivalCounts


_BY_CHANCE = 1e-6


def bonus_counted(accepted: float, examined: float, rounds: float) -> bool:
    """Whether rounds that all accept their first draft must have the bonus token counted in.

    Args:
        accepted: Accepted drafts behind the first ones.
        examined: Examined ones behind the first ones; if their share of accepted ones held for the first drafts too,
            none of them would be rejected with that share to the power of the rounds.
        rounds: Number of rounds.
    """
    # One more of each: few examined drafts tell little.
    return rounds * math.log((accepted + 1) / (examined + 1)) < math.log(_BY_CHANCE)


BONUS = (
    "no round rejected its first draft, and later drafts are rejected often: is the bonus token of every round counted "
    "in? Leave it out."
)


def bonus_in_rates(survival: Sequence[float], rounds: float) -> bool:
    """The same of rates by position."""
    return survival[0] == 1 and bonus_counted(rounds * sum(survival[1:]), rounds * sum(survival[:-1]), rounds)


def fault(file: str, line: int, message: str, field: str = "") -> InputError:
    """A mistake at a line of a file of recorded rounds."""
    return InputError(Fault(message, Place(file=file, line=line if line else None), field))
