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

from specsim.catalog import library
from specsim.catalog.acceptances import acceptance_of
from specsim.catalog.axes import axes_of, only_grid_axes, path_axes, set_field
from specsim.catalog.drafters import drafter_document
from specsim.catalog.located import LocatedDict, LocatedList, place_of
from specsim.catalog.plausible import check_hardware, check_node
from specsim.catalog.strict_yaml import read_yaml
from specsim.catalog.validate import validate
from specsim.errors import Fault, InputError, shown
from specsim.planning.sweep import questions
from specsim.specs.hardware import Hardware
from specsim.specs.node import Node
from specsim.specs.precision import KV_BYTES, PRECISIONS
from specsim.specs.scenario import Scenario

DEFAULT_RUNTIME = "typical"
DEFAULT_KERNELS = "generic"
DEFAULT_PRECISION = "bf16"
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
    paths = path_axes(written)
    filled = _Filler(folder, remarks, inherit=not paths).fill(written)
    scenarios, varied = [], []
    for values in itertools.product(*paths.values()):
        combination = _thaw(filled)
        if isinstance(combination.get("grid"), dict):
            combination["grid"] = only_grid_axes(combination["grid"])
        for path, value in zip(paths, values, strict=True):
            set_field(combination, path, value, place_of(filled, ("grid", path))[0])
        try:
            scenario = _checked(_Filler(folder, remarks).fill(combination), what_if=tuple(paths))
        except InputError as error:
            raise _at_its_axis(error, filled, dict(zip(paths, values, strict=True))) from None
        scenarios.append(scenario)
        varied.append(tuple(zip(paths, values, strict=True)))
    return Resolution(tuple(scenarios), tuple(varied), filled, tuple(dict.fromkeys(remarks)))


def _checked(complete: LocatedDict, what_if: tuple[str, ...]) -> Scenario:
    """The scenario of a filled document, once its cards are plausible beside each other.

    Figures of an accelerator that are varied on purpose are not held against those of the catalogue.
    """
    scenario = validate(Scenario, complete)
    if scenario.hardware is not None:
        if not any(path.startswith("hardware.") for path in what_if):
            check_hardware(scenario.hardware, complete, ("hardware",))
        if scenario.node is not None:
            check_node(scenario.node, complete, ("node",))
            _check_built_from(scenario.hardware, scenario.node, complete)
        _check_plain_step(scenario, complete)
    return scenario


def _at_its_axis(error: InputError, document: LocatedDict, values: dict[str, object]) -> InputError:
    """The same faults; those that would blame a card of the catalogue, which an axis made wrong, at that axis."""
    faults = []
    for fault in error.faults:
        path = next((path for path in values if fault.path and path.endswith(fault.path.rpartition(".")[0])), None)
        path = path or next(iter(values), None)
        if path is None or fault.place.file is None or not library.is_shipped(fault.place.file):
            faults.append(fault)
            continue
        place, _ = place_of(document, ("grid", path))
        faults.append(Fault(f"with {shown(values[path])}: {fault.message}", place, f"grid.{path}"))
    return InputError(dict.fromkeys(faults))


