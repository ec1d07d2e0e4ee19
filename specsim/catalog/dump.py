"""Records back to documents: every field present, every number with its unit."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Any, get_args, get_origin, get_type_hints

from specsim import units
from specsim.specs.fields import Kind


def document_of(record: Any) -> dict[str, Any]:
    """The document that describes a record; validating it gives the record back. Absent fields are left out."""
    kinds = _kinds(type(record))  # type: ignore[arg-type]
    document = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if value is not None:
            kind = kinds.get(field.name)
            document[units.written_name(field.name)] = kind.write(value) if kind is not None else _plain(value)
    return document


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return document_of(value)
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return {key: _plain(entry) for key, entry in value.items()} if isinstance(value, dict) else value


@lru_cache
def _kinds(record: Any) -> dict[str, Kind]:
    found: dict[str, Kind] = {}
    for name, hint in get_type_hints(record, include_extras=True).items():
        options = [hint, *get_args(hint)]
        metadata = [m for option in options for m in getattr(option, "__metadata__", ())]
        kind = next((m for m in metadata if isinstance(m, Kind)), None)
        if kind is not None:
            found[name] = _of_each(kind) if get_origin(hint) is dict else kind
    return found


def _of_each(kind: Kind) -> Kind:
    """The kind of the values of a mapping, applied to each."""
    return dataclasses.replace(kind, write=lambda values: {key: kind.write(value) for key, value in values.items()})
