"""How many tokens a round of a token tree emits.

With D_r the acceptance of the child of rank r by regime and P the transitions of regimes, a node that is reached over
the ranks r_1 to r_d has

    X_v = D_(r_1) P D_(r_2) P ... D_(r_d) P,    N = sum of X_v over all nodes, the root with X = I

and as for chains (see ``acceptance.regimes``) rounds begin in regimes with the shares nu, nu N proportional to the
shares of the token positions, and a level d is reached with nu (sum of X_v at d) 1. Where only a share of the rounds
finds a tree, N is that share of the sum and the rest of the identity. The regime belongs to the position
and not to the branch: siblings share it. With one regime X_v is the product of the ranks on the path, and tokens per
round are their sum over all nodes (SpecInfer, Miao et al. 2024; Sequoia, Chen et al. 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance import rate_from_tokens_per_round
from specsim.acceptance.ranks import RankChain, rank_chain_of
from specsim.acceptance.regimes import solved_from_the_left
from specsim.specs.acceptance import ByContext, Classes, Point
from specsim.specs.ranked import Paired, TreeLength
from specsim.specs.tree import CountedTree, DynamicTree, Shape, Tree
from specsim.trees.dynamic import filled_by_ranks, kept_by_ranks, simulated_rounds

Array = NDArray[np.float64]


def accepting(chain: RankChain, tree: Tree) -> Array:
    """X_v of every node, shape (nodes, K, K); 0 for ranks that are never accepted."""
    size, parents, ranks = chain.share.size, np.array(tree.parents), tree.ranks
    found = np.zeros((tree.nodes, size, size))
    found[0], start = np.eye(size), 1
    for level, count in enumerate(tree.level_counts, start=1):
        # Breadth first: a level is one stretch of nodes.
        here = slice(start, start + count)
        known = np.concatenate([chain.at(level), np.zeros((1, size))])
        accepted = known[np.minimum(ranks[here], len(known)) - 1]
        found[here] = (found[parents[here]] * accepted[:, None, :]) @ chain.transitions
        start += count
    return found


@dataclass(frozen=True, eq=False)
class TreeRounds:
    """Rounds of one tree.

    Attributes:
        chain: Acceptance by rank.
        tree: The tree.
        accepting: X_v of every node, shape (nodes, K, K).
        drafting: Share of the rounds that have a tree; the others emit one token.
    """

    chain: RankChain
    tree: Tree
    accepting: Array
    drafting: float = 1.0

    @cached_property
    def start_share(self) -> Array:
        """Share of the rounds that begin in each regime (nu), shape (K,)."""
        visits = self.drafting * self.accepting.sum(0) + (1 - self.drafting) * np.eye(self.chain.share.size)
        found = np.maximum(solved_from_the_left(visits, self.chain.share), 0.0)
        return found / found.sum()

    @cached_property
    def reached(self) -> Array:
        """P(a round accepts the node), shape (nodes,)."""
        found = self.drafting * (self.start_share @ self.accepting.sum(-1).T)
        found[0] = 1.0
        return np.asarray(found)

    @cached_property
    def survival(self) -> Array:
        """P(at least j drafts are accepted), j = 1 to the depth, shape (depth,)."""
        return np.asarray(np.bincount(self.tree.depths, self.reached)[1:], dtype=float)

    @property
    def tokens_per_round(self) -> float:
        """Emitted tokens per round, the bonus or corrected token included."""
        return float(self.reached.sum())

    @property
    def whole_probability(self) -> float:
        """P(a round accepts a candidate to its end, and rejects nothing)."""
        return float(self.reached[self.tree.leaves].sum()) + 1 - self.drafting

    @property
    def distribution(self) -> Array:
        """P(exactly k drafts are accepted), k = 0 to the depth, shape (depth + 1,)."""
        at_least = np.concatenate([[1.0], self.survival, [0.0]])
        return at_least[:-1] - at_least[1:]


def rounds_of_tree(chain: RankChain, tree: Tree, drafting: float = 1.0) -> TreeRounds:
    """Rounds of a tree whose children are accepted by rank, and that a share of the rounds has."""
    return TreeRounds(chain, tree, accepting(chain, tree), drafting)


@dataclass(frozen=True, eq=False)
class TreeLengths:
    """What rounds of some trees accept; leading axes are contexts where acceptance depends on them.

    Attributes:
        survival: P(at least j drafts are accepted), j = 1 to the depth of the deepest, shape (..., G, J).
        whole: P(a round rejects nothing), shape (..., G).
        extrapolated: Whether a tree is deeper than what was recorded, shape (G,).
    """

    survival: Array
    whole: Array
    extrapolated: NDArray[np.bool_]

    @property
    def tokens_per_round(self) -> Array:
        """Emitted tokens per round, shape (..., G)."""
        return 1.0 + self.survival.sum(-1)


def tree_lengths(
    spec: Point, trees: Sequence[Shape], context_length: Array | None = None, drafting: float = 1.0
) -> TreeLengths:
    """Lengths of the rounds of some trees, under any acceptance that knows ranks.

    Args:
        spec: The acceptance.
        trees: The trees.
        context_length: Contexts, where acceptance depends on them.
        drafting: Share of the rounds that have a tree; the others emit one token, and count as rounds here.

    Raises:
        ValueError: If the acceptance knows no ranks.
        KeyError: If it knows tokens of some trees, and not of these.
    """
    match spec:
        case Classes():
            # As for chains, each class is in flight by its share of the tokens / its tokens per round.
            tokens = [one.request_share * one.output_tokens for one in spec.classes.values()]
            each = [tree_lengths(one.acceptance, trees, context_length, drafting) for one in spec.classes.values()]
            weights = [t / sum(tokens) / one.tokens_per_round for t, one in zip(tokens, each, strict=True)]
            total = sum(weights)
            return _weighted(each, [np.asarray(weight / total) for weight in weights])
        case ByContext():
            if context_length is None:
                raise ValueError("acceptance that depends on the context needs one")
            each = [tree_lengths(entry.acceptance, trees, None, drafting) for entry in spec.table]
            at = [float(entry.context_length) for entry in spec.table]
            parts = [np.interp(context_length, at, row)[:, None] for row in np.eye(len(at))]
            return _weighted(each, parts)
        case TreeLength():
            return _now_and_then(_measured(spec, trees), drafting)
        case _:
            chain = rank_chain_of(spec)
            if chain is None:
                raise ValueError(f"{spec.label} does not tell how children of lower ranks are accepted")
            return _by_rank(spec, chain, trees, drafting)


def _now_and_then(found: TreeLengths, drafting: float) -> TreeLengths:
    """The same over all rounds, of which a share has a tree and none remembers another."""
    return replace(found, survival=drafting * found.survival, whole=1 - drafting + drafting * found.whole)


def _by_rank(spec: Point, chain: RankChain, trees: Sequence[Shape], drafting: float) -> TreeLengths:
    each = [_of_one(spec, chain, tree, drafting) for tree in trees]
    survival = np.zeros((len(trees), max(tree.depth for tree in trees)))
    for row, (found, _) in zip(survival, each, strict=True):
        row[: len(found)] = found
    beyond = np.array([chain.recorded is not None and tree.depth > chain.recorded for tree in trees])
    return TreeLengths(survival, np.array([whole for _, whole in each]), beyond)


def fixed_shape(chain: RankChain, shape: Shape) -> Tree:
    """The tree that stands for a shape: itself, or its most probable nodes."""
    match shape:
        case DynamicTree():
            return kept_by_ranks(chain, shape)
        case CountedTree():
            return filled_by_ranks(chain, shape)
        case _:
            return shape


def _measured(spec: TreeLength, trees: Sequence[Shape]) -> TreeLengths:
    """Measured tokens per round, spread over the levels as if each were reached with one rate."""
    tokens, depth = np.array([spec.measured[tree] for tree in trees]), np.array([tree.depth for tree in trees])
    rate, level = rate_from_tokens_per_round(tokens, depth)[:, None], np.arange(1, depth.max() + 1)
    survival = np.where(level <= depth[:, None], rate**level, 0.0)
    return TreeLengths(survival, rate[:, 0] ** depth, np.zeros(depth.shape, dtype=bool))


def _of_one(spec: Point, chain: RankChain, tree: Shape, drafting: float) -> tuple[Array, float]:
    """P(at least j drafts are accepted) and P(a round rejects nothing) of one tree."""
    if isinstance(tree, DynamicTree) and isinstance(spec, Paired):
        survival, whole = simulated_rounds(spec, tree)
        return drafting * survival, 1 - drafting + drafting * whole
    rounds = rounds_of_tree(chain, fixed_shape(chain, tree), drafting)
    return rounds.survival, rounds.whole_probability


def _weighted(each: Sequence[TreeLengths], weights: Sequence[Array]) -> TreeLengths:
    pairs = list(zip(weights, each, strict=True))
    return TreeLengths(
        np.asarray(sum(weight[..., None] * one.survival for weight, one in pairs)),
        np.asarray(sum(weight * one.whole for weight, one in pairs)),
        np.logical_or.reduce([one.extrapolated for one in each]),
    )
