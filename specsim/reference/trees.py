"""Token trees as arrays of parents: node 0 is the current token, every parent stands before its children.

A chain of gamma drafts is the tree -1, 0, 1, ..., gamma - 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def chain(gamma: int) -> IntArray:
    """The parents of gamma drafts in a row, shape (gamma + 1,)."""
    return np.arange(-1, gamma)


def expansion(widths: Sequence[int]) -> IntArray:
    """The parents of the tree <k1, k2, ...>: every node of level i has k_i children (Miao et al. 2024, SpecInfer).

    >>> expansion([2, 2, 1]).size
    11
    """
    parents, level = [-1], [0]
    for width in widths:
        parents += [node for node in level for _ in range(width)]
        level = list(range(len(parents) - len(level) * width, len(parents)))
    return np.array(parents)


def depths(parents: IntArray) -> IntArray:
    """The depth of each node, 0 for the current token, shape (nodes,)."""
    found = np.zeros(len(parents), dtype=np.int64)
    for node in range(1, len(parents)):
        found[node] = found[parents[node]] + 1
    return found


def ancestors(parents: IntArray) -> BoolArray:
    """Whether the column is the row's node or one of its ancestors, shape (nodes, nodes): what a node may attend to."""
    found = np.eye(len(parents), dtype=bool)
    for node in range(1, len(parents)):
        found[node] |= found[parents[node]]
    return found


def children(parents: IntArray) -> list[list[int]]:
    """The children of each node, in their order."""
    found: list[list[int]] = [[] for _ in parents]
    for node in range(1, len(parents)):
        found[parents[node]].append(node)
    return found


def cut_to(parents: IntArray, depth: int) -> IntArray:
    """The tree without what lies deeper."""
    kept = np.flatnonzero(depths(parents) <= depth)
    return np.array([-1, *np.searchsorted(kept, parents[kept[1:]])])
