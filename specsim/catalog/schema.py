"""JSON Schema of the documents that describe a record: editors complete and check with it."""

from __future__ import annotations

import dataclasses
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from specsim.catalog.validate import written_fields
from specsim.specs.fields import Kind, Tagged


def json_schema(record: type[Any]) -> dict[str, Any]:
    """The schema of a record, with the schemas of the records inside it under ``$defs``."""
    definitions: dict[str, Any] = {}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **_record(record, definitions)}
    return {**schema, "$defs": definitions} if definitions else schema


def _record(record: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    fields = written_fields(record)
    return {
        "title": record.__name__,
        "description": (record.__doc__ or "").partition("\n")[0],
        "type": "object",
        "properties": {field.written: _of(field.annotation, definitions) for field in fields},
        "required": [field.written for field in fields if field.required],
        "additionalProperties": False,
    }


def _of(annotation: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        mark = next(mark for mark in annotation.__metadata__ if isinstance(mark, Kind | Tagged))
        if isinstance(mark, Kind):
            return dict(mark.json_schema)
        return {"oneOf": [_of(record, definitions) for record in mark.records]}
    if origin in (Union, types.UnionType):
        return _of(next(a for a in arguments if a is not types.NoneType), definitions)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": _of(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of(arguments[1], definitions)}
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        name = annotation.__name__
        if name not in definitions:
            definitions[name] = {}
            definitions[name] = _record(annotation, definitions)
        return {"$ref": f"#/$defs/{name}"}
    return {"type": "string"}
