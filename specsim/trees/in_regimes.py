"""Good trees of every size where acceptance comes in stretches, and how much better another tree could be.

Tokens per round are then no sum over nodes, since a tree changes in which regime rounds begin. Trees grow node by node
and are improved by exchanging a leaf for another node, each step by exact values, until no exchange helps. With

    u = tokens_per_round N^-1 1      of the tree that was found; shares of token positions x u = 1

any other tree N' emits nu' N' u tokens per round, so no more than the largest entry of N' u: the sum of the n largest
X_v u of one regime bounds every tree of n nodes. This is what a drafter would reach that knew the regime, so the bound
is not tight.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance.ranks import RankChain
from specsim.acceptance.regimes import solved_from_the_left
from specsim.specs.tree import Tree
from specsim.trees.search import BestTrees, used

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

_POOL = 6
"""Nodes that are looked at, for each that a tree may have."""

_LEAVES, _OTHERS = 8, 12
"""Leaves that may be given up, and nodes that may take their place, in one exchange."""

_GAIN = 1e-13


@dataclass(frozen=True, eq=False)
class _Pool:
    """The nodes that may become part of a tree, the most probable ones first.

    Attributes:
        accepting: X_v, shape (M, K, K).
        parents: Parent of each, -1 for the root, which comes first, shape (M,).
        before: Sibling of the next better rank, -1 if it is the best, shape (M,).
        depths: Levels below the root, shape (M,).
        ranks: Rank among siblings, from 0, shape (M,).
        least: No other node is accepted with more than this, in any regime.
    """

    accepting: Array
    parents: IntArray
    before: IntArray
    depths: IntArray
    ranks: IntArray
    least: float


def _pool(chain: RankChain, nodes: int, depth: int, branches: int) -> _Pool:
    """The nodes that some regime accepts most often; a node comes after its parent."""
    found: list[tuple[Array, int, int, int]] = []
    place: dict[tuple[int, int], int] = {}
    order = 0
    heap: list[tuple[float, int, Array, int, int, int]] = [(-1.0, 0, np.eye(chain.share.size), -1, 0, 0)]
    while heap and len(found) < max(_POOL * nodes, 64):
        _, _, matrix, parent, rank, level = heappop(heap)
        here = len(found)
        place[parent, rank] = here
        found.append((matrix, parent, rank, level))
        if level < depth:
            for child, accepted in enumerate(chain.at(level + 1)[:branches]):
                reached = (matrix * accepted) @ chain.transitions
                order += 1
                heappush(heap, (-float(reached.sum(-1).max()), order, reached, here, child, level + 1))
    least = -heap[0][0] if heap else 0.0
    matrices, parents, ranks, depths = zip(*found, strict=True)
    before = [-1 if rank == 0 else place.get((parent, rank - 1), -2) for _, parent, rank, _ in found]
    return _Pool(np.array(matrices), np.array(parents), np.array(before), np.array(depths), np.array(ranks), least)


def _tokens(matrices: Array, share: Array) -> Array:
    """Tokens per round of trees by their N, shape (..., K, K) to (...,): 1 / (pi N^-1 1)."""
    pi = np.broadcast_to(share, matrices.shape[:-1])
    return np.asarray(1.0 / solved_from_the_left(matrices, pi).sum(-1))


@dataclass(eq=False)
class _Grown:
    """A tree as nodes of the pool; ``inside`` has shape (M,), ``whole`` is its N, ``worth`` its tokens per round."""

    inside: NDArray[np.bool_]
    whole: Array
    worth: float


def best_trees_in_regimes(chain: RankChain, nodes: int, depth: int, branches: int) -> BestTrees:
    """Good trees of each number of nodes and each depth, and a bound for all others.

    Args:
        chain: Acceptance by rank and regime.
        nodes: Most nodes, the root included.
        depth: Most levels below the root.
        branches: Most children of a node.
    """
    pool = _pool(chain, nodes, depth, branches)
    found: list[tuple[_Grown, float]] = []
    shallower: list[_Grown] = []
    for limit in range(1, depth + 1):
        within = pool.depths <= limit
        tree = _alone(pool)
        trees: list[_Grown] = []
        for count in range(2, nodes + 1):
            grown = _with_one_more(pool, chain, tree, within)
            if grown is None:
                break
            if len(shallower) > count - 2 and shallower[count - 2].worth > grown.worth:
                grown = shallower[count - 2]
            tree = _improved(pool, chain, grown, within)
            trees.append(tree)
            found.append((tree, _at_most(pool, chain, tree, within, count)))
        shallower = trees
    features = np.array([_features(pool, chain, tree, depth) for tree, _ in found])
    at_most = np.array([bound for _, bound in found])
    return used(features, at_most, lambda index: _tree(pool, found[index][0]))


def _alone(pool: _Pool) -> _Grown:
    inside = np.zeros(len(pool.parents), dtype=bool)
    inside[0] = True
    return _Grown(inside, pool.accepting[0].copy(), 1.0)


def _may_follow(pool: _Pool, inside: NDArray[np.bool_], within: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Nodes whose parent and next better sibling are in the tree."""
    has_parent = (pool.parents >= 0) & inside[pool.parents]
    has_better = (pool.before == -1) | ((pool.before >= 0) & inside[pool.before])
    return within & ~inside & has_parent & has_better


