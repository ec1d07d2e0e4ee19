"""Output to a file: it appears whole or not at all, with its provenance beside it."""

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
def whole_file(path: Path, parameter: str = "output") -> Iterator[IO[str]]:
    """A text file that replaces ``path`` once it is complete, and leaves no trace if it is not.

    A link is followed and a file that exists keeps its permissions; devices, pipes and folders are left alone. Faults
    name the parameter that the path was given as.

    Raises:
        InputError: If the file cannot be written there.
    """
    try:
        target = path.resolve(strict=False)
        if target.exists() and not target.is_file():
            raise InputError(_fault(path, "it is no regular file", parameter))
        mode = target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~_umask()
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".part")
    except (OSError, RuntimeError) as error:
        raise InputError(_fault(path, _reason(error), parameter)) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            yield file
        Path(name).chmod(mode)
        Path(name).replace(target)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InputError(_fault(path, _reason(error), parameter)) from None
        raise


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _reason(error: Exception) -> str:
    # Resolving a loop of links is a RuntimeError.
    return (error.strerror or str(error)) if isinstance(error, OSError) else "links lead in a circle"


def _fault(path: Path, why: str, parameter: str) -> Fault:
    return Fault(f"cannot write {path}: {why}.", Place(parameter=parameter))


@contextmanager
def with_provenance(
    path: Path,
    version: str,
    command: Iterable[str],
    resolved: dict[str, Any],
    seed: int | None = None,
    parameter: str = "output",
) -> Iterator[IO[str]]:
    """A file like ``whole_file``; beside ``out.csv``, ``out.csv.json``: what made it from which inputs."""
    text = json.dumps(resolved, sort_keys=True)
    record = {
        "specsim": version,
        "format": 1,
        "command": list(command),
        "inputs_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "seed": seed,
        "inputs": resolved,
    }
    beside = path.with_name(path.name + ".json")
    with whole_file(path, parameter) as file, whole_file(beside, parameter) as provenance:
        yield file
        provenance.write(json.dumps(record, indent=2) + "\n")
