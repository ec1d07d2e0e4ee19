"""The best tree of every number of nodes and every depth, where children are accepted by rank.

A tree is worth the sum over its nodes of the probability that they are accepted, and a node that of its parent times
its rank. Where no rank is above a better one, the best tree of n nodes holds the n most probable of all nodes, found by
a heap, for every n at once. Always, by dynamic programme (Sequoia, Chen et al. 2024): with d levels below it, n nodes
and b children, a root is worth

    T[1, d, 0] = 1,    T[n, d, b] = max over y of T[y, d, b - 1] + p_b max over b' of T[n - y, d - 1, b']

the tree with its first b - 1 children on the left, what hangs below child b on the right. All n of one (d, b) are one
array operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from specsim.acceptance.ranks import RankChain
from specsim.specs.tree import Tree

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BestTrees:
    """The best trees of every size, as far as costs need to know them; G trees with up to J levels.

    Attributes:
        depth: Levels below the root, shape (G,).
        nodes: Nodes, the root included, shape (G,).
        reached: Sum over the nodes of each level, the root's first, of the probability that they are accepted, shape
            (G, J + 1).
        counts: Nodes of each level, shape (G, J + 1).
        reached_inner: The sum over those nodes that have children, shape (G, J + 1).
        inner: Number of nodes that have children: what the draft step to the next level works on, shape (G, J + 1).
        at_most: No tree of as many nodes and levels emits more tokens per round, shape (G,).
        tree: The tree of an index.
    """

    depth: IntArray
    nodes: IntArray
    reached: Array
    counts: Array
    reached_inner: Array
    inner: Array
    at_most: Array
    tree: Callable[[int], Tree]

    @property
    def tokens_per_round(self) -> Array:
        """Emitted tokens per round, shape (G,)."""
        return self.reached.sum(-1)

    @property
    def whole(self) -> Array:
        """P(a round rejects nothing), shape (G,)."""
        return (self.reached - self.reached_inner).sum(-1)


def best_trees(chain: RankChain, nodes: int, depth: int, branches: int) -> BestTrees:
    """The best tree of each number of nodes and each depth, without stretches.

    Args:
        chain: Acceptance by rank, of one regime.
        nodes: Most nodes, the root included.
        depth: Most levels below the root.
        branches: Most children of a node.

    Returns:
        Only trees that make use of their depth.
    """
    by_level = [chain.at(level)[:branches, 0] for level in range(1, depth + 1)]
    by_level = [ranks[: int(np.flatnonzero(ranks)[-1]) + 1 if ranks.any() else 0] for ranks in by_level]
    search = by_heap if chain.never_rises else by_programme
    return search(by_level, nodes)


def by_heap(by_level: Sequence[Array], nodes: int) -> BestTrees:
    """The best trees where no rank rises, by a heap: the n most probable nodes, for every n at once.

    Args:
        by_level: Ranks of the children at each level, shape (R,) each; as many as there may be levels.
        nodes: Most nodes.
    """
    ranks = [level.tolist() for level in by_level]
    found: list[tuple[list[int], Array]] = []
    for limit in range(1, len(ranks) + 1):
        found.append(_most_probable(ranks[:limit], nodes))
    depth = len(ranks)
    features = np.concatenate([_features(parents, values, depth) for parents, values in found])
    at = [(limit, count) for limit, (parents, _) in enumerate(found) for count in range(1, len(parents) + 1)]
    return used(features, features[:, 0].sum(-1), lambda index: Tree.of_parents(found[at[index][0]][0][: at[index][1]]))


def _most_probable(ranks: list[list[float]], nodes: int) -> tuple[list[int], Array]:
    """The most probable nodes in falling order: their parents, and how probable they are."""
    parents, values, depths = [-1], [1.0], [0]
    heap: list[tuple[float, int, int, int]] = []
    order = 0

    def push(parent: int, rank: int) -> None:
        nonlocal order
        level = depths[parent]
        if level < len(ranks) and rank < len(ranks[level]):
            order += 1
            heappush(heap, (-values[parent] * ranks[level][rank], order, parent, rank))

    push(0, 0)
    while heap and len(parents) < nodes:
        value, _, parent, rank = heappop(heap)
        parents.append(parent)
        values.append(-value)
        depths.append(depths[parent] + 1)
        push(parent, rank + 1)
        push(len(parents) - 1, 0)
    return parents, np.array(values)


def _features(parents: list[int], values: Array, depth: int) -> Array:
    """What costs need to know of the trees of the first 1, 2, ... nodes, shape (nodes, 4, depth + 1)."""
    count = len(parents)
    depths = np.zeros(count, dtype=np.int64)
    has_children = [False] * count
    level_of_parent = np.full(count, -1)
    for node in range(1, count):
        parent = parents[node]
        depths[node] = depths[parent] + 1
        if not has_children[parent]:
            has_children[parent], level_of_parent[node] = True, depths[parent]
    found = np.zeros((count, 4, depth + 1))
    index = np.arange(count)
    found[index, 0, depths], found[index, 1, depths] = values, 1.0
    first = np.flatnonzero(level_of_parent >= 0)
    found[first, 2, level_of_parent[first]] = values[np.array(parents)[first]]
    found[first, 3, level_of_parent[first]] = 1.0
    return np.cumsum(found, axis=0)


def used(features: Array, at_most: Array, tree: Callable[[int], Tree]) -> BestTrees:
    """Trees by their features, without those that another depth limit has given already.

    Args:
        features: ``reached``, ``counts``, ``reached_inner`` and ``inner`` of each tree, shape (G, 4, J + 1).
        at_most: See ``BestTrees``; of trees that are given twice the larger one counts.
        tree: The tree of an index.
    """
    counts = features[:, 1]
    depth = (counts > 0).sum(-1) - 1
    nodes = counts.sum(-1).astype(np.int64)
    worth = features[:, 0].sum(-1)
    # Of each number of nodes and depth the best, the first one on a tie.
    order = np.lexsort((np.arange(len(nodes)), -worth, depth, nodes))
    pairs = np.stack([nodes[order], depth[order]])
    first = np.concatenate([[True], (np.diff(pairs) != 0).any(0)]) & (depth[order] > 0)
    kept = order[first]
    one = features[kept]
    most = np.full(nodes.max() + 1, 0.0)[:, None] + np.zeros(depth.max() + 1)
    np.maximum.at(most, (nodes, depth), at_most)
    return BestTrees(
        depth=depth[kept],
        nodes=nodes[kept],
        reached=one[:, 0],
        counts=one[:, 1],
        reached_inner=one[:, 2],
        inner=one[:, 3],
        at_most=most[nodes[kept], depth[kept]],
        tree=lambda index: tree(int(kept[index])),
    )


@dataclass(frozen=True, eq=False)
class _Table:
    """One number of levels of the dynamic programme.

    Attributes:
        values: Best worth by number of nodes, shape (N + 1,); -inf where there is no such tree.
        features: What costs need to know of that tree, shape (N + 1, 4, J + 1).
        children: Children of its root, shape (N + 1,).
        splits: Nodes that the root keeps with its first b - 1 children, shape (B + 1, N + 1).
        below: The table that its children hang on, None if there are none.
    """

    values: Array
    features: Array
    children: IntArray
    splits: IntArray
    below: _Table | None


def by_programme(by_level: Sequence[Array], nodes: int) -> BestTrees:
    """The best trees of any ranks, by dynamic programme over nodes, levels and children.

    Args:
        by_level: Ranks of the children at each level, shape (R,) each; as many as there may be levels.
        nodes: Most nodes.
    """
    levels = len(by_level)
    leaf = _leaf(nodes, levels)
    same = all(len(level) == len(by_level[0]) and (level == by_level[0]).all() for level in by_level)
    tables = []
    if same:
        table = leaf
        for ranks in by_level:
            table = _with_a_level(table, ranks)
            tables.append(table)
    else:
        for limit in range(1, levels + 1):
            table = leaf
            for ranks in reversed(by_level[:limit]):
                table = _with_a_level(table, ranks)
            tables.append(table)
    at = [(table, count) for table in tables for count in np.flatnonzero(np.isfinite(table.values)).tolist()]
    features = np.concatenate([table.features[np.isfinite(table.values)] for table in tables])
    return used(features, features[:, 0].sum(-1), lambda index: _grown(*at[index]))


def _leaf(nodes: int, levels: int) -> _Table:
    values = np.full(nodes + 1, -np.inf)
    values[1] = 1.0
    features = np.zeros((nodes + 1, 4, levels + 1))
    features[1, :2, 0] = 1.0
    return _Table(values, features, np.zeros(nodes + 1, dtype=np.int64), np.zeros((1, nodes + 1), dtype=np.int64), None)


def _with_a_level(below: _Table, ranks: Array) -> _Table:
    """The table with one level more, whose root has children of these ranks."""
    size = len(below.values)
    count = np.arange(size)
    under = np.concatenate([np.zeros((size, 4, 1)), below.features[..., :-1]], axis=-1)
    root = _leaf(size - 1, below.features.shape[-1] - 1)
    values, features = root.values, root.features
    best, best_features, children = values, features, np.zeros(size, dtype=np.int64)
    splits, there = [count], np.isfinite(below.values)
    for number, rank in enumerate(ranks.tolist(), start=1):
        # At row n and column y: y nodes before child b, and n - y below it.
        hung = np.full(2 * size - 1, -np.inf)
        hung[:size][there[::-1]] = rank * below.values[there][::-1]
        together = values + sliding_window_view(hung, size)[::-1]
        keeps = together.argmax(-1)
        values = together[count, keeps]
        scale = np.array([rank, 1.0, rank, 1.0])[:, None]
        features = features[keeps] + scale * under[np.maximum(count - keeps, 0)]
        if number == 1:
            features[:, 2:, 0] = 1.0
        splits.append(keeps)
        better = values > best
        best, children = np.where(better, values, best), np.where(better, number, children)
        best_features = np.where(better[:, None, None], features, best_features)
    return _Table(best, best_features, children, np.array(splits), below)


def _grown(table: _Table, nodes: int) -> Tree:
    """The tree behind an entry of the dynamic programme."""
    parents = [-1]

    def grow(node: int, table: _Table, count: int) -> None:
        below, shares, left = table.below, [], count
        for number in range(int(table.children[count]), 0, -1):
            keeps = int(table.splits[number, left])
            shares.append(left - keeps)
            left = keeps
        for share in reversed(shares):
            parents.append(node)
            if below is not None:
                grow(len(parents) - 1, below, share)

    grow(0, table, nodes)
    return Tree.of_parents(parents)
