"""Cards that may stand in place of a draft: heads and drafters, checked as a whole before they are used."""

from __future__ import annotations

import types
from collections.abc import Collection
from typing import Annotated, Any, Union, get_args, get_origin

from specsim.catalog.library import comparable
from specsim.catalog.located import place_of
from specsim.catalog.plausible import check_head
from specsim.catalog.validate import check_fields, validate, written_fields
from specsim.errors import Fault, InputError, nearest
from specsim.specs.drafter import DRAFTS, Drafter
from specsim.specs.fields import Kind, Tagged
from specsim.specs.head import Head

NOT_OF_A_CARD = ("acceptance", "assumptions")
"""Fields of a draft that are said where a card is used, or beside it."""

_METHODS = Tagged("method", DRAFTS)


def checked_head(document: Any, targets: Collection[str] = ()) -> Any:
    """The head that a card describes.

    Args:
        document: The card.
        targets: Names of a target that it may be made for beside the models of the catalogue.

    Raises:
        InputError: With one fault for everything that is wrong with it.
    """
    head = validate(Head, document)  # type: ignore[arg-type, var-annotated]
    _check_paths(document, type(head))
    if comparable(head.target) not in targets:
        check_head(head, document)
    return head


def checked_drafter(document: Any) -> Drafter:
    """The drafter that a card describes, its fields checked as far as they need no other card.

    Raises:
        InputError: With one fault for everything that is wrong with it.
    """
    found = validate(Drafter, document)
    fields = document["draft"]
    for field in NOT_OF_A_CARD:
        if field in fields:
            where = "where the drafter is used" if field == "acceptance" else "at the top of the card"
            raise InputError(
                Fault(f"a drafter's card has none here; say it {where}.", *place_of(document, ("draft", field)))
            )
    method = fields.get("method")
    if method is None:
        message = f"this field is missing. {nearest('', list(_METHODS.by_tag), list_all_up_to=40)}"
        raise InputError(Fault(message, *place_of(document, ("draft", "method"))))
    record = check_fields(document, ("draft",), _METHODS, but=NOT_OF_A_CARD)
    _check_paths(document, Drafter, record)
    return found


def _check_paths(document: Any, record: Any, draft: Any = None) -> None:
    """Refuse sources and assumptions of fields that a card cannot have."""
    faults = []
    for section in ("sources", "assumptions"):
        for path in document.get(section, {}):
            if path != "all" and not _is_field(path.split("."), record, draft):
                message = "no field has this path; a path is that of a field, such as draft.hit_rate, or all."
                if draft is None:
                    message = "no field has this path; a path is that of a field, such as attention.heads, or all."
                faults.append(Fault(message, *place_of(document, (section, path))))
    if faults:
        raise InputError(faults)


def _is_field(path: list[str], record: Any, draft: Any) -> bool:
    """Whether a dotted path leads to a field of a record; the draft of a drafter's card is of the record ``draft``."""
    first, *rest = path
    if draft is not None and first == "draft":
        return not rest or _is_field(rest, draft, None)
    fields = {field.written: field.annotation for field in written_fields(record)}
    return first in fields and (not rest or any(_is_field(rest, one, None) for one in _records(fields[first])))


def _records(annotation: Any) -> list[Any]:
    """The records that may stand in a field."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        if any(isinstance(mark, Kind) for mark in annotation.__metadata__):
            return []
        return [r for mark in annotation.__metadata__ if isinstance(mark, Tagged) for r in mark.records]
    if origin in (Union, types.UnionType):
        return [record for one in arguments for record in _records(one)]
    return [annotation] if hasattr(annotation, "__dataclass_fields__") else []
