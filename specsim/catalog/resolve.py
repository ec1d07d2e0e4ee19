"""A scenario as written to scenarios as planned: names become cards, shorthand and defaults are filled in.

What people write is short; what the core receives has every field. ``resolve`` is the one step between the two.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specsim.catalog import evidence, library
from specsim.catalog.forms import acceptance_document, bare_list
from specsim.catalog.located import LocatedDict, LocatedList, place_of
from specsim.catalog.plausible import check_hardware
from specsim.catalog.strict_yaml import read_yaml
from specsim.catalog.validate import validate
from specsim.errors import Fault, InputError, Place, nearest, shown
from specsim.planning.sweep import questions
from specsim.specs.precision import KV_BYTES
from specsim.specs.scenario import Scenario

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
        varied: The paths of those axes with their values, for each scenario.
        document: The document of the first of them, with the axes as they were written.
        remarks: How ambiguous input was read, for the user to see.
    """

    scenarios: tuple[Scenario, ...]
    varied: tuple[tuple[tuple[str, object], ...], ...]
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
    library.check_head(written, "sweep")
    remarks: list[str] = []
    paths = _path_axes(written)
    filled = _Filler(folder, remarks, inherit=not paths).fill(written)
    scenarios, varied = [], []
    for values in itertools.product(*paths.values()):
        combination = _thaw(filled)
        if isinstance(combination.get("grid"), dict):
            combination["grid"] = _only_grid_axes(combination["grid"])
        for path, value in zip(paths, values, strict=True):
            _set(combination, path, value, place_of(filled, ("grid", path))[0])
        complete = _Filler(folder, remarks).fill(combination)
        scenario = validate(Scenario, complete)
        if scenario.hardware is not None:
            check_hardware(scenario.hardware, complete, ("hardware",))
            _check_plain_step(scenario, complete)
        scenarios.append(scenario)
        varied.append(tuple(zip(paths, values, strict=True)))
    return Resolution(tuple(scenarios), tuple(varied), filled, tuple(dict.fromkeys(remarks)))


def _check_plain_step(scenario: Scenario, document: LocatedDict) -> None:
    try:
        questions(scenario)
    except InputError as error:
        place = place_of(document, ("costs", "plain_step"))
        raise InputError([Fault(fault.message, *place) for fault in error.faults]) from None


