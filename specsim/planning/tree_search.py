"""The best token tree of each batch and context, by what its round costs there.

For every number of nodes and every depth the best trees are known from acceptance alone; the cost model then says what
the round of each takes: one verification of all its nodes, a draft step for each level that works on the nodes of the
level before. A tree with other levels could be cheaper than the best of its size, so a bound goes with the answer: no
tree of n nodes and d levels emits more than the best of them, and none costs less than one whose draft steps work on
one token each,

    speedup <= max over n, d of E(n, d) x plain / (verification(n) + d steps of one token + overhead)

Where the answer, or the best chain, reaches the bound it is certain to be the best.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from specsim.acceptance.ranks import RankChain, rank_chain_of
from specsim.cost.passes import Array
from specsim.planning.costs import RoundCosts
from specsim.planning.lengths import hit_rate_of, lengths_of_trees
from specsim.planning.question import Axes, Question
from specsim.planning.rounds import NEAR_BEST, Rounds, plan
from specsim.planning.schedules import exposed_seconds
from specsim.planning.shapes import Shapes
from specsim.planning.sweep import Block, blocks
from specsim.specs.acceptance import ByContext, Classes, Point, typical_of
from specsim.specs.drafter import deepest_tree
from specsim.specs.scenario import Scenario
from specsim.specs.tree import Tree
from specsim.trees import TreeLengths
from specsim.trees.in_regimes import best_trees_in_regimes
from specsim.trees.search import BestTrees, best_trees


@dataclass(frozen=True)
class Limits:
    """Which trees are looked at.

    Attributes:
        nodes: Most verified tokens of a sequence, the root included.
        depth: Most levels below the root.
        branches: Most children of a node.
    """

    nodes: int
    depth: int
    branches: int


@dataclass(frozen=True, eq=False)
class TreeSearch:
    """What was found at each batch and context.

    Attributes:
        trees: The best trees, each once; of every number of nodes if all of them were asked for.
        bound: No tree within the limits has a larger speedup, shape (B, S).
    """

    trees: tuple[Tree, ...]
    bound: Array


def search_trees(question: Question, axes: Axes, limits: Limits, *, every_size: bool = False) -> TreeSearch:
    """The best trees of each batch and context.

    Args:
        question: What is planned; its acceptance knows ranks.
        axes: Batches and contexts; its draft lengths do not matter.
        limits: Which trees are looked at.
        every_size: Whether to give the best tree of every number of nodes, and not only the best of all.

    Raises:
        ValueError: If the acceptance knows no ranks.
    """
    deepest = deepest_tree(question.draft)
    limits = limits if deepest is None else replace(limits, depth=min(limits.depth, deepest))
    chosen: dict[tuple[int, ...], Tree] = {}
    # A chain has no mask that slows verification down: it may cost less than the tree of its size that emits most.
    chains = plan(question, Axes.of(axes.batch_size, axes.context_length, range(limits.depth + 1)))
    bound = _largest(chains.speedup, question, chains)
    parts = _parts(typical_of(question.draft.acceptance))
    for part in parts:
        search = best_trees if part.is_independent else best_trees_in_regimes
        found = search(part, limits.nodes, limits.depth, limits.branches)
        if not found.depth.size:
            # No child is ever accepted: there is no tree but the root.
            continue
        rounds = _rounds(question, axes, found, part)
        for index in _winners(rounds, found, every_size):
            tree = found.tree(index)
            if not tree.is_chain:
                chosen.setdefault(tree.parents, tree)
        bound = np.maximum(bound, _bound(question, rounds, chains, found))
    if len(parts) > 1 or (hit_rate_of(question.draft) < 1 and not parts[0].is_independent):
        # Which part of the acceptance holds depends on the point: what is best for one of them bounds nothing. Nor does
        # what is best where every round finds something, if rounds without a find shift where the others begin.
        bound = np.full(bound.shape, np.nan)
    return TreeSearch(tuple(chosen.values()), bound)


def _parts(acceptance: Point) -> Sequence[RankChain]:
    """The acceptances by rank that one consists of."""
    match acceptance:
        case Classes():
            return [chain for one in acceptance.classes.values() for chain in _parts(one.acceptance)]
        case ByContext():
            return [chain for entry in acceptance.table for chain in _parts(entry.acceptance)]
        case _:
            chain = rank_chain_of(acceptance)
            if chain is None:
                raise ValueError(f"{acceptance.label} does not tell how children of lower ranks are accepted")
            return [chain]


def _rounds(question: Question, axes: Axes, found: BestTrees, chain: RankChain) -> Rounds:
    """A round of every tree that was found, at every batch and context."""
    here = replace(axes, gamma=found.depth.reshape(-1, 1, 1), shapes=Shapes.of_best(found))
    return plan(question, here, lengths_of_trees(question.draft, _lengths(question, found, chain), here))


def _lengths(question: Question, found: BestTrees, chain: RankChain) -> TreeLengths:
    beyond = np.zeros(found.depth.shape, dtype=bool) if chain.recorded is None else found.depth > chain.recorded
    # Under regimes rounds without a find shift where others begin: exact for the trees that are chosen, not in between.
    hit = hit_rate_of(question.draft)
    return TreeLengths(hit * found.reached[:, 1:], 1 - hit + hit * found.whole, beyond)


def _winners(rounds: Rounds, found: BestTrees, every_size: bool) -> list[int]:
    """The trees that are the best somewhere, or nearly and smaller; of all or of their number of nodes."""
    value = np.broadcast_to(np.where(rounds.feasible, rounds.speedup, 0.0), rounds.axes.shape)
    chosen = set(np.flatnonzero(rounds.best.any(axis=(1, 2))).tolist())
    # The smallest that is nearly as good.
    near = value >= (1 - NEAR_BEST) * value.max(axis=0)
    order = np.lexsort((found.depth, found.nodes))
    chosen |= set(order[near[order].argmax(axis=0)].reshape(-1).tolist())
    if not every_size:
        return sorted(chosen)
    for size in np.unique(found.nodes):
        where = np.flatnonzero(found.nodes == size)
        chosen |= set(where[value[where].argmax(axis=0)].reshape(-1).tolist())
    return sorted(chosen)


def _bound(question: Question, rounds: Rounds, chains: Rounds, found: BestTrees) -> Array:
    """The largest speedup that no tree within the limits exceeds, shape (B, S).

    Args:
        question: What is planned.
        rounds: Rounds of the trees that were found.
        chains: Rounds of chains of 0, 1, ... tokens, whose draft steps work on one token each.
        found: These trees.
    """
    costs, repair = rounds.costs, question.costs.repair if question.costs is not None else 0.0
    if question.output_length or question.draft.path_by_path:
        # Nothing costs less than one sequence that holds each node once, and outputs without an end.
        costs = _least_costs(question, rounds)
    narrow = np.broadcast_to(chains.costs.whole_drafting_seconds, chains.axes.shape)[found.depth]
    drafting = exposed_seconds(question.draft, narrow, costs.verification_seconds)
    overhead = costs.overhead_seconds - costs.plain_seconds * repair * rounds.lengths.rejection_probability
    seconds = drafting + costs.verification_seconds + overhead
    return _largest(_over_all(question, found.at_most) * costs.plain_seconds / seconds, question, rounds)


def _least_costs(question: Question, rounds: Rounds) -> RoundCosts:
    shapes = rounds.axes.shapes
    if shapes is None:
        return rounds.costs
    alone = replace(shapes, paths=np.ones_like(shapes.paths), path_tokens=shapes.nodes)
    return plan(replace(question, output_length=0), replace(rounds.axes, shapes=alone), rounds.lengths).costs


def _largest(speedup: Array, question: Question, rounds: Rounds) -> Array:
    """The largest speedup of what may be called best, 0 where nothing may, shape (B, S)."""
    allowed = rounds.feasible & (~rounds.lengths.extrapolated | question.extrapolate)
    return np.asarray(np.broadcast_to(speedup * allowed, rounds.axes.shape).max(axis=0))


def _over_all(question: Question, tokens: Array) -> Array:
    """Tokens of a round in which something is found, over all rounds, shape (G, 1, 1)."""
    hit = hit_rate_of(question.draft)
    return (1 - hit + hit * tokens).reshape(-1, 1, 1)


def tree_blocks(
    scenario: Scenario,
    limits: Limits,
    varied: tuple[tuple[str, object], ...] = (),
    without_effect: Sequence[frozenset[str]] | None = None,
    *,
    every_size: bool = False,
) -> Iterator[tuple[Block, Array]]:
    """The grid of a scenario in blocks with the best trees of each on its axis of drafts, and their bounds.

    Args:
        scenario: The scenario; its draft lengths stand before the trees.
        limits: Which trees are looked at.
        varied: Fields of it that are axes, with their values here.
        without_effect: For each drafter the fields of cards that change no figure at any value of these axes.
        every_size: Whether to give the best tree of every number of nodes.
    """
    for block in blocks(scenario, varied, without_effect, drafts=limits.nodes * limits.depth):
        found = search_trees(block.question, block.axes, limits, every_size=every_size)
        points = (block.axes.batch_size, block.axes.context_length, block.axes.gamma)
        axes = Axes.of(*points, found.trees)
        with_trees = replace(scenario, grid=replace(scenario.grid, tree=found.trees or None))
        yield replace(block, scenario=with_trees, axes=axes), found.bound
