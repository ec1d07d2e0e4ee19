"""Documents to records: every fault at once, each with its file, line, path and nearest valid name.

A record's annotations say what may be written: a ``Kind`` reads one value, ``Tagged`` chooses a record by one of its
fields, and records, lists and mappings are walked here.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from specsim import units
from specsim.catalog.located import place_of
from specsim.errors import Contradiction, Fault, InputError, nearest, shown
from specsim.specs.fields import Kind, Tagged

T = TypeVar("T")
Path = tuple[str | int, ...]


def validate(record: type[T], document: object) -> T:
    """The record that a document describes; also of a union of records that is marked as ``Tagged``.

    Raises:
        InputError: With one fault for everything that is wrong.
    """
    reader = _Reader(document)
    found = reader.value(record, document, ())
    if reader.faults:
        raise InputError(dict.fromkeys(reader.faults))
    return found


def check_fields(document: object, path: Path, mark: Tagged, but: Iterable[str] = ()) -> Any:
    """The record that a mapping inside a document is meant for, once those of its fields are right that can be read.

    What a record lacks is no fault yet, and fields that hold names of other cards are left for later.

    Args:
        document: The whole document.
        path: Where the mapping stands in it.
        mark: The records it may be meant for.
        but: Fields that are not among those known here.

    Raises:
        InputError: With one fault for everything that is wrong.
    """
    reader, found = _Reader(document), document
    for part in path:
        found = found[part]  # type: ignore[index]
    record = reader.record_of(mark, found, path)
    if record is not _NOTHING:
        fields = {field.written: field.annotation for field in written_fields(record) if field.written not in but}
        for key, value in found.items():  # type: ignore[attr-defined]
            if key not in fields:
                reader.fault(f"unknown field. {_nearest(key, fields)}", (*path, key))
            elif _reads_one_value(fields[key]):
                reader.value(fields[key], value, (*path, key))
    if reader.faults:
        raise InputError(dict.fromkeys(reader.faults))
    return record


def _reads_one_value(annotation: Any) -> bool:
    options = [annotation, *get_args(annotation)]
    return any(isinstance(mark, Kind) for one in options for mark in getattr(one, "__metadata__", ()))


@dataclasses.dataclass(frozen=True)
class WrittenField:
    """A field of a record as it is written.

    Attributes:
        name: Name in the record.
        written: Name in a document, without the unit.
        annotation: What may stand there.
        required: Whether it has no default.
        default: The default, if it has one that does not depend on the record.
    """

    name: str
    written: str
    annotation: Any
    required: bool
    default: Any


@lru_cache
def written_fields(record: Any) -> tuple[WrittenField, ...]:
    """The fields of a record as they are written."""
    hints = get_type_hints(record, include_extras=True)
    return tuple(
        WrittenField(
            name=field.name,
            written=units.written_name(field.name),
            annotation=hints[field.name],
            required=field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
            default=field.default,
        )
        for field in dataclasses.fields(record)
    )


_NOTHING = object()
"""What stands for a value that could not be read."""


def _nearest(wanted: object, known: Iterable[str]) -> str:
    """The nearest of some names, or all of them if none is near."""
    names = list(known)
    return nearest(wanted, names) or nearest(wanted, names, list_all_up_to=40)


class _Reader:
    """Walks a document along the annotations of records and collects what is wrong."""

    def __init__(self, document: object) -> None:
        self.document = document
        self.faults: list[Fault] = []

    def fault(self, message: str, path: Path) -> Any:
        self.faults.append(Fault(message, *place_of(self.document, path)))
        return _NOTHING

    def record(self, record: Any, found: object, path: Path) -> Any:
        if not isinstance(found, dict):
            return self.fault(f"expected a mapping of fields to values, found {shown(found)}.", path)
        before, values = len(self.faults), {}
        fields = written_fields(record)
        for field in fields:
            here = (*path, field.written)
            if field.written in found:
                values[field.name] = self.value(field.annotation, found[field.written], here)
            elif field.required:
                self.fault("this field is missing.", here)
        known = [field.written for field in fields]
        for key in found:
            if key not in known:
                self.fault(f"unknown field. {_nearest(key, known)}", (*path, key))
        if len(self.faults) > before:
            return _NOTHING
        try:
            return record(**values)
        except Contradiction as contradiction:
            return self.fault(str(contradiction), (*path, *contradiction.path))

    def value(self, annotation: Any, found: object, path: Path) -> Any:
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            marks = annotation.__metadata__
            kind = next((mark for mark in marks if isinstance(mark, Kind)), None)
            if kind is not None:
                return self.read(kind.read, found, path)
            return self.tagged(next(mark for mark in marks if isinstance(mark, Tagged)), found, path)
        if origin in (Union, types.UnionType):
            # An optional field: absent, or what the other alternative says. Nulls never get here.
            return self.value(next(a for a in arguments if a is not types.NoneType), found, path)
        if origin is Literal:
            if type(found) is type(arguments[0]) and found in arguments:
                return found
            return self.fault(f"expected {' or '.join(map(repr, arguments))}, found {shown(found)}.", path)
        if origin is tuple:
            return self.each(arguments[0], found, path)
        if origin is dict:
            if not isinstance(found, dict):
                return self.fault(f"expected a mapping of fields to values, found {shown(found)}.", path)
            return {key: self.value(arguments[1], value, (*path, key)) for key, value in found.items()}
        if dataclasses.is_dataclass(annotation):
            return self.record(annotation, found, path)
        if not isinstance(found, str):
            hint = "" if isinstance(found, dict | list) else "; quotes make it text"
            return self.fault(f"expected text, found {shown(found)}{hint}.", path)
        return found

    def each(self, annotation: Any, found: object, path: Path) -> Any:
        if not isinstance(found, list):
            return self.fault(f"expected a list, found {shown(found)}.", path)
        return tuple(self.value(annotation, entry, (*path, index)) for index, entry in enumerate(found))

    def read(self, read: Callable[[object], Any], found: object, path: Path) -> Any:
        try:
            return read(found)
        except ValueError as expected:
            return self.fault(f"expected {expected}, found {shown(found)}.", path)

    def tagged(self, mark: Tagged, found: object, path: Path) -> Any:
        record = self.record_of(mark, found, path)
        return _NOTHING if record is _NOTHING else self.record(record, found, path)

    def record_of(self, mark: Tagged, found: object, path: Path) -> Any:
        if not isinstance(found, dict):
            return self.fault(f"expected a mapping of fields to values, found {shown(found)}.", path)
        if mark.tag not in found and mark.default is None:
            return self.fault(f"the field {mark.tag} is missing: it says which form this is.", path)
        tag = found.get(mark.tag, mark.default)
        record = mark.by_tag.get(tag) if isinstance(tag, str) else None
        if record is None:
            return self.fault(f"unknown {mark.tag} {shown(tag)}. {_nearest(tag, mark.by_tag)}", (*path, mark.tag))
        return record