class _Filler:
    """Fills in one scenario document; works on copies, and leaves alone what is filled in already.

    Args:
        folder: Where relative paths start.
        remarks: Takes how ambiguous input was read.
        inherit: Whether to fill in what follows from other fields, which an axis may still replace.
    """

    def __init__(self, folder: Path | None, remarks: list[str], *, inherit: bool = True) -> None:
        self.inherit = inherit
        self.folder = folder
        self.remarks = remarks
        self.faults: list[Fault] = []

    def fill(self, written: LocatedDict) -> LocatedDict:
        """The filled document.

        Raises:
            InputError: With one fault for every name that stands for nothing.
        """
        filled = self.scenario(written)
        if self.faults:
            raise InputError(self.faults)
        return filled

    def scenario(self, written: LocatedDict) -> LocatedDict:
        document = written.copy()
        measured = "costs" in document and "hardware" not in document and "target" not in document
        if not measured and "hardware" in _axes(document):
            document.setdefault("hardware", _axes(document)["hardware"][0])
        if not measured:
            _default(document, "runtime", DEFAULT_RUNTIME)
        self._card(document, "hardware", "hardware", "hardware")
        self._card(document, "runtime", "runtime", "runtime")
        if isinstance(document.get("hardware"), dict):
            with self._collecting():
                path = place_of(document, ("hardware", "kernels"))[1]
                document["hardware"] = hardware_document(document["hardware"], self.folder, path)
        if "target" in document:
            document["target"] = self._served(document, "target", {}, "target")
        self._drafts(document)
        if isinstance(document.get("costs"), dict):
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

    @contextmanager
    def _collecting(self) -> Iterator[None]:
        try:
            yield
        except InputError as error:
            self.faults.extend(error.faults)

    def _card(self, document: LocatedDict, field: str, kind: str, path: str) -> None:
        with self._collecting():
            _fill_card(document, field, kind, self.folder, path)

    def _served(self, holder: Any, key: str | int, defaults: dict[str, Any], path: str) -> LocatedDict:
        """A served model: its card, and precision and parallelism where they are left out."""
        written, place = holder[key], place_of(holder, (key,))[0]
        if isinstance(written, dict):
            served, path = _located(written), f"{path}.model"
        else:
            served = LocatedDict({"model": written}, place, {"model": place})
        self._card(served, "model", "model", path)
        _default(served, "precision", defaults.get("precision", DEFAULT_PRECISION))
        if self.inherit:
            precision = served["precision"]
            is_cached = isinstance(precision, str) and precision in KV_BYTES
            _default(served, "kv_precision", precision if is_cached else DEFAULT_PRECISION)
            _default(served, "tensor_parallel", defaults.get("tensor_parallel", 1))
        return served

    def _drafts(self, document: LocatedDict) -> None:
        """``draft:`` and a global ``acceptance:`` are shorthand for one entry of ``drafts:``."""
        if "draft" in document and "drafts" in document:
            self.faults.append(Fault("give draft or drafts, not both.", *place_of(document, ("draft",))))
        elif "draft" in document:
            place = document.places.get("draft", document.place)
            document["drafts"] = LocatedList([document["draft"]], place, [place], alone="draft")
            document.places["drafts"] = place
        document.pop("draft", None)
        shared = "acceptance" in document
        place = document.places.get("acceptance", document.place)
        acceptance = document.pop("acceptance", None)
        has_costs = "costs" in document
        if "drafts" not in document and has_costs:
            document["drafts"] = LocatedList([LocatedDict(place=document.place)], document.place, [document.place])
        if "drafts" not in document:
            return
        entries = document["drafts"]
        where = place_of(document, ("drafts",))
        if not isinstance(entries, list) or not entries:
            self.faults.append(Fault(f"expected a list of drafts, or one as draft, found {shown(entries)}.", *where))
            return
        target = document.get("target")
        filled = LocatedList(
            list(entries), where[0], list(getattr(entries, "places", [])), getattr(entries, "alone", "")
        )
        used = False
        for index in range(len(filled)):
            path = filled.alone or f"drafts[{index}]"
            draft = self._draft(filled, index, target, has_costs, path)
            if shared and "acceptance" not in draft:
                draft["acceptance"], draft.places["acceptance"] = acceptance, place
                used = True
            self._acceptance(draft, target, f"{path}.acceptance")
            filled[index] = draft
        if shared and not used:
            self.faults.append(
                Fault("every draft has an acceptance of its own; this one is not used.", place, "acceptance")
            )
        document["drafts"] = filled

    def _draft(self, drafts: LocatedList, index: int, target: Any, has_costs: bool, path: str) -> LocatedDict:
        """One draft with what it leaves out; where costs are measured, one without a model is known by them."""
        entry = drafts[index]
        if isinstance(entry, dict):
            method = entry.get("method", "measured" if has_costs and "model" not in entry else "draft_model")
            if method != "draft_model":
                draft = _located(entry)
                _default(draft, "method", method)
                return draft
        draft = self._served(drafts, index, _inherited(target), path)
        _default(draft, "method", "draft_model")
        return draft

    def _acceptance(self, draft: LocatedDict, target: Any, path: str) -> None:
        """Replace text, a file or a task by the acceptance that it stands for."""
        place = draft.places.get("acceptance", draft.place)
        with self._collecting():
            written = self._acceptance_written(draft.get("acceptance", {"kind": "task"}), place, path)
            if isinstance(written, dict) and written.get("kind") == "task":
                written = self._published(written, draft, target, place, path)
            draft["acceptance"] = written

    def _acceptance_written(self, written: Any, place: Place, path: str, in_file: bool = False) -> Any:
        if isinstance(written, list) and written and all(isinstance(entry, int | float) for entry in written):
            raise InputError(Fault(bare_list(",".join(map(str, written))), place, path))
        if isinstance(written, bool) or not isinstance(written, str | int | float):
            return written
        text = str(written)
        if library.is_path(text) and not in_file:
            return self._acceptance_file(library.file_at(text, place, self.folder, path))
        document, remark = acceptance_document(text, place, path)
        if remark is not None:
            self.remarks.append(remark)
        return document

    def _acceptance_file(self, path: Path) -> Any:
        """The acceptance of a file: its field ``acceptance`` if it has one, and otherwise the file itself."""
        document = read_yaml(path)
        library.check_head(document, None)
        rest = LocatedDict({k: v for k, v in document.items() if k not in _HEAD}, document.place, document.places)
        if "acceptance" not in rest:
            return rest
        inner = rest.pop("acceptance")
        if rest:
            raise InputError([Fault("unknown field beside acceptance.", *place_of(document, (name,))) for name in rest])
        return self._acceptance_written(inner, document.places["acceptance"], "acceptance", in_file=True)

    def _published(self, written: Any, draft: LocatedDict, target: Any, place: Place, path: str) -> Any:
        unknown = [name for name in written if name not in ("kind", "task")]
        if unknown:
            message = "unknown field. Known: kind, task."
            raise InputError([Fault(message, *_place_inside(written, name, place, path)) for name in unknown])
        known = [set(_names(holder)) for holder in (target, draft)]
        method = "draft_model" if draft["method"] == "measured" else draft["method"]
        if method not in library.names("acceptance"):
            # The method is unknown; validation says so.
            return written
        asked_at = _place_inside(written, "task", place, path)
        found = evidence.published(method, known[0], known[1], written.get("task", "any"), *asked_at)
        return LocatedDict(found, place, dict.fromkeys(found, place))


