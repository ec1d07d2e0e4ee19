"""What was assumed, what was extrapolated and what did not fit, in words."""

from __future__ import annotations

from collections.abc import Iterator, Set

import numpy as np

from specsim.acceptance import chain_of
from specsim.cost.machine import Machine
from specsim.cost.memory import LIMITS, Fit
from specsim.planning.sweep import anchor_point
from specsim.report.columns import Answer
from specsim.report.table import Table
from specsim.specs.acceptance import ByContext, Classes, Drafted, Length, Point, Published, Regimes, typical_of
from specsim.specs.card import Card
from specsim.specs.drafter import (
    HEAD_DRAFTS,
    LOSSY_RULES,
    AnyDraft,
    CascadeDraft,
    DraftModel,
    LookupDraft,
    MeasuredDraft,
    MergedDraft,
    models_of,
)
from specsim.specs.ranked import Paired, TreeLength
from specsim.specs.scenario import Scenario
from specsim.specs.served import ServedModel
from specsim.specs.tree import CountedTree, DynamicTree


def notes_of(answer: Answer) -> dict[str, tuple[str, ...]]:
    """The notes of one block by the fields of a table, one sentence each, without the full stop."""
    return {
        "assumed": tuple(_assumed(answer)),
        "extrapolated": tuple(_extrapolated(answer)),
        "infeasible": tuple(_infeasible(answer)),
    }


def _assumed(answer: Answer) -> Iterator[str]:
    scenario, draft = answer.scenario, answer.draft
    served = _served(scenario, draft)
    yield from of_cards(scenario, draft, answer.block.without_effect if answer.block.varied else None)
    if scenario.node is None and any(one.devices > 1 for one in served) and scenario.hardware is not None:
        yield f"devices of {scenario.hardware.name} are linked as through a switch (no node card)"
    yield from _of_costs(scenario)
    if answer.block.question.machine is not None:
        for one in served:
            yield from _of_model(one, answer.block.question.machine)
    yield from of_accepted(draft)
    yield from _of_drafter(draft)
    yield from _of_trees(scenario, draft)
    if isinstance(draft, HEAD_DRAFTS) and scenario.target is not None:
        model = scenario.target.model
        if draft.head.target not in (model.name, *model.aliases):
            yield f"{draft.head.name} was trained for {draft.head.target}, and drafts here for {model.name}"
    for model in (one.model for one in served[1:]):
        own, other = model.vocab_size, served[0].model.vocab_size
        # Padded tables of one tokenizer differ by less than this.
        if abs(own - other) > 0.002 * other:
            sizes = f"{own} tokens for {other}"
            yield f"{model.name} drafts for another vocabulary ({sizes}), which not every engine can do"
    yield from _searched_to_the_end(answer)


def of_cards(scenario: Scenario, draft: AnyDraft, idle: Set[str] | None = None) -> Iterator[str]:
    """What nobody published of the cards behind a drafter, but for the fields that are ``idle``: without effect."""
    idle = without_effect(scenario, draft) if idle is None else idle
    models = (one.model for one in _served(scenario, draft))
    for card in (scenario.runtime, scenario.hardware, _kernels(scenario), scenario.node, *models):
        if card is not None:
            yield from _unpublished(card, idle)


def of_accepted(draft: AnyDraft) -> Iterator[str]:
    """Where the acceptance of a drafter comes from, and what it takes for granted."""
    acceptance = draft.acceptance
    name = draft.name or "the draft" if isinstance(draft, MeasuredDraft) else draft.label
    if isinstance(acceptance, Published):
        yield f"acceptance of {name}: {acceptance.basis}, {acceptance.low.label} to {acceptance.high.label}"
    else:
        yield from (f"acceptance of {name}: {what}" for what in of_acceptance(acceptance))


_SHARES_APART = 0.01
"""Shares that are as near as this to those at which a text settles go without saying: no finite text has these."""


