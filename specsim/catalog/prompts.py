"""Prompts to measure on: the built-in ones, or a file of a user."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specsim.catalog.located import LocatedDict
from specsim.catalog.strict_yaml import read_yaml
from specsim.errors import Fault, InputError, Place, nearest, shown

KINDS = ("code", "prose", "dialogue", "copying")
"""What the built-in prompts ask for."""

_BUILT_IN = Path(__file__).with_name("built_in_prompts.yaml")
_FIELDS = ("name", "kind", "passage", "text")
_MOST_CHARACTERS = 100_000


@dataclass(frozen=True)
class Prompt:
    """A prompt.

    Attributes:
        name: Unique among those that are measured together.
        kind: What it asks for, "" if nobody says.
        group: Prompts of one group share a passage; a drafter that learns from other texts is not shown those.
        text: What a user writes.
    """

    name: str
    kind: str
    group: str
    text: str


def read_prompts(source: str | None, place: Place) -> tuple[Prompt, ...]:
    """The built-in prompts, those of some kinds (``"code,prose"``), or those of a file.

    A file is text with one prompt a line, JSON lines with ``prompt`` or ``text``, or YAML as the built-in file.

    Raises:
        InputError: If there is no such kind or file, or something is wrong in it.
    """
    if source is None:
        return _of_yaml(_BUILT_IN)
    path = Path(source)
    if path.is_file():
        if path.suffix.lower() in (".yaml", ".yml"):
            return _of_yaml(path)
        return _of_lines(path)
    kinds = [part.strip() for part in source.split(",")]
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise InputError(Fault(f"no such file or kind of prompts: {shown(unknown[0])}. {nearest(unknown[0], KINDS)}",
                               place))  # fmt: skip
    return tuple(prompt for prompt in _of_yaml(_BUILT_IN) if prompt.kind in kinds)


def _of_yaml(path: Path) -> tuple[Prompt, ...]:
    document = read_yaml(path)
    if document.get("format") != 1 or document.get("kind") != "prompts":
        raise InputError(Fault("expected format: 1 and kind: prompts.", Place(str(path), 1)))
    passages = document.get("passages", {})
    rows = document.get("prompts")
    if not isinstance(passages, dict) or not isinstance(rows, list) or not rows:
        raise InputError(
            Fault("expected prompts, a list, and passages, a mapping of names to texts.", Place(str(path), 1))
        )
    found: list[Prompt] = []
    for row in rows:
        if not isinstance(row, LocatedDict):
            raise InputError(Fault(f"expected a mapping with text, found {shown(row)}.", Place(str(path)), "prompts"))
        where = row.place
        _known(row, _FIELDS, where)
        passage, text = row.get("passage"), row.get("text")
        if not isinstance(text, str) or not text.strip():
            raise InputError(Fault("expected a text.", where, "text"))
        if passage is not None:
            if passage not in passages:
                raise InputError(Fault(f"no such passage. {nearest(passage, list(passages))}", where, "passage"))
            text = f"{text}\n\n{passages[passage]}"
        name = str(row.get("name", len(found) + 1))
        found.append(Prompt(name, str(row.get("kind", "")), str(passage or name), text))
    return _named_once(found, path)


def _of_lines(path: Path) -> tuple[Prompt, ...]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror}.", Place(str(path)))) from None
    except UnicodeDecodeError:
        raise InputError(Fault("is not a text file in UTF-8.", Place(str(path)))) from None
    found: list[Prompt] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if path.suffix.lower() in (".jsonl", ".json", ".ndjson"):
            found.append(_of_json(line, Place(str(path), number), len(found) + 1))
        else:
            name = str(len(found) + 1)
            found.append(Prompt(name, "", name, line.strip()))
    if not found:
        raise InputError(Fault("holds no prompt.", Place(str(path))))
    return _named_once(found, path)


def _of_json(line: str, place: Place, number: int) -> Prompt:
    try:
        entry: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError(Fault("not valid JSON: expected one value a line.", place)) from None
    if isinstance(entry, str):
        entry = {"text": entry}
    if not isinstance(entry, dict):
        raise InputError(Fault(f"expected a mapping with text, found {shown(entry)}.", place))
    _known(entry, ("name", "kind", "prompt", "text"), place)
    text = entry.get("text", entry.get("prompt"))
    if not isinstance(text, str) or not text.strip():
        raise InputError(Fault("expected a text.", place, "text"))
    name = str(entry.get("name", number))
    return Prompt(name, str(entry.get("kind", "")), name, text)


def _known(row: dict[str, Any], fields: Sequence[str], place: Place) -> None:
    for field in row:
        if field not in fields:
            raise InputError(Fault(f"unknown field. {nearest(field, fields)}", place, str(field)))


def _named_once(prompts: list[Prompt], path: Path) -> tuple[Prompt, ...]:
    names = [prompt.name for prompt in prompts]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(Fault(f"two prompts have the name {shown(twice)}.", Place(str(path))))
    long = next((prompt for prompt in prompts if len(prompt.text) > _MOST_CHARACTERS), None)
    if long is not None:
        message = f"the prompt {shown(long.name)} has more than {_MOST_CHARACTERS:,} characters."
        raise InputError(Fault(message, Place(str(path))))
    return tuple(prompts)
