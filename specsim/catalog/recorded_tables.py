"""Recorded rounds in JSON and CSV: counts in their order, histograms, rates by position."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np

from specsim.catalog.records_of_rounds import Found, Histogram, Rounds, SurvivalCounts, fault
from specsim.errors import nearest, shown

_LONGEST = 1000
_STEPS = ("per_step_accepted", "per_step_drafted")
_BOTH = {"drafted", "gamma"}
_HISTOGRAMS = "acceptance_histogram_by_draft_length"


class _Order:
    """Rounds that are gathered request by request."""

    def __init__(self) -> None:
        self.accepted: list[int] = []
        self.drafted: list[int] = []
        self.proposed: list[int] = []
        self.first: list[bool] = []

    def add(self, accepted: list[int], drafted: list[int], new: bool = True, asked: list[int] | None = None) -> None:
        self.first += [new and index == 0 for index in range(len(accepted))]
        self.accepted += accepted
        self.proposed += drafted
        self.drafted += drafted if asked is None else asked

    def rounds(self) -> Rounds:
        return Rounds(np.array(self.drafted), np.array(self.accepted), np.array(self.first), np.array(self.proposed))


def counts_of_json(file: str, text: str, gamma: int | None) -> Found:
    """Counts of JSON lines, or of one JSON document: a list of requests, or one.

    A request is a list of accepted counts, or a mapping with ``accepted`` and ``drafted`` (numbers or lists), or holds
    vLLM's ``speculative_decoding`` metrics. With ``gamma`` beside ``drafted`` a drafter may run out of guesses.
    """
    entries = _entries(file, text)
    order, histograms, request = _Order(), list[Histogram](), object()
    for line, entry in entries:
        metrics = _metrics(entry)
        if metrics is not None:
            _of_metrics(file, line, metrics, order, histograms)
            continue
        if isinstance(entry, dict):
            unknown = [key for key in entry if key not in ("accepted", "drafted", "gamma", "request")]
            if "accepted" not in entry:
                known = "accepted, drafted, gamma, request, speculative_decoding"
                raise fault(file, line, f"expected a field accepted, found {shown(list(entry))}. Known: {known}.")
            if unknown:
                close = nearest(unknown[0], ["accepted", "drafted", "gamma", "request"])
                raise fault(file, line, f"unknown field. {close}", str(unknown[0]))
        accepted = entry.get("accepted") if isinstance(entry, dict) else entry
        drafted = entry.get("drafted", entry.get("gamma", gamma)) if isinstance(entry, dict) else gamma
        if drafted is None:
            message = "what was drafted is missing: add drafted to every line, or give the draft length as --gamma."
            raise fault(file, line, message)
        one = isinstance(accepted, int) and not isinstance(accepted, bool)
        made, given = _pair(file, line, accepted, drafted)
        asked = _asked(file, line, entry["gamma"], given) if isinstance(entry, dict) and set(entry) >= _BOTH else None
        same = one and (entry.get("request") if isinstance(entry, dict) else None) == request
        order.add(made, given, not same, asked)
        request = (entry.get("request") if isinstance(entry, dict) else None) if one else object()
    if histograms and order.accepted:
        raise fault(file, 1, "some requests have their counts in order and others a histogram: keep one sort.")
    if histograms:
        return _together(file, histograms)
    if not order.accepted:
        raise fault(file, 1, "no round was recorded.")
    return order.rounds()


def _entries(file: str, text: str) -> list[tuple[int, Any]]:
    """JSON values with their lines: one for each line, or those of one document."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    found = []
    for number, line in lines:
        try:
            found.append((number, json.loads(line)))
        except (json.JSONDecodeError, RecursionError) as error:
            whole = _document(text)
            if whole is not None:
                return whole
            reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
            raise fault(file, number, f"not valid JSON: {reason}.") from None
    if len(found) == 1 and isinstance(found[0][1], list) and any(isinstance(e, list | dict) for e in found[0][1]):
        return [(found[0][0], entry) for entry in found[0][1]]
    # Bare numbers, one a line, are the rounds of one request.
    if all(isinstance(entry, int) and not isinstance(entry, bool) for _, entry in found):
        return [(number, {"accepted": entry, "request": 0}) for number, entry in found]
    return found


