"""Constants of runtimes from measured steps and rounds.

A step and a round are linear in these constants, but for the factor of trees, so a fit is a small regression: of what
was measured on what is predicted, relative to what was measured. Residuals count by their size and not by their square,
so that a few wrong rows do not move a fit, but for those within the rounding of printed figures. Rows of one set-up
share one weight, and set-ups of one source share the square root of their number: what a source gets wrong, it gets
wrong in all of them. Constants are never negative.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from specsim.accuracy.comparison import interferes, measured_plain_seconds, words
from specsim.accuracy.set_up import SetUp
from specsim.specs.measurement import Measurement

Array = NDArray[np.float64]
Constants = dict[str, float]

OF_STEPS = ("layer_overhead_seconds", "quantization_overhead_seconds", "token_overhead_seconds")
"""Constants that a plain step shows."""
OF_ROUNDS = ("draft_step_overhead_seconds", "round_overhead_seconds")
"""Constants that a round shows beside those of steps."""
TREE_FACTORS = (1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3)
TYPICAL = "typical"
POOLED = ("gpt-fast", "sglang", "tensorrt-llm", "vllm")
"""Runtimes with captured graphs, of which ``typical`` is made."""
_ROUNDING = 0.01
"""Relative residuals below this are the rounding of printed figures, and count by their square (Huber's loss)."""
_ENOUGH_STEPS = 16
"""Set-ups with steps that the cost of a token needs."""
_ENOUGH_ROUNDS = 3
"""Set-ups with rounds that a runtime needs for constants of its own."""


@dataclass(frozen=True, eq=False)
class Case:
    """A measured set-up with its times as linear functions of the constants of steps.

    Attributes:
        row: The measurement.
        set_up: What ran.
        assumed: What was taken for granted about it.
    """

    row: Measurement
    set_up: SetUp
    assumed: tuple[str, ...] = ()

    @property
    def runtime(self) -> str:
        """The runtime that it ran under."""
        return self.set_up.machine.runtime.name

    @cached_property
    def set_up_words(self) -> str:
        """What rows of one set-up share."""
        return words(self.row)

    @cached_property
    def plain_words(self) -> str:
        """What rows of one set-up of plain decoding share."""
        return words(self.row, drafts=False)

    @cached_property
    def plain(self) -> Array:
        """Plain step at constants of 0, and what each constant of ``OF_STEPS`` adds for each second [s]."""
        return self._linear(SetUp.plain_seconds)

    @cached_property
    def drafting(self) -> Array:
        """The same for all draft steps of a round, without what a runtime adds to each."""
        return self._linear(SetUp.drafting_seconds)

    @cached_property
    def verification(self) -> Array:
        """The same for verification, as if a tree took no longer than a chain."""
        return self._linear(SetUp.verification_seconds)

    def _linear(self, seconds) -> Array:  # type: ignore[no-untyped-def]
        zero = {**dict.fromkeys((*OF_STEPS, *OF_ROUNDS), 0.0), "tree_factor": 1.0}
        base = seconds(with_constants(self.set_up, **zero))
        slopes = [seconds(with_constants(self.set_up, **{**zero, name: 1.0})) - base for name in OF_STEPS]
        return np.array([base, *slopes])

    def plain_seconds(self, constants: Constants) -> float:
        """A plain step [s]."""
        return float(self.plain @ _steps(constants))

    def round_seconds(self, constants: Constants) -> float:
        """A round [s]."""
        steps, shape = _steps(constants), self.set_up.shape
        factor = constants["tree_factor"] if shape is not None and shape.is_tree else 1.0
        fixed = self.set_up.draft_steps * constants["draft_step_overhead_seconds"] + constants["round_overhead_seconds"]
        return float(self.drafting @ steps + factor * (self.verification @ steps) + fixed)

    @property
    def measured_plain_seconds(self) -> float | None:
        """A plain step as measured [s]."""
        return measured_plain_seconds(self.row)

    @property
    def has_round(self) -> bool:
        """Whether tokens per round and speedup were measured."""
        return self.row.tau is not None and self.row.speedup is not None and self.set_up.shape is not None

    @property
    def step_seconds(self) -> float | None:
        """The same, None where the reading of other requests' prompts is in it [s]."""
        return None if interferes(self.row) else self.measured_plain_seconds

    @property
    def tells(self) -> bool:
        """Whether a constant follows from it."""
        return self.has_round or self.step_seconds is not None

    def speedup(self, constants: Constants) -> float:
        """Plain / speculative time per output token, with the measured tokens per round."""
        tokens = self.set_up.tokens_per_round or 1.0
        return tokens * self.plain_seconds(constants) / self.round_seconds(constants)


def _steps(constants: Constants) -> Array:
    return np.array([1.0, *(constants[name] for name in OF_STEPS)])


def with_constants(set_up: SetUp, **constants: float) -> SetUp:
    """The same set-up under a runtime with other constants."""
    runtime = replace(set_up.machine.runtime, **constants)  # type: ignore[arg-type]
    return replace(set_up, machine=replace(set_up.machine, runtime=runtime))


class Evidence:
    """Measured set-ups, and the constants that follow from them for each runtime.

    Args:
        cases: The set-ups.
    """

    def __init__(self, cases: Iterable[Case]) -> None:
        self.cases = tuple(case for case in cases if not case.row.excluded)
        self._found: dict[tuple[str, str | None], Constants] = {}

    def constants(self, runtime: str, without: str | None = None) -> Constants:
        """Constants of a runtime, of all sources or of all but one.

        A runtime without steps of its own has those of ``typical``; one without rounds of its own has the round of
        ``typical`` and its draft step in proportion to the cost per layer, as both are the host's work.
        """
        key = (runtime, without)
        if key not in self._found:
            self._found[key] = self._fitted(runtime, without)
        return self._found[key]

    def sources(self, runtime: str) -> tuple[str, ...]:
        """Sources with a step or a round of a runtime, or of all of which ``typical`` is made."""
        names = POOLED if runtime == TYPICAL else (runtime,)
        telling = (c for c in self.cases if c.measured_plain_seconds is not None or c.has_round)
        return tuple(dict.fromkeys(case.row.source for case in telling if case.runtime in names))

    def own_constants(self, runtime: str, without: str | None = None) -> Constants:
        """Those constants of a runtime that its own steps and rounds tell."""
        if runtime == TYPICAL:
            return self.constants(TYPICAL, without)
        steps, rounds = self._own(runtime, without)
        return {**steps, **rounds}

    def intervals(self, runtime: str) -> dict[str, tuple[float, float]]:
        """The least and the largest value of each constant over fits that leave one source out.

        With a single source, over fits that leave one of its set-ups out.
        """
        sources = self.sources(runtime)
        if len(sources) > 1:
            fits = [self.constants(runtime, source) for source in sources]
        else:
            own = {case.set_up_words for case in self.cases if case.runtime == runtime}
            fits = [
                Evidence(case for case in self.cases if case.set_up_words != left).constants(runtime) for left in own
            ]
        fits.append(self.constants(runtime))
        return {name: (min(f[name] for f in fits), max(f[name] for f in fits)) for name in fits[-1]}

    def _fitted(self, runtime: str, without: str | None) -> Constants:
        if runtime == TYPICAL:
            return self._typical(without)
        typical = self.constants(TYPICAL, without)
        steps, rounds = self._own(runtime, without)
        found = {name: typical[name] for name in OF_STEPS} | steps
        if not rounds:
            slower = found["layer_overhead_seconds"] / max(typical["layer_overhead_seconds"], 1e-9)
            step, whole = OF_ROUNDS
            rounds = {step: typical[step] * slower, whole: typical[whole]}
        return {"tree_factor": typical["tree_factor"], **found, **rounds}

    def _own(self, runtime: str, without: str | None) -> tuple[Constants, Constants]:
        """What the evidence tells of a runtime: constants of its steps, and of its rounds."""
        own = [case for case in self.cases if case.runtime == runtime and case.row.source != without]
        steps = fit_steps(own)
        enough = len({case.set_up_words for case in own if case.has_round}) >= _ENOUGH_ROUNDS
        nothing = dict.fromkeys(OF_STEPS, 0.0)
        return steps, fit_rounds(own, nothing | steps) if enough and steps else {}

    def _typical(self, without: str | None) -> Constants:
        """The median of what is known of each runtime with captured graphs; the cost of a token is a thing of one."""
        known = [{**steps, **rounds} for steps, rounds in (self._own(name, without) for name in POOLED)]
        step, layer = OF_ROUNDS[0], OF_STEPS[0]
        known = [{**c, step: c[step] / max(c[layer], 1e-9)} if step in c else c for c in known]
        found = {}
        for name in (*OF_STEPS, *OF_ROUNDS, "tree_factor"):
            nothing = 1.0 if name == "tree_factor" else 0.0
            values = [constants[name] for constants in known if name in constants]
            found[name] = float(np.median(values)) if values and name != "token_overhead_seconds" else nothing
        return {**found, step: found[step] * found[layer]}


def misfits(cases: Iterable[Case], constants: Constants) -> Array:
    """|predicted / measured - 1| of all measured steps and speedups under constants, of which all must be there."""
    found = []
    for case in cases:
        if (seconds := case.step_seconds) is not None:
            found.append(case.plain_seconds(constants) / seconds - 1)
        if case.has_round and case.row.speedup is not None:
            found.append(case.speedup(constants) / case.row.speedup - 1)
    return np.abs(np.array(found))


def _weights(cases: Sequence[Case], keys: Sequence[str]) -> Array:
    rows = Counter(keys)
    set_ups = Counter(source for source, _ in {(c.row.source, key) for c, key in zip(cases, keys, strict=True)})
    return np.array([1 / rows[k] / set_ups[c.row.source] ** 0.5 for c, k in zip(cases, keys, strict=True)])


def fit_steps(cases: Sequence[Case]) -> Constants:
    """Constants of steps from plain steps; those that the steps do not tell apart are left out.

    What brings activations to 8 bits shows where two targets need it, and the cost of a token where many set-ups span
    many batches.
    """
    steps, seen = [], set()
    for case in cases:
        seconds = case.step_seconds
        key = (case.plain_words, seconds)
        if seconds is not None and key not in seen:
            seen.add(key)
            steps.append(case)
    fitted = ["layer_overhead_seconds"]
    narrow = {c.set_up.target.model.name for c in steps if c.plain[1 + OF_STEPS.index(_QUANTIZATION)] > 0}
    batches = {case.set_up.batch_size for case in steps}
    fitted += [_QUANTIZATION] if len(narrow) > 1 else []
    spread = len(steps) >= _ENOUGH_STEPS and max(batches) >= 8 * min(batches)
    fitted += ["token_overhead_seconds"] if spread else []
    found: Constants = {}
    if steps:
        measured = np.array([case.step_seconds or 0.0 for case in steps])
        terms = np.array([case.plain for case in steps])
        columns = terms[:, [1 + OF_STEPS.index(name) for name in fitted]]
        weights = _weights(steps, [case.plain_words for case in steps])
        values = least_relative(measured - terms[:, 0], columns, measured, weights)
        found |= dict(zip(fitted, map(float, values), strict=True))
    return found


_QUANTIZATION = "quantization_overhead_seconds"


def fit_rounds(cases: Sequence[Case], steps: Constants) -> Constants:
    """Constants of rounds, with those of steps as they are; nothing where no round was measured."""
    rounds = [case for case in cases if case.has_round]
    if not rounds:
        return {}
    tokens = np.array([case.set_up.tokens_per_round or 1.0 for case in rounds])
    measured = tokens / [case.row.speedup or 1.0 for case in rounds] * [c.plain_seconds(steps) for c in rounds]
    weights = _weights(rounds, [case.set_up_words for case in rounds])
    terms = np.array([[case.set_up.draft_steps, 1.0] for case in rounds])
    at = _steps(steps)
    drafting = np.array([case.drafting @ at for case in rounds])
    verification = np.array([case.verification @ at for case in rounds])
    trees = np.array([case.set_up.shape is not None and case.set_up.shape.is_tree for case in rounds])
    # Tokens of one level of a tree choose alike experts, more than those of a chain: dense targets tell the factor.
    dense = np.array([case.set_up.target.model.experts is None for case in rounds])
    telling = np.where(dense, weights, 0.0) if (dense & trees).any() else weights
    best: tuple[float, Constants] | None = None
    for factor in TREE_FACTORS if trees.any() else TREE_FACTORS[:1]:
        base = drafting + np.where(trees, factor, 1.0) * verification
        values = least_relative(measured - base, terms, measured, weights)
        misfit = float(telling @ np.abs((base + terms @ values) / measured - 1))
        if best is None or misfit < best[0]:
            best = misfit, dict(zip(OF_ROUNDS, map(float, values), strict=True))
            best[1].update({"tree_factor": factor} if trees.any() else {})
    return best[1] if best is not None else {}


def least_relative(wanted: Array, slopes: Array, scale: Array, weights: Array) -> Array:
    """Non-negative x with the least sum of weights x Huber(|slopes x - wanted| / scale).

    By weighted least squares again and again, each residual weighted by 1 / its size; what turns negative is 0.

    Args:
        wanted: Shape (N,).
        slopes: Shape (N, K).
        scale: What residuals are relative to, shape (N,).
        weights: Shape (N,).
    """
    a, b = slopes / scale[:, None], wanted / scale
    active = list(range(a.shape[1]))
    x: Array = np.zeros(a.shape[1])
    while active:
        part: Array = np.zeros(len(active))
        w: Array = weights.copy()
        for _ in range(60):
            root: Array = np.sqrt(w)
            part[:] = np.linalg.lstsq(a[:, active] * root[:, None], b * root, rcond=None)[0]
            w[:] = weights / np.maximum(np.abs(a[:, active] @ part - b), _ROUNDING)
        if (part >= 0).all():
            x[active] = part
            return x
        del active[int(np.argmin(part))]
    return x
