"""Documents to records: every fault at once, each with its file, line, path and nearest valid name."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from specsim import units
from specsim.catalog.located import place_of
from specsim.errors import Contradiction, Fault, InputError, nearest

T = TypeVar("T")


@lru_cache
def _adapter(record: Any) -> TypeAdapter[Any]:
    return TypeAdapter(record)


def validate(record: type[T], document: object) -> T:
    """The record that a document describes.

    Raises:
        InputError: With one fault for everything that is wrong.
    """
    try:
        valid: T = _adapter(record).validate_python(document)  # type: ignore[arg-type]
        return valid
    except ValidationError as error:
        raise InputError([_fault(document, dict(detail), record) for detail in error.errors()]) from None


def json_schema(record: type[Any]) -> dict[str, Any]:
    """JSON Schema of the documents that describe a record, for editors."""
    return _adapter(record).json_schema()  # type: ignore[arg-type]


def _fault(document: object, detail: dict[str, Any], record: type[Any]) -> Fault:
    path = detail["loc"]
    place, shown = place_of(document, path)
    found, kind = detail["input"], detail["type"]
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, Contradiction):
        message = str(cause)
    elif isinstance(cause, ValueError):
        message = f"expected {cause}, found {_shown(found)}."
    elif kind == "unexpected_keyword_argument":
        known = written_fields(_record_at(record, path[:-1]))
        message = f"unknown field. {nearest(path[-1], known, list_all_up_to=20)}"
    elif kind == "missing":
        message = "this field is missing."
    elif kind == "union_tag_invalid":
        known = [tag.strip("' ") for tag in detail["ctx"]["expected_tags"].split(",")]
        tag = detail["ctx"]["discriminator"].strip("'")
        message = f"unknown {tag} {detail['ctx']['tag']!r}. {nearest(detail['ctx']['tag'], known)}"
    elif kind == "union_tag_not_found":
        message = f"the field {detail['ctx']['discriminator']} is missing: it says which form this is."
    elif kind in ("dataclass_type", "dataclass_exact_type", "model_attributes_type", "dict_type"):
        message = f"expected a mapping of fields to values, found {_shown(found)}."
    elif kind == "literal_error":
        message = f"expected {detail['ctx']['expected']}, found {_shown(found)}."
    elif kind == "string_type":
        message = f"expected text, found {_shown(found)}."
    else:
        message = f"{detail['msg'].lower()}, found {_shown(found)}."
    return Fault(message, place, shown)


def _shown(value: object) -> str:
    text = (
        repr(dict(value)) if isinstance(value, dict) else repr(list(value)) if isinstance(value, list) else repr(value)
    )
    return text if len(text) <= 60 else text[:57] + "..."


def written_fields(record: type[Any] | None) -> list[str]:
    """The names under which a record's fields are written in YAML."""
    if record is None:
        return []
    return [units.written_name(field.name) for field in dataclasses.fields(record)]


def _record_at(record: type[Any], path: tuple[str | int, ...]) -> type[Any] | None:
    """The record type that stands at a path of documents of ``record``."""
    from typing import get_args, get_type_hints

    from specsim.specs.fields import Tagged

    def unfold(annotation: Any) -> list[Any]:
        parts = [annotation, *getattr(annotation, "__metadata__", ())]
        for argument in get_args(annotation):
            parts.extend(unfold(argument))
        return parts

    at: Any = record
    for part in path:
        tagged = [m for m in unfold(at) if isinstance(m, Tagged) and part in m.by_tag]
        if tagged:
            at = tagged[0].by_tag[str(part)]
        elif not isinstance(part, int):
            found = [r for r in unfold(at) if dataclasses.is_dataclass(r) and isinstance(r, type)]
            hints = get_type_hints(found[0], include_extras=True) if found else {}
            at = {units.written_name(name): hint for name, hint in hints.items()}.get(str(part))
    found = [r for r in unfold(at) if dataclasses.is_dataclass(r) and isinstance(r, type)]
    return found[0] if found else None
