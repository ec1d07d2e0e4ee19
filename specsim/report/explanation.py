"""One operating point explained, along the questions to ask before turning speculation on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from specsim.acceptance import AcceptedLengths, chain_of, independent_tokens_per_round, process_of
from specsim.acceptance.ranks import rank_chain_of
from specsim.cost.machine import Machine
from specsim.cost.roofline import BOUNDS, pass_time
from specsim.planning.break_even import (
    Stretch,
    break_even_acceptance,
    paying_batches,
    paying_contexts,
    perfect_stop,
)
from specsim.planning.lengths import hit_rate_of, proposed_by
from specsim.planning.question import Axes, plain_step
from specsim.planning.rounds import DECISIONS, NEAR_BEST, plan
from specsim.planning.schedules import pearl_lengths, pearl_steps
from specsim.planning.sweep import Block, questions
from specsim.report import notes
from specsim.report.card_entries import card_entries
from specsim.report.columns import Answer, rows
from specsim.report.drawing import tree_text
from specsim.report.operator_table import operator_table
from specsim.report.point import Point
from specsim.report.table import Table
from specsim.specs.acceptance import Regimes, typical_of
from specsim.specs.drafter import LOSSY_RULES, DraftModel, LookupDraft
from specsim.specs.ranked import Paired
from specsim.specs.scenario import Scenario
from specsim.specs.served import ServedModel
from specsim.specs.tree import CountedTree, DynamicTree, Shape, Tree
from specsim.trees import fixed_shape

MOST_BATCHES = 4096
"""Batch sizes up to here are searched for where speculation pays."""


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
        """Title, questions and answers as text."""
        parts = [self.title]
        for section in self.sections:
            parts.append("\n".join(["", section.question, *(f"  {line}" for line in section.lines)]))
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
            "infeasible": list(self.row.infeasible),
        }


def explain_point(scenario: Scenario, gamma: int | None) -> Explanation:
    """Explain the only batch and context of a scenario.

    Args:
        scenario: One batch, one context, one drafter; draft lengths from 0 upward, and at most one tree, which is then
            what is explained.
        gamma: One of its draft lengths; the best one if None.

    Raises:
        InputError: If a measured plain step contradicts the hardware card.
    """
    question = questions(scenario)[0]
    grid = scenario.grid
    axes = Axes.of(grid.batch_size, grid.context_length, grid.gamma, grid.trees)
    rounds = plan(question, axes)
    if grid.trees:
        index = axes.gamma.size - 1
    else:
        index = int(np.argmax(rounds.best[:, 0, 0])) if gamma is None else grid.gamma.index(gamma)
    point = Point(scenario, question, axes, rounds, index)
    answer = Answer(Block(scenario, question, axes), rounds)
    whole = rows(answer, **notes.notes_of(answer))
    row = whole.where(np.arange(len(whole)) == index)
    return Explanation(
        _title(point), tuple(_sections(point)), row, operator_table(tuple(point.passes()), point.question.machine)
    )


def _title(point: Point) -> str:
    scenario, draft = point.scenario, point.question.draft
    drafter = _name(draft) if isinstance(draft, DraftModel) and not draft.name else draft.label
    if scenario.hardware is None or scenario.target is None or scenario.runtime is None:
        return f"Measured costs, {drafter}, {draft.acceptance.label}, {point.name}"
    target = scenario.target
    return (
        f"{_name(target)} ({target.precision.name}, {_layout(target)}) "
        f"on {scenario.hardware.title or scenario.hardware.name}, runtime {scenario.runtime.name}\n"
        f"{drafter}, {draft.acceptance.label}, batch {point.batch}, context {point.context}, {point.name}"
    )


def _layout(served: ServedModel) -> str:
    """How a model is laid out over devices, in words; what is not split goes without saying."""
    told = [f"tensor parallel {served.tensor_parallel}"]
    for field in ("pipeline_parallel", "expert_parallel", "attention_data_parallel"):
        number = getattr(served, field)
        told += [f"{field.replace('_', ' ')} {number}"] if number > 1 else []
    told += [f"{served.offloaded:.0%} of the weights on the host"] if served.offloaded else []
    return ", ".join(told)


def _name(served: ServedModel) -> str:
    return served.model.title or served.model.name


def _sections(point: Point) -> Iterable[Section]:
    yield Section("What comes out?", tuple(_verdict(point)))
    if point.cards is not None:
        yield Section("What does the plain step wait for?", tuple(_plain(point, *point.cards)))
    yield Section("How cheap is the drafter, in time?", tuple(_drafter(point)))
    if point.tree is not None:
        yield Section("What is verified?", tuple(_shape(point, point.tree)))
    yield Section("How many drafts are accepted?", tuple(_accepted(point)))
    yield Section("How does verification grow with gamma?", tuple(_verification(point)))
    if point.cards is not None:
        yield Section("What do two models squeeze out?", tuple(_memory(point, *point.cards)))
    yield Section("Does the output stay the same?", _same_output(point.question.draft.rule))
    yield Section("Where does it stop paying?", tuple(_break_even(point)))
    one_pass = point.tree is not None and not point.question.draft.path_by_path
    if point.cards is not None:
        yield Section("Which card entries were used?", tuple(card_entries(*point.cards, tree=one_pass)))


def _same_output(rule: str) -> tuple[str, ...]:
    if rule in LOSSY_RULES:
        return (f"No: the rule of acceptance {rule} is lossy, and the output is no longer the target's.",)
    return (
        "Speculative sampling keeps the target's distribution; greedy decoding keeps its tokens, but for ties",
        "that fall differently in a batched pass. Lossy acceptance rules are not assumed here.",
    )


_MOST_DRAWN = 40
"""Larger trees are not drawn in an explanation."""


def _shape(point: Point, shape: Shape) -> Iterable[str]:
    steps = ", ".join(map(str, shape.step_tokens))
    yield f"{shape.nodes} tokens of each sequence; draft steps work on {steps} of them."
    acceptance = typical_of(point.question.draft.acceptance)
    chain = rank_chain_of(acceptance)
    if isinstance(shape, DynamicTree) and not isinstance(acceptance, Paired):
        yield "Chosen anew in every round, and valued as the same tree in all: a draft that knows where it is unsure"
        yield "gains more. Paired probabilities tell how much."
    if isinstance(shape, CountedTree):
        yield "Only the nodes of each level are known; each level is filled with its most probable nodes."
    if not isinstance(shape, Tree) and chain is None:
        return
    tree = shape if isinstance(shape, Tree) else fixed_shape(chain, shape)  # type: ignore[arg-type]
    one_by_one = f"{tree.path_tokens} tokens" + (", which is what is done" if point.question.draft.path_by_path else "")
    yield f"{tree.paths} candidates; verified one by one they would be {one_by_one}."
    if tree.nodes <= _MOST_DRAWN:
        yield from tree_text(tree).split("\n")


def _verdict(point: Point) -> Iterable[str]:
    rounds, fit = point.rounds, point.rounds.fit
    if fit is not None and not point.at(rounds.feasible):
        excess, apart = point.at(fit.excess_bytes), point.at(fit.apart_excess_bytes)
        why = f"it exceeds memory by {excess / 1e9:.1f} GB a device" if excess else "it exceeds the model's positions"
        why += " of the draft's own" if excess and excess == apart else ""
        yield f"This point does not fit: {why}. The times below are what it would take."
    plain, whole = point.time(rounds.costs.plain_seconds), point.time(rounds.round_seconds)
    tokens = f"{point.at(rounds.lengths.tokens_per_round):.3f} tokens per round"
    yield f"{point.at(rounds.speedup):.3f}x: {tokens} x plain step {plain} / round {whole}"
    low, high = point.at(rounds.speedup_low), point.at(rounds.speedup_high)
    if not np.isnan(low) and point.gamma > 0:
        yield f"Between {low:.2f}x and {high:.2f}x for the middle half of published acceptances."
    if not rounds.best.any():
        return
    best = int(np.argmax(rounds.best[:, 0, 0]))
    gamma, near = int(point.gammas[best]), int(point.all(rounds.near_best)[0])
    if point.axes.shapes is not None and best >= point.axes.shapes.chains:
        yield f"It beats every gamma up to {point.chains.gamma.max()}."
        return
    if gamma == 0 and DECISIONS[int(point.all(rounds.decision)[best])] == "unclear":
        yield "Best: probably do not speculate; at the high end of published acceptances some gamma would pay."
    elif gamma == 0:
        yield "Best: do not speculate."
    else:
        found = f"{gamma} ({point.all(rounds.speedup)[best]:.3f}x)"
        yield f"Best gamma up to {point.axes.gamma.max()}: {found}; {near} is the smallest within {NEAR_BEST:.0%}."


def _plain(point: Point, machine: Machine, target: ServedModel) -> Iterable[str]:
    time = pass_time(plain_step(target, point.batch, point.context), machine)
    shares = ", ".join(
        f"{name} {float(seconds) / float(time.seconds):.0%}"
        for name, seconds in zip(BOUNDS, time.parts, strict=True)
        if float(seconds) > 0
    )
    yield f"{float(time.seconds) * 1e3:.3f} ms, mostly for {BOUNDS[int(time.bound)]}: {shares}."
    if float(time.stage_seconds) > 0:
        yield f"Of the network's share, {float(time.stage_seconds) * 1e3:.3f} ms wait for the slowest stage."


def _drafter(point: Point) -> Iterable[str]:
    costs = point.rounds.costs
    if point.gamma == 0:
        yield "Nothing is drafted at gamma 0."
        return
    draft, target, ratio = point.question.draft, point.question.target, point.at(costs.draft_cost_ratio)
    told = f"Drafting {point.time(costs.drafting_seconds)} a round"
    if isinstance(draft, DraftModel) and draft.schedule != "serial":
        whole = point.time(costs.whole_drafting_seconds)
        told = f"Drafting {whole} a round, of which verification waits for {point.time(costs.drafting_seconds)}"
    yield f"{told}; draft_cost_ratio {ratio:.4f}."
    if isinstance(draft, DraftModel) and target is not None:
        share = draft.model.parameters / target.model.parameters
        step = point.at(costs.whole_drafting_seconds) / point.gamma / point.at(costs.plain_seconds)
        what = "One step" if draft.passes == "chain" else "One token of its pass"
        yield f"{what} takes {step:.1%} of a plain step's time with {share:.1%} of the target's parameters."
    if point.tree is not None:
        return
    bound = perfect_stop(point.question, point.axes, point.rounds, point.gamma)
    yield (
        f"A drafter that knew where it will be rejected would reach {bound.speedup:.2f}x with drafts of up to "
        f"{bound.longest}, at {bound.tokens:.2f} tokens a round."
    )


def _accepted(point: Point) -> Iterable[str]:
    draft, found = point.question.draft, point.rounds.lengths
    tokens, deviation = point.at(found.tokens_per_round), point.at(found.variance) ** 0.5
    yield f"{tokens:.3f} tokens a round, standard deviation {deviation:.2f}."
    rounds, accepted = "round", point.distribution()
    if isinstance(draft, LookupDraft) and draft.hit_rate < 1:
        tokens = 1 + float(accepted @ np.arange(point.gamma + 1))
        yield f"Something is found in {draft.hit_rate:.0%} of the rounds, which emit {tokens:.3f} tokens."
        rounds = "round in which something is found"
    overlaps = isinstance(draft, DraftModel) and draft.schedule == "pearl" and point.gamma > 0
    if overlaps:
        process = process_of(typical_of(draft.acceptance))
        overlapped = pearl_lengths(process, np.array([point.gamma]), point.axes.context_length)
        steps, accepted = pearl_steps(*overlapped), overlapped[0].distribution.reshape(-1)
        share, tokens = steps.whole_share.item(), steps.tokens_per_whole_draft.item()
        yield f"{share:.1%} of the rounds verify whole drafts and emit {tokens:.3f} tokens, without a bonus token;"
        yield "the others, after a rejection, verify one draft and emit one token."
        rounds = "round with a whole draft"
    shares = enumerate(accepted[: int(proposed_by(draft, point.axes.gamma).reshape(-1)[point.index]) + 1])
    yield f"Accepted drafts of a {rounds}: " + ", ".join(f"{k} in {share:.1%}" for k, share in shares) + "."
    acceptance = typical_of(draft.acceptance)
    if isinstance(acceptance, Regimes) and point.gamma > 0 and point.tree is None and not overlaps:
        yield from _in_stretches(acceptance, point, point.lengths(point.gamma))


def _in_stretches(acceptance: Regimes, point: Point, lengths: AcceptedLengths) -> Iterable[str]:
    hit = hit_rate_of(point.question.draft)
    rounds = chain_of(acceptance).rounds(lengths.gamma, hit)
    begin = zip(acceptance.regimes, rounds.start_share[0], strict=True)
    yield "Rounds begin in: " + ", ".join(f"{name} {share:.1%}" for name, share in begin) + "."
    correlation, rate = rounds.lag_1_autocorrelation.item(), lengths.acceptance_rate.item()
    tokens = rounds.tokens_per_round.item()
    formula = 1 + hit * (float(independent_tokens_per_round(rate, point.gamma)) - 1)
    if not np.isnan(correlation):
        yield f"Tokens of one round and of the next: correlation {correlation:.3f}; independent drafts have 0."
    yield (
        f"Independent drafts at its rate, {rate:.3f} accepted / examined, would give {formula:.3f} "
        f"({formula / tokens - 1:+.1%})."
    )


def _verification(point: Point) -> Iterable[str]:
    costs = point.rounds.costs
    ratio = point.all(costs.verification_seconds / costs.plain_seconds)
    heads = [str(gamma) for gamma in point.chains.gamma.reshape(-1)]
    heads += ["tree"] * (len(point.gammas) - len(heads))
    yield "gamma             " + " ".join(f"{head:>7}" for head in heads)
    yield "verify_cost_ratio " + " ".join(f"{r:>7.3f}" for r in ratio)
    yield "speedup           " + " ".join(f"{s:>7.3f}" for s in point.all(point.rounds.speedup))
    unfit = point.gammas[~point.all(point.rounds.feasible)]
    if unfit.size and not (unfit == 0).any():
        yield f"From gamma {unfit[0]} on, it does not fit."
    beyond = point.gammas[point.all(point.rounds.lengths.extrapolated)]
    if beyond.size:
        yield f"From gamma {beyond[0]} on, acceptance is extrapolated beyond the record."
    if costs.bound is not None:
        yield f"At {point.name} it waits mostly for {BOUNDS[int(point.at(costs.bound))]}."


def _memory(point: Point, machine: Machine, target: ServedModel) -> Iterable[str]:
    fit = point.rounds.fit
    if fit is None:
        return
    usable = machine.hardware.memory.capacity_bytes * machine.runtime.memory_utilization
    yield f"Weights and caches take {point.at(fit.needed_bytes) / 1e9:.2f} of {usable / 1e9:.2f} GB on each device."
    with_draft = point.at(fit.max_batch_size)
    without = float(point.all(fit.max_batch_size)[0])
    yield f"Largest batch at this context: {without:.0f} in plain decoding, {with_draft:.0f} at {point.name}."
    taken = point.at(fit.draft_bytes)
    if taken:
        tokens = taken / (target.kv_bytes_per_token / target.pipeline_parallel) if target.kv_bytes_per_token else 0
        yield f"The draft takes {taken / 1e9:.2f} GB with its cache, room for {tokens:,.0f} tokens of the target's."


def _break_even(point: Point) -> Iterable[str]:
    question, axes = point.question, point.chains
    rates = np.broadcast_to(break_even_acceptance(question, axes), axes.shape)[:, 0, 0]
    if point.tree is not None:
        yield f"The tree pays from {point.at(point.rounds.round_cost_ratio):.3f} tokens a round on."
    if np.isfinite(rates).any():
        least = int(np.nanargmin(rates))
        own = float(rates[point.index]) if point.tree is None else np.nan
        here = f"; {own:.4f} at gamma {point.gamma}" if np.isfinite(own) else ""
        told = f"{float(rates[least]):.4f} at gamma {point.gammas[least]}{here}"
        beside = " for a chain" if point.tree is not None else ""
        yield f"Least acceptance_rate that pays{beside}, by independent drafts: {told}."
    else:
        yield f"No acceptance_rate is high enough for a gamma up to {axes.gamma.max()}."
    if point.cards is None:
        return
    gammas, trees = (point.gammas, ()) if point.tree is None else (np.array([0]), (point.tree,))
    found = paying_batches(question, point.context, gammas, MOST_BATCHES, trees)
    yield f"Batch, at context {point.context}: it pays {_told(found)}."
    found = paying_contexts(question, point.batch, gammas, point.cards[1].model.max_positions, trees)
    yield f"Context, at batch {point.batch}: it pays {_told(found)}."


_ENDS = {
    "cost": "",
    "search": " and maybe beyond",
    "draft_memory": " (beyond, a round that drafts does not fit)",
    "memory": " (beyond, nothing fits)",
}


def _told(stretches: list[Stretch]) -> str:
    if not stretches:
        return "nowhere that fits"
    return "from " + ", and from ".join(f"{s.first} to {s.last}{_ENDS[s.ended_by]}" for s in stretches)
