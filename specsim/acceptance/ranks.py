"""Acceptance by rank: which child of an accepted node is accepted, at each level and in each regime."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance.paired import ranks_of_pairs
from specsim.acceptance.process import chain_of
from specsim.specs.acceptance import Point, Regimes
from specsim.specs.ranked import Paired, Ranks

Array = NDArray[np.float64]

MOST_RANKS = 16
"""Ranks that are taken from paired probabilities."""


@dataclass(frozen=True, eq=False)
class RankChain:
    """Probability that the child of each rank is the accepted one, by the regime of its position.

    Attributes:
        ranks: By level, rank and regime, shape (J, R, K); the last level holds beyond.
        transitions: From regime to regime, shape (K, K), rows summing to 1.
        share: Shares of the regimes among token positions, shape (K,).
        recorded: Deepest level that was observed, None if they hold at any level.
    """

    ranks: Array
    transitions: Array
    share: Array
    recorded: int | None = None

    def at(self, level: int) -> Array:
        """Ranks of the children at a level, the first being 1, shape (R, K)."""
        return self.ranks[min(level, len(self.ranks)) - 1]

    @property
    def is_independent(self) -> bool:
        """Whether there is one regime: nodes are then accepted with the product of the ranks on their path."""
        return self.share.size == 1

    @property
    def never_rises(self) -> bool:
        """Whether no child is more probable than a sibling of better rank."""
        return bool((np.diff(self.ranks, axis=1) <= 0).all())

    def mean(self) -> RankChain:
        """The same without stretches: each rank with its mean over the token positions."""
        return RankChain(self.ranks @ self.share[:, None], np.ones((1, 1)), np.ones(1), self.recorded)


def rank_chain_of(spec: Point) -> RankChain | None:
    """The acceptance by rank that is described, None where ranks are not known.

    Of classes and tables over the context, which hold several, ask for each.
    """
    match spec:
        case Ranks():
            widest = max(map(len, spec.ranks))
            ranks = np.array([[*level, *[0.0] * (widest - len(level))] for level in spec.ranks])
            return RankChain(
                ranks[..., None], np.ones((1, 1)), np.ones(1), len(spec.ranks) if len(spec.ranks) > 1 else None
            )
        case Paired():
            return RankChain(ranks_of_pairs(spec, MOST_RANKS)[None, :, None], np.ones((1, 1)), np.ones(1))
        case Regimes():
            further = [regime.further_ranks or () for regime in spec.regimes.values()]
            if not any(further):
                return None
            chain, widest = chain_of(spec), max(map(len, further))
            others = np.array([[*ranks, *[0.0] * (widest - len(ranks))] for ranks in further])
            first = chain.acceptance[:, None, :]
            ranks = np.concatenate([first, np.broadcast_to(others.T, (len(first), widest, len(further)))], axis=1)
            return RankChain(ranks, chain.transitions, chain.share, spec.recorded_gamma)
        case _:
            return None
