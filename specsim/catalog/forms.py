"""Acceptance as people write it on one line: ``rate=0.8``, ``survival=0.75,0.45``, ``length=2.5@3``, ..."""

from __future__ import annotations

from typing import Any

from specsim.catalog.located import LocatedDict
from specsim.errors import Fault, InputError, Place, nearest

FORMS = {
    "rate": "rate=0.8 (accepted / examined drafts)",
    "conditional": "conditional=0.8,0.7,0.6 (given that all before were accepted)",
    "survival": "survival=0.75,0.45,0.30 (unconditional, what vLLM prints per position)",
    "drafted": "drafted=0.5@3 (accepted / drafted at gamma 3, what engines call acceptance rate)",
    "length": "length=2.5@3 (tokens per round at gamma 3, bonus included)",
    "task": "task=chat (published values)",
}


def acceptance_document(text: str, place: Place) -> tuple[LocatedDict, str | None]:
    """The document of an acceptance written on one line, and a remark on how it was read.

    A bare number is read as ``rate=`` and the remark says so; a bare list is refused, since it has two readings.

    Raises:
        InputError: If the text is in none of the forms.
    """
    text = text.strip()
    form, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        return _bare(text, place)
    if form not in FORMS:
        raise InputError(Fault(f"unknown form of acceptance {form!r}. {nearest(form, list(FORMS))}", place))
    document: dict[str, Any]
    if form == "task":
        document = {"kind": "task", "task": value}
    elif form == "rate":
        document = {"kind": "independent", "rate": _number(value, form, place)}
    elif form in ("conditional", "survival"):
        kind = "positional" if form == "conditional" else "survival"
        document = {"kind": kind, form: [_number(part, form, place) for part in value.split(",")]}
    else:
        share, at, gamma = value.partition("@")
        if not at:
            raise InputError(Fault(f"expected the draft length after @, as in {FORMS[form]}, found {text!r}.", place))
        name = "accepted_per_drafted" if form == "drafted" else "tokens_per_round"
        document = {"kind": form, name: _number(share, form, place), "gamma": _whole(gamma, form, place)}
    return LocatedDict(document, place, dict.fromkeys(document, place)), None


def _bare(text: str, place: Place) -> tuple[LocatedDict, str | None]:
    if "," in text:
        raise InputError(
            Fault(
                f"a bare list has two readings: conditional={text} (each given that all before were accepted) or "
                f"survival={text} (unconditional, what vLLM prints per position). Write the one that is meant.",
                place,
            )
        )
    try:
        rate = float(text)
    except ValueError:
        raise InputError(
            Fault(
                f"expected an acceptance such as {'; '.join(FORMS.values())}; or a YAML file; found {text!r}.",
                place,
            )
        ) from None
    document = {"kind": "independent", "rate": rate}
    remark = f"acceptance {text} is read as rate={text}: accepted drafts / examined drafts"
    return LocatedDict(document, place, dict.fromkeys(document, place)), remark


def _number(text: str, form: str, place: Place) -> float:
    try:
        return float(text)
    except ValueError:
        hint = " (a fraction, not a percentage)" if "%" in text else ""
        raise InputError(
            Fault(f"expected a number{hint} as in {FORMS[form]}, found {text.strip()!r}.", place)
        ) from None


def _whole(text: str, form: str, place: Place) -> int:
    if not text.strip().isdigit():
        raise InputError(
            Fault(f"expected a whole draft length after @, as in {FORMS[form]}, found {text.strip()!r}.", place)
        )
    return int(text)
