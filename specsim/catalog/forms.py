"""Acceptance as people write it on one line: ``rate=0.8``, ``survival=0.75,0.45``, ``length=2.5@3``, ..."""

from __future__ import annotations

import re
from typing import Any

from specsim.catalog.located import LocatedDict
from specsim.errors import Fault, InputError, Place, nearest, shown

FORMS = {
    "rate": "rate=0.8 (accepted / examined drafts)",
    "conditional": "conditional=0.8,0.7,0.6 (given that all before were accepted)",
    "survival": "survival=0.75,0.45,0.30 (unconditional, what vLLM prints per position)",
    "drafted": "drafted=0.5@3 (accepted / drafted at gamma 3, what engines call acceptance rate)",
    "length": "length=2.5@3 (tokens per round at gamma 3, bonus included; of a tree length=2.34@<5,1,1,1>)",
    "ranks": "ranks=0.6,0.2,0.1 (of the children of rank 1, 2, 3 in a token tree)",
    "task": "task=chat (published values)",
}


_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_WHOLE = re.compile(r"[0-9]{1,18}")


def acceptance_document(text: str, place: Place, field: str = "") -> tuple[LocatedDict, str | None]:
    """The document of an acceptance written on one line, and a remark on how it was read.

    A bare number is read as ``rate=`` and the remark says so; a bare list is refused, since it has two readings.

    Args:
        text: What the user wrote.
        place: Where the user wrote it, for messages.
        field: Path of the field in which the user wrote it, for messages.

    Raises:
        InputError: If the text is in none of the forms.
    """
    try:
        document, remark = _read(text.strip())
    except ValueError as error:
        raise InputError(Fault(str(error), place, field)) from None
    return LocatedDict(document, place, dict.fromkeys(document, place)), remark


def bare_list(text: str) -> str:
    """Why a list of numbers alone is refused."""
    return (
        f"a bare list has two readings: conditional={text} (each given that all before were accepted) or "
        f"survival={text} (unconditional, what vLLM prints per position). Write the one that is meant."
    )


def _read(text: str) -> tuple[dict[str, Any], str | None]:
    form, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        return _bare(text)
    if form not in FORMS:
        raise ValueError(f"unknown form of acceptance {shown(form)}. {nearest(form, list(FORMS))}")
    if form == "task":
        return {"kind": "task", "task": value}, None
    if form == "rate":
        return {"kind": "independent", "rate": _number(value, form)}, None
    if form in ("conditional", "survival"):
        kind = "positional" if form == "conditional" else "survival"
        return {"kind": kind, form: [_number(part, form) for part in value.split(",")]}, None
    if form == "ranks":
        levels = [[_number(part, form) for part in level.split(",")] for level in value.split(";")]
        return {"kind": "ranks", "ranks": levels if len(levels) > 1 else levels[0]}, None
    share, at, gamma = value.partition("@")
    if not at:
        raise ValueError(f"expected the draft length after @, as in {FORMS[form]}, found {shown(text)}.")
    if form == "length" and set("<[/+") & set(gamma):
        return {"kind": "tree_length", "tokens_per_round": {gamma.strip(): _number(share, form)}}, None
    name = "accepted_per_drafted" if form == "drafted" else "tokens_per_round"
    return {"kind": form, name: _number(share, form), "gamma": _whole(gamma, form)}, None


def _bare(text: str) -> tuple[dict[str, Any], str | None]:
    if _NUMBER.fullmatch(text):
        remark = f"acceptance {text} is read as rate={text}: accepted drafts / examined drafts"
        return {"kind": "independent", "rate": float(text)}, remark
    if "," in text:
        raise ValueError(bare_list(text))
    if text in FORMS:
        raise ValueError(f"expected a value after it, as in {FORMS[text]}, found {shown(text)}.")
    if text.endswith("%"):
        raise ValueError(f"expected a fraction and not a percentage, as in {FORMS['rate']}, found {shown(text)}.")
    examples = ", ".join(example.partition(" ")[0] for example in FORMS.values())
    raise ValueError(f"expected an acceptance such as {examples}, or a YAML file, found {shown(text)}.")


def _number(text: str, form: str) -> float:
    if _NUMBER.fullmatch(text.strip()):
        return float(text)
    hint = " (a fraction, not a percentage)" if "%" in text else ""
    raise ValueError(f"expected a number{hint} as in {FORMS[form]}, found {shown(text.strip())}.")


def _whole(text: str, form: str) -> int:
    if _WHOLE.fullmatch(text.strip()):
        return int(text)
    raise ValueError(f"expected a whole draft length after @, as in {FORMS[form]}, found {shown(text.strip())}.")
