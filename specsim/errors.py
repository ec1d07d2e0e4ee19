"""What a user did wrong, said in a way that helps: where, what was expected, what was found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True)
class Place:
    """Where a value was written: a line of a file, or a parameter of a function (an option of its command)."""

    file: str | None = None
    line: int | None = None
    parameter: str | None = None

    def __str__(self) -> str:
        if self.parameter is not None:
            return self.parameter
        if self.file is None:
            return ""
        return self.file if self.line is None else f"{self.file}, line {self.line}"


@dataclass(frozen=True)
class Fault:
    """One mistake in what a user wrote.

    Attributes:
        message: What was expected and what was found, as one or two sentences.
        place: The file and line, or the parameter.
        path: Path of the field inside its document, such as ``target.precision``.
    """

    message: str
    place: Place = Place()
    path: str = ""

    def __str__(self) -> str:
        where = [str(self.place)] if str(self.place) else []
        # A parameter is its own field; a file needs the path of the field inside it.
        if self.path and self.place.parameter is None:
            where.append(self.path)
        return f"{', '.join(where)}: {self.message}" if where else self.message


class Contradiction(ValueError):
    """Fields that are right one by one and wrong together.

    Args:
        sentence: What contradicts what, as a whole sentence.
        path: Written names, and numbers in lists, on the way to the field to look at; nothing if none stands out.
    """

    def __init__(self, sentence: str, *path: str | int) -> None:
        super().__init__(sentence)
        self.path = path


class SpecsimError(Exception):
    """Base of every error that specsim raises on purpose."""


class InputError(SpecsimError):
    """One or more faults in what a user wrote; the text is one short paragraph per fault."""

    def __init__(self, faults: Fault | Iterable[Fault] | str) -> None:
        if isinstance(faults, str):
            faults = Fault(faults)
        self.faults = (faults,) if isinstance(faults, Fault) else tuple(faults)
        super().__init__("\n".join(dict.fromkeys(map(str, self.faults))))


def nearest(name: object, known: Sequence[str], *, list_all_up_to: int = 12) -> str:
    """A sentence that offers the known names nearest to an unknown one.

    >>> nearest("h10", ["h100-sxm5", "a10", "l4"])
    'Nearest: a10, h100-sxm5. Known: h100-sxm5, a10, l4.'
    """
    by_lower = {entry.lower(): entry for entry in reversed(known)}
    close = [by_lower[entry] for entry in get_close_matches(str(name).lower(), list(by_lower), n=3, cutoff=0.5)]
    sentences = [f"Nearest: {', '.join(close)}."] if close else []
    if len(known) <= list_all_up_to:
        sentences.append(f"Known: {', '.join(known)}.")
    return " ".join(sentences)


def shown(value: object, most: int = 60) -> str:
    """A value that was found, as it would be written in YAML, and short.

    >>> shown({"rate": [True, float("inf")]}), shown("80 gb")
    ('{rate: [true, .inf]}', "'80 gb'")
    """
    text = _flow(value)
    return text if len(text) <= most else text[: most - 3] + "..."


def _flow(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        text = repr(value)
        return text.replace("inf", ".inf").replace("nan", ".nan")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return repr(value)
