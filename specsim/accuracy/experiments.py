"""What one measurement of a user's own buys, and what a part of the timing model buys, on set-ups left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from specsim.accuracy.fit import OF_ROUNDS, OF_STEPS, Case, Constants, Evidence, fit_steps

_LAYER = OF_STEPS[0]


@dataclass(frozen=True)
class Anchored:
    """Speedups of one source without and with one of its plain steps.

    Attributes:
        source: The source.
        set_ups: Set-ups whose speedup is predicted.
        before: Median over them of the size of the error, with constants fitted without the source.
        after: The same once the cost per layer is solved from one plain step; the mean over all plain steps.
    """

    source: str
    set_ups: int
    before: float
    after: float


def anchor(case: Case, constants: Constants) -> Constants:
    """Constants with which a plain step comes out as measured, by the cost per layer; never a negative one.

    What differs most between installations of one engine is the host, and the cost per layer has most of it.
    """
    free = case.plain_seconds({**constants, _LAYER: 0.0})
    layers = case.plain[1]
    measured = case.measured_plain_seconds
    if measured is None:
        raise ValueError("no plain step was measured")
    solved = max((measured - free) / layers, 0.0)
    return {**constants, _LAYER: solved}


def anchored_sources(evidence: Evidence) -> list[Anchored]:
    """Every source with a plain step of a runtime, an accelerator and a target whose rounds it has too."""
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in evidence.cases:
        groups[case.row.source].append(case)
    found = []
    for source, cases in groups.items():
        before, after, set_ups = list[float](), list[float](), set[str]()
        rounds, plain = defaultdict[Hashable, list[Case]](list), dict[Hashable, dict[int, Case]]()
        for case in cases:
            if case.has_round:
                rounds[_place(case)].append(case)
            if case.measured_plain_seconds is not None:
                plain.setdefault(_place(case), {}).setdefault(case.set_up.batch_size, case)
        for place, members in rounds.items():
            constants = evidence.constants(members[0].runtime, source)
            for one in plain.get(place, {}).values():
                before.append(_median_error(members, constants))
                after.append(_median_error(members, anchor(one, constants)))
                set_ups |= {case.set_up_words for case in members}
        if before:
            found.append(Anchored(source, len(set_ups), float(np.mean(before)), float(np.mean(after))))
    return found


def _place(case: Case) -> Hashable:
    """What an anchor holds for: software, accelerators and target."""
    return case.runtime, case.set_up.machine.hardware.name, case.set_up.target.model.name, case.set_up.target.devices


def _median_error(cases: Sequence[Case], constants: Constants) -> float:
    errors: dict[str, list[float]] = defaultdict(list)
    for case in cases:
        errors[case.set_up_words].append(case.speedup(constants) / (case.row.speedup or 1.0) - 1)
    return float(np.median([abs(np.median(values)) for values in errors.values()]))


@dataclass(frozen=True)
class FromPlain:
    """Draft and verification times predicted by constants from plain steps alone; signed errors by set-up."""

    plain: tuple[float, ...]
    verification: tuple[float, ...]
    drafting: tuple[float, ...]


def from_plain_steps(cases: Iterable[Case]) -> FromPlain:
    """Fit the constants of steps to the plain column of a table, and predict its draft and verification columns."""
    table = [case for case in cases if case.row.verify_ms is not None and case.row.draft_total_ms is not None]
    constants = {**dict.fromkeys((*OF_STEPS, *OF_ROUNDS), 0.0), "tree_factor": 1.0, **fit_steps(table)}
    steps = np.array([1.0, *(constants[name] for name in OF_STEPS)])
    plain = [case.plain_seconds(constants) / (case.measured_plain_seconds or 1.0) - 1 for case in table]
    verification = [case.verification @ steps * 1e3 / (case.row.verify_ms or 1.0) - 1 for case in table]
    drafting = [case.drafting @ steps * 1e3 / (case.row.draft_total_ms or 1.0) - 1 for case in table]
    return FromPlain(tuple(plain), tuple(map(float, verification)), tuple(map(float, drafting)))
