"""JSON Schema of the documents that users write: editors complete and check with it.

It admits what ``resolve`` fills in: names in place of cards, fields left out, one draft in place of a list.
"""

from __future__ import annotations

import dataclasses
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from specsim.catalog.validate import written_fields
from specsim.specs.acceptance import Acceptance
from specsim.specs.card import Card
from specsim.specs.drafter import DRAFTS, Draft
from specsim.specs.fields import Kind, Tagged
from specsim.specs.hardware import Hardware
from specsim.specs.scenario import Grid, Scenario
from specsim.specs.served import ServedModel

_NAME = {"type": ["string", "integer"]}
"""A name of the catalogue or a YAML file; 4090 is a name too."""

_VALUE = {"type": ["string", "number", "boolean"]}
_AXIS = {"anyOf": [_VALUE, {"type": "array", "items": _VALUE}]}
"""An axis of a grid that replaces a field of the scenario."""

_FILLED_IN: dict[Any, set[str]] = {
    Hardware: {"kernels"},
    ServedModel: {"precision", "kv_precision"},
    **{draft: {"precision", "kv_precision", "acceptance"} for draft in DRAFTS},
    Scenario: {"drafts"},
    Grid: {"batch_size", "context_length", "gamma"},
}
"""Fields of records that a document may leave out."""

_SHORT_FORMS: dict[Any, list[dict[str, Any]]] = {
    Draft: [_NAME],
    Acceptance: [
        {"type": ["string", "number"]},
        {
            "type": "object",
            "properties": {"kind": {"const": "task"}, "task": {"type": "string"}},
            "required": ["kind"],
            "additionalProperties": False,
        },
    ],
}
"""What may stand in place of the records of a union."""

_SHORTHAND: dict[Any, dict[str, Any]] = {Scenario: {"draft": Draft, "acceptance": Acceptance}}
"""Fields that a document may have besides, each with what it holds."""


def json_schema(record: type[Any]) -> dict[str, Any]:
    """The schema of a record, with the schemas of the records inside it under ``$defs``."""
    definitions: dict[str, Any] = {}
    body = _record(record, definitions) if dataclasses.is_dataclass(record) else _of(record, definitions)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **body}
    return {**schema, "$defs": definitions} if definitions else schema


def _record(record: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    fields = written_fields(record)
    annotations = {field.written: field.annotation for field in fields} | _SHORTHAND.get(record, {})
    filled_in = _FILLED_IN.get(record, set())
    return {
        "title": record.__name__,
        "description": (record.__doc__ or "").partition("\n")[0],
        "type": "object",
        "properties": {name: _of(annotation, definitions) for name, annotation in annotations.items()},
        "required": [field.written for field in fields if field.required and field.written not in filled_in],
        "additionalProperties": _AXIS if record is Grid else False,
    }


def _of(annotation: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        mark = next(mark for mark in annotation.__metadata__ if isinstance(mark, Kind | Tagged))
        if isinstance(mark, Kind):
            return dict(mark.json_schema)
        found = [*_SHORT_FORMS.get(annotation, ()), *(_reference(record, definitions) for record in mark.records)]
        return {"anyOf": [*found, _named_drafter(definitions)] if annotation == Draft else found}
    if origin in (Union, types.UnionType):
        return _of(next(a for a in arguments if a is not types.NoneType), definitions)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": _of(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of(arguments[1], definitions)}
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        reference = _reference(annotation, definitions)
        return {"anyOf": [_NAME, reference]} if issubclass(annotation, Card | ServedModel) else reference
    return {"type": "string"}


def _named_drafter(definitions: dict[str, Any]) -> dict[str, Any]:
    """A head or a drafter of the catalogue by its name, with fields that replace those of its card."""
    records = [record for record in DRAFTS if not issubclass(record, ServedModel)]
    annotations = {field.written: field.annotation for record in records for field in written_fields(record)}
    properties = {name: _of(of, definitions) for name, of in annotations.items() if name != "method"}
    return {
        "type": "object",
        "properties": {"model": _NAME, **properties},
        "required": ["model"],
        "additionalProperties": False,
    }


def _reference(record: type[Any], definitions: dict[str, Any]) -> dict[str, Any]:
    name = record.__name__
    if name not in definitions:
        definitions[name] = {}
        definitions[name] = _record(record, definitions)
    return {"$ref": f"#/$defs/{name}"}
