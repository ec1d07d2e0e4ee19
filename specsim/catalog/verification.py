"""A question about verification rules, as written to checked arrays: probabilities of tokens, rules, lenience."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance.rules import DEFAULT_LENIENCE, VERDICTS
from specsim.catalog.strict_yaml import plain_value
from specsim.errors import Fault, InputError, Place, nearest, shown

MOST_OUTCOMES = 10_000
"""More joint outcomes, tokens ** positions, than this are not enumerated."""

_SUM_WITHIN = 1e-6
_ROUNDING = 1e-12
_EXPECTED = "expected probabilities of tokens, as in 0.6,0.3,0.1, or 0.6,0.4;0.5,0.5 for two positions"


@dataclass(frozen=True, eq=False)
class RuleQuestion:
    """A question of ``rules`` that can be answered.

    Attributes:
        target_probs: The target's probabilities, shape (positions, tokens), each row summing to 1.
        draft_probs: The draft's, same shape.
        rules: Names of ``VERDICTS``, each once.
        lenience: Above 0, at most 1.
        assumed: What was done to the probabilities, one clause each.
    """

    target_probs: NDArray[np.float64]
    draft_probs: NDArray[np.float64]
    rules: tuple[str, ...]
    lenience: float
    assumed: tuple[str, ...]


def ask_rules(target_probs: Any, draft_probs: Any, rule: Any, lenience: Any) -> RuleQuestion:
    """The question that the options of ``rules`` pose.

    Args:
        target_probs: Text such as ``"0.6,0.4;0.5,0.5"``, a list of numbers, a list of such lists, or an array.
        draft_probs: The same, for as many positions and tokens.
        rule: One name, or several; every rule if None.
        lenience: A number or its text; ``DEFAULT_LENIENCE`` if None.

    Raises:
        InputError: With one fault for each option that is wrong.
    """
    faults: list[Fault] = []
    read: dict[str, Any] = {}
    for name, reads, value in (
        ("target_probs", _rows, target_probs),
        ("draft_probs", _rows, draft_probs),
        ("rule", _names, rule),
        ("lenience", _lenience, lenience),
    ):
        try:
            read[name] = reads(value)
        except ValueError as error:
            faults.append(Fault(str(error), Place(parameter=name)))
    if "target_probs" in read and "draft_probs" in read:
        faults += _misfits(np.shape(read["target_probs"]), np.shape(read["draft_probs"]))
    if lenience is not None and "lenience" not in read.get("rule", ("lenience",)):
        faults.append(Fault("it says nothing without the rule lenience.", Place(parameter="lenience")))
    if faults:
        raise InputError(faults)
    assumed = []
    for name in ("target_probs", "draft_probs"):
        sums = [math.fsum(row) for row in read[name]]
        read[name] = np.array(read[name])
        if any(abs(total - 1) > _ROUNDING for total in sums):
            read[name] /= read[name].sum(-1, keepdims=True)
            assumed.append(f"{name} divided by their sum, {' and '.join(f'{total:.9g}' for total in sums)}")
    return RuleQuestion(read["target_probs"], read["draft_probs"], read["rule"], read["lenience"], tuple(assumed))


def _rows(value: Any) -> list[list[float]]:
    """Probabilities by position and token, checked but for small errors of their sums."""
    rows = _listed(value)
    if isinstance(rows, str):
        rows = [row.split(",") for row in rows.split(";")]
    elif isinstance(rows, list) and not any(isinstance(_listed(row), list) for row in rows):
        rows = [rows]
    if not isinstance(rows, list):
        raise ValueError(f"{_EXPECTED}, found {_said(value)}.")
    numbers = []
    for position, row in enumerate(map(_listed, rows), 1):
        if not isinstance(row, list) or not row:
            raise ValueError(f"{_EXPECTED}, found {_said(value)}.")
        numbers.append([_probability(entry) for entry in row])
        if len(row) != len(numbers[0]):
            counts = f"{len(numbers[0])} at position 1 and {len(row)} at position {position}"
            raise ValueError(f"expected as many tokens at every position, found {counts}.")
        total = math.fsum(numbers[-1])
        if abs(total - 1) > _SUM_WITHIN:
            those = f"those of position {position}" if len(rows) > 1 else "these"
            raise ValueError(f"expected probabilities that sum to 1, within 1e-6; {those} sum to {total:.9g}.")
    if not numbers:
        raise ValueError(f"{_EXPECTED}, found {_said(value)}.")
    return numbers


def _probability(entry: Any) -> float:
    number = _plain(entry)
    if isinstance(number, str) and number.endswith("%"):
        raise ValueError(f"expected fractions and not percentages, as in 0.6,0.3,0.1, found {_said(entry)}.")
    if not isinstance(number, int | float) or isinstance(number, bool):
        raise ValueError(f"{_EXPECTED}, found {_said(entry)}.")
    if not 0 <= number <= 1 + _SUM_WITHIN:
        raise ValueError(f"expected numbers from 0 to 1, found {_said(number)}.")
    return float(number)


def _names(rule: Any) -> tuple[str, ...]:
    known = list(VERDICTS)
    names = known if rule is None else list(rule) if isinstance(rule, list | tuple) else [rule]
    for index, name in enumerate(names):
        if not isinstance(name, str) or name not in known:
            raise ValueError(f"unknown rule {shown(name)}. {nearest(name, known)}")
        if name in names[:index]:
            raise ValueError(f"{name} is given twice.")
    if not names:
        raise ValueError(f"expected the name of a rule. {nearest('', known)}")
    return tuple(names)


def _lenience(value: Any) -> float:
    number = DEFAULT_LENIENCE if value is None else _plain(value)
    if not isinstance(number, int | float) or isinstance(number, bool) or not 0 < number <= 1:
        raise ValueError(f"expected a number above 0, at most 1, found {_said(value)}.")
    return float(number)


def _misfits(target: tuple[int, ...], draft: tuple[int, ...]) -> list[Fault]:
    for found, wanted, what in zip(draft, target, ("position", "token"), strict=True):
        if found != wanted:
            expected = f"expected {_counted(wanted, what)}, as many as the target has, found {found}."
            return [Fault(expected, Place(parameter="draft_probs"))]
    positions, tokens = target
    # Each position is an axis of an array, also where there is only one token.
    if max(tokens, 2) ** min(positions, 100) > MOST_OUTCOMES:
        asked = f"{_counted(tokens, 'token')} at {_counted(positions, 'position')}"
        most = f"{asked} have more than {MOST_OUTCOMES:,} joint outcomes, the most that are enumerated."
        return [Fault(most, Place(parameter="target_probs"))]
    return []


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _listed(value: Any) -> Any:
    """Arrays, series and tuples as lists; anything else as it is."""
    found = value.tolist() if hasattr(value, "tolist") else value
    return list(found) if isinstance(found, tuple) else found


def _plain(value: Any) -> Any:
    """Text as YAML reads it, numpy numbers as numbers."""
    if isinstance(value, np.generic):
        return value.item()
    return plain_value(value.strip()) if isinstance(value, str) else value


def _said(value: Any) -> str:
    return shown(_listed(value.strip() if isinstance(value, str) else value))
