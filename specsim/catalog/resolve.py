"""A scenario as written to scenarios as planned: names become cards, shorthand and defaults are filled in.

What people write is short; what the core receives has every field. ``fill`` is the one step between the two.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specsim.catalog import evidence, library
from specsim.catalog.forms import acceptance_document
from specsim.catalog.located import LocatedDict, LocatedList, place_of
from specsim.catalog.strict_yaml import read_yaml
from specsim.catalog.validate import validate
from specsim.errors import Fault, InputError, Place, nearest
from specsim.specs.precision import KV_BYTES
from specsim.specs.scenario import Grid, Scenario

DEFAULT_RUNTIME = "typical"
DEFAULT_KERNELS = "generic"
DEFAULT_PRECISION = "bf16"
GRID_AXES = ("batch_size", "context_length", "gamma")
DEFAULT_GAMMA = "0..8"


@dataclass(frozen=True)
class Resolution:
    """What became of a written scenario.

    Attributes:
        scenarios: One for every combination of the axes that are paths into the document.
        document: The document of the first of them, with the axes as they were written.
        remarks: How ambiguous input was read, for the user to see.
    """

    scenarios: tuple[Scenario, ...]
    document: LocatedDict
    remarks: tuple[str, ...]


def read_scenario(path: Path) -> Resolution:
    """Resolve the scenario in a file.

    Raises:
        InputError: With one fault for everything that is wrong.
    """
    return resolve(read_yaml(path), path.parent)


def resolve(written: LocatedDict, folder: Path | None = None) -> Resolution:
    """Resolve a written scenario; relative paths in it refer to ``folder``.

    Raises:
        InputError: With one fault for everything that is wrong.
    """
    remarks: list[str] = []
    filled = _Filler(folder, remarks).scenario(written)
    paths = _path_axes(filled)
    scenarios = []
    for values in itertools.product(*paths.values()):
        combination = _thaw(filled)
        combination["grid"] = _only_grid_axes(combination["grid"])
        for path, value in zip(paths, values, strict=True):
            _set(combination, path, value, place_of(filled, ("grid", path))[0])
        scenarios.append(validate(Scenario, _Filler(folder, remarks).scenario(combination)))
    return Resolution(tuple(scenarios), filled, tuple(dict.fromkeys(remarks)))


class _Filler:
    """Fills in one scenario document; works on copies, and leaves alone what is filled in already."""

    def __init__(self, folder: Path | None, remarks: list[str]) -> None:
        self.folder = folder
        self.remarks = remarks

    def scenario(self, written: LocatedDict) -> LocatedDict:
        document = written.copy()
        if document.get("kind", "sweep") != "sweep":
            kinds = f"expected kind sweep, found {document['kind']!r}"
            raise InputError(Fault(f"{kinds}; other kinds of scenario are not known.", *place_of(written, ("kind",))))
        measured = "costs" in document and "hardware" not in document and "target" not in document
        if not measured and "hardware" in _axes(document):
            document.setdefault("hardware", _axes(document)["hardware"][0])
        if not measured:
            _default(document, "runtime", DEFAULT_RUNTIME)
        self._card(document, "hardware", "hardware")
        self._card(document, "runtime", "runtime")
        if isinstance(document.get("hardware"), dict):
            document["hardware"] = hardware_document(document["hardware"], self.folder)
        if "target" in document:
            document["target"] = self._served(document, "target", {})
        self._drafts(document)
        if "costs" in document and isinstance(document["costs"], dict):
            costs = _located(document["costs"])
            _default(costs, "kind", "measured")
            document["costs"] = costs
        if isinstance(document.get("grid"), dict):
            document["grid"] = _located(document["grid"])
            _default(document["grid"], "gamma", DEFAULT_GAMMA)
            if measured:
                _default(document["grid"], "batch_size", 1)
                _default(document["grid"], "context_length", 0)
        return document

    def _card(self, document: LocatedDict, field: str, kind: str) -> None:
        _fill_card(document, field, kind, self.folder)

    def _served(self, document: Any, field: str | int, defaults: dict[str, Any]) -> Any:
        """A served model: its card, and precision and parallelism where they are left out."""
        written = document[field]
        if isinstance(written, str):
            place = place_of(document, (field,))[0]
            written = LocatedDict({"model": written}, place, {"model": place})
        if not isinstance(written, dict):
            return written
        served = _located(written)
        self._card(served, "model", "model")
        _default(served, "precision", defaults.get("precision", DEFAULT_PRECISION))
        precision = served["precision"]
        _default(served, "kv_precision", precision if precision in KV_BYTES else DEFAULT_PRECISION)
        _default(served, "tensor_parallel", defaults.get("tensor_parallel", 1))
        return served

    def _drafts(self, document: LocatedDict) -> None:
        """``draft:`` and a global ``acceptance:`` are shorthand for one entry of ``drafts:``."""
        if "draft" in document and "drafts" in document:
            raise InputError(Fault("give draft or drafts, not both.", *place_of(document, ("draft",))))
        if "draft" in document:
            place = document.places.get("draft", document.place)
            document["drafts"] = LocatedList([document.pop("draft")], place, [place])
            document.places["drafts"] = place
        shared, shared_place = (
            document.pop("acceptance", None),
            document.places.get("acceptance", document.place),
        )
        costs = document.get("costs")
        if "drafts" not in document and isinstance(costs, dict) and "draft_cost_ratio" in costs:
            document["drafts"] = LocatedList([LocatedDict(place=document.place)], document.place, [document.place])
        entries = document.get("drafts")
        if not isinstance(entries, list):
            return
        target = document.get("target")
        inherited = {"tensor_parallel": target["tensor_parallel"]} if isinstance(target, dict) else {}
        filled = LocatedList(list(entries), place_of(document, ("drafts",))[0], list(getattr(entries, "places", [])))
        for index, entry in enumerate(filled):
            if isinstance(entry, str) or (isinstance(entry, dict) and "model" in entry):
                draft = self._served(filled, index, inherited)
                _default(draft, "method", "draft_model")
            elif isinstance(entry, dict):
                draft = _located(entry)
                _default(draft, "method", "measured" if isinstance(costs, dict) else "draft_model")
            else:
                continue
            if shared is not None and "acceptance" not in draft:
                draft["acceptance"], draft.places["acceptance"] = shared, shared_place
            self._acceptance(draft, target)
            filled[index] = draft
        document["drafts"] = filled

    def _acceptance(self, draft: LocatedDict, target: Any) -> None:
        place = draft.places.get("acceptance", draft.place)
        written = draft.get("acceptance", {"kind": "task", "task": "any"})
        if isinstance(written, str | int | float) and not isinstance(written, bool):
            written = self._acceptance_from_text(str(written), place)
        if isinstance(written, dict) and written.get("kind") == "task":
            known = [set(_names(holder)) for holder in (target, draft)]
            task = str(written.get("task", "any"))
            method = draft.get("method", "draft_model")
            method = "draft_model" if method == "measured" else str(method)
            found = evidence.published(method, known[0], known[1], task, place)
            written = LocatedDict(found, place, dict.fromkeys(found, place))
        draft["acceptance"] = written

    def _acceptance_from_text(self, text: str, place: Place) -> LocatedDict:
        if text.endswith((".yaml", ".yml")):
            path = (self.folder or Path()) / text
            document = read_yaml(path)
            document = _located(document)
            if "acceptance" in document:
                return _located(document["acceptance"])
            for meta in ("format", "name", "title", "sources", "notes"):
                document.pop(meta, None)
            return document
        document, remark = acceptance_document(text, place)
        if remark is not None:
            self.remarks.append(remark)
        return document


def hardware_document(written: Any, folder: Path | None = None) -> LocatedDict:
    """A hardware card with the kernels of its family filled in."""
    hardware = _located(written)
    _default(hardware, "kernels", DEFAULT_KERNELS)
    _fill_card(hardware, "kernels", "kernels", folder)
    return hardware


def _fill_card(document: LocatedDict, field: str, kind: str, folder: Path | None) -> None:
    """Replace a name by the card it stands for."""
    name = document.get(field)
    if isinstance(name, str):
        document[field] = library.read_card(kind, name, document.places.get(field, document.place), folder)


def _names(holder: Any) -> list[str]:
    """Comparable names of the model that a served model or a draft holds."""
    model = holder.get("model") if isinstance(holder, dict) else None
    if not isinstance(model, dict):
        return []
    return [library.comparable(str(name)) for name in (model.get("name", ""), *model.get("aliases", ()))]


def _default(document: LocatedDict, field: str, value: Any) -> None:
    if field not in document:
        document[field] = value


def _located(document: Any) -> LocatedDict:
    return document.copy() if isinstance(document, LocatedDict) else LocatedDict(document)


def _thaw(value: Any) -> Any:
    """A deep copy that keeps the places."""
    if isinstance(value, LocatedDict):
        return LocatedDict({k: _thaw(v) for k, v in value.items()}, value.place, value.places)
    if isinstance(value, LocatedList):
        return LocatedList([_thaw(v) for v in value], value.place, value.places)
    return value


def _axes(document: Any) -> dict[str, list[Any]]:
    """The axes of a grid that are paths into the document, each with its values."""
    grid = document.get("grid") if isinstance(document, dict) else None
    if not isinstance(grid, dict):
        return {}
    return {path: v if isinstance(v, list) else [v] for path, v in grid.items() if path not in GRID_AXES}


def _path_axes(document: LocatedDict) -> dict[str, list[Any]]:
    axes = _axes(document)
    for path, values in axes.items():
        place, shown = place_of(document, ("grid", path))
        if any(isinstance(value, dict | list) for value in values) or not values:
            raise InputError(Fault("an axis is a list of single values.", place, shown))
    return axes


def _only_grid_axes(grid: LocatedDict) -> LocatedDict:
    return LocatedDict({k: v for k, v in grid.items() if k in GRID_AXES}, grid.place, grid.places)


def _set(document: LocatedDict, path: str, value: Any, place: Place) -> None:
    """Set a field at a dotted path, in every entry where the path passes a list."""
    first, *rest = path.split(".")
    known = [*document, *(("hardware", "runtime", "target", "drafts", "costs") if not rest else ())]
    if first not in known and first not in ("draft", "acceptance", "extrapolate"):
        axes = ", ".join(GRID_AXES)
        message = f"no such field to vary. {nearest(first, known)} The axes of every grid are {axes}."
        raise InputError(Fault(message, place, f"grid.{path}"))
    holders: list[Any] = [document]
    if first in ("draft", "acceptance"):
        holders = document.get("drafts", [])
        if first == "draft":
            first, *rest = rest or ["model"]
    for part in (first, *rest)[:-1]:
        below = [holder.get(part) if isinstance(holder, dict) else None for holder in holders]
        holders = [entry for item in below for entry in (item if isinstance(item, list) else [item])]
        if not holders or not all(isinstance(holder, dict) for holder in holders):
            raise InputError(Fault(f"no field {part} to vary something in.", place, f"grid.{path}"))
    last = (first, *rest)[-1]
    for holder in holders:
        holder[last] = value
        getattr(holder, "places", {})[last] = place


def grid_of(document: LocatedDict) -> Grid:
    """The three axes of a document, for its number of points."""
    return validate(Grid, _only_grid_axes(document["grid"]))
