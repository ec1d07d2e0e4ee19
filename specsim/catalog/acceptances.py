"""An acceptance as it is written, to the acceptance that it stands for: text, a file, or a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specsim.catalog import evidence, library
from specsim.catalog.forms import acceptance_document, bare_list
from specsim.catalog.located import LocatedDict, LocatedList, place_of
from specsim.catalog.strict_yaml import read_yaml
from specsim.errors import Fault, InputError, Place
from specsim.specs.drafter import DRAFTS
from specsim.specs.fields import Tagged

NO_SINGLE_DRAFTS = "tokens per round of a tree do not say how drafts are accepted one by one; expected ranks or a rate."
"""Of an acceptance of kind tree_length, where drafts are looked at one by one."""


def acceptance_of(draft: LocatedDict, target: Any, path: str, folder: Path | None, remarks: list[str]) -> Any:
    """The document of the acceptance of one draft; what is no shorthand stays as it is written.

    Args:
        draft: The draft, with its method.
        target: The target, for published values.
        path: Path of the acceptance in the scenario, for messages.
        folder: Where relative paths start.
        remarks: Takes how ambiguous input was read.

    Raises:
        InputError: If text, file or task stand for nothing.
    """
    place = draft.places.get("acceptance", draft.place)
    written = _spelled_out(draft.get("acceptance", {"kind": "task"}), place, path, folder, remarks)
    if isinstance(written, dict) and written.get("kind") == "task":
        written = _published(written, draft, target, place, path)
    return _with_parts(written, place, path, folder, remarks)


def acceptance_alone(written: Any, place: Place, folder: Path | None, remarks: list[str]) -> Any:
    """The document of an acceptance that belongs to no draft, as ``simulate`` takes it.

    Raises:
        InputError: If text or file stand for nothing, or for what is published about a draft.
    """
    found = _spelled_out(written, place, "acceptance", folder, remarks)
    if isinstance(found, dict) and found.get("kind") == "task":
        message = "published values belong to a draft; give an acceptance of your own, such as rate=0.7, or a file."
        raise InputError(Fault(message, place, "acceptance"))
    return _with_parts(found, place, "acceptance", folder, remarks)


def _spelled_out(written: Any, place: Place, path: str, folder: Path | None, remarks: list[str]) -> Any:
    """The document that text or a file stands for; any other as it is."""
    if isinstance(written, str) and library.is_path(written):
        return _in_file(library.file_at(written, place, folder, path), remarks)
    return _on_one_line(written, place, path, remarks)


def _with_parts(
    written: Any, asked_at: Place, path: str, folder: Path | None, remarks: list[str], files: tuple[Path, ...] = ()
) -> Any:
    """An acceptance whose parts, classes or entries of a table, are spelled out like itself.

    ``files`` are those that it stands in, one inside the other.
    """
    kind = written.get("kind") if isinstance(written, dict) else None
    field = _PARTS.get(kind, "") if isinstance(kind, str) else ""
    parts = written.get(field) if field else None
    if not isinstance(parts, dict | list):
        return written
    own = written.place.file if isinstance(written, LocatedDict) else None
    files = files if own is None else (*files, Path(own).resolve())
    beside = Path(own).parent if own is not None else folder
    # In a file of its own the path of a field starts there.
    before = path if own in (None, asked_at.file) else ""
    filled: Any = LocatedDict(parts) if isinstance(parts, dict) else LocatedList(list(parts), Place(), [])
    if isinstance(parts, LocatedDict | LocatedList):
        filled.place, filled.places = parts.place, parts.places
    for key, part in parts.items() if isinstance(parts, dict) else enumerate(parts):
        if isinstance(part, dict) and "acceptance" in part:
            one = part.copy() if isinstance(part, LocatedDict) else LocatedDict(part)
            entry = f"[{key}]" if isinstance(parts, list) else f".{key}"
            where = f"{before}.{field}{entry}.acceptance".removeprefix(".")
            place = one.places.get("acceptance", one.place)
            inner = _spelled_out(one["acceptance"], place, where, beside, remarks)
            _check_part(inner, str(kind), one["acceptance"], files, place, where)
            one["acceptance"] = _with_parts(inner, place, where, beside, remarks, files)
            filled[key] = one
    whole = written.copy() if isinstance(written, LocatedDict) else LocatedDict(written)
    whole[field] = filled
    return whole


_PARTS = {"classes": "classes", "context": "table"}
"""The fields of the kinds of acceptance that hold others."""

_NEVER_PARTS = {"classes": ("classes", "context", "published", "task"), "context": ("context", "published", "task")}
"""Kinds that cannot stand in them."""


def _check_part(inner: Any, kind: str, written: Any, files: tuple[Path, ...], place: Place, path: str) -> None:
    """Refuses a part that cannot be one where it is written, and not in the file that it names.

    Raises:
        InputError: If it is of a kind that cannot stand there, or in a file that it stands in itself.
    """
    named = isinstance(written, str) and library.is_path(written)
    if named and isinstance(inner, LocatedDict) and inner.place.file and Path(inner.place.file).resolve() in files:
        raise InputError(Fault(f"{written} leads back to itself.", place, path))
    found = inner.get("kind") if isinstance(inner, dict) else None
    if found in _NEVER_PARTS[kind]:
        what = f"acceptance of kind {found}" + (f" ({written})" if named else "")
        raise InputError(
            Fault(
                f"{what} cannot stand inside acceptance of kind {kind}: give each part rates, a length or regimes.",
                place,
                path,
            )
        )


def _on_one_line(written: Any, place: Place, path: str, remarks: list[str]) -> Any:
    if isinstance(written, list) and written and all(isinstance(entry, int | float) for entry in written):
        raise InputError(Fault(bare_list(",".join(map(str, written))), place, path))
    if isinstance(written, bool) or not isinstance(written, str | int | float):
        return written
    document, remark = acceptance_document(str(written), place, path)
    if remark is not None:
        remarks.append(remark)
    return document


_HEAD = ("format", "name", "title", "sources", "notes")
"""What a file may say about itself beside its acceptance."""


def _in_file(path: Path, remarks: list[str]) -> Any:
    """The acceptance of a file: its field ``acceptance`` if it has one, and otherwise the file itself."""
    document = read_yaml(path)
    library.check_head(document, None)
    rest = LocatedDict({k: v for k, v in document.items() if k not in _HEAD}, document.place, document.places)
    if "acceptance" not in rest:
        return rest
    inner = rest.pop("acceptance")
    if rest:
        raise InputError([Fault("unknown field beside acceptance.", *place_of(document, (name,))) for name in rest])
    return _on_one_line(inner, document.places["acceptance"], "acceptance", remarks)


def _published(written: Any, draft: LocatedDict, target: Any, place: Place, path: str) -> Any:
    unknown = [name for name in written if name not in ("kind", "task")]
    if unknown:
        message = "unknown field. Known: kind, task."
        raise InputError([Fault(message, *_place_inside(written, name, place, path)) for name in unknown])
    known = [set(names_of(holder)) for holder in (target, draft)]
    method = "draft_model" if draft["method"] == "measured" else draft["method"]
    if not isinstance(method, str) or method not in Tagged("method", DRAFTS).by_tag:
        # The method is unknown; validation says so.
        return written
    if not evidence.chains(method):
        what = "of whole rounds or of trees" if method in library.names("acceptance") else "not collected here"
        message = f"what is published of the method {method} is {what}; give an acceptance, such as rate=0.7."
        raise InputError(Fault(message, place, path))
    asked_at = _place_inside(written, "task", place, path)
    found = evidence.published(method, known[0], known[1], written.get("task", "any"), *asked_at)
    return LocatedDict(found, place, dict.fromkeys(found, place))


def _place_inside(written: Any, field: str, place: Place, path: str) -> tuple[Place, str]:
    """Place and path of a field of something written at a place, or in a file of its own that is named there."""
    own = getattr(written, "places", {}).get(field, place)
    return own, field if own.file not in (None, place.file) else f"{path}.{field}"


def names_of(holder: Any) -> list[str]:
    """Comparable names of the model or the head that a served model or a draft holds."""
    model = (holder.get("model") or holder.get("head")) if isinstance(holder, dict) else None
    if not isinstance(model, dict):
        return []
    aliases = model.get("aliases", ())
    names = [model.get("name", ""), *(aliases if isinstance(aliases, list | tuple) else ())]
    return [library.comparable(str(name)) for name in names]
