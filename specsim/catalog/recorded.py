"""What engines and scripts recorded of acceptance, to checked numbers: counts in their order, rates, a mean length.

Read are: JSON lines of accepted counts, JSON with vLLM's metrics of each request, CSV files, vLLM's log lines, and
dumps of its Prometheus counters. What a file is follows from what stands in it, unless ``source`` says so.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from specsim.acceptance.fit import ASSUMED_ROUNDS, Counts, MeanLength, Rates
from specsim.catalog import recorded_vllm
from specsim.catalog.forms import FORMS, acceptance_document
from specsim.catalog.recorded_tables import counts_of_csv, counts_of_json, has_known_column
from specsim.catalog.records_of_rounds import BONUS, Found, Histogram, Rounds, SurvivalCounts, bonus_in_rates, fault
from specsim.errors import Fault, InputError, Place, nearest, shown

SOURCES = ("auto", "counts", "csv", "vllm")

_MOST_BYTES = 2**30


@dataclass(frozen=True, eq=False)
class Recorded:
    """What was recorded.

    Attributes:
        record: Counts in their order, rates by position, or a mean length.
        sources: Where it is from, one line for each file.
        remarks: What was left out, for the user to see.
        place: Where it stands, for messages.
    """

    record: Counts | Rates | MeanLength
    sources: tuple[str, ...]
    remarks: tuple[str, ...]
    place: Place = field(default_factory=lambda: Place(parameter="logs"))


def read_recorded(
    logs: Sequence[str],
    before: str | None = None,
    after: str | None = None,
    source: str = "auto",
    gamma: int | None = None,
) -> Recorded:
    """What some files recorded, or one acceptance written in a form with ``=``.

    Args:
        logs: Paths, or one form such as ``survival=0.75,0.45,0.3``.
        before: Dump of counters at the start of what is looked at.
        after: Dump at its end.
        source: One of ``SOURCES``.
        gamma: Draft length, where the files do not say.

    Raises:
        InputError: If a file is missing, is in none of the forms, or contradicts itself.
    """
    if source not in SOURCES:
        raise InputError(Fault(f"unknown source {shown(source)}. {nearest(source, SOURCES)}", _at("source")))
    if (before is None) != (after is None):
        missing = "after" if after is None else "before"
        raise InputError(Fault("counters need a dump before and one after.", _at(missing)))
    if before is not None and after is not None:
        if logs:
            raise InputError(Fault("counters are read from before and after alone; leave the logs out.", _at("logs")))
        texts = [_text(path, _at(name)) for path, name in ((before, "before"), (after, "after"))]
        counted = recorded_vllm.between((before, texts[0]), (after, texts[1]))
        _agrees(after, counted, gamma)
        found = _checked([counted], [_source(before, texts[0]), _source(after, texts[1])], gamma)
        return replace(found, place=Place(file=after))
    if not logs:
        raise InputError(Fault("expected a log, or counters before and after.", _at("logs")))
    if len(logs) == 1 and "=" in logs[0] and not Path(logs[0]).exists():
        return _form(logs[0], gamma)
    parts, told = list[Found](), []
    for path in logs:
        text, name = _text(path, _at("logs")), _STDIN if path == "-" else path
        parts.append(_read(name, text, source, gamma))
        _agrees(name, parts[-1], gamma)
        told.append(_source(name, text))
    whole = _checked(parts, told, gamma)
    return whole if len(logs) > 1 else replace(whole, place=Place(file=name))


_STDIN = "standard input"


def _agrees(path: str, found: Found, gamma: int | None) -> None:
    """Holds the draft length of the options against that of a file.

    Raises:
        InputError: If the file says another one.
    """
    if gamma is not None and found.gamma not in (None, gamma):
        raise InputError(Fault(f"{gamma} contradicts {path}, where drafts have {found.gamma} tokens.", _at("gamma")))


def _at(parameter: str) -> Place:
    return Place(parameter=parameter)


def _text(path: str, place: Place) -> str:
    file = Path(path)
    try:
        if path == "-":
            return _decoded(sys.stdin.buffer.read(), _STDIN)
        if file.is_dir():
            raise InputError(Fault(f"{path} is a folder, expected a file.", place))
        if not file.exists():
            raise InputError(Fault(f"no such file: {shown(path, 200)}.", place))
        if file.is_file() and file.stat().st_size > _MOST_BYTES:
            raise InputError(Fault(f"{path} has more than 1 GiB.", place))
        return _decoded(file.read_bytes(), path)
    except OSError as error:
        raise InputError(Fault(f"cannot read {shown(path, 200)}: {error.strerror}.", place)) from None


_PACKED = {
    b"\x1f\x8b": "this is a gzip file: unpack it first.",
    b"\x28\xb5\x2f\xfd": "this is a zstd file: unpack it first.",
    b"\xff\xfe": "this is UTF-16: save it as UTF-8.",
    b"\xfe\xff": "this is UTF-16: save it as UTF-8.",
}
"""What files that are no text in UTF-8 begin with."""


def _decoded(data: bytes, path: str) -> str:
    for begins, message in _PACKED.items():
        if data.startswith(begins):
            raise fault(path, 0, message)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise fault(path, line, f"not text in UTF-8: byte 0x{data[error.start]:02x}.") from None
    if not text.strip():
        raise fault(path, 0, "the file is empty.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _source(path: str, text: str) -> str:
    return f"{Path(path).name}, sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _read(path: str, text: str, source: str, gamma: int | None) -> Found:
    first = text.lstrip()[:1]
    if source in ("auto", "vllm") and recorded_vllm.LINE in text:
        return recorded_vllm.of_log(path, text)
    if source in ("auto", "vllm") and recorded_vllm.PREFIX in text and first not in "{[":
        return recorded_vllm.between(None, (path, text))
    of_others = next((how for mark, how in _OTHERS.items() if mark in text), "")
    is_csv = source == "csv" or Path(path).suffix.lower() == ".csv"
    if source in ("auto", "counts", "vllm") and _JSON.match(text) and not is_csv and not of_others:
        return counts_of_json(path, text, gamma)
    if is_csv or (source == "auto" and has_known_column(text)):
        return counts_of_csv(path, text, gamma)
    if source == "vllm":
        message = f"expected lines with {recorded_vllm.LINE!r}, counters {recorded_vllm.PREFIX}..., or metrics in JSON."
        raise fault(path, 1, message)
    raise fault(
        path,
        1,
        "expected JSON lines of accepted counts, a CSV file with a column accepted or rate, vLLM's log lines with "
        f"{recorded_vllm.LINE!r}, its counters, or its metrics of requests.{of_others}",
    )


_JSON = re.compile(r"\s*(\{|\[\s*([\[{\]]|-?[0-9.]+\s*[,\]])|-?[0-9.]+[^\S\n]*(\n|$))")
"""How a list of numbers or of what is in brackets begins, a mapping, or a number that has its line for itself."""

_OTHERS = {
    "accept len": " Log lines of SGLang are not read: their accept len is tokens per round, as in length=2.5@3.",
    "Speculative metrics:": (
        " Log lines of vLLM before its version 1 are not read: their system efficiency x (gamma + 1) is tokens per "
        "round, as in length=2.5@3."
    ),
}
"""What lines of other tools hold, and what can be given in their place."""


def _form(text: str, gamma: int | None) -> Recorded:
    kind = text.partition("=")[0].strip()
    known = ("survival", "conditional", "length", "drafted")
    if kind not in known:
        offered = nearest(kind, list(known)) if kind not in FORMS else "Known: survival, conditional, length, drafted."
        raise InputError(Fault(f"{shown(text)} holds nothing to fit. {offered}", _at("logs")))
    document, _ = acceptance_document(text, _at("logs"))
    if kind in ("length", "drafted"):
        at = document["gamma"]
        value = document.get("tokens_per_round", 1.0 + document.get("accepted_per_drafted", 0.0) * at)
        if not 1 <= value <= at + 1:
            message = f"a round at gamma {at} emits 1 to {at + 1} tokens, found {value:g}."
            raise InputError(Fault(message, _at("logs")))
        return Recorded(MeanLength(value, at), (text,), ())
    values = np.array(document[kind])
    if (values < 0).any() or (values > 1).any():
        hint = ", as fractions and not as percentages" if (values > 1).any() else ""
        raise InputError(Fault(f"expected numbers from 0 to 1{hint}, found {shown(values.tolist())}.", _at("logs")))
    survival = np.cumprod(values) if kind == "conditional" else values
    if bonus_in_rates(survival.tolist(), ASSUMED_ROUNDS):
        raise InputError(Fault(BONUS, _at("logs")))
    rates = SurvivalCounts("", 0, tuple(survival.tolist()), None, gamma or len(survival))
    return _checked([rates], [text], gamma, parameter="logs")


def _checked(found: list[Found], told: list[str], gamma: int | None, parameter: str | None = None) -> Recorded:
    """One record of all files.

    Raises:
        InputError: If they are of different sorts, or contradict themselves.
    """
    if len({type(one) for one in found}) > 1:
        what = " and ".join(sorted({one.what for one in found}))
        raise InputError(Fault(f"{what} do not go together: fit them one by one.", _at("logs")))
    remarks = tuple(dict.fromkeys(remark for one in found for remark in one.remarks))
    if isinstance(found[0], Rounds):
        parts = [one for one in found if isinstance(one, Rounds)]
        counts = Counts(
            np.concatenate([part.drafted for part in parts]),
            np.concatenate([part.accepted for part in parts]),
            np.concatenate([part.first for part in parts]),
            np.concatenate([part.proposed for part in parts]),
        )
        return Recorded(counts, tuple(told), remarks)
    if isinstance(found[0], Histogram):
        histograms = [one for one in found if isinstance(one, Histogram)]
        lengths = {one.gamma for one in histograms}
        if len(lengths) > 1:
            raise _mixed(histograms[-1].file, histograms[-1].line, lengths)
        counted = np.sum([one.counts for one in histograms], axis=0)
        rounds = int(counted.sum())
        if rounds == 0:
            raise fault(histograms[0].file, histograms[0].line, "no round was counted.")
        reached = np.cumsum(counted[::-1])[::-1][1:] / rounds
        return Recorded(Rates(tuple(reached.tolist()), histograms[0].gamma, rounds), tuple(told), remarks)
    rates = [one for one in found if isinstance(one, SurvivalCounts)]
    return Recorded(_rates(rates, gamma, parameter), tuple(told), remarks)


def _rates(rates: list[SurvivalCounts], gamma: int | None, parameter: str | None) -> Rates:
    lengths = {len(one.survival) for one in rates}
    if len(lengths) > 1:
        raise _mixed(rates[-1].file, rates[-1].line, lengths)
    weights = [one.rounds if one.rounds is not None else 1 for one in rates]
    survival = np.average([one.survival for one in rates], axis=0, weights=weights)
    known = [one.rounds for one in rates if one.rounds is not None]
    one = rates[0]
    place = Place(parameter=parameter) if parameter else Place(file=one.file, line=one.line or None)
    for position, (before, after) in enumerate(pairwise(survival), start=2):
        if after > before + 1e-9:
            raise InputError(
                Fault(
                    f"rates of all rounds cannot rise, yet position {position} has {after:.6g} and the one before it "
                    f"{before:.6g}. Are they conditional (accepted once all before were)?",
                    place,
                )
            )
    drafted = gamma or one.gamma or len(survival)
    if drafted < len(survival):
        message = f"expected a draft length of at least the {len(survival)} positions, found {drafted}."
        raise InputError(Fault(message, _at("gamma")))
    return Rates(tuple(survival.tolist()), drafted, sum(known) if len(known) == len(rates) else None)


def _mixed(file: str, line: int, lengths: set[int]) -> InputError:
    told = " and ".join(map(str, sorted(lengths)))
    return fault(
        file,
        line,
        f"draft lengths {told} are mixed, and rates or histograms of different lengths cannot be told apart: log "
        "counts in their order, with what was drafted.",
    )