def of_acceptance(acceptance: Point, apart: float = _SHARES_APART) -> Iterator[str]:
    """What a form of acceptance takes for granted.

    Args:
        acceptance: The acceptance.
        apart: Difference of shares from those at which a text settles that is spoken of.
    """
    match acceptance:
        case Paired():
            yield "ranks are means over its positions, whatever was accepted before"
        case Length() | Drafted():
            yield f"one rate for all positions, from {acceptance.label}"
        case Regimes():
            if len(acceptance.regimes) > 2 and acceptance.transitions is None and acceptance.ends:
                yield "a regime that ends leads to all others alike"
            chain = chain_of(acceptance)
            settled = chain.settled_share
            if np.abs(settled - chain.share).max() > apart:
                given, then = (
                    ", ".join(f"{name} {share:.1%}" for name, share in zip(acceptance.regimes, shares, strict=True))
                    for shares in (chain.share, settled)
                )
                yield f"the token shares given ({given}), though such text settles at {then} and does not keep them"
        case Classes():
            yield "classes are in flight as often as they arrive x output_tokens / tokens_per_round"
            for one in acceptance.classes.values():
                yield from of_acceptance(one.acceptance, apart)
        case ByContext():
            yield "survival is read linearly between the contexts of its table"
            for entry in acceptance.table:
                yield from of_acceptance(entry.acceptance, apart)
        case _:
            return


def _of_trees(scenario: Scenario, draft: AnyDraft) -> Iterator[str]:
    """What the figures of token trees take for granted."""
    trees = [tree for tree in scenario.grid.trees if not tree.is_chain]
    if not trees:
        return
    acceptance = typical_of(draft.acceptance)
    if isinstance(acceptance, TreeLength):
        return
    for tree in trees:
        if isinstance(tree, DynamicTree) and not isinstance(acceptance, Paired):
            yield f"{tree.label} is the same tree in every round, which is a bound: its draft chooses it anew"
        if isinstance(tree, DynamicTree) and isinstance(acceptance, Paired):
            yield f"{tree.label} is drawn from the draft's most probable tokens, at positions that are independent"
        if isinstance(tree, CountedTree):
            yield f"levels of {tree.label} hold their most probable nodes"
    if draft.path_by_path:
        yield "candidates are verified as sequences of their own"


def _of_drafter(draft: AnyDraft) -> Iterator[str]:
    """What a drafter's figures take for granted."""
    if draft.rule in LOSSY_RULES:
        yield f"the rule of acceptance {draft.rule} is lossy: the output is no longer the target's"
    if isinstance(draft, HEAD_DRAFTS):
        yield from _unpublished(draft.head, set())
    if draft.assumptions:
        fields = ", ".join(field for field in draft.assumptions if field != "all")
        yield f"drafter {draft.label} ({fields})" if fields else f"drafter {draft.label}"
    match draft:
        case DraftModel(schedule="serial"):
            return
        case DraftModel():
            where = "devices of its own" if draft.own_device else "the target's devices, and slows nothing there"
            yield f"{draft.label} drafts during verification on {where} ({draft.schedule})"
        case LookupDraft():
            yield f"{draft.label} finds something in {draft.hit_rate:.0%} of the rounds"
        case MergedDraft():
            yield "sequences of merged drafters share no token, and all of them are verified"
        case CascadeDraft():
            inner, rounds = draft.inner.model.name, f"whole rounds of {draft.inner_gamma}"
            yield f"{inner} drafts for {draft.model.name} in {rounds}, each draft accepted for itself"
        case _:
            return


def _of_model(served: ServedModel, machine: Machine) -> Iterator[str]:
    """What stands behind the times of models that are no plain stack of layers in 16 bits."""
    model, name, precision = served.model, served.model.name, served.precision
    if precision.narrow_activations and machine.is_weight_only(precision):
        without = f"{machine.hardware.name} has none for {precision.rate}"
        yield f"{name} in {precision.name} runs weight-only at the {machine.rate_of(precision)} rate: {without}"
    if model.experts is not None:
        alike = f"correlation {model.experts.correlation:g}" if model.experts.correlation else "each token for itself"
        yield f"experts of {name} are chosen evenly, {alike}"
    if model.linear_attention is not None:
        yield f"{name} keeps a state for every drafted token, so that rejected ones can be taken back"


