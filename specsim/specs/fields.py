"""Kinds of fields: what may be written there, how it is read, how it is written back.

A record annotates its fields with these kinds; the catalogue walks the annotations to read documents, to write them
back and to make schemas for editors.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, dataclass_transform

from specsim import units
from specsim.specs.tree import Shape, read_shape, written_shape

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def record(cls: type[T]) -> type[T]:
    """A frozen, keyword-only dataclass whose annotations say what may be written in each field."""
    return dataclass(frozen=True, kw_only=True)(cls)


@dataclass(frozen=True, eq=False)
class Kind:
    """One kind of field.

    Attributes:
        read: From a YAML value to the value in the core; raises ValueError with what was expected.
        write: From the value in the core back to a YAML value.
        json_schema: The same for editors.
    """

    read: Callable[[object], Any]
    write: Callable[[Any], object]
    json_schema: dict[str, Any]


@dataclass(frozen=True)
class Tagged:
    """Marks a union of records of which one field (``kind``, say) tells which record is meant.

    Attributes:
        tag: The field.
        records: The records.
        default: What the field says where it is left out, None if it must be there.
    """

    tag: str
    records: tuple[type, ...]
    default: str | None = None

    @property
    def by_tag(self) -> dict[str, type]:
        """Each record by the word that calls for it."""
        return {str(f.default): r for r in self.records for f in dataclasses.fields(r) if f.name == self.tag}


_LARGEST_QUANTITY = 1e24
"""In SI units, beyond every machine and every wait; products stay finite."""

_SMALLEST_RATIO, _LARGEST_RATIO = 1e-9, 1e9

_LARGEST = 1_000_000_000
"""No count or length comes near it; products of several stay inside what floats and 64 bits hold."""


def _same(value: object) -> object:
    return value


def quantity(dimension: units.Dimension, *, positive: bool = False) -> Kind:
    """A number with a unit, written as a string such as ``"3.35 TB/s"``."""

    def read(value: object) -> float:
        number = dimension.parse(value)
        if positive and number == 0:
            raise ValueError(f'{dimension.name} above 0, such as "{dimension.example}"')
        if number > _LARGEST_QUANTITY:
            raise ValueError(f'{dimension.name} within reason, such as "{dimension.example}"')
        return number

    units_known = "|".join(map(re.escape, dimension.scales))
    pattern = rf"^\s*\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*({units_known})\s*$"
    return Kind(read, dimension.format, {"type": "string", "pattern": pattern, "examples": [dimension.example]})


def whole(minimum: int, maximum: int = _LARGEST) -> Kind:
    """A whole number of at least ``minimum``, and at most ``maximum``."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise ValueError(f"a whole number of at least {minimum}")
        if value > maximum:
            raise ValueError(f"a whole number of at most {maximum:,}")
        return value

    return Kind(read, _same, {"type": "integer", "minimum": minimum})


_LARGEST_FLOAT = math.nextafter(math.inf, 0)


def number(minimum: float, maximum: float = math.inf, *, open_minimum: bool = False) -> Kind:
    """A number without a unit, inside bounds, and of a size that keeps products finite."""
    bounds = f"from {minimum:g} to {maximum:g}" if math.isfinite(maximum) else f"of at least {minimum:g}"
    if open_minimum:
        bounds = f"above {minimum:g}" + (f", at most {maximum:g}" if math.isfinite(maximum) else "")

    def read(value: object) -> float:
        if isinstance(value, str) and value.strip().endswith("%"):
            raise ValueError(f"a number {bounds}, as a fraction and not as a percentage")
        fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST_FLOAT
        if not fits or not minimum <= value <= maximum or (open_minimum and value == minimum):  # type: ignore[operator]
            raise ValueError(f"a number {bounds}")
        found = float(value)  # type: ignore[arg-type]
        if found > _LARGEST_RATIO or (open_minimum and found - minimum < _SMALLEST_RATIO):
            raise ValueError(f"a number {bounds}, within reason")
        return found

    schema: dict[str, Any] = {"type": "number", "exclusiveMinimum" if open_minimum else "minimum": minimum}
    if math.isfinite(maximum):
        schema["maximum"] = maximum
    return Kind(read, _same, schema)


