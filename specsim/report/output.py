"""Output to the screen or to a file: a file appears whole or not at all, with its provenance beside it."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from specsim.errors import Fault, InputError, Place


@contextmanager
def whole_file(path: Path) -> Iterator[IO[str]]:
    """A text file that replaces ``path`` once it is complete, and leaves no trace if it is not.

    Raises:
        InputError: If the folder is missing or cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise InputError(_unwritable(path, error)) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            yield file
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InputError(_unwritable(path, error)) from None
        raise


def _unwritable(path: Path, error: OSError) -> Fault:
    return Fault(f"cannot write {path}: {error.strerror}.", Place(parameter="output"))


def write_provenance(path: Path, version: str, command: Iterable[str], resolved: dict[str, Any]) -> None:
    """Beside ``out.csv``, ``out.csv.json``: what made it, from which resolved inputs, with their hash."""
    text = json.dumps(resolved, sort_keys=True, ensure_ascii=False)
    record = {
        "specsim": version,
        "format": 1,
        "command": list(command),
        "inputs_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "seed": None,
        "inputs": resolved,
    }
    with whole_file(path.with_name(path.name + ".json")) as file:
        file.write(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