def _of_costs(scenario: Scenario) -> Iterator[str]:
    costs = scenario.costs
    if costs is None:
        return
    if scenario.hardware is None:
        if costs.verify_cost_ratio is None:
            what = "any tree" if any(not tree.is_chain for tree in scenario.grid.trees) else "gamma + 1 tokens"
            yield f"verifying {what} costs as much as a plain step (verify_cost_ratio 1)"
        if costs.draft_operations_ratio is None:
            yield "a draft step has the share of a plain step's operations and bytes that it has of its time"
        return
    if costs.draft_cost_ratio is not None or costs.verify_cost_ratio is not None:
        yield "measured cost ratios hold at every batch and context"
    if costs.plain_step_seconds is not None:
        batch, context = anchor_point(scenario)
        yield (
            f"the plain step of {costs.plain_step_seconds * 1e3:g} ms was measured at batch {batch}, "
            f"context {context}, and fixes the cost per layer everywhere"
        )


def _unpublished(card: Card, idle: Set[str]) -> Iterator[str]:
    """The fields of a card that nobody published, but for those without effect."""
    fields = [field for field in card.assumptions if field not in idle]
    if fields:
        named = f"{getattr(card, 'kind', 'card')} {card.name}"
        yield named if fields == ["all"] else f"{named} ({', '.join(fields)})"


def _served(scenario: Scenario, draft: AnyDraft) -> list[ServedModel]:
    """The target and the draft models, none where there are no cards."""
    return [scenario.target, *models_of(draft)] if scenario.target is not None else []


def without_effect(scenario: Scenario, draft: AnyDraft) -> frozenset[str]:
    """Fields of cards that change no figure of a drafter; a measured plain step makes the cost per layer known."""
    served, machine = _served(scenario, draft), None
    if scenario.hardware is not None and scenario.runtime is not None:
        machine = Machine(scenario.hardware, scenario.runtime, scenario.node)
    narrow = [one.precision for one in served if one.precision.narrow]
    widened = [machine is not None and machine.is_weight_only(precision) for precision in narrow]
    counts = {
        ("layer_overhead",): scenario.costs is None or scenario.costs.plain_step_seconds is None,
        ("all_reduce_latency", "link_efficiency", "interconnect"): any(one.devices > 1 for one in served),
        ("link_latency", "topology"): any(one.devices > 1 for one in served),
        ("quantization_overhead", "compute_efficiency_8bit"): not all(widened),
        ("weight_only_8bit_efficiency", "weight_only_4bit_efficiency"): any(widened),
        ("attention_memory_efficiency_8bit",): any(one.kv_bytes_per_value < 2 for one in served),
        ("expert_layer_overhead",): any(one.model.experts is not None for one in served),
        ("host_link_efficiency", "host_link"): any(one.offloaded for one in served),
        ("tree_factor",): any(not tree.is_chain for tree in scenario.grid.trees) and not draft.path_by_path,
        ("power",): False,
    }
    if scenario.node is None or all(one.devices <= scenario.node.devices for one in served):
        counts["network", "network_efficiency", "network_latency"] = False
    return frozenset(field for fields, do_count in counts.items() if not do_count for field in fields)


def _kernels(scenario: Scenario) -> Card | None:
    """The kernels in force, unless the runtime, which brings its own, speaks for them."""
    if scenario.hardware is None or (scenario.runtime is not None and scenario.runtime.kernels is not None):
        return None
    return scenario.hardware.kernels


def _extrapolated(answer: Answer) -> Iterator[str]:
    beyond = answer.rounds.axes.gamma[answer.rounds.lengths.extrapolated]
    if beyond.size:
        use = "" if answer.block.question.extrapolate else ", which is never called best unless asked for"
        yield f"gamma {beyond.min()} and above lies beyond the recorded {answer.draft.acceptance.label}{use}"
    if isinstance(acceptance := answer.draft.acceptance, ByContext):
        contexts = answer.rounds.axes.context_length
        first, last = acceptance.table[0].context_length, acceptance.table[-1].context_length
        for end, outside, which in ((first, contexts < first, "below"), (last, contexts > last, "above")):
            if outside.any():
                yield f"acceptance {which} context {end}, where its table ends, is the one there"


