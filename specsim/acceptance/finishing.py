"""Rounds until n tokens are there, as a law and not only as n / tokens_per_round; batches that finish together.

A request begins at a token position, so its first regime has the law of token positions. One round at a time, the law
F(t, s) of the tokens so far and the regime of the next round moves by F'[t + j + 1] += F[t] M_j; what has reached n
leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specsim.acceptance.regimes import RegimeRounds

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

_GONE = 1e-13
"""A law whose rest weighs less than this has ended."""


@dataclass(frozen=True, eq=False)
class RoundsToFinish:
    """The law of the rounds that a request of n tokens takes.

    Attributes:
        unfinished: P(more than m rounds are needed), m = 0, 1, ..., shape (m,); 0 beyond.
    """

    unfinished: Array

    @cached_property
    def mean(self) -> float:
        """Mean number of rounds."""
        return float(self.unfinished.sum())

    @cached_property
    def standard_deviation(self) -> float:
        """Standard deviation of the number of rounds."""
        odd = 2 * np.arange(len(self.unfinished)) + 1
        return float(max(float(self.unfinished @ odd) - self.mean**2, 0.0) ** 0.5)

    def quantile(self, share: ArrayLike) -> IntArray:
        """The fewest rounds within which this share of the requests is done, any shape."""
        done = 1.0 - self.unfinished
        return np.searchsorted(done, np.asarray(share) - 1e-12)

    def last_of(self, batch_size: ArrayLike) -> Array:
        """Mean rounds until the last of a static batch is done: sum of 1 - (1 - S(m))^B, any shape of batch sizes."""
        batch = np.asarray(batch_size, dtype=float)[..., None]
        return np.asarray((1.0 - (1.0 - self.unfinished) ** batch).sum(-1))

    def mean_active(self, batch_size: ArrayLike) -> Array:
        """Mean sequences that are still at work in a static batch, over its makespan."""
        return np.asarray(batch_size, dtype=float) * self.mean / self.last_of(batch_size)


def rounds_to_finish(rounds: RegimeRounds, tokens: int) -> RoundsToFinish:
    """The law of the rounds that a request of so many tokens takes, at one draft length and one set of parameters.

    Args:
        rounds: Of one draft length.
        tokens: Output of the request.
    """
    outcomes = rounds.outcomes.reshape(-1, *rounds.outcomes.shape[-2:])
    law = np.zeros((tokens, outcomes.shape[-1]))
    law[0] = rounds.chain.share.reshape(-1)
    unfinished = [1.0]
    first = 0
    while unfinished[-1] > _GONE:
        after = np.zeros_like(law)
        for accepted, outcome in enumerate(outcomes):
            if first + accepted + 1 < tokens:
                after[first + accepted + 1 :] += law[first : tokens - accepted - 1] @ outcome
        # Every round emits a token: the first entries are empty and stay so.
        law, first = after, first + 1
        unfinished.append(float(law.sum()))
        if first >= tokens:
            break
    return RoundsToFinish(np.array(unfinished))