def _with_one_more(pool: _Pool, chain: RankChain, tree: _Grown, within: NDArray[np.bool_]) -> _Grown | None:
    """The tree with the node that gives the most."""
    others = np.flatnonzero(_may_follow(pool, tree.inside, within))
    if not others.size:
        return None
    worth = _tokens(tree.whole + pool.accepting[others], chain.share)
    best = int(worth.argmax())
    inside = tree.inside.copy()
    inside[others[best]] = True
    return _Grown(inside, tree.whole + pool.accepting[others[best]], float(worth[best]))


def _improved(pool: _Pool, chain: RankChain, tree: _Grown, within: NDArray[np.bool_]) -> _Grown:
    """The tree once no exchange of a leaf for another node helps."""
    while True:
        inside = tree.inside
        is_leaf = inside.copy()
        is_leaf[pool.parents[inside & (pool.parents >= 0)]] = False
        is_leaf[pool.before[inside & (pool.before >= 0)]] = False
        is_leaf[0] = False
        leaves, others = np.flatnonzero(is_leaf), np.flatnonzero(_may_follow(pool, inside, within))
        if not leaves.size or not others.size:
            return tree
        # To first order a node is worth nu X_v u.
        nu, u = _start(chain, tree), _worth_by_regime(chain, tree)
        value = (nu @ pool.accepting) @ u
        leaves = leaves[np.argsort(value[leaves])[:_LEAVES]]
        others = others[np.argsort(-value[others])[:_OTHERS]]
        # What hangs on the leaf that is given up cannot take its place.
        apart = (pool.parents[others][None, :] != leaves[:, None]) & (pool.before[others][None, :] != leaves[:, None])
        whole = tree.whole - pool.accepting[leaves][:, None] + pool.accepting[others][None, :]
        worth = np.where(apart, _tokens(whole, chain.share), 0.0)
        best = np.unravel_index(int(worth.argmax()), worth.shape)
        if worth[best] <= tree.worth + _GAIN:
            return tree
        exchanged = inside.copy()
        exchanged[leaves[best[0]]], exchanged[others[best[1]]] = False, True
        tree = _Grown(exchanged, whole[best], float(worth[best]))


def _start(chain: RankChain, tree: _Grown) -> Array:
    """Shares of the regimes in which rounds begin (nu), shape (K,)."""
    found = np.maximum(solved_from_the_left(tree.whole, chain.share), 0.0)
    return np.asarray(found / found.sum())


def _worth_by_regime(chain: RankChain, tree: _Grown) -> Array:
    """u = tokens_per_round N^-1 1, shape (K,)."""
    ones = np.ones(chain.share.shape)
    return tree.worth * np.asarray(solved_from_the_left(tree.whole.T, ones))


def _at_most(pool: _Pool, chain: RankChain, tree: _Grown, within: NDArray[np.bool_], count: int) -> float:
    """No tree of so many nodes emits more tokens per round."""
    least = np.inf
    for u in (_worth_by_regime(chain, tree), np.ones(chain.share.shape)):
        value = np.maximum(pool.accepting[within] @ u, 0.0)
        others = np.full((max(count - len(value), 0), value.shape[-1]), 0.0)
        # Nodes outside the pool are accepted no more often than its last one.
        value = np.maximum(np.concatenate([value, others]), pool.least * max(float(u.max()), 0.0))
        least = min(least, float(np.sort(value, axis=0)[-count:].sum(0).max()))
    return least


def _features(pool: _Pool, chain: RankChain, tree: _Grown, depth: int) -> Array:
    """What costs need to know of a tree, shape (4, depth + 1)."""
    reached = (_start(chain, tree) @ pool.accepting[tree.inside]).sum(-1)
    depths = pool.depths[tree.inside]
    inner = np.zeros(len(pool.parents), dtype=bool)
    inner[pool.parents[tree.inside & (pool.parents >= 0)]] = True
    has_children = inner[tree.inside]
    rows = (reached, np.ones(len(depths)), reached * has_children, has_children.astype(float))
    return np.array([np.bincount(depths, row, minlength=depth + 1) for row in rows])


def _tree(pool: _Pool, tree: _Grown) -> Tree:
    members = np.flatnonzero(tree.inside)
    paths: dict[int, tuple[int, ...]] = {0: ()}
    for node in members[1:].tolist():
        paths[node] = (*paths[int(pool.parents[node])], int(pool.ranks[node]))
    return Tree.of_paths([path for path in paths.values() if path])
