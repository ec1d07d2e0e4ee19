"""How wrong predictions are: by set-up and not by row, since rows of one set-up share what is wrong about it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from specsim.accuracy.comparison import Comparison

_BANDS = ((1, "1"), (8, "2 to 8"), (32, "9 to 32"), (128, "33 to 128"))


def batch_band(batch: int | None) -> str:
    """The band of batch sizes that one belongs to."""
    if batch is None:
        return "not a batch"
    return next((name for most, name in _BANDS if batch <= most), "above 128")


GROUPS: dict[str, Callable[[Comparison], str]] = {
    "quantity": lambda _: "all",
    "source": lambda found: found.row.source,
    "hardware": lambda found: found.row.hardware,
    "method": lambda found: found.row.method or "plain",
    "batch": lambda found: batch_band(found.row.batch),
    "runtime": lambda found: found.runtime,
}
"""What a summary can be split by."""


@dataclass(frozen=True)
class Errors:
    """The errors of some set-ups; all as fractions.

    Attributes:
        quantity: What was compared.
        group: What they have in common.
        set_ups: How many set-ups.
        rows: How many comparisons.
        median: Median over set-ups of the size of their error, each the median of its rows.
        p90: The 90th percentile.
        bias: Median of the signed errors; above 0 where predictions are too large.
    """

    quantity: str
    group: str
    set_ups: int
    rows: int
    median: float
    p90: float
    bias: float


def set_up_errors(found: Iterable[Comparison]) -> dict[str, float]:
    """The signed error of each set-up: the median over its rows."""
    errors: dict[str, list[float]] = defaultdict(list)
    for one in found:
        errors[one.set_up].append(one.relative_error)
    return {set_up: float(np.median(values)) for set_up, values in errors.items()}


def summary(found: Sequence[Comparison], by: str = "quantity") -> list[Errors]:
    """Errors of each quantity and group, in the order in which they appear."""
    groups: dict[tuple[str, str], list[Comparison]] = defaultdict(list)
    for one in found:
        groups[one.quantity, GROUPS[by](one)].append(one)
    return [errors_of(quantity, group, members) for (quantity, group), members in groups.items()]


def errors_of(quantity: str, group: str, members: Sequence[Comparison]) -> Errors:
    """The errors of some comparisons of one quantity."""
    errors = np.array(list(set_up_errors(members).values()))
    sizes = np.abs(errors)
    median, p90 = float(np.median(sizes)), float(np.quantile(sizes, 0.9))
    return Errors(quantity, group, len(errors), len(members), median, p90, float(np.median(errors)))


@dataclass(frozen=True)
class Sides:
    """On which side of 1 speedups lie.

    Attributes:
        gains: Set-ups that gained, and of these those that were predicted to.
        losses: Set-ups that lost, and of these those that were predicted to.
    """

    gains: tuple[int, int]
    losses: tuple[int, int]

    @property
    def balanced_accuracy(self) -> float:
        """The mean of the two shares that are right; NaN where one side is empty."""
        shares = [right / total if total else float("nan") for total, right in (self.gains, self.losses)]
        return sum(shares) / 2


def sides(found: Iterable[Comparison]) -> Sides:
    """Whether gains and losses were predicted as such, by rows of measured speedups."""
    speedups = [one for one in found if one.quantity == "speedup"]
    gained = [one for one in speedups if one.measured >= 1]
    lost = [one for one in speedups if one.measured < 1]
    return Sides(
        (len(gained), sum(one.predicted >= 1 for one in gained)),
        (len(lost), sum(one.predicted < 1 for one in lost)),
    )


@dataclass(frozen=True)
class BestGamma:
    """The best draft length of a set-up that was measured at several.

    Attributes:
        set_up: What ran.
        measured: The draft length with the largest measured speedup.
        predicted: The one with the largest predicted speedup.
        regret: What the predicted one loses of the largest measured speedup, as a fraction.
    """

    set_up: str
    measured: int
    predicted: int
    regret: float


def best_gammas(found: Iterable[Comparison]) -> list[BestGamma]:
    """Best draft lengths of the set-ups whose speedup was measured at three chains or more."""
    sweeps: dict[str, dict[int, Comparison]] = defaultdict(dict)
    for one in found:
        if one.quantity == "speedup" and one.row.gamma and (one.row.draft_topk or 1) == 1 and not one.row.tree_size:
            row = one.row
            told = (row.source, row.hardware, row.target, row.method, row.draft, row.task, row.batch, row.context)
            sweeps[", ".join(str(part) for part in told if part)][row.gamma or 0] = one
    best = []
    for set_up, lengths in sweeps.items():
        if len(lengths) >= 3:
            measured = max(lengths, key=lambda gamma: lengths[gamma].measured)
            predicted = max(lengths, key=lambda gamma: lengths[gamma].predicted)
            regret = 1 - lengths[predicted].measured / lengths[measured].measured
            best.append(BestGamma(set_up, measured, predicted, regret))
    return best