def flag() -> Kind:
    """True or false, and nothing that merely looks like it."""

    def read(value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError("true or false")
        return value

    return Kind(read, _same, {"type": "boolean"})


_DATE = re.compile(r"20[0-9]{2}-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01]))?")


def date() -> Kind:
    """A day or a month, as ISO 8601 writes them."""

    def read(value: object) -> str:
        if not isinstance(value, str) or _DATE.fullmatch(value) is None:
            raise ValueError("a date such as 2026-08-19, or 2026-08")
        return value

    return Kind(read, _same, {"type": "string", "pattern": f"^{_DATE.pattern}$", "examples": ["2026-08-19"]})


def choice(*names: str) -> Kind:
    """One of some words."""

    def read(value: object) -> str:
        # YAML gives `off` and `on` as text; only text can be one of the words.
        if value not in names:
            raise ValueError(f"one of {', '.join(names)}")
        return str(value)

    return Kind(read, _same, {"enum": list(names)})


def name() -> Kind:
    """What something is called: text on one line."""

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise ValueError("a name, as text (quotes make it text)")
        if not value.strip() or not value.isprintable():
            raise ValueError("a name on one line, of one character at least")
        return value

    return Kind(read, _same, {"type": "string", "minLength": 1})


def mapping() -> Kind:
    """Fields of another record, which are looked at where that record is made."""

    def read(value: object) -> dict[str, Any]:
        if not isinstance(value, dict) or not value:
            raise ValueError("a mapping of fields to values")
        return dict(value)

    return Kind(read, _same, {"type": "object"})


def tuple_of(kind: Kind, *, what: str) -> Kind:
    """A list, each entry of one kind, with at least one entry."""

    def read(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or not value:
            raise ValueError(f"a list of {what}")
        try:
            return tuple(map(kind.read, value))
        except ValueError as error:
            raise ValueError(f"a list of {what}, each {error}") from None

    return Kind(
        read,
        lambda values: [kind.write(v) for v in values],
        {"type": "array", "items": kind.json_schema, "minItems": 1},
    )


def number_or_list(kind: Kind, *, what: str) -> Kind:
    """One value, or a list of them; read as a tuple, and written as one value where there is only one."""
    several = tuple_of(kind, what=what)

    def read(value: object) -> tuple[Any, ...]:
        if isinstance(value, list | tuple):
            return tuple(several.read(value))
        return (kind.read(value),)

    return Kind(
        read,
        lambda values: kind.write(values[0]) if len(values) == 1 else several.write(values),
        {"anyOf": [kind.json_schema, several.json_schema]},
    )


def lists_by_level(kind: Kind, *, what: str) -> Kind:
    """One list for every level of a tree, or a list of lists, one for each level; read as a tuple of tuples."""
    one = tuple_of(kind, what=what)
    several = tuple_of(one, what=f"lists of {what}")

    def read(value: object) -> tuple[tuple[Any, ...], ...]:
        nested = isinstance(value, list | tuple) and any(isinstance(entry, list | tuple) for entry in value)
        return several.read(value) if nested else (one.read(value),)

    return Kind(
        read,
        lambda values: one.write(values[0]) if len(values) == 1 else several.write(values),
        {"anyOf": [one.json_schema, several.json_schema]},
    )


def tree() -> Kind:
    """A token tree: ``<2,2,1>``, ``8/8/64``, its parents, or the ranks on the way to each node."""
    return Kind(read_shape, written_shape, {"anyOf": [{"type": ["string", "array", "object"]}]})


def trees() -> Kind:
    """Token trees along an axis of a grid: one, or a list of them, each once."""
    one = tree()

    def read(value: object) -> tuple[Shape, ...]:
        entries = value if isinstance(value, list | tuple) else ()
        # Lists of lists are the paths of one tree, or several trees that are written as lists of parents.
        several = any(isinstance(entry, str | dict) for entry in entries) or (
            entries and all(map(_is_parents, entries))
        )
        found = tuple(map(one.read, entries)) if several else (one.read(value),)
        if len(set(found)) < len(found):
            raise ValueError("each tree of an axis once")
        return found

    return Kind(read, lambda values: [written_shape(value) for value in values], one.json_schema)


def _is_parents(entry: object) -> bool:
    return isinstance(entry, list | tuple) and -1 in entry


_WHOLE = re.compile(r"[0-9]{1,18}k?")
_RANGE = re.compile(rf"({_WHOLE.pattern})\s*\.\.\s*({_WHOLE.pattern})\s*(?:\*\s*([0-9]{{1,18}}))?")
_MOST_VALUES = 100_000

LONGEST_DRAFT = 1000
"""Nobody drafts more tokens a round than this."""


def _axis_number(text: str) -> int:
    return int(text.removesuffix("k")) * (1024 if text.endswith("k") else 1)


def _axis_values(part: object) -> Iterable[int]:
    """The numbers that one entry of an axis stands for: ``8``, ``"4k"``, ``"1..16"`` or ``"1..256*2"``.

    Raises:
        ValueError: With what was expected, or without a text where the entry is in none of these forms.
    """
    if isinstance(part, int) and not isinstance(part, bool):
        return (part,)
    text = str(part).strip()
    if _WHOLE.fullmatch(text) and isinstance(part, str):
        return (_axis_number(text),)
    match = _RANGE.fullmatch(text)
    if match is None or not isinstance(part, str):
        raise ValueError
    first, last, factor = _axis_number(match[1]), _axis_number(match[2]), match[3]
    if first > last:
        raise ValueError("a range that rises, such as 1..16")
    if factor is None:
        if last - first >= _MOST_VALUES:
            raise ValueError(f"a range of at most {_MOST_VALUES:,} numbers")
        return range(first, last + 1)
    if first < 1 or int(factor) < 2:
        raise ValueError("a range from 1 or more whose factor is 2 or more, such as 1..256*2")
    return [first * int(factor) ** k for k in range(last.bit_length() + 1) if first * int(factor) ** k <= last]


def length() -> Kind:
    """A number of tokens, where ``k`` stands for 1024 as it does along an axis."""
    number_of = whole(0)

    def read(value: object) -> int:
        written = isinstance(value, str) and _WHOLE.fullmatch(value)
        return int(number_of.read(_axis_number(str(value)) if written else value))

    return Kind(read, _same, {"type": ["integer", "string"]})


def axis(minimum: int, maximum: int = _LARGEST) -> Kind:
    """Whole numbers along one axis of a grid: a number, a list, a range ``1..16`` or a doubling ``1..256*2``."""
    expected = (
        f"whole numbers of at least {minimum}: a number, a list such as 1,8,32, a range such as 1..16 "
        "or a doubling such as 1..256*2; k stands for 1024"
    )

    def read(value: object) -> tuple[int, ...]:
        parts: Iterable[object] = value.split(",") if isinstance(value, str) else (value,)
        if isinstance(value, list | tuple):
            parts = value
        try:
            values = tuple(v for part in parts for v in _axis_values(part))
        except ValueError as error:
            raise ValueError(str(error) or expected) from None
        if not values or min(values) < minimum:
            raise ValueError(expected)
        if max(values) > maximum:
            raise ValueError(f"whole numbers of at most {maximum:,}")
        if len(set(values)) < len(values):
            raise ValueError("each number of an axis once")
        return values

    return Kind(read, list, {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "array"}]})


