"""Trees that are chosen anew in every round: which nodes the draft expands, and which it has verified."""

from __future__ import annotations

from specsim.acceptance.ranks import RankChain
from specsim.specs.tree import DynamicTree, Tree


def kept_by_ranks(chain: RankChain, shape: DynamicTree) -> Tree:
    """The nodes that a dynamic tree keeps where every context has the same ranks.

    Level by level the ``width`` most probable nodes are expanded, and of all candidates the most probable are verified.
    A draft that knows where it is unsure does better than this tree, which is the same in every round.
    """
    mean = chain.mean()
    found: list[tuple[float, int, tuple[int, ...]]] = []
    level: list[tuple[float, tuple[int, ...]]] = [(1.0, ())]
    for depth in range(1, shape.depth + 1):
        ranks = mean.at(depth)[: shape.width, 0].tolist()
        ranks += [0.0] * (shape.width - len(ranks))
        candidates = [(value * rank, (*path, r)) for value, path in level for r, rank in enumerate(ranks)]
        found += [(-value, depth, path) for value, path in candidates]
        level = sorted(candidates, key=lambda one: (-one[0], one[1]))[: shape.width]
    kept: set[tuple[int, ...]] = set()
    for _, _, path in sorted(found):
        # Parents and better ranks come with a node: where ranks rise, they are not there by themselves.
        needed = {path[:k] for k in range(1, len(path) + 1)}
        needed |= {(*one[:-1], rank) for one in needed for rank in range(one[-1])}
        if len(kept | needed) < shape.nodes:
            kept |= needed
    return Tree.of_paths(sorted(kept), shape.label)
