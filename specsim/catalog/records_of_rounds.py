"""What a file of recorded rounds may hold, once read."""

from __future__ import annotations

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


def fault(file: str, line: int, message: str, field: str = "") -> InputError:
    """A mistake at a line of a file of recorded rounds."""
    return InputError(Fault(message, Place(file=file, line=line if line else None), field))
