"""Published acceptances: what to expect of a draft before anything is measured."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from specsim.catalog.library import read_card
from specsim.catalog.validate import validate
from specsim.errors import Fault, InputError, Place, nearest, shown
from specsim.specs.fields import Factor, Probability, Ratio, record

TASKS = ("chat", "code", "math", "summary", "copy", "translation", "instructions", "questions", "any")


_ENOUGH = 4
"""Fewer published values than this have no quartiles worth the name."""


@record
class Row:
    """One published acceptance of one draft for one target."""

    target: str
    draft: str
    task: str
    source: str
    temperature: Ratio | None = None
    rate: Probability | None = None
    at_least: Probability | None = None
    tokens_per_round: Factor | None = None

    @property
    def acceptance_rate(self) -> float:
        """The rate, or its lower bound where only that follows from what was published."""
        return self.rate if self.rate is not None else self.at_least or 0.0


@record
class Acceptances:
    """Published acceptances of one method of drafting."""

    format: Literal[1] = 1
    kind: Literal["acceptances"] = "acceptances"
    name: str
    title: str = ""
    rows: tuple[Row, ...]


def published(
    method: str, target: set[str], draft: set[str], task: object, place: Place, field: str = ""
) -> dict[str, Any]:
    """The document of a published acceptance: quartiles over the pair, else over all drafts of its method.

    Args:
        method: Method of drafting; names the collection.
        target: Comparable names of the target.
        draft: Comparable names of the draft.
        task: One of ``TASKS``.
        place: Where the user asked, for messages.
        field: Path of the field in which the user asked, for messages.

    Raises:
        InputError: If the task is not one of ``TASKS``.
    """
    if task not in TASKS:
        raise InputError(Fault(f"unknown task {shown(task)}. {nearest(task, TASKS)}", place, field))
    rows = validate(Acceptances, read_card("acceptance", method)).rows
    pair = [row for row in rows if row.target in target and row.draft in draft]
    on_task = [row for row in rows if row.task == task]
    pair_on_task = [row for row in pair if row.task == task]
    if task != "any" and (pair_on_task or on_task):
        chosen, what = (pair_on_task, "this pair") if pair_on_task else (on_task, "other pairs")
        basis = f"{_counted(chosen)} of {what} on {task}"
    else:
        chosen, what = (pair, "this pair") if pair else (list(rows), "other pairs")
        basis = f"{_counted(chosen)} of {what} on all tasks"
        basis += f" (none on {task})" if task != "any" else ""
    low, typical, high = _quartiles(chosen)
    if len(chosen) < _ENOUGH:
        # So few values show no spread of their own; they take that of all drafts of the method.
        wide_low, _, wide_high = _quartiles(list(rows))
        half = (wide_high - wide_low) / 2
        low, high = max(typical - half, 0.0), min(typical + half, 1.0)
        basis += ", with the spread of all"
    point = {"kind": "independent"}
    return {
        "kind": "published",
        "task": task,
        "low": {**point, "rate": round(low, 3)},
        "typical": {**point, "rate": round(typical, 3)},
        "high": {**point, "rate": round(high, 3)},
        "basis": basis,
    }


def _counted(rows: list[Row]) -> str:
    bounds = sum(row.rate is None for row in rows)
    some = f" ({bounds} of them lower bounds)" if bounds else ""
    return f"{len(rows)} published value{'s' if len(rows) > 1 else ''}{some}"


def _quartiles(rows: list[Row]) -> tuple[float, float, float]:
    low, typical, high = np.quantile([row.acceptance_rate for row in rows], [0.25, 0.5, 0.75])
    return float(low), float(typical), float(high)
