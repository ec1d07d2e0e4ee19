"""A drafter as it is written to its fields: names of models, draft heads and drafters, and files of either."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specsim.catalog import library
from specsim.catalog.located import LocatedDict
from specsim.catalog.strict_yaml import read_yaml
from specsim.catalog.validate import written_fields
from specsim.errors import Place
from specsim.specs.drafter import DRAFTS
from specsim.specs.fields import Tagged


def drafter_document(written: Any, place: Place, folder: Path | None, path: str) -> Any:
    """The document of a drafter; what names a model, or is no name, stays as it is.

    A draft head or a drafter of the catalogue may stand wherever a draft model may. What options say of all drafts
    (their formats, their layout) is dropped where a drafter has no such field.

    Args:
        written: A name, or a mapping with ``model``, ``head`` or ``method``.
        place: Where it was written.
        folder: Where relative paths start.
        path: Path of the drafter in the scenario, for messages.

    Raises:
        InputError: If a file cannot be read.
    """
    holder = written if isinstance(written, dict) else LocatedDict({"model": written}, place, {"model": place})
    name = holder.get("model")
    if not isinstance(name, str) or "method" in holder:
        return written
    kind, file = _kind_of(name, place, folder, path)
    if kind not in ("head", "drafter"):
        return written
    places = dict(getattr(holder, "places", {}))
    found = LocatedDict({k: v for k, v in holder.items() if k != "model"}, getattr(holder, "place", place), places)
    card = read_yaml(file) if file is not None else library.read_card(kind, name, place, folder, path)
    if kind == "head":
        found["method"] = card.get("method")
        found["head"] = card
    else:
        fields = card.get("draft")
        left = (
            {field: value for field, value in fields.items() if field not in found} if isinstance(fields, dict) else {}
        )
        for field, value in left.items():
            found[field] = value
            found.places[field] = getattr(fields, "places", {}).get(field, place)
        found["assumptions"] = _assumptions_of(card, left)
    return _without_idle_options(found)


def _assumptions_of(card: LocatedDict, fields: dict[str, Any]) -> dict[str, Any]:
    """What a drafter's card says of fields that nobody published, as far as they come from it."""
    told = card.get("assumptions")
    paths = {f"draft.{field}": field for field in fields}
    return {paths[path]: why for path, why in told.items() if path in paths} if isinstance(told, dict) else {}


def _kind_of(name: str, place: Place, folder: Path | None, path: str) -> tuple[str, Path | None]:
    """Whether a name or a file is that of a model, of a head or of a drafter."""
    if library.is_path(name):
        file = library.file_at(name, place, folder, path)
        return str(read_yaml(file).get("kind", "model")), file
    kinds = ("model", "head", "drafter")
    known = next((kind for kind in kinds if library.known_name(kind, name) is not None), None)
    if known is None and "/" not in name:
        raise library.no_such_name(kinds, name, place, path)
    return known or "model", None


def _without_idle_options(draft: LocatedDict) -> LocatedDict:
    record = Tagged("method", DRAFTS).by_tag.get(str(draft.get("method")))
    known = {field.written for field in written_fields(record)} if record is not None else set(draft)
    for field in [field for field in draft if field not in known]:
        if draft.places.get(field, Place()).parameter is not None:
            del draft[field]
    return draft
