"""A journal of what was measured: every finished text a line, so that a long measurement can go on where it ended."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any

from specsim.errors import Fault, InputError, Place
from specsim.reference.decoding import Round
from specsim.reference.measuring import TextRun

Key = tuple[str, str, str]


class Journal:
    """An open journal.

    Attributes:
        done: Runs that it held when it was opened.
    """

    def __init__(self, file: Any, done: dict[Key, TextRun]) -> None:
        self._file = file
        self.done = done

    def add(self, run: TextRun) -> None:
        """Write a finished run, at once."""
        if run.key in self.done:
            return
        entry = {
            "text": run.text,
            "drafter": run.drafter,
            "shape": run.shape,
            "output": list(run.output),
            "prefill_seconds": run.prefill_seconds,
            "rounds": [list(astuple(r)) for r in run.rounds],
        }
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()


@contextmanager
def journal(path: str, settings: dict[str, Any], prompts: list[str]) -> Iterator[Journal]:
    """Open or begin a journal.

    Args:
        path: Of its file.
        settings: What runs depend on.
        prompts: Texts of the prompts, which they depend on too.

    Raises:
        InputError: If the file is no journal, or one of other settings.
    """
    head = settings | {"prompts": hashlib.sha256("\0".join(prompts).encode()).hexdigest()[:16]}
    file, place = Path(path), Place(parameter="journal")
    done: dict[Key, TextRun] = {}
    try:
        complete = _complete(file)
        if complete:
            found = json.loads(complete[0])["measure"]
            differing = [key for key in head if found.get(key) != head[key]]
            if differing:
                told = ", ".join(
                    f"{key} {found.get(key)!r} and not {head[key]!r}" if key != "prompts" else "other prompts"
                    for key in differing
                )
                raise InputError(Fault(f"belongs to another measurement: {told}.", Place(path)))
            runs = [_run(json.loads(line)) for line in complete[1:]]
            done = {run.key: run for run in runs}
    except (ValueError, KeyError, TypeError):
        raise InputError(Fault("is no journal of measure; name a new file.", Place(path))) from None
    except OSError as error:
        raise InputError(Fault(f"cannot read {path}: {error.strerror}.", place)) from None
    try:
        # A line that was cut off when a measurement was stopped is dropped.
        with file.open("w", encoding="utf-8") as opened:
            opened.write("".join(complete) if complete else json.dumps({"measure": head}) + "\n")
            opened.flush()
            yield Journal(opened, done)
    except OSError as error:
        raise InputError(Fault(f"cannot write {path}: {error.strerror}.", place)) from None


def _complete(file: Path) -> list[str]:
    if not file.exists():
        return []
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    return lines if not lines or lines[-1].endswith("\n") else lines[:-1]


def _run(entry: dict[str, Any]) -> TextRun:
    return TextRun(
        text=entry["text"],
        drafter=entry["drafter"],
        shape=entry["shape"],
        output=tuple(entry["output"]),
        rounds=tuple(Round(*fields) for fields in entry["rounds"]),
        prefill_seconds=entry["prefill_seconds"],
    )
