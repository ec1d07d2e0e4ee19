"""vLLM's log lines and Prometheus counters of speculative decoding.

A log line holds the rates of one interval, rounded, as fractions by position and as a percentage of all drafted tokens;
rounds = drafted / positions. Counters are summed over engines; ``_created`` series are times and not counts.
"""

from __future__ import annotations

import re

import numpy as np

from specsim.catalog.records_of_rounds import SurvivalCounts, fault

LINE = "SpecDecoding metrics:"
PREFIX = "vllm:spec_decode_"

_COUNT = re.compile(r"\b(Accepted|Drafted): ([0-9]+) tokens")
_MEAN = re.compile(r"Mean acceptance length: ([0-9]+\.?[0-9]*)")
_RATES = re.compile(r"Per-position acceptance rate: ([0-9., naN%]+?)(?:, [A-Z]|$)")
_SERIES = re.compile(r"^vllm:spec_decode_(\w+?)(\{[^}]*\})?\s+([-+0-9.eE]+|NaN|[+-]Inf)(\s+[0-9]+)?$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def of_log(file: str, text: str) -> SurvivalCounts:
    """Rates of all intervals of a log, each as often as it had rounds."""
    rates: list[list[float]] = []
    rounds: list[int] = []
    first, without, uncounted, cut = 0, 0, "", 0
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        if LINE not in line:
            continue
        if number == len(lines) and not text.endswith("\n") and not line.rstrip().endswith("%"):
            cut = number
            continue
        counts = {name: int(value) for name, value in _COUNT.findall(line)}
        listed = _RATES.search(line)
        if listed is None:
            without = without or number
            continue
        if "nan" in listed[1].lower() or counts.get("Drafted") == 0:
            continue
        if "Drafted" not in counts:
            uncounted = listed[1].replace(" ", "")
            continue
        entries = [part.strip() for part in listed[1].split(",") if part.strip()]
        values = [_rate(file, number, entry) for entry in entries]
        if rates and len(values) != len(rates[0]):
            found = f"{len(rates[0])} in line {first} and {len(values)} here"
            raise fault(file, number, f"draft lengths are mixed: {found}. Fit the lines of one length alone.")
        drafted = counts["Drafted"]
        if drafted % len(values):
            message = (
                f"{drafted} drafted tokens are no multiple of {len(values)} positions: draft lengths are mixed. Log "
                "counts in their order (per_step_accepted, per_step_drafted)."
            )
            raise fault(file, number, message)
        _contradictions(file, number, line, values, counts)
        first = first or number
        rates.append(values)
        rounds.append(drafted // len(values))
    if not rates and uncounted:
        message = f"no line says how much was accepted and drafted; give its rates alone, as survival={uncounted}."
        raise fault(file, 0, message)
    if not rates and without:
        raise fault(
            file, without, "this line has no rates by position, which older versions leave out; its mean can be "
            "given as length=TOKENS@GAMMA.",
        )  # fmt: skip
    if not rates:
        raise fault(file, cut, f"no {'whole ' if cut else ''}line with {LINE!r} has drafts.")
    remarks = [f"{file}, line {cut}: the line is cut off and was left out"] if cut else []
    remarks += [f"{file}, line {without}: lines without rates by position were left out"] if without else []
    survival = np.average(rates, axis=0, weights=rounds)
    return SurvivalCounts(file, first, tuple(survival.tolist()), sum(rounds), len(rates[0]), tuple(remarks))


_HALF_A_DIGIT = {"mean": 0.005, "rate": 0.0005}
"""By how much rounding changes what a line says."""


def _contradictions(file: str, number: int, line: str, values: list[float], counts: dict[str, int]) -> None:
    """Holds what a line says in several ways against each other.

    Raises:
        InputError: If the mean length or the accepted tokens are not those of the rates by position.
    """
    accepted, drafted = counts.get("Accepted"), counts["Drafted"]
    if accepted is not None and accepted > drafted:
        raise fault(file, number, f"{accepted} tokens accepted of {drafted} drafted.")
    within, by_position = len(values) * _HALF_A_DIGIT["rate"] + 1e-9, sum(values)
    mean = _MEAN.search(line)
    if mean is not None and abs(float(mean[1]) - 1 - by_position) > within + _HALF_A_DIGIT["mean"]:
        message = f"a mean length of {mean[1]}, where the rates by position sum to {1 + by_position:.2f}."
        raise fault(file, number, message)
    if accepted is not None and abs(accepted * len(values) / drafted - by_position) > within:
        by_rates = by_position * drafted / len(values)
        message = f"{accepted} tokens accepted, where the rates by position make {by_rates:.0f} of {drafted} drafted."
        raise fault(file, number, message)


def _rate(file: str, line: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        percent = text.endswith("%")
        expected = "fractions and not percentages" if percent else "numbers"
        raise fault(file, line, f"expected {expected} as rates by position, found {text!r}.") from None
    if value > 1:
        raise fault(
            file, line, f"expected fractions from 0 to 1 and not percentages as rates by position, found {text}."
        )
    return value


def between(before: tuple[str, str] | None, after: tuple[str, str]) -> SurvivalCounts:
    """Rates from two dumps of counters, file and text each, or from one dump since the start of the server."""
    start, created = ({}, {}) if before is None else _counters(*before)
    end, created_too = _counters(*after)
    file = after[0]
    if before is not None and {key[1] for key in start} != {key[1] for key in end}:
        models = sorted({key[1] for key in (*start, *end)})
        raise fault(file, 0, f"before and after are of different models: {', '.join(models)}.")
    models = sorted({key[1] for key in end})
    if len(models) > 1:
        raise fault(file, 0, f"counters of several models, {', '.join(models)}: keep the lines of one.")
    if before is not None:
        _same_servers(file, start, end)
    totals: dict[tuple[str, int], float] = {}
    for (name, _, engine, position), value in end.items():
        gained = value - start.get((name, models[0], engine, position), 0.0)
        if gained < 0:
            raise fault(file, 0, f"{name} of engine {engine} has gone down: the server was started anew in between.")
        totals[name, position] = totals.get((name, position), 0.0) + gained
    for (name, _, engine, _), time in created_too.items():
        if abs(created.get((name, models[0], engine, -1), time) - time) > 0.5:
            message = f"{name} of engine {engine} was created anew in between: the server was started again."
            raise fault(file, 0, message)
    rounds, drafted = totals.get(("num_drafts", -1), 0.0), totals.get(("num_draft_tokens", -1), 0.0)
    positions = sorted(position for name, position in totals if name == "num_accepted_tokens_per_pos")
    if ("num_drafts", -1) not in totals or not positions:
        what = "num_drafts_total" if positions else "num_accepted_tokens_per_pos_total"
        raise fault(file, 0, f"the counter {PREFIX}{what} is missing.")
    if rounds == 0:
        raise fault(file, 0, "nothing was drafted in between." if before is not None else "nothing was drafted.")
    if positions != list(range(len(positions))):
        raise fault(file, 0, f"expected positions 0 to {len(positions) - 1}, found {', '.join(map(str, positions))}.")
    if drafted and abs(drafted - rounds * len(positions)) > 0.5:
        counted = f"{drafted:.0f} drafted tokens in {rounds:.0f} rounds are not {len(positions)} each"
        instead = "Log counts in their order (per_step_accepted, per_step_drafted)."
        raise fault(file, 0, f"{counted}: draft lengths are mixed. {instead}")
    accepted = np.array([totals["num_accepted_tokens_per_pos", position] for position in positions])
    if (accepted > rounds + 0.5).any():
        raise fault(file, 0, f"{accepted.max():.0f} tokens accepted at one position of {rounds:.0f} rounds.")
    told = ("_created series are times and were left out",) if created or created_too else ()
    return SurvivalCounts(file, 0, tuple((accepted / rounds).tolist()), round(rounds), len(positions), told)


_Key = tuple[str, str, str, int]


def _same_servers(file: str, start: dict[_Key, float], end: dict[_Key, float]) -> None:
    engines = [{engine for _, _, engine, _ in dump} for dump in (start, end)]
    for engine in sorted(engines[0] ^ engines[1]):
        which, other = ("before", "after") if engine in engines[0] else ("after", "before")
        message = (
            f"engine {engine} is in the dump {which} and not in the one {other}: compare dumps of the same engines."
        )
        raise fault(file, 0, message)


def _counters(file: str, text: str) -> tuple[dict[_Key, float], dict[_Key, float]]:
    """Counters by name, model, engine and position (-1: none), and when each was created."""
    found: dict[_Key, float] = {}
    created: dict[_Key, float] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.startswith(PREFIX):
            continue
        match = _SERIES.match(line.strip())
        if match is None:
            raise fault(file, number, "expected a counter, its labels and a number.")
        name, labels = match[1], dict(_LABEL.findall(match[2] or ""))
        value, model, engine = float(match[3]), labels.get("model_name", ""), labels.get("engine", "")
        if name.endswith("_created"):
            created[name.removesuffix("_created"), model, engine, -1] = value
            continue
        if not 0 <= value < float("inf"):
            raise fault(file, number, f"expected a count, found {match[3]}.")
        position = labels.get("position", "-1")
        if not re.fullmatch(r"-1|[0-9]{1,4}", position):
            raise fault(file, number, f"expected a position from 0, found {position!r}.")
        key = (name.removesuffix("_total"), model, engine, int(position))
        found[key] = found.get(key, 0.0) + value
    if not found:
        raise fault(file, 0, _nothing(bool(created)))
    return found, created


def _nothing(created: bool) -> str:
    if created:
        return "only _created series, which are times: the counters end in _total."
    return f"no counter begins with {PREFIX}: was speculation on?"
