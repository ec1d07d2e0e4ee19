"""Trees whose nodes follow from acceptance: chosen anew in every round, or known by the size of their levels."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance.paired import most_probable_candidates
from specsim.acceptance.ranks import RankChain
from specsim.specs.ranked import Paired
from specsim.specs.tree import CountedTree, DynamicTree, Tree

Array = NDArray[np.float64]

ROUNDS = 4000
"""Rounds of a dynamic tree that are simulated, the same ones every time."""

_SEED = 0


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


def filled_by_ranks(chain: RankChain, shape: CountedTree) -> Tree:
    """The tree of levels of these sizes, each filled with its most probable nodes.

    A node needs its parent and its siblings of better rank; where levels are larger than what ranks can fill, children
    that are never accepted fill them.
    """
    mean = chain.mean()
    level: list[tuple[float, tuple[int, ...]]] = [(1.0, ())]
    paths: list[tuple[int, ...]] = []
    for depth, count in enumerate(shape.level_counts, start=1):
        ranks = mean.at(depth)[:, 0].tolist()
        heap = [(-value * ranks[0], path, 0) for value, path in level]
        heapify(heap)
        chosen: list[tuple[float, tuple[int, ...]]] = []
        while len(chosen) < count:
            value, path, rank = heappop(heap)
            chosen.append((-value, (*path, rank)))
            above = -value / ranks[rank] if rank < len(ranks) and ranks[rank] > 0 else 0.0
            heappush(heap, (-above * ranks[rank + 1] if rank + 1 < len(ranks) else 0.0, path, rank + 1))
        level = chosen
        paths += [path for _, path in chosen]
    return Tree.of_paths(paths, shape.label)


def simulated_rounds(spec: Paired, shape: DynamicTree) -> tuple[Array, float]:
    """Rounds of a dynamic tree where target and draft are known at some positions.

    Every node stands at one of these positions, each as likely as the others and drawn for itself. Its candidates are
    the draft's most probable tokens; what is expanded and kept follows the draft's probability of the whole path, and a
    node is accepted with the target's.

    Returns:
        P(at least j drafts are accepted), j = 1 to the depth; P(a round rejects nothing). Means over ``ROUNDS`` rounds.
    """
    sure, right = most_probable_candidates(spec, shape.width)
    generator = np.random.default_rng(_SEED)
    width, rounds = shape.width, np.arange(ROUNDS)[:, None]
    # Expanded nodes of a level: how sure the draft is of their paths, and how often these are accepted.
    path_sure, path_right = np.ones((ROUNDS, 1)), np.ones((ROUNDS, 1))
    levels: list[tuple[Array, Array]] = []
    expanded: list[Array] = [path_right]
    for _ in range(shape.depth):
        at = generator.integers(len(sure), size=path_sure.shape)
        candidates_sure = path_sure[..., None] * sure[at]
        candidates_right = path_right[..., None] * right[at]
        flat = candidates_sure.reshape(ROUNDS, -1)
        chosen = np.sort(np.argsort(-flat, axis=-1, kind="stable")[:, :width], axis=-1)
        levels.append((candidates_sure, candidates_right))
        path_sure, path_right = flat[rounds, chosen], candidates_right.reshape(ROUNDS, -1)[rounds, chosen]
        expanded.append(path_right)
    every = np.concatenate([one.reshape(ROUNDS, -1) for one, _ in levels], axis=-1)
    kept = np.zeros(every.shape, dtype=bool)
    # Parents come before their children on a tie, and better ranks before others.
    kept[rounds, np.argsort(-every, axis=-1, kind="stable")[:, : shape.nodes - 1]] = True
    survival, inner, start = [], 1.0, 0
    for level, (level_sure, level_right) in enumerate(levels):
        here = kept[:, start : start + level_sure[0].size].reshape(level_sure.shape)
        survival.append(float((level_right * here).sum((1, 2)).mean()))
        if level:
            inner += float((expanded[level] * here.any(-1)).sum(-1).mean())
        start += level_sure[0].size
    return np.array(survival), float(1.0 + sum(survival) - inner)
