"""Request traces: Azure's LLM inference traces, BurstGPT, Mooncake; to arrivals and lengths.

Azure 2023 and 2024: CSV with TIMESTAMP, ContextTokens, GeneratedTokens. BurstGPT: CSV with Timestamp [s],
Request tokens, Response tokens. Mooncake: JSON lines with timestamp [ms], input_length, output_length.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from specsim.errors import Fault, InputError, Place, nearest, shown
from specsim.serving.requests import Requests
from specsim.specs.workload import TraceLoad

_MOST_TOKENS = 100_000_000
_COLUMNS = {
    "azure": ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    "burstgpt": ("Timestamp", "Request tokens", "Response tokens"),
    "mooncake": ("timestamp", "input_length", "output_length"),
}


@dataclass(frozen=True, eq=False)
class Trace:
    """What a file recorded.

    Attributes:
        requests: In the order of their arrival, which begins at 0.
        notes: What was left out or put in order, one sentence each, without the full stop.
    """

    requests: Requests
    notes: tuple[str, ...]


_PACKED = dict.fromkeys((".gz", ".zip", ".zst", ".xz", ".bz2"), "; unpack it first")

Row = tuple[int, float, int, int]
"""Line, time [s], prompt and output."""


def read_trace(path: Path, layout: str, place: Place, field: str = "file") -> Trace:
    """The requests of a trace.

    Args:
        path: The file.
        layout: ``auto`` tells it from the first line.
        place: Where the file was named, for messages.
        field: Path of the field there.

    Raises:
        InputError: If the file cannot be read, or a line of it is no request.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            head = file.readline()
            file.seek(0)
            found = list(_rows(file, head, layout, path, place, field))
    except UnicodeDecodeError:
        raise InputError(Fault(f"{path} is no text in UTF-8{_PACKED.get(path.suffix, '')}.", place, field)) from None
    except OSError as error:
        raise InputError(Fault(f"cannot read {path}: {error.strerror}.", place, field)) from None
    if not found:
        raise InputError(Fault(f"{path.name} holds no request.", place, field))
    lines, time, prompt, output = (np.array(column) for column in zip(*found, strict=True))
    notes = []
    failed = output == 0
    if failed.any():
        first = int(lines[failed][0])
        notes.append(f"{failed.sum():,} of {len(time):,} requests of {path.name} without output left out, the first in "
                     f"line {first}")  # fmt: skip
    empty = (prompt == 0) & ~failed
    if empty.any():
        notes.append(f"{empty.sum():,} requests of {path.name} without a prompt are given one of 1 token")
    kept = ~failed
    if not kept.any():
        raise InputError(Fault(f"no request of {path.name} has an output.", place, field))
    time, prompt, output, lines = time[kept], np.maximum(prompt[kept], 1), output[kept], lines[kept]
    late = np.flatnonzero(np.diff(time) < 0)
    if len(late):
        notes.append(f"{len(late):,} requests of {path.name} stand before an earlier one and were put in order, the "
                     f"first in line {int(lines[late[0] + 1])}")  # fmt: skip
    order = np.argsort(time, kind="stable")
    requests = Requests(
        time[order] - time.min(), prompt[order].astype(np.int64), output[order].astype(np.int64),
        np.zeros(len(time), dtype=np.int64),
    )  # fmt: skip
    return Trace(requests, tuple(notes))


def cut_and_scaled(trace: Requests, load: TraceLoad, place: Place, field: str) -> Requests:
    """The part of a trace that a load takes, with time run faster or slower.

    Raises:
        InputError: If nothing is left.
    """
    time = trace.arrival_seconds
    end = np.inf if load.duration_seconds is None else load.start_seconds + load.duration_seconds
    kept = (time >= load.start_seconds) & (time < end)
    if kept.sum() < 2:
        message = f"fewer than two requests arrive in the part that is cut out; the trace lasts {time[-1]:.6g} s."
        raise InputError(Fault(message, place, field))
    part = trace.where(kept)
    arrival = part.arrival_seconds - part.arrival_seconds[0]
    if arrival[-1] <= 0:
        raise InputError(Fault("all requests arrive at one moment; no rate follows.", place, field))
    speed = load.speed
    if load.requests_per_second is not None:
        speed = load.requests_per_second * float(arrival[-1]) / len(part)
    return part.at(arrival / speed)


