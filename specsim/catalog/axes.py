"""Axes of a grid that are paths into the scenario: which there are, and one value of one of them put in its place."""

from __future__ import annotations

from typing import Any

from specsim.catalog.located import LocatedDict, place_of
from specsim.errors import Fault, InputError, Place, nearest, shown

GRID_AXES = ("batch_size", "context_length", "gamma")
"""Axes that every grid has."""


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
        same = [other for other in axes if other != path and _spelled_out(other) == _spelled_out(path)]
        if same:
            faults.append(Fault(f"this is the field of {same[0]} too.", *place_of(document, ("grid", path))))
        if path.split(".")[0] not in _VARIABLE:
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


_VARIABLE = ("hardware", "node", "runtime", "target", "draft", "drafts", "acceptance", "costs", "extrapolate")
"""Fields that an axis may replace, or in which it may replace a field."""


def _no_such_axis(path: str) -> str:
    close = nearest(path, [*GRID_AXES, *_VARIABLE], list_all_up_to=0)
    message = f"no such axis. {close} An axis is {', '.join(GRID_AXES)}, or the path of a field to vary"
    return f"{message}, such as drafts.acceptance.rate.".replace("  ", " ")


def only_grid_axes(grid: LocatedDict) -> LocatedDict:
    """A grid without the axes that are paths."""
    return LocatedDict({k: v for k, v in grid.items() if k in GRID_AXES}, grid.place, grid.places)


def set_field(document: LocatedDict, path: str, value: Any, place: Place) -> None:
    """Set a field at a dotted path, in every entry where the path passes a list."""
    first, *rest = path.split(".")
    holders: list[Any] = [document]
    if first in ("draft", "acceptance"):
        holders = document.get("drafts", [])
        if first == "draft":
            first, *rest = rest or ["model"]
    for part in (first, *rest)[:-1]:
        below = [holder.get(part) if isinstance(holder, dict) else None for holder in holders]
        holders = [entry for item in below for entry in (item if isinstance(item, list) else [item])]
        if not holders or not all(isinstance(holder, dict) for holder in holders):
            raise InputError(Fault(f"there is no mapping {part!r} in which to vary a field.", place, f"grid.{path}"))
    last = (first, *rest)[-1]
    for holder in holders:
        holder[last] = value
        getattr(holder, "places", {})[last] = place
