"""Files of published measurements: those of the catalogue, and those of a user in the same layout."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from specsim.catalog import library
from specsim.catalog.located import LocatedDict, LocatedList
from specsim.catalog.strict_yaml import read_yaml, read_yaml_rows
from specsim.catalog.validate import validate, written_fields
from specsim.errors import Fault, InputError, shown
from specsim.specs.measurement import Measurement

FOLDER = "evidence/measurements"
_MESSAGES = dict.fromkeys(("latency_us_by_bytes", "allreduce_us_by_bytes"), "latency_us_by_message")
"""Keys of curves over the size of a message."""


Filling = Callable[[LocatedDict, int], None]


@lru_cache
def shipped() -> tuple[Measurement, ...]:
    """All measurements of the catalogue, in the order of their files."""
    files = sorted((library.root() / FOLDER).glob("*.yaml"))
    return tuple(row for file in files for row in read_measurements(file)[0])


def read_measurements(path: Path, filled_in: Filling | None = None) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """The rows of a file, and remarks about keys that nothing here reads.

    Args:
        path: A YAML list of rows.
        filled_in: Puts into a row what it may leave out, told its number.

    Raises:
        InputError: With one fault for everything that is wrong, or if two rows have the same id.
    """
    return measurements_of(read_yaml_rows(path), path, filled_in)


def measurements_of(
    documents: LocatedList, path: Path, filled_in: Filling | None = None
) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """The same for rows that are read already."""
    known = {field.written for field in written_fields(Measurement)}
    rows, faults, unread = list[Measurement](), list[Fault](), set[str]()
    seen: dict[str, LocatedDict] = {}
    for number, document in enumerate(documents, start=1):
        if filled_in is not None:
            filled_in(document, number)
        fields = LocatedDict({}, document.place, {})
        for key, value in document.items():
            name = _MESSAGES.get(key, key)
            if name not in known:
                unread.add(key)
                continue
            fields[name], fields.places[name] = value, document.places.get(key, document.place)
        try:
            row = validate(Measurement, fields)
        except InputError as error:
            faults.extend(error.faults)
            continue
        if row.id in seen:
            message = f"the id {shown(row.id)} stands on line {seen[row.id].place.line} already."
            faults.append(Fault(message, fields.places["id"], "id"))
        seen[row.id] = fields
        rows.append(row)
    if faults:
        raise InputError(faults)
    remarks = [f"{path}: keys that nothing reads: {', '.join(sorted(unread))}."] if unread else []
    return tuple(rows), tuple(remarks)


def read_aliases(path: Path) -> dict[str, str]:
    """Names of a source to names of the catalogue or files, from a YAML mapping.

    Raises:
        InputError: If it is no mapping of names to names.
    """
    document = read_yaml(path)
    faults = [
        Fault(f"expected the name of a card or a YAML file, found {shown(value)}.", document.places[key], key)
        for key, value in document.items()
        if not isinstance(value, str | int) or isinstance(value, bool)
    ]
    if faults:
        raise InputError(faults)
    beside = path.parent
    return {
        key: str(beside / str(value)) if library.is_path(str(value)) else str(value) for key, value in document.items()
    }