def _rows(file: Any, head: str, layout: str, path: Path, place: Place, field: str) -> Iterator[Row]:
    kind = _layout_of(head, path, place, field) if layout == "auto" else layout
    if kind == "mooncake":
        yield from _json_rows(file, path)
    else:
        yield from _csv_rows(file, kind, path)


def _layout_of(head: str, path: Path, place: Place, field: str) -> str:
    for kind, columns in _COLUMNS.items():
        marks = head.lstrip().startswith("{") if kind == "mooncake" else columns[1] in head
        if marks:
            return kind
    known = ", ".join(f"{kind} ({', '.join(columns)})" for kind, columns in _COLUMNS.items())
    raise InputError(Fault(f"the layout of {path.name} is not told by its first line. Known: {known}.", place, field))


def _csv_rows(file: Any, kind: str, path: Path) -> Iterator[Row]:
    reader = csv.reader(file, skipinitialspace=True)
    header = [name.strip() for name in next(reader, [])]
    wanted = _COLUMNS[kind]
    for name in wanted:
        if name not in header:
            close = nearest(name, header, list_all_up_to=12)
            raise _fault(path, 1, f"expected a column {name} in a trace of the layout {kind}. {close}")
    at = [header.index(name) for name in wanted]
    time_of: Callable[[str], float] = _moment if kind == "azure" else float
    for row in reader:
        if not row or not any(row):
            continue
        line = reader.line_num
        if len(row) <= max(at):
            raise _fault(path, line, f"expected {len(header)} values, found {len(row)}.")
        try:
            time = time_of(row[at[0]])
        except ValueError:
            what = "a time such as 2023-11-16 18:17:03.97" if kind == "azure" else "a number of seconds"
            raise _fault(path, line, f"expected {what}, found {shown(row[at[0]])}.", wanted[0]) from None
        yield (
            line,
            _finite(time, path, line, wanted[0]),
            *(_tokens(row[i], path, line, name) for i, name in zip(at[1:], wanted[1:], strict=True)),
        )  # type: ignore[misc]


def _json_rows(file: Any, path: Path) -> Iterator[Row]:
    wanted = _COLUMNS["mooncake"]
    for line, text in enumerate(file, start=1):
        if not text.strip():
            continue
        try:
            entry = json.loads(text)
        except (json.JSONDecodeError, RecursionError):
            raise _fault(path, line, "not valid JSON; expected one request a line.") from None
        if not isinstance(entry, dict):
            raise _fault(path, line, f"expected a mapping with {', '.join(wanted)}, found {shown(entry)}.")
        for name in wanted:
            if name not in entry:
                raise _fault(path, line, "this field is missing.", name)
        time = entry[wanted[0]]
        if isinstance(time, bool) or not isinstance(time, int | float):
            raise _fault(path, line, f"expected a number of milliseconds, found {shown(time)}.", wanted[0])
        tokens = (_tokens(entry[name], path, line, name) for name in wanted[1:])
        yield line, _finite(time / 1e3, path, line, wanted[0]), *tokens  # type: ignore[misc]


_MOMENT = re.compile(r"(.*:\d\d)(\.\d+)?(.*)")


def _moment(text: str) -> float:
    """A time of Azure's traces in seconds; they have more digits of a second than a datetime holds."""
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    moment = datetime.fromisoformat(match[1] + match[3])
    start = datetime(2020, 1, 1, tzinfo=moment.tzinfo)
    return (moment - start).total_seconds() + float(match[2] or 0)


def _finite(time: float, path: Path, line: int, field: str) -> float:
    if not abs(time) < 1e15:
        raise _fault(path, line, f"expected a time, found {shown(time)}.", field)
    return time


def _tokens(value: Any, path: Path, line: int, field: str) -> int:
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= _MOST_TOKENS:
        found = shown(value) if value != "" else "nothing"
        raise _fault(path, line, f"expected a number of tokens from 0, found {found}.", field)
    return number


def _fault(path: Path, line: int, message: str, field: str = "") -> InputError:
    return InputError(Fault(message, Place(file=str(path), line=line), field))
