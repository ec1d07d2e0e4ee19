"""A drafter as it is written to its fields: names of models, draft heads and drafters, and files of either."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from specsim.catalog import library
from specsim.catalog.draft_cards import checked_drafter, checked_head
from specsim.catalog.located import LocatedDict, LocatedList, place_of
from specsim.catalog.strict_yaml import read_yaml
from specsim.catalog.validate import written_fields
from specsim.errors import Fault, InputError, Place, nearest, shown
from specsim.specs.drafter import DRAFTS
from specsim.specs.fields import Tagged


def drafter_document(written: Any, place: Place, folder: Path | None, path: str, targets: Collection[str]) -> Any:
    """The document of a drafter; what names a model, or is no name, stays as it is.

    A draft head or a drafter of the catalogue may stand wherever a draft model may. What options say of all drafts
    (their formats, their layout) is dropped where a drafter has no such field.

    Args:
        written: A name, or a mapping with ``model``, ``head`` or ``method``.
        place: Where it was written.
        folder: Where relative paths start.
        path: Path of the drafter in the scenario, for messages.
        targets: Names of the target, for which a head may be made though no card of the catalogue has them.

    Raises:
        InputError: If a card cannot be read, or is wrong.
    """
    holder = written if isinstance(written, dict) else LocatedDict({"model": written}, place, {"model": place})
    name = holder.get("model")
    if not isinstance(name, str) or "method" in holder:
        return written
    kind, card = _card_of(name, place, folder, path)
    if card is None:
        return written
    places = dict(getattr(holder, "places", {}))
    found = LocatedDict({k: v for k, v in holder.items() if k != "model"}, getattr(holder, "place", place), places)
    if kind == "head":
        found["method"] = checked_head(card, targets).method
        found["head"] = card
    else:
        checked_drafter(card)
        fields = card["draft"]
        left = {field: value for field, value in fields.items() if field not in found}
        for field, value in left.items():
            found[field] = _beside(value, card.place.file) if field in _WITH_CARDS else value
            found.places[field] = fields.places.get(field, fields.place)
        if "name" in card and "name" not in found:
            found["name"], found.places["name"] = card["name"], card.places.get("name", card.place)
        found["assumptions"] = _assumptions_of(card, left)
        # What it lacks is missing in its card, but for what is said where it is used.
        found.places.setdefault("acceptance", found.place)
        found.place, found.inside = fields.place, "draft"
    return _without_idle_options(found)


_WITH_CARDS = ("model", "head", "inner", "models", "legs")
"""Fields of a draft that hold names or files of other cards."""


def _beside(value: Any, file: str | None) -> Any:
    """A field of a card with its relative paths as seen from where the card is used."""
    if isinstance(value, str) and library.is_path(value) and file is not None:
        return str(Path(file).parent.absolute() / value)
    if isinstance(value, LocatedDict):
        parts = {key: _beside(part, file) for key, part in value.items()}
        return LocatedDict(parts, value.place, value.places)
    if isinstance(value, LocatedList):
        return LocatedList([_beside(part, file) for part in value], value.place, value.places, value.alone)
    return value


def _assumptions_of(card: LocatedDict, fields: dict[str, Any]) -> dict[str, Any]:
    """What a drafter's card says of fields that nobody published, as far as they come from it."""
    paths = {f"draft.{field}": field for field in fields} | {"draft": "all", "all": "all"}
    return {paths[path]: why for path, why in card.get("assumptions", {}).items() if path in paths}


_KINDS = ("model", "head", "drafter")


def _card_of(name: str, place: Place, folder: Path | None, path: str) -> tuple[str, LocatedDict | None]:
    """Whether a name or a file is that of a model, of a head or of a drafter, and the card of the latter two."""
    if not library.is_path(name):
        known = next((kind for kind in _KINDS if library.known_name(kind, name) is not None), None)
        if known is None and "/" not in name:
            raise library.no_such_name(_KINDS, name, place, path)
        card = library.read_card(known, name, place, folder, path) if known in ("head", "drafter") else None
        return known or "model", card
    document = read_yaml(library.file_at(name, place, folder, path))
    # A file that does not say its kind is known by the field that only such a card has.
    guessed = "drafter" if "draft" in document else "head" if "method" in document else "model"
    kind = document.get("kind", guessed)
    if kind not in _KINDS:
        message = f"expected kind {', '.join(_KINDS[:-1])} or {_KINDS[-1]}, found {shown(kind)}."
        close = nearest(kind, _KINDS, list_all_up_to=0)
        raise InputError(Fault(f"{message} {close}".strip(), *place_of(document, ("kind",))))
    if kind == "model":
        return kind, None
    library.check_head(document, kind)
    return kind, document


def _without_idle_options(draft: LocatedDict) -> LocatedDict:
    known = fields_of(draft)
    for field in [field for field in draft if field not in known]:
        if draft.places.get(field, Place()).parameter is not None:
            del draft[field]
    return draft


def fields_of(draft: dict[str, Any]) -> set[str]:
    """The fields that a draft of its method may have; those that it has where the method is unknown."""
    record = Tagged("method", DRAFTS).by_tag.get(str(draft.get("method")))
    return {field.written for field in written_fields(record)} if record is not None else set(draft)
