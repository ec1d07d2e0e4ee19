"""Where the catalogues lie, and how a name, an alias or a path becomes a card."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from specsim.catalog.located import LocatedDict
from specsim.catalog.strict_yaml import parse_yaml, read_yaml
from specsim.errors import Fault, InputError, Place, nearest

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
    """One kind of card: its folder below the root, and what people call it."""

    kind: str
    folder: str
    what: str


SHELVES = {
    shelf.kind: shelf
    for shelf in (
        Shelf("hardware", "hardware", "accelerator"),
        Shelf("kernels", "hardware/kernels", "kernel family"),
        Shelf("model", "models", "model"),
        Shelf("runtime", "runtimes", "runtime"),
        Shelf("acceptance", "evidence/acceptances", "collection of published acceptances"),
        Shelf("scenario", "scenarios", "scenario"),
    )
}


def names(kind: str) -> list[str]:
    """Catalogue names of one kind, sorted."""
    return sorted(path.stem for path in (root() / SHELVES[kind].folder).glob("*.yaml"))


def find(kind: str, wanted: str, asked_at: Place | None = None, beside: Path | None = None) -> Path:
    """The file of a card, by catalogue name, alias, or path of a YAML file.

    Args:
        kind: A key of ``SHELVES``.
        wanted: What the user wrote.
        asked_at: Where the user wrote it, for messages.
        beside: Folder to which a relative path refers; the working directory if absent.

    Raises:
        InputError: With the nearest known names, if there is no such card.
    """
    shelf = SHELVES[kind]
    folder = root() / shelf.folder
    at = asked_at or Place()
    if wanted.endswith((".yaml", ".yml")) or "/" in wanted:
        path = (beside or Path()) / wanted
        if path.is_file():
            return path
        if wanted.endswith((".yaml", ".yml")):
            raise InputError(Fault(f"no such file: {wanted}.", at))
    exact = folder / f"{wanted}.yaml"
    if re.fullmatch(r"[\w.+-]+", wanted) and exact.is_file():
        return exact
    known = _known_names(folder)
    key = comparable(wanted)
    if key in known:
        return folder / f"{known[key]}.yaml"
    message = f"no {shelf.what} is called {wanted!r}. {nearest(key, sorted(known))} See: specsim catalog list {kind}."
    raise InputError(Fault(message.replace("  ", " "), at))


def read_card(kind: str, wanted: str, asked_at: Place | None = None, beside: Path | None = None) -> LocatedDict:
    """The document of a card, by catalogue name, alias, or path of a YAML file."""
    return read_yaml(find(kind, wanted, asked_at, beside))


def comparable(name: str) -> str:
    """A name without case and punctuation that people vary: ``Meta-Llama_3 8B`` is ``meta-llama-3-8b``."""
    return re.sub(r"[\s_/]+", "-", name.strip().lower())


@lru_cache
def _known_names(folder: Path) -> dict[str, str]:
    """Comparable name or alias to catalogue name; reads one line of each card and not the whole of it."""
    known: dict[str, str] = {}
    for path in sorted(folder.glob("*.yaml")):
        known[comparable(path.stem)] = path.stem
        line = re.search(r"^aliases:.*$", path.read_text(encoding="utf-8"), re.MULTILINE)
        for alias in parse_yaml(line[0], str(path))["aliases"] if line else ():
            known.setdefault(comparable(str(alias)), path.stem)
    return known