def _document(text: str) -> list[tuple[int, Any]] | None:
    try:
        whole = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return None
    several = isinstance(whole, list) and any(isinstance(entry, list | dict) for entry in whole)
    return [(1, entry) for entry in whole] if several else [(1, whole)]


def _metrics(entry: Any) -> dict[str, Any] | None:
    """vLLM's metrics of one request, wherever they stand in its response."""
    if not isinstance(entry, dict):
        return None
    if any(field in entry for field in (*_STEPS, "acceptance_histogram", _HISTOGRAMS)):
        return entry
    for field in ("metrics", "speculative_decoding"):
        inside = _metrics(entry.get(field))
        if inside is not None:
            return inside
    return None


def _of_metrics(file: str, line: int, metrics: dict[str, Any], order: _Order, histograms: list[Histogram]) -> None:
    if _STEPS[0] in metrics:
        drafted = metrics.get(_STEPS[1], metrics.get("num_spec_tokens"))
        if drafted is None:
            raise fault(file, line, "what was drafted is missing.", _STEPS[1])
        order.add(*_pair(file, line, metrics[_STEPS[0]], drafted, _STEPS[0]))
        return
    by_length = metrics.get(_HISTOGRAMS)
    if isinstance(by_length, dict) and len([1 for counts in by_length.values() if any(counts)]) > 1:
        lengths = " and ".join(map(str, by_length))
        raise fault(
            file, line, f"draft lengths {lengths} are mixed, which looks like regimes in histograms: ask for detailed "
            "metrics, with per_step_accepted and per_step_drafted.", _HISTOGRAMS,
        )  # fmt: skip
    histogram = metrics.get("acceptance_histogram")
    if histogram is None and isinstance(by_length, dict) and by_length:
        histogram = next((counts for counts in by_length.values() if any(counts)), next(iter(by_length.values())))
    counts = _whole_numbers(file, line, histogram, "acceptance_histogram", None)
    if len(counts) < 2:
        raise fault(file, line, "expected counts of 0 to gamma accepted tokens.", "acceptance_histogram")
    histograms.append(Histogram(file, line, np.array(counts)))


def _together(file: str, histograms: list[Histogram]) -> Histogram:
    lengths = sorted({one.gamma for one in histograms})
    if len(lengths) > 1:
        mixed = f"draft lengths {' and '.join(map(str, lengths))} are mixed"
        message = f"{mixed}: fit the requests of one length alone, or log counts in their order."
        raise fault(file, histograms[-1].line, message)
    return Histogram(file, histograms[0].line, np.sum([one.counts for one in histograms], axis=0))


def _pair(file: str, line: int, accepted: Any, drafted: Any, field: str = "accepted") -> tuple[list[int], list[int]]:
    """Accepted and drafted tokens of some rounds, of equal number."""
    made = _whole_numbers(file, line, accepted, field, _LONGEST)
    given = _whole_numbers(file, line, drafted, "drafted", _LONGEST)
    if not isinstance(drafted, list):
        given = given * len(made)
    if len(given) != len(made):
        raise fault(file, line, f"{len(made)} rounds are accepted and {len(given)} drafted.", "drafted")
    for count, most in zip(made, given, strict=True):
        if count > most:
            raise fault(file, line, f"{count} tokens accepted of {most} drafted.", field)
    return made, given


def _asked(file: str, line: int, gamma: Any, drafted: list[int]) -> list[int]:
    """What was asked for in each round, no less than what was drafted."""
    asked = _whole_numbers(file, line, gamma, "gamma", _LONGEST)
    asked = asked if isinstance(gamma, list) else asked * len(drafted)
    if len(asked) != len(drafted):
        raise fault(file, line, f"{len(asked)} draft lengths are asked for in {len(drafted)} rounds.", "gamma")
    for count, most in zip(drafted, asked, strict=True):
        if count > most:
            raise fault(file, line, f"{count} tokens drafted where {most} were asked for.", "drafted")
    return asked


def _whole_numbers(file: str, line: int, value: Any, field: str, most: int | None) -> list[int]:
    values = value if isinstance(value, list) else [value]
    for entry in values:
        if isinstance(entry, bool) or not isinstance(entry, int) or entry < 0 or (most is not None and entry > most):
            bound = "" if most is None else f" to {most}"
            raise fault(file, line, f"expected whole numbers from 0{bound}, found {shown(entry)}.", field)
    return values


