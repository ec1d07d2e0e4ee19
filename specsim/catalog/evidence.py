"""Published acceptances: what to expect of a draft before anything is measured."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np

from specsim.acceptance.rates import rate_from_tokens_per_round
from specsim.catalog import library
from specsim.catalog.validate import validate
from specsim.errors import Fault, InputError, Place, nearest, shown
from specsim.specs.fields import DraftLength, Factor, Probabilities, Probability, Ratio, record

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
    accepted_per_drafted: Probability | None = None
    survival: Probabilities | None = None
    conditional: Probabilities | None = None
    gamma: DraftLength | None = None
    tree: str | None = None

    @cached_property
    def acceptance_rate(self) -> float | None:
        """The one rate of independent drafts that gives what was published, or its lower bound; None of trees.

        A round over a tree emits more than one over a chain of its depth: no rate of a chain follows from it.
        """
        if self.tree is not None:
            return None
        if self.rate is not None:
            return self.rate
        lengths = self._length
        if lengths is not None:
            return float(rate_from_tokens_per_round(*lengths))
        return self.at_least

    @property
    def is_bound(self) -> bool:
        """Whether only a lower bound follows from what was published."""
        return self.rate is None and self._length is None

    @property
    def _length(self) -> tuple[float, int] | None:
        """Tokens per round of a chain and its draft length."""
        if self.survival is not None:
            return 1.0 + sum(self.survival), len(self.survival)
        if self.conditional is not None:
            return 1.0 + float(np.cumprod(self.conditional).sum()), len(self.conditional)
        if self.gamma is None:
            return None
        if self.accepted_per_drafted is not None:
            return 1.0 + self.accepted_per_drafted * self.gamma, self.gamma
        return (self.tokens_per_round, self.gamma) if self.tokens_per_round is not None else None


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
        method: Method of drafting, one of which ``chains`` are published.
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
    rows = chains(method)
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


@lru_cache
def chains(method: str) -> tuple[Row, ...]:
    """The published rows of a method from which the acceptance of a chain of drafts follows."""
    if method in _OF_WHOLE_ROUNDS or method not in library.names("acceptance"):
        return ()
    rows = validate(Acceptances, library.read_card("acceptance", method)).rows
    return tuple(row for row in rows if row.acceptance_rate is not None)


_OF_WHOLE_ROUNDS = ("lookup", "lookahead")
"""Methods whose published tokens per round count rounds in which nothing was found."""


def _counted(rows: list[Row]) -> str:
    bounds = sum(row.is_bound for row in rows)
    some = f" ({bounds} of them lower bounds)" if bounds else ""
    return f"{len(rows)} published value{'s' if len(rows) > 1 else ''}{some}"


def _quartiles(rows: list[Row]) -> tuple[float, float, float]:
    low, typical, high = np.quantile([row.acceptance_rate or 0.0 for row in rows], [0.25, 0.5, 0.75])
    return float(low), float(typical), float(high)
