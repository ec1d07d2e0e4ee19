"""``optimal-tree`` as a Python function."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Unpack

from specsim.api.planning import best_of, with_idle_fields
from specsim.catalog.options import DEFAULT_MAX_GAMMA, Options, ask, check_trees_can_be_drafted, whole_number
from specsim.catalog.resolve import Resolution
from specsim.planning.rounds import plan
from specsim.planning.tree_search import Limits, tree_blocks
from specsim.report.columns import Answer, beside_chains, rows
from specsim.report.notes import notes_of, notes_of_search
from specsim.report.simulated import Progress
from specsim.report.table import Table, joined

DEFAULT_MAX_NODES, DEFAULT_MAX_BRANCHES = 64, 8
MOST_SEARCHED_NODES, MOST_LEVELS, MOST_BRANCHES = 1024, 64, 64
"""Larger trees are not searched for."""


def optimal_tree(
    *,
    batch_size: Any = None,
    context_length: Any = None,
    max_nodes: Any = DEFAULT_MAX_NODES,
    max_depth: Any = DEFAULT_MAX_GAMMA,
    max_branches: Any = DEFAULT_MAX_BRANCHES,
    every_size: bool = False,
    **options: Unpack[Options],
) -> Table:
    """The best token tree for each batch and context, beside the best chain.

    Columns are those of ``optimal_gamma`` and ``chain_gamma``, ``chain_speedup``: the best chain; ``speedup_bound``:
    what no tree within the limits exceeds; ``speedup_gap``: bound / speedup - 1, 0 where the tree is certain to be the
    best.

    Args:
        batch_size: Numbers, a list, or text such as ``"1..256*2"``.
        context_length: The same.
        max_nodes: Most verified tokens of a sequence, the root included.
        max_depth: Most levels below the root, and the longest chain.
        max_branches: Most children of a node.
        every_size: Give the best tree of every number of nodes, and every chain, and not only the best of all.
        options: See ``Options``; the acceptance must know ranks.

    Raises:
        InputError: With one fault for everything that is wrong.

    >>> table = optimal_tree(ranks="0.6,0.2,0.1", draft_cost_ratio=0.1, max_nodes=16, max_depth=2)
    >>> table["tree"][0], round(float(table["tokens_per_round"][0]), 2)
    ('<3,3>', 2.71)
    """
    return tree_rows(tree_question(batch_size, context_length, max_nodes, max_depth, max_branches, **options),
                     every_size=every_size)  # fmt: skip


@dataclass(frozen=True)
class TreeQuestion:
    """A question of ``optimal_tree``, resolved, with the trees that it looks at."""

    resolution: Resolution
    limits: Limits

    @property
    def points(self) -> int:
        """Batches and contexts at which trees are searched for, of all drafters."""
        scenarios = self.resolution.scenarios
        return sum(len(s.drafts) * len(s.grid.batch_size) * len(s.grid.context_length) for s in scenarios)


def tree_question(
    batch_size: Any, context_length: Any, max_nodes: Any, max_depth: Any, max_branches: Any, **options: Unpack[Options]
) -> TreeQuestion:
    """The question of ``optimal_tree``, resolved."""
    limits = Limits(
        whole_number(max_nodes, "max_nodes", 2, MOST_SEARCHED_NODES),
        whole_number(max_depth, "max_depth", 1, MOST_LEVELS),
        whole_number(max_branches, "max_branches", 1, MOST_BRANCHES),
    )
    resolution = ask(batch_size, context_length, range(limits.depth + 1), "max_depth", **options)
    check_trees_can_be_drafted(resolution)
    return TreeQuestion(resolution, limits)


def tree_rows(question: TreeQuestion, *, every_size: bool = False, progress: Progress = None) -> Table:
    """The best tree or chain of each batch and context, or the best trees of every size.

    Args:
        question: What is asked.
        every_size: Whether to give the best tree of every number of nodes, and every chain.
        progress: Is told at how many batches and contexts trees were found.
    """
    resolution, tables = question.resolution, []
    for scenario, varied, idle in with_idle_fields(resolution):
        for block, bound in tree_blocks(scenario, question.limits, varied, idle, every_size=every_size):
            answer = Answer(block, plan(block.question, block.axes))
            table = beside_chains(answer, rows(answer, **notes_of(answer)), bound)
            tables.append(table if every_size else best_of(table))
            if progress is not None:
                progress(bound.size)
    found = joined(tables)
    return replace(found, assumed=(*found.assumed, *notes_of_search(found, question.limits.nodes)))
