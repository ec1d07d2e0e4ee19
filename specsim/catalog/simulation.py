"""A question of ``simulate``, as written to what is checked: an acceptance, draft lengths, requests, policies."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_args

from specsim.acceptance.policies import LONGEST
from specsim.catalog.acceptances import NO_SINGLE_DRAFTS, acceptance_alone
from specsim.catalog.dump import document_of
from specsim.catalog.given import Given
from specsim.catalog.located import LocatedDict
from specsim.catalog.strict_yaml import plain_value
from specsim.catalog.validate import validate
from specsim.errors import Fault, InputError, Place, nearest, shown
from specsim.specs.acceptance import Acceptance, ByContext, Classes, Published, Regimes, Simple
from specsim.specs.fields import LONGEST_DRAFT, axis, number, whole
from specsim.specs.ranked import TreeLength

Stationary = Simple | Regimes | Classes

POLICIES = ("fixed", "heuristic", "confidence", "cumulative", "belief", "goodput", "oracle")
_WITH_A_NUMBER = {
    "fixed": ("a draft length, as in fixed:4", whole(0, LONGEST_DRAFT)),
    "confidence": ("a threshold from 0 to 1, as in confidence:0.4", number(0, 1)),
    "cumulative": ("a threshold from 0 to 1, as in cumulative:0.2", number(0, 1)),
}
DEFAULT_THRESHOLDS = {"confidence": 0.4, "cumulative": 0.2}

MOST_ROUNDS = 100_000_000
MOST_TOKENS = 20_000
"""The law of the rounds of longer outputs takes too long."""

_MOST_GAMMA = 200


@dataclass(frozen=True)
class Policy:
    """A rule of choosing draft lengths by its name, with its number if one was given."""

    name: str
    value: float | None = None

    @property
    def label(self) -> str:
        """The command-line form."""
        return self.name if self.value is None else f"{self.name}:{self.value:g}"


@dataclass(frozen=True)
class SimulationQuestion:
    """A question of ``simulate`` that can be answered.

    Attributes:
        acceptance: Of which the chain of regimes is known.
        gamma: Draft lengths, of rounds that are not chosen by a policy.
        rounds: Rounds to simulate at each draft length or policy, at least.
        seed: Of the generator.
        output_length: Tokens of a request, None if no requests are asked about.
        batch_size: Sizes of static batches of such requests.
        policies: Rules of choosing draft lengths; empty if none is asked about.
        draft_cost_ratio: One draft step / one plain step, for the speedup of policies.
        remarks: How ambiguous input was read.
    """

    acceptance: Stationary
    gamma: tuple[int, ...]
    rounds: int
    seed: int
    output_length: int | None
    batch_size: tuple[int, ...]
    policies: tuple[Policy, ...]
    draft_cost_ratio: float
    remarks: tuple[str, ...]


def ask_simulation(**given: Any) -> SimulationQuestion:
    """The question that the options of ``simulate`` pose; what is None takes its default.

    Raises:
        InputError: With one fault for each option that is wrong.
    """
    asked = Given(given)
    read = asked.read
    remarks: list[str] = []

    policies = read("policy", _policies, ())
    question = SimulationQuestion(
        acceptance=read("acceptance", lambda value: stationary(value, remarks), None),
        gamma=read("gamma", axis(0, _MOST_GAMMA), (4,)),
        rounds=read("rounds", whole(1000, MOST_ROUNDS), 100_000),
        seed=read("seed", whole(0, 2**63 - 1), 0),
        output_length=read("output_length", whole(1, MOST_TOKENS), None),
        batch_size=read("batch_size", axis(1, 100_000), ()),
        policies=policies,
        draft_cost_ratio=read("draft_cost_ratio", number(0), 0.0),
        remarks=(),
    )
    if given.get("acceptance") is None:
        asked.fault("acceptance", "expected an acceptance such as rate=0.8, or a YAML file.")
    said = {name for name, value in given.items() if value is not None}
    for name, other, what in (
        ("batch_size", "output_length", "batches of requests need the tokens of a request in --output-length"),
        ("draft_cost_ratio", "policy", "it says nothing without a policy"),
    ):
        if name in said and other not in said:
            asked.fault(name, f"{what}.")
    for name in ("gamma", "output_length"):
        if name in said and "policy" in said:
            hint = ", as in fixed:4" if name == "gamma" else ""
            asked.fault(name, f"a policy chooses draft lengths itself; leave one of the two out{hint}.")
    if "policy" in said and "draft_cost_ratio" not in said and policies:
        needed = "expected --draft-cost-ratio, one draft step / one plain target step"
        asked.fault("policy", f"a policy needs what a draft costs: {needed}.")
    needs_chain = [policy for policy in policies if policy.name in DEFAULT_THRESHOLDS]
    if needs_chain and question.acceptance is not None and _by_position(question.acceptance):
        only = "exact only where acceptance does not depend on the position in the round"
        if given.get("policy") in ("all", ["all"]):
            names = " and ".join(policy.name for policy in needs_chain)
            remarks.append(f"{names} are left out: they are {only}")
        else:
            asked.fault("policy", f"{needs_chain[0].name} is {only}.")
        policies = tuple(policy for policy in policies if policy not in needs_chain)
    asked.check()
    return replace(question, policies=policies, remarks=tuple(remarks))


def stationary(written: Any, remarks: list[str]) -> Stationary:
    """An acceptance as an option or an argument gives it, to its record.

    Args:
        written: Text in one of the forms, a number, a path, a record, or a mapping.
        remarks: Takes how ambiguous input was read.

    Raises:
        InputError: If it is none, or one that depends on more than the text.
    """
    place = Place(parameter="acceptance")
    if isinstance(written, Path):
        written = str(written)
    elif isinstance(written, get_args(get_args(Acceptance)[0])):
        written = LocatedDict(document_of(written), place)
    elif isinstance(written, int | float) and not isinstance(written, bool):
        written = str(written)
    elif isinstance(written, dict) and not isinstance(written, LocatedDict):
        written = LocatedDict(written, place)
    found = validate(_ANY, acceptance_alone(written, place, None, remarks))
    if isinstance(found, Published):
        raise InputError(Fault("expected one acceptance, found a published range; name one of its ends.", place))
    if isinstance(found, ByContext):
        entry = found.table[0]
        simple = not isinstance(entry.acceptance, Regimes | Classes)
        how = entry.acceptance.label if simple else "in a file of its own"
        message = (
            "acceptance along the context is simulated one context at a time: give that of an entry of its table, such "
            f"as context {entry.context_length}, {how}."
        )
        raise InputError(Fault(message, place))
    if isinstance(found, TreeLength):
        raise InputError(Fault(NO_SINGLE_DRAFTS, place))
    return found


_ANY: Any = Annotated[get_args(Acceptance)[0], get_args(Acceptance)[1]]


def _by_position(acceptance: Stationary) -> bool:
    from specsim.acceptance import chain_of

    return chain_of(acceptance).positions > 1


def _policies(value: Any) -> tuple[Policy, ...]:
    names = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else [value]
    if names == ["all"]:
        return tuple(Policy(name, DEFAULT_THRESHOLDS.get(name)) for name in POLICIES)
    found = []
    for written in names:
        name, colon, text = written.partition(":") if isinstance(written, str) else ("", "", "")
        if name not in POLICIES:
            raise ValueError(f"unknown policy {shown(written)}. {nearest(written, [*POLICIES, 'all'])}")
        if not colon:
            found.append(Policy(name, DEFAULT_THRESHOLDS.get(name)))
            continue
        if name not in _WITH_A_NUMBER:
            raise ValueError(f"{name} takes no number, found {shown(written)}.")
        expected, kind = _WITH_A_NUMBER[name]
        try:
            number_of = float(kind.read(plain_value(text)))
        except ValueError:
            raise ValueError(f"expected {expected}, found {shown(written)}.") from None
        if math.isnan(number_of):
            raise ValueError(f"expected {expected}, found {shown(written)}.")
        found.append(Policy(name, number_of))
    if len(set(found)) < len(found):
        raise ValueError("a policy is given twice.")
    if any(policy.name == "fixed" and policy.value is not None and policy.value > LONGEST_DRAFT for policy in found):
        raise ValueError(f"expected a draft length of at most {LONGEST_DRAFT}.")
    return tuple(found)


__all__ = ["DEFAULT_THRESHOLDS", "LONGEST", "POLICIES", "Policy", "SimulationQuestion", "ask_simulation", "stationary"]
