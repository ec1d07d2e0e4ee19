"""Where the catalogues lie, and how a name, an alias or a path becomes a card."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from specsim.catalog.located import LocatedDict, place_of
from specsim.catalog.strict_yaml import parse_yaml, read_yaml
from specsim.errors import Fault, InputError, Place, nearest, shown

_PACKAGE = Path(__file__).resolve().parents[1]


@lru_cache
def root() -> Path:
    """The folder that holds the catalogues.

    A wheel carries them inside the package; in a checkout they stand beside the package, which counts only if
    that folder holds this project's own pyproject.toml, and not any folder that happens to be called hardware.
    """
    packaged = _PACKAGE / "_catalog"
    if packaged.is_dir():
        return packaged
    checkout = _PACKAGE.parent
    project = checkout / "pyproject.toml"
    if project.is_file() and 'name = "specsim-llm"' in project.read_text(encoding="utf-8"):
        return checkout
    raise RuntimeError(f"the installation is incomplete: no catalogues at {packaged} or {checkout}")


@dataclass(frozen=True)
class Shelf:
    """One kind of card: its folder below the root, what people call it, and the kind that its files state."""

    kind: str
    folder: str
    what: str
    stated: str


SHELVES = {
    shelf.kind: shelf
    for shelf in (
        Shelf("hardware", "hardware", "accelerator", "hardware"),
        Shelf("node", "hardware/nodes", "node", "node"),
        Shelf("kernels", "hardware/kernels", "kernel family", "kernels"),
        Shelf("model", "models", "model", "model"),
        Shelf("head", "models/heads", "draft head", "head"),
        Shelf("drafter", "drafters", "drafter", "drafter"),
        Shelf("runtime", "runtimes", "runtime", "runtime"),
        Shelf("acceptance", "evidence/acceptances", "collection of published acceptances", "acceptances"),
        Shelf("tree", "evidence/trees", "token tree", "tree"),
        Shelf("scenario", "scenarios", "scenario", "sweep"),
        Shelf("capacity", "scenarios/capacity", "question about capacity", "capacity"),
    )
}


def names(kind: str) -> list[str]:
    """Catalogue names of one kind, sorted."""
    return sorted(path.stem for path in (root() / SHELVES[kind].folder).glob("*.yaml"))


def find(kind: str, wanted: str, asked_at: Place | None = None, beside: Path | None = None, field: str = "") -> Path:
    """The file of a card, by catalogue name, alias, or path of a YAML file.

    Args:
        kind: A key of ``SHELVES``.
        wanted: What the user wrote.
        asked_at: Where the user wrote it, for messages.
        beside: Folder to which a relative path refers; the working directory if absent.
        field: Path of the field in which the user wrote it, for messages.

    Raises:
        InputError: With the nearest known names, if there is no such card.
    """
    shelf = SHELVES[kind]
    if is_path(wanted) or "/" in wanted:
        path = _existing((beside or Path()) / wanted, asked_at, field)
        if path is not None:
            return path
    if is_path(wanted):
        name = known_name(kind, Path(wanted).stem)
        hint = f" The catalogue has {name}, without a suffix." if name is not None else ""
        raise InputError(Fault(f"no such file: {shown(wanted, 200)}.{hint}", asked_at or Place(), field))
    name = known_name(kind, wanted)
    if name is not None:
        return root() / shelf.folder / f"{name}.yaml"
    raise no_such_name((kind,), wanted, asked_at or Place(), field)


def no_such_name(kinds: tuple[str, ...], wanted: str, asked_at: Place, field: str) -> InputError:
    """That no card of some kinds has a name, with the nearest names that are known."""
    close = nearest(comparable(wanted), sorted(name for kind in kinds for name in _known_names(kind)))
    cards = (shelf for shelf in SHELVES.values() if shelf.kind != "acceptance")
    other = next((other for other in cards if known_name(other.kind, wanted) is not None), None)
    if other is not None:
        close = f"That is the name of a {other.what}."
    *others, last = (SHELVES[kind].what for kind in kinds)
    what = f"{', '.join(others)} or {last}" if others else last
    lists = f"{', '.join(kinds[:-1])} or {kinds[-1]}" if len(kinds) > 1 else kinds[0]
    see = "" if kinds == ("capacity",) else f" See: specsim catalog list {lists}."
    message = f"no {what} is called {shown(wanted)}. {close}{see}"
    return InputError(Fault(message.replace("  ", " ").strip(), asked_at, field))


def is_shipped(file: str) -> bool:
    """Whether a file is a card of the catalogue."""
    return Path(file).is_relative_to(root())


def known_name(kind: str, name: str) -> str | None:
    """The catalogue name that a name or an alias stands for, if there is one."""
    return _known_names(kind).get(comparable(name))


def is_path(wanted: str) -> bool:
    """Whether a text can only be the path of a YAML file, and not a name."""
    return wanted.endswith((".yaml", ".yml"))


def file_at(wanted: str, asked_at: Place, beside: Path | None, field: str) -> Path:
    """An existing file by its path.

    Raises:
        InputError: If there is no such file.
    """
    path = _existing((beside or Path()) / wanted, asked_at, field)
    if path is None:
        raise InputError(Fault(f"no such file: {shown(wanted, 200)}.", asked_at, field))
    return path


def _existing(path: Path, asked_at: Place | None, field: str) -> Path | None:
    try:
        if path.is_dir():
            raise InputError(Fault(f"{path} is a folder, expected a YAML file.", asked_at or Place(), field))
        return path if path.exists() else None
    except OSError:
        # A name that is too long, for one, cannot be the name of a file.
        return None


def read_card(
    kind: str, wanted: str, asked_at: Place | None = None, beside: Path | None = None, field: str = ""
) -> LocatedDict:
    """The document of a card, by catalogue name, alias, or path of a YAML file; its fields are not validated yet.

    Raises:
        InputError: If there is no such card, or it is of another format or kind.
    """
    document = read_yaml(find(kind, wanted, asked_at, beside, field))
    check_head(document, SHELVES[kind].stated)
    return document


def check_head(document: LocatedDict, kind: str | None) -> None:
    """Refuse a document of another format or kind before its fields are looked at: all of them would look wrong.

    Args:
        document: The document.
        kind: The kind that it must state if it states any; None if its kind says something else.

    Raises:
        InputError: If format or kind is not the expected one.
    """
    for field, expected in (("format", 1), ("kind", kind)):
        found = document.get(field, expected)
        if expected is not None and (type(found) is not type(expected) or found != expected):
            raise InputError(
                Fault(f"expected {field} {expected}, found {shown(found)}.", *place_of(document, (field,)))
            )


def comparable(name: str) -> str:
    """A name without case and punctuation that people vary: ``Meta-Llama_3 8B`` is ``meta-llama-3-8b``."""
    return re.sub(r"[\s_/]+", "-", name.strip().lower())


@lru_cache
def _known_names(kind: str) -> dict[str, str]:
    """Comparable name or alias to catalogue name; reads one line of each card and not the whole of it."""
    known: dict[str, str] = {}
    for path in sorted((root() / SHELVES[kind].folder).glob("*.yaml")):
        known[comparable(path.stem)] = path.stem
        line = re.search(r"^aliases:.*$", path.read_text(encoding="utf-8"), re.MULTILINE)
        for alias in parse_yaml(line[0], str(path))["aliases"] if line else ():
            known.setdefault(comparable(str(alias)), path.stem)
    return known


def template(kind: str) -> str:
    """The text of an empty card of one kind, to fill in."""
    return (_PACKAGE / "catalog" / "templates" / f"{kind}.yaml").read_text(encoding="utf-8")
