"""One operating point explained, along the questions to ask before turning speculation on."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from specsim.acceptance import AcceptedLengths, process_of
from specsim.cost.passes import Pass
from specsim.cost.roofline import BOUNDS, Machine, OperatorTime, PassTime, operator_time, pass_time
from specsim.cost.operators import operators
from specsim.drafting.draft_model import draft_step
from specsim.planning.break_even import break_even_acceptance, paying_stretches, perfect_stop_speedup
from specsim.planning.question import Axes, Question
from specsim.planning.rounds import NEAR_BEST, Rounds, plan
from specsim.planning.sweep import Block, questions
from specsim.report import notes
from specsim.report.columns import Answer, rows
from specsim.report.table import Table
from specsim.specs.acceptance import Published
from specsim.specs.drafter import DraftModel
from specsim.specs.scenario import Scenario


@dataclass(frozen=True, eq=False)
class Section:
    """One question and its answer, in lines of text."""

    question: str
    lines: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Explanation:
    """One operating point explained.

    Attributes:
        title: What runs where.
        sections: Questions with their answers.
        row: The row of this point, with all columns.
        operators: Where the time of each pass goes, operator by operator; empty without cards.
    """

    title: str
    sections: tuple[Section, ...]
    row: Table
    operators: Table

    def to_frame(self) -> Any:
        """The operators as a pandas frame."""
        return self.operators.to_frame()

    def to_text(self) -> str:
        """All of it as text."""
        parts = [self.title]
        for section in self.sections:
            parts.append("\n".join([f"\n{section.question}", *(f"  {line}" for line in section.lines)]))
        return "\n".join(parts) + "\n"

    def to_document(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "title": self.title,
            "row": next(iter(self.row.rows())),
            "questions": [{"question": s.question, "answer": list(s.lines)} for s in self.sections],
            "operators": list(self.operators.rows()),
            "assumed": list(self.row.assumed),
            "extrapolated": list(self.row.extrapolated),
        }


def explain_point(scenario: Scenario, *, best_gamma: bool) -> Explanation:
    """Explain the only batch and context of a scenario.

    Args:
        scenario: One batch, one context, one drafter; draft lengths from 0 upward.
        best_gamma: Explain the best of the draft lengths; otherwise the longest.

    Raises:
        InputError: If a measured plain step contradicts the hardware card.
    """
    question = questions(scenario)[0]
    axes = Axes.of(scenario.grid.batch_size, scenario.grid.context_length, scenario.grid.gamma)
    rounds = plan(question, axes)
    index = int(np.argmax(rounds.best[0, 0])) if best_gamma else len(axes.gamma) - 1
    point = dataclasses.replace(axes, gamma=axes.gamma[index : index + 1])
    answer = Answer(Block(scenario, question, point), plan(question, point))
    row = dataclasses.replace(
        rows(answer), assumed=tuple(notes.assumed(scenario)), extrapolated=tuple(notes.extrapolated(answer))
    )
    teller = _Teller(scenario, question, axes, rounds, index)
    return Explanation(teller.title(), tuple(teller.sections()), row, _operator_table(question, point))


class _Teller:
    """Puts the numbers of one operating point into sentences."""

    def __init__(self, scenario: Scenario, question: Question, axes: Axes, rounds: Rounds, index: int) -> None:
        self.scenario = scenario
        self.question = question
        self.axes = axes
        self.rounds = rounds
        self.index = index
        self.gamma = int(axes.gamma[index])
        self.batch, self.context = scenario.grid.batch_size[0], scenario.grid.context_length[0]

    def title(self) -> str:
        scenario, draft = self.scenario, self.question.draft
        drafter = draft.model.title or draft.model.name if isinstance(draft, DraftModel) else "a drafter of measured cost"
        if scenario.hardware is None or scenario.target is None or scenario.runtime is None:
            return f"Measured costs, {drafter}, {draft.acceptance.label}, gamma {self.gamma}"
        target = scenario.target
        return (
            f"{target.model.title or target.model.name} ({target.precision.name}, tensor parallel {target.tensor_parallel}) on "
            f"{scenario.hardware.title or scenario.hardware.name}, runtime {scenario.runtime.name}\n"
            f"{drafter}, {draft.acceptance.label}, batch {self.batch}, context {self.context}, gamma {self.gamma}"
        )

    def at(self, values: np.ndarray, index: int | None = None) -> float:
        """The value of this point, or of another draft length."""
        whole = np.broadcast_to(values, self.axes.shape)
        return float(whole[0, 0, self.index if index is None else index])

    def ms(self, seconds: np.ndarray) -> str:
        """A time: in milliseconds, or in plain steps where no absolute time is known."""
        value = self.at(seconds)
        return f"{value * 1e3:.3f} ms" if self.rounds.costs.absolute else f"{value:.3f} plain steps"

    def sections(self) -> list[Section]:
        found = [Section("What comes out?", tuple(self._verdict()))]
        if self.question.machine is not None and self.question.target is not None:
            found.append(Section("1. What does the plain step wait for?", tuple(self._plain_step())))
        found.append(Section("2. How cheap is the drafter, in time?", tuple(self._drafter())))
        found.append(Section("3. How many drafts are accepted?", tuple(self._acceptance())))
        found.append(Section("4. How does verification grow with gamma?", tuple(self._verification())))
        if self.rounds.fit is not None:
            found.append(Section("5. What do two models squeeze out?", tuple(self._memory())))
        found.append(Section("6. Does the output stay the same?", (
            "Speculative sampling keeps the target's distribution; greedy decoding keeps its tokens, but for ties that",
            "fall differently in a batched pass. Lossy rules are not assumed here.",
        )))
        found.append(Section("7. Where does it stop paying?", tuple(self._break_even())))
        if self.question.machine is not None:
            found.append(Section("Which card entries were used?", tuple(self._cards(self.question.machine))))
        return found

    def _verdict(self) -> list[str]:
        rounds = self.rounds
        if rounds.fit is not None and not rounds.feasible[0, 0, self.index]:
            excess = self.at(rounds.fit.excess_bytes)
            over = f"; memory is exceeded by {excess / 1e9:.1f} GB on each device" if excess else "; the context exceeds the model's positions"
            yield_line = [f"This point does not fit{over}. The times below are what it would take."]
        else:
            yield_line = []
        speedup, best = self.at(rounds.speedup), int(np.argmax(rounds.best[0, 0])) if rounds.best.any() else None
        lines = [*yield_line, (
            f"{speedup:.3f}x: {self.at(rounds.tokens_per_round):.3f} tokens per round x plain step {self.ms(rounds.costs.plain_seconds)} "
            f"/ round {self.ms(rounds.round_seconds)}"
        )]
        low, high = self.at(rounds.speedup_low), self.at(rounds.speedup_high)
        if not np.isnan(low):
            lines.append(f"Between {low:.2f}x and {high:.2f}x for the middle half of published acceptances.")
        if best is not None:
            top, near = int(self.axes.gamma[best]), int(np.broadcast_to(rounds.near_best, self.axes.shape)[0, 0, 0])
            lines.append(
                "Best: do not speculate." if top == 0 else
                f"Best gamma up to {int(self.axes.gamma.max())}: {top} ({self.at(rounds.speedup, best):.3f}x); "
                f"{near} is the smallest within {NEAR_BEST:.0%} of it."
            )
        return lines

    def _plain_step(self) -> list[str]:
        machine, target = self.question.machine, self.question.target
        assert machine is not None
        assert target is not None
        time = pass_time(Pass(target, np.float64(self.batch), np.ones(()), np.float64(self.context)), machine)
        return [f"{float(time.seconds) * 1e3:.3f} ms, bound by {BOUNDS[int(time.bound)]}: {_parts(time)}"]

    def _drafter(self) -> list[str]:
        rounds = self.rounds
        if self.gamma == 0:
            return ["Nothing is drafted at gamma 0."]
        per_step = self.at(rounds.costs.drafting_seconds) / self.gamma
        ratio = per_step / self.at(rounds.costs.plain_seconds)
        lines = [f"Drafting {self.ms(rounds.costs.drafting_seconds)} a round; draft_cost_ratio {ratio:.4f} a step."]
        draft, target = self.question.draft, self.question.target
        if isinstance(draft, DraftModel) and target is not None:
            share = draft.model.parameters / target.model.parameters
            lines.append(f"It has {share:.1%} of the target's parameters and takes {ratio:.1%} of its time.")
        rate = self._typical_rate()
        if rate is not None:
            lines.append(
                f"Knowing where each draft is rejected would give {perfect_stop_speedup(rate, ratio):.2f}x at best, at "
                f"{1 / (1 - rate) if rate < 1 else np.inf:.2f} tokens a round."
            )
        return lines

    def _typical_rate(self) -> float | None:
        acceptance = self.question.draft.acceptance
        spec = acceptance.typical if isinstance(acceptance, Published) else acceptance
        conditional = getattr(process_of(spec), "conditional", ())
        return conditional[0] if len(conditional) == 1 else None

    def _lengths(self) -> AcceptedLengths:
        acceptance = self.question.draft.acceptance
        spec = acceptance.typical if isinstance(acceptance, Published) else acceptance
        return process_of(spec).lengths(np.array([self.gamma]))

    def _acceptance(self) -> list[str]:
        lengths = self._lengths()
        shares = " ".join(f"{k}: {p:.1%}" for k, p in enumerate(lengths.distribution[0][: self.gamma + 1]))
        return [
            f"{float(lengths.tokens_per_round[0]):.3f} tokens a round, standard deviation {float(lengths.variance[0]) ** 0.5:.2f}.",
            f"Accepted drafts per round: {shares}",
        ]

    def _verification(self) -> list[str]:
        ratio = np.broadcast_to(self.rounds.costs.verification_seconds / self.rounds.costs.plain_seconds, self.axes.shape)
        speedup = np.broadcast_to(self.rounds.speedup, self.axes.shape)
        gammas = self.axes.gamma.tolist()
        lines = [
            "gamma             " + " ".join(f"{g:>7d}" for g in gammas),
            "verify_cost_ratio " + " ".join(f"{r:>7.3f}" for r in ratio[0, 0]),
            "speedup           " + " ".join(f"{s:>7.3f}" for s in speedup[0, 0]),
        ]
        if self.rounds.costs.bound is not None:
            lines.append(f"At gamma {self.gamma} it waits for {BOUNDS[int(self.at(self.rounds.costs.bound))]}.")
        return lines

    def _memory(self) -> list[str]:
        fit, costs = self.rounds.fit, self.rounds
        assert fit is not None
        assert self.question.machine is not None
        machine = self.question.machine
        capacity = machine.hardware.memory.capacity_bytes * machine.runtime.memory_utilization
        lines = [f"{self.at(fit.needed_bytes) / 1e9:.2f} GB of {capacity / 1e9:.2f} GB usable on each device."]
        alone = plan(self.question, dataclasses.replace(self.axes, gamma=np.array([0]))).fit
        if alone is not None:
            before, after = float(np.max(alone.max_batch_size)), self.at(costs.fit.max_batch_size) if costs.fit else 0.0
            lines.append(f"Largest batch at this context: {before:.0f} without the draft, {after:.0f} with it.")
        return lines

    def _break_even(self) -> list[str]:
        question, axes = self.question, self.axes
        rates = break_even_acceptance(question, axes)[0, 0]
        lines = []
        if np.isfinite(rates).any():
            least = int(np.nanargmin(rates))
            here = f"; at gamma {self.gamma}, {rates[self.index]:.4f}" if np.isfinite(rates[self.index]) else ""
            lines.append(
                f"Break-even acceptance_rate: {rates[least]:.4f} (at gamma {int(axes.gamma[least])}, independent drafts){here}"
            )
        else:
            lines.append("No acceptance rate makes a draft length up to "
                         f"{int(axes.gamma.max())} pay here.")
        if question.machine is None or question.target is None:
            return lines
        batches = Axes.of(np.arange(1, _MOST_BATCHES + 1), [self.context], axes.gamma)
        lines.append(f"At context {self.context} it pays at batch {_stretches(paying_stretches(question, batches, 'batch_size'))}.")
        positions = question.target.model.max_positions
        values = np.arange(0, positions) if positions <= _MOST_CONTEXTS else np.unique(np.geomspace(1, positions, _MOST_CONTEXTS).astype(int))
        contexts = Axes.of([self.batch], values, axes.gamma)
        found = _stretches(paying_stretches(question, contexts, "context_length"))
        lines.append(f"At batch {self.batch} it pays at context {found}.")
        return lines

    def _cards(self, machine: Machine) -> list[str]:
        kernels, runtime, hardware = machine.kernels, machine.runtime, machine.hardware
        rate = hardware.dense_rate.of(self.question.target.precision.rate) if self.question.target is not None else None
        owner = "runtime" if runtime.kernels is not None else "hardware"
        return [
            f"hardware {hardware.name}: {hardware.memory.bandwidth_bytes_per_second / 1e12:g} TB/s, "
            f"{(rate or 0) / 1e12:g} TFLOP/s dense, {hardware.memory.capacity_bytes / 1e9:g} GB",
            f"kernels {kernels.name} (of the {owner} card): memory {kernels.memory_efficiency:g}, attention memory "
            f"{kernels.attention_memory_efficiency:g}, compute {kernels.compute_efficiency:g}, "
            f"{kernels.matrix_overhead_seconds * 1e6:g} us a product, {kernels.attention_overhead_seconds * 1e6:g} us an attention call",
            f"runtime {runtime.name}: {runtime.layer_overhead_seconds * 1e6:.4g} us a layer, {runtime.step_overhead_seconds * 1e3:g} ms a step, "
            f"{runtime.round_overhead_seconds * 1e3:g} ms a round, {runtime.draft_step_overhead_seconds * 1e3:g} ms a draft step, "
            f"aggregation by {runtime.aggregation}, {runtime.corner} corner",
        ]


_MOST_BATCHES = 4096
_MOST_CONTEXTS = 8192


def _stretches(stretches: list[tuple[int, int, bool]]) -> str:
    if not stretches:
        return "nowhere"
    return ", ".join(
        f"{first} to {last}{' (the last that fits)' if to_the_end else ''}" if first != last else f"{first}"
        for first, last, to_the_end in stretches
    )


def _parts(time: PassTime) -> str:
    parts = zip(BOUNDS, (time.memory_seconds, time.compute_seconds, time.network_seconds, time.overhead_seconds), strict=True)
    return ", ".join(f"{name} {float(seconds) / float(time.seconds):.0%}" for name, seconds in parts if float(seconds) > 0)


def _operator_table(question: Question, point: Axes) -> Table:
    """One row for each operator of the plain step, of one draft step and of verification."""
    names = ("pass", "operator", "runs", "ms", "operations", "moved_bytes", "bound")
    found: list[tuple[Any, ...]] = []
    if question.machine is not None and question.target is not None:
        batch, context = point.batch_size.reshape(()), point.context_length.reshape(())
        gamma = point.gamma.astype(float).reshape(())
        passes = [("plain", Pass(question.target, batch, np.ones(()), context))]
        if float(gamma) > 0:
            if isinstance(question.draft, DraftModel):
                passes.append(("draft_step", draft_step(question.draft, batch, context)))
            passes.append(("verification", Pass(question.target, batch, gamma + 1.0, context)))
        for name, one in passes:
            found += [_operator_row(name, operator_time(o, one, question.machine)) for o in operators(one)]
    columns = {name: np.array([row[i] for row in found], dtype=None if found and isinstance(found[0][i], float) else object)
               for i, name in enumerate(names)}
    return Table(columns, (len(found),))


def _operator_row(pass_name: str, time: OperatorTime) -> tuple[Any, ...]:
    memory, compute = float(time.memory_seconds), float(time.compute_seconds)
    limits = {"memory": memory, "compute": compute, "network": float(time.network_seconds), "overhead": float(time.overhead_seconds)}
    bound = max(limits, key=lambda name: limits[name])
    return (
        pass_name,
        time.operator.name,
        time.operator.count,
        float(time.seconds) * 1e3,
        float(time.operations),
        float(time.moved_bytes),
        bound,
    )