Bytes = Annotated[float, quantity(units.MEMORY, positive=True)]
BytesPerSecond = Annotated[float, quantity(units.BANDWIDTH, positive=True)]
OperationsPerSecond = Annotated[float, quantity(units.RATE, positive=True)]
Seconds = Annotated[float, quantity(units.TIME)]
PositiveSeconds = Annotated[float, quantity(units.TIME, positive=True)]
Watts = Annotated[float, quantity(units.POWER, positive=True)]
UsdPerHour = Annotated[float, quantity(units.PRICE, positive=True)]
Date = Annotated[str, date()]
Name = Annotated[str, name()]
Count = Annotated[int, whole(1)]
CountOrZero = Annotated[int, whole(0)]
Length = Annotated[int, length()]
DraftLength = Annotated[int, whole(1, LONGEST_DRAFT)]
Flag = Annotated[bool, flag()]
Probability = Annotated[float, number(0, 1)]
Fraction = Annotated[float, number(0, 1, open_minimum=True)]
Ratio = Annotated[float, number(0)]
PositiveRatio = Annotated[float, number(0, open_minimum=True)]
Factor = Annotated[float, number(1)]
Probabilities = Annotated[tuple[float, ...], tuple_of(number(0, 1), what="probabilities")]
ProbabilityByPosition = Annotated[tuple[float, ...], number_or_list(number(0, 1), what="probabilities")]
TreeShape = Annotated[Shape, tree()]
Trees = Annotated[tuple[Shape, ...], trees()]
RanksByLevel = Annotated[tuple[tuple[float, ...], ...], lists_by_level(number(0, 1), what="probabilities")]