def _searched_to_the_end(answer: Answer) -> Iterator[str]:
    """Where the longest draft that was tried is the best."""
    gamma = answer.rounds.axes.gamma
    longest = int(gamma.max())
    if longest > 0 and np.broadcast_to(answer.rounds.best, answer.rounds.axes.shape)[(gamma == longest)[:, 0, 0]].any():
        yield f"no draft longer than {longest} was tried, and it is the best at some points"


def _infeasible(answer: Answer) -> Iterator[str]:
    rounds = answer.rounds
    if rounds.fit is None or not rounds.fit.limit.any():
        return
    drafts = rounds.axes.gamma > 0
    feasible = np.broadcast_to(rounds.feasible, rounds.axes.shape)
    something, some_draft = feasible.any(axis=0), (feasible & drafts).any(axis=0)
    if not something.all():
        # Where the target is asked about alone, the draft has no part in it.
        nothing = ~something & ~drafts if (~drafts).any() else ~something & drafts
        where = "not even the target at some points" if something.any() else "anything at any point"
        least = "" if something.any() else _least_needed(answer, nothing)
        yield f"{where}, by {_limits(rounds.fit, nothing)}{least}"
    alone = something & ~some_draft
    if drafts.any() and alone.any():
        yield f"the draft at some points, by {_limits(rounds.fit, np.asarray(alone & drafts))}; gamma 0 is all there is"


def _least_needed(answer: Answer, where: np.ndarray) -> str:
    """How much the least of some points needs, and how much there is, where memory is what stands against it."""
    fit, machine = answer.rounds.fit, answer.block.question.machine
    if fit is None or machine is None:
        return ""
    needed, excess, limit = (
        np.broadcast_to(values, where.shape)[where] for values in (fit.needed_bytes, fit.excess_bytes, fit.limit)
    )
    if not needed.size or (limit == LIMITS.tolist().index("position")).all():
        target = answer.scenario.target
        models = [target, *models_of(answer.draft)] if target is not None else []
        return f" ({min(one.model.max_positions for one in models):,} positions)" if models else ""
    there = machine.hardware.memory.capacity_bytes * machine.runtime.memory_utilization
    least = np.where(excess > 0, there + excess, needed).min()
    return f" (at least {least / 1e9:.1f} GB a device, of {there / 1e9:.1f})"


def _limits(fit: Fit, where: np.ndarray) -> str:
    """The words of the limits that stand against some points."""
    limit, apart, found = np.broadcast_to(fit.limit, where.shape)[where], None, []
    if fit.apart_excess_bytes.any():
        # On its own device a draft exceeds memory by more than the target does on the others.
        excess = fit.apart_excess_bytes
        apart = np.broadcast_to((excess > 0) & (excess == fit.excess_bytes), where.shape)[where]
    for code in range(1, len(LIMITS)):
        stands = limit == code
        if stands.any():
            own = apart is not None and LIMITS[code] != "position" and apart[stands].all()
            found.append(f"{LIMITS[code]} of the draft's own device" if own else str(LIMITS[code]))
    return " and ".join(found)


def notes_of_search(table: Table, nodes: int) -> Iterator[str]:
    """What a search for trees leaves open: how much better another tree could be, and whether it ended at a limit.

    Args:
        table: The rows that were found.
        nodes: Most nodes that were tried.
    """
    here = table["best"]
    if (here & (table["nodes"] == nodes)).any():
        yield f"no tree of more than {nodes} nodes was tried, and one of as many is the best at some points"
    gap = table["speedup_gap"][here]
    if np.isnan(gap).any():
        yield "no bound is known for the trees of acceptance that differs between classes or contexts"
    elif gap.size and gap.max() > 0:
        yield f"another tree within these limits may be better, by no more than {gap.max():.2%}"