_COLUMNS = ("accepted", "drafted", "gamma", "request", "rounds", "position", "rate")


def counts_of_csv(file: str, text: str, gamma: int | None) -> Found:
    """Rows of a CSV file with a header.

    ``accepted``, and ``drafted`` or ``gamma`` or both, and ``request``: rounds in their order. ``accepted`` and
    ``rounds``: a histogram. ``position`` and ``rate``, and ``rounds``: rates by position.
    """
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    names = [str(name).strip() for name in reader.fieldnames or ()]
    unknown = [name for name in names if name not in _COLUMNS]
    if unknown:
        raise fault(file, 1, f"unknown column {shown(unknown[0])}. {nearest(unknown[0], _COLUMNS)}")
    reader.fieldnames = names
    rows = [(reader.line_num, row) for row in reader if any(value for value in row.values() if isinstance(value, str))]
    if not rows:
        raise fault(file, 1, "no row follows the header.")
    for line, row in rows:
        if None in row or None in row.values():
            raise fault(file, line, f"expected {len(names)} values.")
    if "rate" in names:
        return _rates_of_rows(file, names, rows, gamma)
    if "accepted" not in names:
        raise fault(file, 1, "expected a column accepted, or position and rate.")
    if "rounds" in names:
        return _histogram_of_rows(file, rows, gamma)
    order, request = _Order(), object()
    lengths = "drafted" if "drafted" in names else "gamma" if "gamma" in names else None
    if lengths is None and gamma is None:
        message = "what was drafted is missing: add a column drafted, or give the draft length as --gamma."
        raise fault(file, 1, message)
    for line, row in rows:
        drafted = _whole(file, line, row, lengths) if lengths is not None else gamma
        made, given = _pair(file, line, _whole(file, line, row, "accepted"), drafted)
        asked = _asked(file, line, _whole(file, line, row, "gamma"), given) if set(names) >= _BOTH else None
        order.add(made, given, row.get("request") != request, asked)
        request = row.get("request")
    return order.rounds()


def _whole(file: str, line: int, row: dict[str, str], column: str) -> int:
    try:
        return int(row[column])
    except ValueError:
        raise fault(file, line, f"expected a whole number, found {row[column]!r}.", column) from None


def _histogram_of_rows(file: str, rows: list[tuple[int, dict[str, str]]], gamma: int | None) -> Histogram:
    found: dict[int, int] = {}
    for line, row in rows:
        accepted, rounds = _whole(file, line, row, "accepted"), _whole(file, line, row, "rounds")
        if not 0 <= accepted <= (_LONGEST if gamma is None else gamma) or rounds < 0:
            bound = _LONGEST if gamma is None else gamma
            raise fault(
                file, line, f"expected 0 to {bound} accepted tokens and rounds from 0, found {accepted}, {rounds}."
            )
        if accepted in found:
            raise fault(file, line, f"{accepted} accepted tokens are there twice.", "accepted")
        found[accepted] = rounds
    longest = max(found) if gamma is None else gamma
    if longest == 0:
        raise fault(file, rows[-1][0], "no round accepted anything; give the draft length as --gamma.")
    return Histogram(file, rows[0][0], np.array([found.get(count, 0) for count in range(longest + 1)]))


def _rates_of_rows(file: str, names: list[str], rows: list[tuple[int, dict[str, str]]], gamma: int | None) -> Found:
    survival: list[float] = []
    rounds: int | None = None
    for line, row in rows:
        try:
            value = float(row["rate"])
        except ValueError:
            hint = "a fraction and not a percentage" if row["rate"].strip().endswith("%") else "a number"
            raise fault(file, line, f"expected {hint}, found {row['rate']!r}.", "rate") from None
        if not 0 <= value <= 1:
            hint = ", a fraction and not a percentage" if value > 1 else ""
            raise fault(file, line, f"expected a number from 0 to 1{hint}, found {value:g}.", "rate")
        if "position" in names and _whole(file, line, row, "position") != len(survival) + 1:
            raise fault(file, line, f"expected position {len(survival) + 1}, found {row['position']}.", "position")
        if "rounds" in names:
            rounds = _whole(file, line, row, "rounds")
        survival.append(value)
    return SurvivalCounts(file, rows[0][0], tuple(survival), rounds, gamma)
