"""Token trees along the axis of draft lengths: what drafting and verification need to know of their shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specsim.cost.passes import Array
from specsim.specs.tree import Shape, Tree
from specsim.trees.search import BestTrees


@dataclass(frozen=True, eq=False)
class Shapes:
    """Chains, and the trees behind them on the same axis; every array has shape (G, 1, 1).

    Attributes:
        chains: How many entries of the axis stand before the trees.
        is_tree: Whether an entry is no chain.
        trees: The trees behind them; nothing where only their figures are known.
        nodes: Verified tokens of each sequence, the root included.
        wide: Numbers of tokens above 1 that draft steps work on, each with how many steps of a round do.
        paths: Candidates: ways from the root to a leaf.
        path_tokens: Tokens that are verified where every candidate is a sequence of its own.
    """

    chains: int
    is_tree: NDArray[np.bool_]
    trees: tuple[Shape, ...]
    nodes: Array
    wide: tuple[tuple[int, Array], ...]
    paths: Array
    path_tokens: Array

    @classmethod
    def of(cls, gamma: Sequence[int], trees: Sequence[Shape]) -> Shapes:
        """Chains of some lengths, then trees."""
        longest = max(len(tree.step_tokens) for tree in trees)
        steps = np.array([[*tree.step_tokens, *[0] * (longest - len(tree.step_tokens))] for tree in trees])
        fixed = [tree if isinstance(tree, Tree) else None for tree in trees]
        # Where the nodes follow from acceptance the candidates are not known: each drafted token is taken as one.
        paths = [shape.nodes - 1 if tree is None else tree.paths for tree, shape in zip(fixed, trees, strict=True)]
        tokens = [shape.nodes if tree is None else tree.path_tokens for tree, shape in zip(fixed, trees, strict=True)]
        return cls._joined(gamma, tuple(trees), [tree.nodes for tree in trees], steps, paths, tokens)

    @classmethod
    def of_best(cls, found: BestTrees) -> Shapes:
        """The best trees of every size alone, without chains before them."""
        leaves = found.counts - found.inner
        tokens = leaves @ (np.arange(leaves.shape[-1]) + 1.0)
        return cls._joined((), (), found.nodes, found.inner[:, :-1].astype(np.int64), leaves.sum(-1), tokens)

    @classmethod
    def _joined(
        cls,
        gamma: Sequence[int],
        trees: tuple[Shape, ...],
        nodes: ArrayLike,
        steps: NDArray[np.int64],
        paths: ArrayLike,
        path_tokens: ArrayLike,
    ) -> Shapes:
        chain = np.asarray(gamma, dtype=float)

        def whole(of_chains: ArrayLike, of_trees: ArrayLike) -> Array:
            first = np.broadcast_to(np.asarray(of_chains, dtype=float), chain.shape)
            return np.concatenate([first, np.asarray(of_trees, dtype=float)]).reshape(-1, 1, 1)

        widths = np.unique(steps[steps > 1]).tolist()
        return cls(
            chains=len(chain),
            is_tree=whole(0.0, np.asarray(paths) > 1) > 0,
            trees=trees,
            nodes=whole(chain + 1, nodes),
            wide=tuple((width, whole(0.0, (steps == width).sum(-1))) for width in widths),
            paths=whole(1.0, paths),
            path_tokens=whole(chain + 1, path_tokens),
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """What rows call each entry; chains have no name."""
        return (*[""] * self.chains, *(tree.label for tree in self.trees))
