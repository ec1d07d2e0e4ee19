"""A written scenario to its filled form: names become cards, shorthand and defaults are filled in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from specsim.catalog import library
from specsim.catalog.acceptances import acceptance_of, names_of
from specsim.catalog.axes import axes_of
from specsim.catalog.draft_cards import checked_head
from specsim.catalog.drafters import drafter_document
from specsim.catalog.located import LocatedDict, LocatedList, place_of
from specsim.catalog.validate import validate
from specsim.errors import Fault, InputError, Place, shown
from specsim.specs.precision import KV_BYTES, PRECISIONS
from specsim.specs.tree_card import TreeCard

DEFAULT_RUNTIME = "typical"
DEFAULT_KERNELS = "generic"
DEFAULT_PRECISION = "bf16"
DEFAULT_GAMMA = "0..8"


class Filler:
    """Fills in one scenario document; works on copies, and leaves alone what is filled in already.

    Args:
        folder: Where relative paths start.
        remarks: Takes how ambiguous input was read.
        inherit: Whether to fill in what follows from other fields, which an axis may still replace.

    Attributes:
        unused: That the acceptance of all drafts is that of none, if so.
    """

    def __init__(self, folder: Path | None, remarks: list[str], *, inherit: bool = True) -> None:
        self.inherit = inherit
        self.folder = folder
        self.remarks = remarks
        self.faults: list[Fault] = []
        self.unused: Fault | None = None
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
            with self._collecting():
                _name_trees(document["grid"], self.folder)
            _default(document["grid"], "gamma", 0 if "tree" in document["grid"] else DEFAULT_GAMMA)
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
            served = _located(written)
            path = _path_of(served, "model", path)
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
            before = len(self.faults)
            draft = self._draft(filled, index, target, has_costs, path)
            if shared and "acceptance" not in draft:
                draft["acceptance"], draft.places["acceptance"] = acceptance, place
                used = True
            if len(self.faults) == before or "acceptance" in draft:
                # What is published for a draft that cannot be read is nothing to look for.
                with self._collecting():
                    draft["acceptance"] = acceptance_of(draft, target, f"{path}.acceptance", self.folder, self.remarks)
                    _move_verification(draft, path)
            filled[index] = draft
        if shared and not used:
            self.unused = Fault("every draft has an acceptance of its own; this one is not used.", place, "acceptance")
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
            entry = drafter_document(entry, place, self.folder, path, names_of(target))
        except InputError as error:
            self.faults.extend(error.faults)
            draft = _located(entry) if isinstance(entry, dict) else LocatedDict(place=place)
            _default(draft, "method", "draft_model")
            return draft
        drafts[index] = entry
        method = entry.get("method", "draft_model") if isinstance(entry, dict) else "draft_model"
        if method not in _WITH_A_MODEL:
            return self._parts(_located(entry), target, path)
        draft = self._served(drafts, index, _inherited(target), path)
        _default(draft, "method", "draft_model")
        return self._parts(draft, target, path)

    def _parts(self, draft: LocatedDict, target: Any, path: str) -> LocatedDict:
        """The models and heads that are parts of a drafter."""
        self._card(draft, "head", "head", _path_of(draft, "head", path))
        inherited, method, head = _inherited(target), draft.get("method"), draft.get("head")
        if isinstance(head, dict):
            if head.get("method") in _ON_A_HEAD and head["method"] != method:
                wrong = f"{head.get('name')} is a head of the method {head['method']}, and not {shown(method)}."
                self.faults.append(Fault(wrong, draft.places.get("head", draft.place), f"{path}.head"))
            elif _has_a_file(head, draft):
                with self._collecting():
                    checked_head(head, names_of(target))
        if method in _ON_A_HEAD and self.inherit:
            # A module of the target's own checkpoint is stored as the target is.
            own = inherited.get("precision") if method == "mtp" else None
            _default(draft, "precision", own or self.sixteen)
            _default(draft, "kv_precision", self.sixteen)
            _default(draft, "tensor_parallel", inherited.get("tensor_parallel", 1))
        if "inner" in draft:
            draft["inner"] = self._served(draft, "inner", inherited, _path_of(draft, "inner", path))
        for field in ("models", "legs"):
            entries = draft.get(field)
            if isinstance(entries, list):
                filled = LocatedList(list(entries), place_of(draft, (field,))[0], list(getattr(entries, "places", [])))
                for index, entry in enumerate(filled):
                    where = f"{_path_of(draft, field, path)}[{index}]"
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


def _name_trees(grid: LocatedDict, folder: Path | None) -> None:
    """Trees that are called by a name or a file become what these stand for."""
    if "tree" not in grid:
        return
    written, place = grid["tree"], grid.places.get("tree", grid.place)
    if isinstance(written, str):
        grid["tree"] = tree_document(written, place, folder)
    elif isinstance(written, list):
        entries = LocatedList(list(written), place_of(grid, ("tree",))[0], list(getattr(written, "places", [])))
        for index, entry in enumerate(entries):
            if isinstance(entry, str):
                entries[index] = tree_document(entry, place_of(grid, ("tree", index))[0], folder)
        grid["tree"] = entries


def tree_document(written: str, place: Place, folder: Path | None) -> Any:
    """A tree as it is written, or the one that a name of the catalogue or a file stands for."""
    if not written.strip() or written.strip()[0] in "<[-0123456789":
        return written
    card = library.read_card("tree", written, place, folder, "grid.tree")
    validate(TreeCard, card)
    return LocatedDict({"name": card.get("name", "unnamed"), "tree": card.get("tree")}, card.place, card.places)


def _move_verification(draft: LocatedDict, path: str) -> None:
    """``verification`` of a draft is shorthand for that of its acceptance, which only paired probabilities have.

    Raises:
        InputError: If the acceptance is of another kind, or says it itself.
    """
    if "verification" not in draft:
        return
    place = draft.places.get("verification", draft.place)
    acceptance, rule = draft["acceptance"], draft.pop("verification")
    if not isinstance(acceptance, dict) or acceptance.get("kind") != "paired":
        message = "it says nothing: only paired probabilities leave the rule among several candidates open."
        raise InputError(Fault(message, place, f"{path}.verification"))
    found = _located(acceptance)
    found["verification"], found.places["verification"] = rule, place
    draft["acceptance"] = found


def _inherited(target: Any) -> dict[str, Any]:
    """What a draft takes over from the target; what is wrong there is said there."""
    held = target if isinstance(target, dict) else {}
    found = {name: held.get(name) for name in ("tensor_parallel", "source_tokens")}
    numbers = {name: number for name, number in found.items() if type(number) is int and number > 0}
    return {**numbers, "precision": held.get("precision")}


def _path_of(holder: LocatedDict, field: str, path: str) -> str:
    """The path of a field of something at a path: in its own file, if it came with a card that is used by itself."""
    place = holder.places.get(field, holder.place)
    return f"{holder.inside if holder.inside and place.file == holder.place.file else path}.{field}"


def _has_a_file(card: dict[str, Any], holder: LocatedDict) -> bool:
    """Whether a card comes from a file of its own, and is not written in place."""
    return getattr(card, "place", holder.place).file not in (None, holder.place.file)


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
