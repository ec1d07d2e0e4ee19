"""Recorded rounds in JSON and CSV: counts in their order, histograms, rates by position."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np

from specsim.acceptance.fit import ASSUMED_ROUNDS
from specsim.catalog.records_of_rounds import (
    BONUS,
    Found,
    Histogram,
    Rounds,
    SurvivalCounts,
    bonus_counted,
    bonus_in_rates,
    fault,
)
from specsim.errors import nearest, shown

_LONGEST = 1000
_STEPS = ("per_step_accepted", "per_step_drafted")
_HISTOGRAMS = "acceptance_histogram_by_draft_length"


class _Order:
    """Rounds that are gathered request by request."""

    def __init__(self) -> None:
        self.requests: dict[object, tuple[list[int], list[int], list[int]]] = {}

    def add(
        self, accepted: list[int], drafted: list[int], request: object = None, asked: list[int] | None = None
    ) -> None:
        """Rounds of a request by its name, behind those it already has; without a name, of a request of their own."""
        name = object() if request is None else request
        made, proposed, given = self.requests.setdefault(name, ([], [], []))
        made += accepted
        proposed += drafted
        given += drafted if asked is None else asked

    def rounds(self, file: str) -> Rounds:
        """All rounds, request by request, in whatever order they were written."""
        filled = [all_three for all_three in self.requests.values() if all_three[0]]
        if not filled:
            raise fault(file, 1, "no round was recorded.")
        accepted = np.array([count for made, _, _ in filled for count in made])
        proposed = np.array([count for _, drafted, _ in filled for count in drafted])
        given = np.array([count for _, _, asked in filled for count in asked])
        first = np.array([index == 0 for made, _, _ in filled for index in range(len(made))])
        some = proposed > 0
        later, examined = accepted[some] - 1, np.minimum(accepted, proposed - 1)[some]
        if (later >= 0).all() and bonus_counted(later.sum(), examined.sum(), some.sum()):
            raise fault(file, 0, BONUS)
        return Rounds(given, accepted, first, proposed)


def counts_of_json(file: str, text: str, gamma: int | None) -> Found:
    """Counts of JSON lines, or of one JSON document: a list of requests, or one.

    A request is a list of accepted counts, or a mapping with ``accepted`` and ``drafted`` (numbers or lists), or holds
    vLLM's ``speculative_decoding`` metrics. With ``gamma`` beside ``drafted`` a drafter may run out of guesses.
    """
    entries = _entries(file, text)
    order, histograms = _Order(), list[Histogram]()
    for line, entry in entries:
        metrics = _metrics(entry)
        if metrics is not None:
            _of_metrics(file, line, metrics, gamma, order, histograms)
            continue
        if isinstance(entry, dict):
            unknown = [key for key in entry if key not in ("accepted", "drafted", "gamma", "request")]
            if "tree" in entry:
                message = f"rounds of the tree {shown(entry['tree'])} do not tell how a chain is accepted: record one."
                raise fault(file, line, message, "tree")
            if "accepted" not in entry:
                known = "accepted, drafted, gamma, request, speculative_decoding"
                raise fault(file, line, f"expected a field accepted, found {shown(list(entry))}. Known: {known}.")
            if unknown:
                close = nearest(unknown[0], ["accepted", "drafted", "gamma", "request"])
                raise fault(file, line, f"unknown field. {close}", str(unknown[0]))
        accepted = entry.get("accepted") if isinstance(entry, dict) else entry
        drafted = _drafted(entry, _LENGTHS, gamma) if isinstance(entry, dict) else gamma
        if drafted is None:
            message = "what was drafted is missing: add drafted to every line, or give the draft length as --gamma."
            raise fault(file, line, message)
        made, given = _pair(file, line, accepted, drafted)
        asked = _asked(file, line, entry, _LENGTHS, given) if isinstance(entry, dict) else None
        request = entry.get("request") if isinstance(entry, dict) else None
        if request is None:
            # A list is a request of its own; numbers, one a line, are the rounds of one.
            order.add(made, given, None if isinstance(accepted, list) else "", asked)
        else:
            order.add(made, given, json.dumps(request), asked)
    if histograms and order.requests:
        raise fault(file, 1, "some requests have their counts in order and others a histogram: keep one sort.")
    if histograms:
        return _together(file, histograms)
    return order.rounds(file)


_LENGTHS = ("drafted", "gamma")


def _drafted(entry: dict[str, Any], fields: tuple[str, str], gamma: int | None) -> Any:
    """What was drafted: by round, and if that is not there the draft length, of the entry itself or of all."""
    by_round, length = (entry.get(field) for field in fields)
    if by_round is not None:
        return by_round
    return gamma if length is None else length


def _asked(
    file: str, line: int, entry: dict[str, Any], fields: tuple[str, str], drafted: list[int]
) -> list[int] | None:
    """What was asked for in each round, no less than what was drafted; None where an entry does not say both."""
    by_round, length = (entry.get(field) for field in fields)
    if by_round is None or length is None:
        return None
    asked = _whole_numbers(file, line, length, fields[1], _LONGEST)
    asked = asked if isinstance(length, list) else asked * len(drafted)
    if len(asked) != len(drafted):
        raise fault(file, line, f"{len(asked)} draft lengths are asked for in {len(drafted)} rounds.", fields[1])
    for count, most in zip(drafted, asked, strict=True):
        if count > most:
            raise fault(file, line, f"{count} tokens drafted at {fields[1]} {most}.", fields[0])
    return asked


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


def _of_metrics(
    file: str, line: int, metrics: dict[str, Any], gamma: int | None, order: _Order, histograms: list[Histogram]
) -> None:
    if _STEPS[0] in metrics:
        fields = (_STEPS[1], "num_spec_tokens")
        drafted = _drafted(metrics, fields, gamma)
        if drafted is None:
            message = "what was drafted is missing: log it, or give the draft length as --gamma."
            raise fault(file, line, message, _STEPS[1])
        made, given = _pair(file, line, metrics[_STEPS[0]], drafted, _STEPS[0])
        _asked(file, line, metrics, fields, given)
        order.add(made, given)
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
    length = metrics.get("num_spec_tokens")
    if length is not None and length != len(counts) - 1:
        message = f"counts of 0 to {len(counts) - 1} accepted tokens at num_spec_tokens {shown(length)}."
        raise fault(file, line, message, "acceptance_histogram")
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
            bonus = " Is the bonus token counted in?" if count == most + 1 else ""
            raise fault(file, line, f"{count} tokens accepted of {most} drafted.{bonus}", field)
    return made, given


def _whole_numbers(file: str, line: int, value: Any, field: str, most: int | None) -> list[int]:
    values = value if isinstance(value, list) else [value]
    for entry in values:
        if isinstance(entry, bool) or not isinstance(entry, int) or entry < 0 or (most is not None and entry > most):
            bound = "" if most is None else f" to {most}"
            raise fault(file, line, f"expected whole numbers from 0{bound}, found {shown(entry)}.", field)
    return values


_COLUMNS = ("accepted", "drafted", "gamma", "request", "rounds", "position", "rate")


def has_known_column(text: str) -> bool:
    """Whether text begins with the header of such a file, or with one that is nearly it."""
    names = [name.strip() for name in text.lstrip().partition("\n")[0].split(",")]
    return len(names) > 1 and any(name in _COLUMNS for name in names)


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
    order, lengths = _Order(), [name for name in _LENGTHS if name in names]
    if not lengths and gamma is None:
        message = "what was drafted is missing: add a column drafted, or give the draft length as --gamma."
        raise fault(file, 1, message)
    for line, row in rows:
        numbers = {name: _whole(file, line, row, name) for name in ("accepted", *lengths)}
        made, given = _pair(file, line, numbers["accepted"], _drafted(numbers, _LENGTHS, gamma))
        order.add(made, given, row.get("request", ""), _asked(file, line, numbers, _LENGTHS, given))
    return order.rounds(file)


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
    counts, lengths = np.array([found.get(count, 0) for count in range(longest + 1)]), np.arange(longest + 1)
    later = float(counts @ (lengths - 1)), float(counts @ np.minimum(lengths, longest - 1))
    if counts[0] == 0 and bonus_counted(*later, float(counts.sum())):
        raise fault(file, 0, BONUS)
    return Histogram(file, rows[0][0], counts)


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
    if bonus_in_rates(survival, ASSUMED_ROUNDS if rounds is None else rounds):
        raise fault(file, 0, BONUS)
    return SurvivalCounts(file, rows[0][0], tuple(survival), rounds, gamma)
