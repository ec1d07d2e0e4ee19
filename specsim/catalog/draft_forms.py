"""Drafters of the reference engine as they are written on one line: ``noise:0.1``, ``lookup:3..1``, ``a+b``."""

from __future__ import annotations

import re
from collections.abc import Callable

from specsim.errors import nearest, shown
from specsim.reference.recipes import Method, Recipe

FORMS: dict[str, str] = {
    "same": "same: the target's own weights",
    "noise": "noise:0.1: the target's weights with noise of .1 standard deviations",
    "layers": "layers:20: its first 20 layers",
    "skip": "skip:11..20: all but its layers 11 to 20",
    "bits": "bits:3: its weights rounded to 3 bits",
    "lookup": "lookup:3..1: what followed the last 3 (else 2, else 1) tokens before",
    "suffix": "suffix:2: what followed the longest suffix of at least 2 tokens, in this and earlier texts",
    "counts": "counts:3: trigram counts of earlier texts",
    "uniform": "uniform: any token",
}
"""Each form, and an example of it."""


def recipe(written: str) -> Recipe:
    """A drafter from its form.

    Raises:
        ValueError: With what was expected.
    """
    text = written.strip()
    if "+" in text:
        parts = tuple(recipe(part) for part in text.split("+"))
        return Recipe("+".join(part.label for part in parts), "merged", (), parts)
    name, colon, value = text.partition(":")
    if name not in FORMS:
        raise ValueError(f"unknown drafter {shown(written)}. {nearest(name, list(FORMS))}")
    wrong = ValueError(f"expected {FORMS[name]}; found {shown(written)}.")
    match name:
        case "same" | "uniform":
            if colon:
                raise wrong
            return Recipe(name, _method(name))
        case "noise":
            return _of(name, (_number(value, wrong, float, lambda sigma: 0 <= sigma <= 100),))
        case "layers" | "bits":
            most = 8 if name == "bits" else 1000
            return _of(name, (_number(value, wrong, int, lambda count: 1 <= count <= most),))
        case "skip":
            first, last = _range(value, wrong)
            if not 1 <= first <= last:
                raise wrong
            return Recipe(f"skip:{first}..{last}", "skip", (first, last))
        case "lookup":
            longest, shortest = _range(value, wrong) if colon else (3, 1)
            if not 1 <= shortest <= longest <= 100:
                raise wrong
            return Recipe(f"lookup:{longest}..{shortest}", "lookup", (longest, shortest))
    default, most = (2, 100) if name == "suffix" else (3, 8)
    least = 1 if name == "suffix" else 2
    if not colon:
        return _of(name, (default,))
    return _of(name, (_number(value, wrong, int, lambda count: least <= count <= most),))


def _method(name: str) -> Method:
    return name  # type: ignore[return-value]


def _of(name: str, values: tuple[float, ...]) -> Recipe:
    return Recipe(f"{name}:{values[0]:g}", _method(name), values)


def _number(text: str, wrong: ValueError, kind: type[int] | type[float], right: Callable[[float], bool]) -> float:
    try:
        found = kind(text)
    except ValueError:
        raise wrong from None
    if not right(found):
        raise wrong
    return found


def _range(text: str, wrong: ValueError) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,4})(?:\.\.(\d{1,4}))?", text.strip())
    if found is None:
        raise wrong
    return int(found[1]), int(found[2] or found[1])