def _check_built_from(hardware: Hardware, node: Node, document: LocatedDict) -> None:
    """Refuse a node that is built from other accelerators; what is not in the catalogue may stand anywhere."""
    name = library.known_name("hardware", hardware.name)
    if not node.hardware or name is None:
        return
    if name not in {library.known_name("hardware", built) for built in node.hardware}:
        message = f"{node.name} is built from {', '.join(node.hardware)} and not from {hardware.name}."
        raise InputError(Fault(message, document.places.get("node", document.place), "node"))


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
        self.sixteen = DEFAULT_PRECISION

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
        if not measured and "hardware" in axes_of(document):
            document.setdefault("hardware", axes_of(document)["hardware"][0])
        if not measured:
            _default(document, "runtime", DEFAULT_RUNTIME)
        for field in ("hardware", "node", "runtime"):
            self._card(document, field, field, field)
        if isinstance(document.get("hardware"), dict):
            with self._collecting():
                path = place_of(document, ("hardware", "kernels"))[1]
                document["hardware"] = hardware_document(document["hardware"], self.folder, path)
            self.sixteen = _sixteen_bits(document["hardware"])
        if "target" in document:
            target = self._served(document, "target", {}, "target")
            document["target"] = target
            if self.inherit and _has_encoder(target):
                _default(target, "source_tokens", target["model"].get("max_positions", 0))
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
        if self.inherit:
            model = served.get("model")
            published = model.get("published_precision") if isinstance(model, dict) else None
            is_narrow = isinstance(published, str) and published in PRECISIONS and PRECISIONS[published].narrow
            _default(served, "precision", published if is_narrow else self.sixteen)
            precision = served["precision"]
            is_cached = isinstance(precision, str) and precision in KV_BYTES
            _default(served, "kv_precision", precision if is_cached else self.sixteen)
            _default(served, "tensor_parallel", defaults.get("tensor_parallel", 1))
            if "source_tokens" in defaults and _has_encoder(served):
                _default(served, "source_tokens", defaults["source_tokens"])
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
            with self._collecting():
                draft["acceptance"] = acceptance_of(draft, target, f"{path}.acceptance", self.folder, self.remarks)
            filled[index] = draft
        if shared and not used:
            self.faults.append(
                Fault("every draft has an acceptance of its own; this one is not used.", place, "acceptance")
            )
        document["drafts"] = filled

    def _draft(self, drafts: LocatedList, index: int, target: Any, has_costs: bool, path: str) -> LocatedDict:
        """One draft with what it leaves out; where costs are measured, one without a model is known by them."""
        entry = drafts[index]
        if isinstance(entry, dict) and "model" not in entry and "method" not in entry and has_costs:
            draft = _located(entry)
            _default(draft, "method", "measured")
            return draft
        place = place_of(drafts, (index,))[0]
        try:
            entry = drafter_document(entry, place, self.folder, path)
        except InputError as error:
            self.faults.extend(error.faults)
            draft = _located(entry) if isinstance(entry, dict) else LocatedDict(place=place)
            _default(draft, "method", "draft_model")
            return draft
        drafts[index] = entry
        method = entry.get("method", "draft_model") if isinstance(entry, dict) else "draft_model"
        if method not in _WITH_A_MODEL:
            return self._parts(_located(entry), _inherited(target), path)
        draft = self._served(drafts, index, _inherited(target), path)
        _default(draft, "method", "draft_model")
        return self._parts(draft, _inherited(target), path)

    def _parts(self, draft: LocatedDict, inherited: dict[str, Any], path: str) -> LocatedDict:
        """The models and heads that are parts of a drafter."""
        self._card(draft, "head", "head", f"{path}.head")
        method, head = draft.get("method"), draft.get("head")
        if isinstance(head, dict) and "method" in head and head["method"] != method:
            wrong = f"{head.get('name')} is a head of the method {head['method']}, and not {shown(method)}."
            self.faults.append(Fault(wrong, draft.places.get("head", draft.place), f"{path}.head"))
        if method in _ON_A_HEAD and self.inherit:
            # A module of the target's own checkpoint is stored as the target is.
            own = inherited.get("precision") if method == "mtp" else None
            _default(draft, "precision", own or self.sixteen)
            _default(draft, "kv_precision", self.sixteen)
            _default(draft, "tensor_parallel", inherited.get("tensor_parallel", 1))
        if "inner" in draft:
            draft["inner"] = self._served(draft, "inner", inherited, f"{path}.inner")
        for field in ("models", "legs"):
            entries = draft.get(field)
            if isinstance(entries, list):
                filled = LocatedList(list(entries), place_of(draft, (field,))[0], list(getattr(entries, "places", [])))
                for index, entry in enumerate(filled):
                    where = f"{path}.{field}[{index}]"
                    if field == "models":
                        filled[index] = self._served(filled, index, inherited, where)
                    elif isinstance(entry, dict) and "model" in entry:
                        leg = _located(entry)
                        leg["model"] = self._served(leg, "model", inherited, f"{where}.model")
                        filled[index] = leg
                draft[field] = filled
        return draft


_WITH_A_MODEL = ("draft_model", "cascade")
_ON_A_HEAD = ("eagle", "eagle3", "mtp", "medusa")


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
    held = target if isinstance(target, dict) else {}
    found = {name: held.get(name) for name in ("tensor_parallel", "source_tokens")}
    numbers = {name: number for name, number in found.items() if type(number) is int and number > 0}
    return {**numbers, "precision": held.get("precision")}


def _sixteen_bits(hardware: dict[str, Any]) -> str:
    """The number format of 16 bits that an accelerator computes in."""
    rates = hardware.get("dense_rate")
    known = rates if isinstance(rates, dict) else {}
    return "fp16" if "fp16" in known and DEFAULT_PRECISION not in known else DEFAULT_PRECISION


def _has_encoder(served: LocatedDict) -> bool:
    model = served.get("model")
    return isinstance(model, dict) and "encoder" in model


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
