"""Axes of a grid that are paths into the scenario: which there are, and one value of one of them put in its place."""

from __future__ import annotations

import re
from typing import Any

from specsim.catalog.drafters import fields_of
from specsim.catalog.located import LocatedDict, place_of
from specsim.errors import Fault, InputError, Place, nearest, shown

GRID_AXES = ("batch_size", "context_length", "gamma", "tree")
"""Axes of a grid that are no paths."""


def axes_of(document: Any) -> dict[str, list[Any]]:
    """The axes of a grid that are paths into the document, each with its values."""
    grid = document.get("grid") if isinstance(document, dict) else None
    if not isinstance(grid, dict):
        return {}
    return {path: v if isinstance(v, list) else [v] for path, v in grid.items() if path not in GRID_AXES}


def path_axes(document: LocatedDict) -> dict[str, list[Any]]:
    """The same, once it is certain that each can be varied.

    Raises:
        InputError: With one fault for everything that is wrong with them.
    """
    axes = axes_of(document)
    faults = []
    for path, values in axes.items():
        if any(isinstance(value, dict | list) for value in values) or not values:
            found = shown(document["grid"][path])
            faults.append(
                Fault(f"expected a list of single values, found {found}.", *place_of(document, ("grid", path)))
            )
        if any(type(a) is type(b) and a == b for i, a in enumerate(values) for b in values[:i]):
            faults.append(Fault("expected each value once.", *place_of(document, ("grid", path))))
        same = [other for other in axes if other != path and _same_field(other, path)]
        if same:
            faults.append(Fault(f"this is the field of {same[0]} too.", *place_of(document, ("grid", path))))
        if _indexed(path.split(".")[0])[0] not in _VARIABLE:
            faults.append(Fault(_no_such_axis(path), *place_of(document, ("grid", path))))
    if faults:
        raise InputError(faults)
    return axes


def _spelled_out(path: str) -> str:
    """A path without the shorthand for one draft and for the acceptance of all."""
    first, _, rest = path.partition(".")
    if first == "draft":
        return f"drafts.{rest or 'model'}"
    return f"drafts.{path}" if first == "acceptance" else path


def _same_field(one: str, other: str) -> bool:
    """Whether two paths lead to one field; without a number a path leads into every entry of a list."""
    parts = [[_indexed(part) for part in _spelled_out(path).split(".")] for path in (one, other)]
    return len(parts[0]) == len(parts[1]) and all(
        a == b and (None in (i, j) or i == j) for (a, i), (b, j) in zip(*parts, strict=True)
    )


_INDEXED = re.compile(r"(.+)\[([0-9]{1,6})\]")


def _indexed(part: str) -> tuple[str, int | None]:
    """A part of a path and the number of the entry that it names, ``drafts`` and 0 of ``drafts[0]``."""
    found = _INDEXED.fullmatch(part)
    return (found[1], int(found[2])) if found is not None else (part, None)


_VARIABLE = ("hardware", "node", "runtime", "target", "draft", "drafts", "acceptance", "costs", "extrapolate")
"""Fields that an axis may replace, or in which it may replace a field."""


def _no_such_axis(path: str) -> str:
    close = nearest(path, [*GRID_AXES, *_VARIABLE], list_all_up_to=0)
    message = f"no such axis. {close} An axis is {', '.join(GRID_AXES)}, or the path of a field to vary"
    return f"{message}, such as drafts.acceptance.rate.".replace("  ", " ")


def only_grid_axes(grid: LocatedDict) -> LocatedDict:
    """A grid without the axes that are paths."""
    return LocatedDict({k: v for k, v in grid.items() if k in GRID_AXES}, grid.place, grid.places)


def check_drafts(document: LocatedDict, path: str) -> None:
    """Refuse to vary a field of all drafts that some of them do not have, where others have it.

    Raises:
        InputError: With the path that varies it for one draft.
    """
    drafts, parts = document.get("drafts", []), _spelled_out(path).split(".")
    if parts[0] != "drafts" or len(parts) < 2 or len(drafts) < 2:
        return
    field = _indexed(parts[1])[0]
    has = [field in fields_of(draft) for draft in drafts]
    if any(has) and not all(has):
        first, other = has.index(True), drafts[has.index(False)]
        message = f"not every draft has the field {field}: none of the method {other.get('method')} has."
        way = f"drafts[{first}].{'.'.join(parts[1:])} varies it for one draft."
        raise InputError(Fault(f"{message} {way}", *place_of(document, ("grid", path))))


def set_field(document: LocatedDict, path: str, value: Any, place: Place) -> None:
    """Set a field at a dotted path, in every entry where the path passes a list, or in that of a number: ``a[0].b``."""
    first, *rest = path.split(".")
    name, index = _indexed(first)
    if name == "drafts" and index is not None and not rest:
        rest = ["model"]
    holders: list[Any] = [document]
    if first in ("draft", "acceptance"):
        holders = document.get("drafts", [])
        if first == "draft":
            first, *rest = rest or ["model"]
    *before, last = first, *rest
    for part in before:
        name, index = _indexed(part)
        below = [holder.get(name) if isinstance(holder, dict) else None for holder in holders]
        if index is not None:
            below = [_entry(item, name, index, place, path) for item in below]
        holders = [entry for item in below for entry in (item if isinstance(item, list) else [item])]
        if not holders or not all(isinstance(holder, dict) for holder in holders):
            raise InputError(Fault(f"there is no mapping {part!r} in which to vary a field.", place, f"grid.{path}"))
    for holder in holders:
        holder[last] = value
        getattr(holder, "places", {})[last] = place


def _entry(entries: Any, name: str, index: int, place: Place, path: str) -> Any:
    if not isinstance(entries, list) or index >= len(entries):
        there = f"has {len(entries)} entries, counted from 0" if isinstance(entries, list) else "is no list"
        raise InputError(Fault(f"there is no {name}[{index}]: {name} {there}.", place, f"grid.{path}"))
    return entries[index]
