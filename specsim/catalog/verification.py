"""A question about verification rules, as written to checked arrays: probabilities of tokens, rules, lenience."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance.candidates import MOST_CANDIDATES, most_candidates
from specsim.acceptance.candidates import RULES as SEVERAL
from specsim.acceptance.paired import is_estimated, probabilities
from specsim.acceptance.rules import DEFAULT_LENIENCE, VERDICTS
from specsim.catalog.acceptances import acceptance_alone
from specsim.catalog.dump import document_of
from specsim.catalog.located import LocatedDict
from specsim.catalog.strict_yaml import plain_value
from specsim.catalog.validate import validate
from specsim.errors import Fault, InputError, Place, nearest, shown
from specsim.specs.ranked import Paired

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
        candidates: Candidates for the one position; None for the rules that verify one each.
        paired: Whether the positions are those of a file of pairs, each judged by itself.
        assumed: What was done to the probabilities, one clause each.
    """

    target_probs: NDArray[np.float64]
    draft_probs: NDArray[np.float64]
    rules: tuple[str, ...]
    lenience: float
    assumed: tuple[str, ...]
    candidates: int | None = None
    paired: bool = False


def ask_pairs(pairs: Any, rule: Any, candidates: Any) -> RuleQuestion:
    """The question that a file of paired probabilities poses.

    Args:
        pairs: The path of a YAML file of kind ``paired``, or such an acceptance.
        rule: One name, or several; every rule that can be evaluated if None.
        candidates: How many candidates there are.

    Raises:
        InputError: With the option or the field that is wrong.
    """
    place = Place(parameter="pairs")
    if candidates is None:
        raise InputError(Fault("it needs candidates: rules of one are those of a position.", place))
    written = LocatedDict(document_of(pairs), place) if isinstance(pairs, Paired) else str(pairs)
    document = acceptance_alone(written, place, None, [])
    if not isinstance(document, dict) or document.get("kind") != "paired":
        raise InputError(Fault("expected a YAML file of kind paired.", place))
    found = validate(Paired, document)
    target, draft = probabilities(found)
    try:
        at = "candidates"
        count = _candidates(candidates)
        at = "rule"
        names = _names(rule, several=True)
    except ValueError as error:
        raise InputError(Fault(str(error), Place(parameter=at))) from None
    names, faults = _enumerable(names, rule is None, count or 1, (1, target.shape[-1]), estimates=True)
    if faults:
        raise InputError(faults)
    return RuleQuestion(target, draft, names, DEFAULT_LENIENCE, (), count, paired=True)


def ask_rules(target_probs: Any, draft_probs: Any, rule: Any, lenience: Any, candidates: Any = None) -> RuleQuestion:
    """The question that the options of ``rules`` pose.

    Args:
        target_probs: Text such as ``"0.6,0.4;0.5,0.5"``, a list of numbers, a list of such lists, or an array.
        draft_probs: The same, for as many positions and tokens.
        rule: One name, or several; every rule if None, with several candidates those that can be enumerated.
        candidates: How many there are for the one position, a number or its text; None for the rules of one.
        lenience: A number or its text; ``DEFAULT_LENIENCE`` if None.

    Raises:
        InputError: With one fault for each option that is wrong.
    """
    faults: list[Fault] = []
    read: dict[str, Any] = {}
    for name, reads, value in (
        ("target_probs", _rows, target_probs),
        ("draft_probs", _rows, draft_probs),
        ("candidates", _candidates, candidates),
        ("rule", partial(_names, several=candidates is not None), rule),
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
    count = read.get("candidates")
    if not faults and count is not None:
        read["rule"], faults = _enumerable(read["rule"], rule is None, count, np.shape(read["target_probs"]))
    if faults:
        raise InputError(faults)
    assumed = []
    for name in ("target_probs", "draft_probs"):
        sums = [math.fsum(row) for row in read[name]]
        read[name] = np.array(read[name])
        if any(abs(total - 1) > _ROUNDING for total in sums):
            read[name] /= read[name].sum(-1, keepdims=True)
            assumed.append(f"{name} divided by their sum, {' and '.join(f'{total:.9g}' for total in sums)}")
    probabilities = read["target_probs"], read["draft_probs"]
    return RuleQuestion(*probabilities, read["rule"], read["lenience"], tuple(assumed), count)


def _candidates(value: Any) -> int | None:
    if value is None:
        return None
    number = _plain(value)
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MOST_CANDIDATES:
        raise ValueError(f"expected a whole number from 1 to {MOST_CANDIDATES}, found {_said(value)}.")
    return number


def _enumerable(
    rules: tuple[str, ...], chosen_here: bool, count: int, shape: tuple[int, ...], *, estimates: bool = False
) -> tuple[tuple[str, ...], list[Fault]]:
    """The rules that so many candidates allow; what was asked for by name and is too large is a fault."""
    positions, tokens = shape
    if positions > 1:
        message = f"several candidates are judged at one position, and {positions} are given."
        return rules, [Fault(message, Place(parameter="candidates"))]
    # Where no law is asked for, acceptance can be estimated.
    exact = [name for name in rules if not (estimates and is_estimated(name, tokens, count))]
    allowed = tuple(name for name in rules if name not in exact or count <= most_candidates(name, tokens))
    if chosen_here:
        return allowed, []
    faults = []
    for name in exact:
        most = most_candidates(name, tokens)
        if count > most:
            few = f"at most {most} of {tokens} tokens" if most else f"not for {tokens} tokens"
            message = f"{name} is enumerated for {few}, found {count} candidates."
            faults.append(Fault(message, Place(parameter="candidates")))
    return rules, faults


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


def _names(rule: Any, several: bool) -> tuple[str, ...]:
    known, others = list(VERDICTS), list(SEVERAL)
    if several:
        known, others = others, known
    names = known if rule is None else list(rule) if isinstance(rule, list | tuple) else [rule]
    for index, name in enumerate(names):
        if isinstance(name, str) and name in others and name not in known:
            which = "verifies one candidate; leave out candidates" if several else "verifies several; give candidates"
            raise ValueError(f"{name} {which}.")
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
