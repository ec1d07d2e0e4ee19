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
_RATES = re.compile(r"Per-position acceptance rate: ([0-9., naN%]+?)(?:, [A-Z]|$)")
_SERIES = re.compile(r"^vllm:spec_decode_(\w+?)(\{[^}]*\})?\s+([-+0-9.eE]+|NaN|[+-]Inf)(\s+[0-9]+)?$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def of_log(file: str, text: str) -> SurvivalCounts:
    """Rates of all intervals of a log, each as often as it had rounds."""
    rates: list[list[float]] = []
    rounds: list[int] = []
    first = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if LINE not in line:
            continue
        counts = {name: int(value) for name, value in _COUNT.findall(line)}
        listed = _RATES.search(line)
        if listed is None:
            raise fault(
                file, number, "this line has no rates by position, which older versions leave out; its mean can be "
                "given as length=TOKENS@GAMMA.",
            )  # fmt: skip
        if counts.get("Drafted", 0) == 0 or "nan" in listed[1].lower():
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
        first = first or number
        rates.append(values)
        rounds.append(drafted // len(values))
    if not rates:
        raise fault(file, 0, f"no line with {LINE!r} has drafts.")
    survival = np.average(rates, axis=0, weights=rounds)
    return SurvivalCounts(file, first, tuple(survival.tolist()), sum(rounds), len(rates[0]))


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
    start, created = ({}, False) if before is None else _counters(*before)
    end, created_too = _counters(*after)
    file = after[0]
    if before is not None and {key[1] for key in start} != {key[1] for key in end}:
        models = sorted({key[1] for key in (*start, *end)})
        raise fault(file, 0, f"before and after are of different models: {', '.join(models)}.")
    models = sorted({key[1] for key in end})
    if len(models) > 1:
        raise fault(file, 0, f"counters of several models, {', '.join(models)}: keep the lines of one.")
    totals: dict[tuple[str, int], float] = {}
    for (name, _, engine, position), value in end.items():
        gained = value - start.get((name, models[0], engine, position), 0.0)
        if gained < 0:
            raise fault(file, 0, f"{name} of engine {engine} has gone down: the server was started anew in between.")
        totals[name, position] = totals.get((name, position), 0.0) + gained
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


def _counters(file: str, text: str) -> tuple[dict[_Key, float], bool]:
    """Counters by name, model, engine and position (-1: none), and whether there were ``_created`` series."""
    found: dict[_Key, float] = {}
    created = False
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.startswith(PREFIX):
            continue
        match = _SERIES.match(line.strip())
        if match is None:
            raise fault(file, number, "expected a counter, its labels and a number.")
        name, labels = match[1], dict(_LABEL.findall(match[2] or ""))
        if name.endswith("_created"):
            created = True
            continue
        value = float(match[3])
        if not 0 <= value < float("inf"):
            raise fault(file, number, f"expected a count, found {match[3]}.")
        position = labels.get("position", "-1")
        if not re.fullmatch(r"-1|[0-9]{1,4}", position):
            raise fault(file, number, f"expected a position from 0, found {position!r}.")
        key = (name.removesuffix("_total"), labels.get("model_name", ""), labels.get("engine", ""), int(position))
        found[key] = found.get(key, 0.0) + value
    if not found:
        raise fault(file, 0, _nothing(created))
    return found, created


def _nothing(created: bool) -> str:
    if created:
        return "only _created series, which are times: the counters end in _total."
    return f"no counter begins with {PREFIX}: was speculation on?"