_HEAD = ("format", "name", "title", "sources", "notes")
"""What a file may say about itself beside its acceptance."""


def _place_inside(written: Any, field: str, place: Place, path: str) -> tuple[Place, str]:
    """Place and path of a field of something written at a place, or in a file of its own that is named there."""
    own = getattr(written, "places", {}).get(field, place)
    return own, field if own.file not in (None, place.file) else f"{path}.{field}"


def hardware_document(written: Any, folder: Path | None = None, path: str = "kernels") -> LocatedDict:
    """A hardware card with the kernels of its family filled in; a relative path there starts at the card's folder."""
    hardware = _located(written)
    _default(hardware, "kernels", DEFAULT_KERNELS)
    beside = Path(hardware.place.file).parent if hardware.place.file is not None else folder
    _fill_card(hardware, "kernels", "kernels", beside, path)
    return hardware


def _fill_card(document: LocatedDict, field: str, kind: str, folder: Path | None, path: str) -> None:
    """Replace a name by the card it stands for."""
    if field not in document or isinstance(document[field], dict):
        return
    written, place = document[field], document.places.get(field, document.place)
    if isinstance(written, bool) or not isinstance(written, str | int | Path):
        expected = "a name of the catalogue, a YAML file, or a mapping of fields"
        raise InputError(Fault(f"expected {expected}, found {shown(written)}.", place, path))
    document[field] = library.read_card(kind, str(written), place, folder, path)


def _inherited(target: Any) -> dict[str, Any]:
    """What a draft takes over from the target; what is wrong there is said there."""
    devices = target.get("tensor_parallel") if isinstance(target, dict) else None
    return {"tensor_parallel": devices} if type(devices) is int and devices > 0 else {}


def _names(holder: Any) -> list[str]:
    """Comparable names of the model that a served model or a draft holds."""
    model = holder.get("model") if isinstance(holder, dict) else None
    if not isinstance(model, dict):
        return []
    aliases = model.get("aliases", ())
    names = [model.get("name", ""), *(aliases if isinstance(aliases, list | tuple) else ())]
    return [library.comparable(str(name)) for name in names]


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
        return LocatedList([_thaw(v) for v in value], value.place, value.places, value.alone)
    return value


def _axes(document: Any) -> dict[str, list[Any]]:
    """The axes of a grid that are paths into the document, each with its values."""
    grid = document.get("grid") if isinstance(document, dict) else None
    if not isinstance(grid, dict):
        return {}
    return {path: v if isinstance(v, list) else [v] for path, v in grid.items() if path not in GRID_AXES}


def _path_axes(document: LocatedDict) -> dict[str, list[Any]]:
    axes = _axes(document)
    faults = []
    for path, values in axes.items():
        if any(isinstance(value, dict | list) for value in values) or not values:
            found = shown(document["grid"][path])
            faults.append(
                Fault(f"expected a list of single values, found {found}.", *place_of(document, ("grid", path)))
            )
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


_VARIABLE = ("hardware", "runtime", "target", "draft", "drafts", "acceptance", "costs", "extrapolate")
"""Fields that an axis may replace, or in which it may replace a field."""


def _no_such_axis(path: str) -> str:
    close = nearest(path, [*GRID_AXES, *_VARIABLE], list_all_up_to=0)
    message = f"no such axis. {close} An axis is {', '.join(GRID_AXES)}, or the path of a field to vary"
    return f"{message}, such as drafts.acceptance.rate.".replace("  ", " ")


def _only_grid_axes(grid: LocatedDict) -> LocatedDict:
    return LocatedDict({k: v for k, v in grid.items() if k in GRID_AXES}, grid.place, grid.places)


def _set(document: LocatedDict, path: str, value: Any, place: Place) -> None:
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
