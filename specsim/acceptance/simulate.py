"""Acceptance by Monte Carlo: many texts side by side, position by position, as independent check of what is exact.

Nothing of the exact theory is used: regimes are drawn from their transitions, drafts are accepted or not, rounds are
counted where they end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance.regimes import RegimeChain

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

_MOST_TEXTS = 2048
"""Arrays of this many stay in the fastest memory."""

_ROUNDS_OF_A_TEXT = 100
_BLOCK = 32
"""Positions for which random numbers are drawn at once."""


@dataclass(frozen=True, eq=False)
class SimulatedRounds:
    """Rounds that were counted in several texts of equal length.

    Attributes:
        positions: Token positions of each text.
        ended: Rounds that ended in each text, by accepted drafts, shape (texts, J + 1).
    """

    positions: int
    ended: IntArray

    @cached_property
    def rounds(self) -> int:
        """All rounds."""
        return int(self.ended.sum())

    @cached_property
    def tokens_per_round(self) -> float:
        """Positions / rounds."""
        return self.positions * len(self.ended) / self.rounds

    @cached_property
    def standard_error(self) -> float:
        """Of ``tokens_per_round``, from the spread between texts, of which each has its own bursts."""
        by_text = self.ended.sum(-1)
        spread = float(by_text.std(ddof=1)) / len(by_text) ** 0.5
        return self.tokens_per_round * spread / float(by_text.mean())

    @cached_property
    def distribution(self) -> Array:
        """Share of the rounds in which exactly k drafts were accepted, k = 0 to J."""
        return np.asarray(self.ended.sum(0) / self.rounds)


def simulate_rounds(
    chain: RegimeChain,
    gamma: int,
    rounds: int,
    generator: np.random.Generator,
    progress: Callable[[int], None] | None = None,
) -> SimulatedRounds:
    """At least so many rounds at one draft length.

    Texts begin in the regimes that token positions have and anywhere in a round; what comes before the memory of that
    has faded is not counted.

    Args:
        chain: One set of parameters.
        gamma: Draft length.
        rounds: How many are wanted, of all texts together.
        generator: Source of randomness.
        progress: Is told how many rounds have been counted since the last call.
    """
    texts = int(np.clip(rounds // _ROUNDS_OF_A_TEXT, 64, _MOST_TEXTS))
    walk = _walk(chain, gamma, texts, generator, generator.integers(0, gamma + 1, texts))
    for _ in range(1 + 8 * (gamma + 1) // _BLOCK):
        next(walk)
    kinds, positions, found = gamma + 2, 0, np.zeros((texts, gamma + 2), dtype=np.int64)
    offset = np.arange(texts) * kinds
    counted = 0
    while counted < rounds:
        positions_at, accepted = next(walk)
        # What goes on has a kind of its own, the last one.
        codes = np.where(accepted, gamma + 1, positions_at) + offset
        found += np.bincount(codes.reshape(-1), minlength=texts * kinds).reshape(texts, kinds)
        positions += len(codes)
        before, counted = counted, int(found[:, :-1].sum())
        if progress is not None:
            progress(min(counted, rounds) - before)
    return SimulatedRounds(positions, found[:, :-1])


def simulate_requests(
    chain: RegimeChain, gamma: int, tokens: int, requests: int, generator: np.random.Generator
) -> IntArray:
    """Rounds that each of some requests of so many tokens takes, shape (requests,).

    A request begins with a round, in the regimes that token positions have; its rounds are those that begin among its
    tokens.
    """
    begun = np.zeros(requests, dtype=np.int64)
    walk = _walk(chain, gamma, requests, generator, np.zeros(requests, dtype=np.int64))
    for start in range(0, tokens, _BLOCK):
        positions_at, _ = next(walk)
        begun += (positions_at[: tokens - start] == 0).sum(0)
    return begun


def simulate_log(
    chain: RegimeChain, gamma: int, rounds: int, requests: int, generator: np.random.Generator
) -> tuple[IntArray, NDArray[np.bool_]]:
    """Accepted counts of some requests of equally many rounds, in their order; and which round is a request's first.

    Shapes (requests x ceil(rounds / requests),).
    """
    each = -(-rounds // requests)
    walk = _walk(chain, gamma, requests, generator, np.zeros(requests, dtype=np.int64))
    places, ended, shortest = list[IntArray](), list[NDArray[np.bool_]](), 0
    while shortest < each:
        block, accepted = next(walk)
        places.append(block)
        ended.append(~accepted)
        shortest = int(sum(part.sum(0) for part in ended).min()) if len(ended) * _BLOCK >= each else 0
    by_request, ends = np.concatenate(places).T, np.concatenate(ended).T
    kept = ends & (np.cumsum(ends, -1) <= each)
    return by_request[kept], np.arange(requests * each) % each == 0


def _walk(
    chain: RegimeChain, gamma: int, texts: int, generator: np.random.Generator, position: IntArray
) -> Iterator[tuple[IntArray, NDArray[np.bool_]]]:
    """Blocks of token positions: place in the round (drafts before), and whether a draft was accepted there.

    Shapes (block, texts). The place after gamma accepted drafts is the bonus token's, where a round always ends.
    """
    size = chain.share.shape[-1]
    # One row for each place; the bonus token accepts no draft.
    table = np.stack([chain.at(j) for j in range(1, gamma + 1)] + [np.zeros(size)]).reshape(-1)
    thresholds = np.cumsum(chain.transitions, axis=-1)[:, :-1]
    regime = np.searchsorted(np.cumsum(chain.share)[:-1], generator.random(texts), side="right")
    position = position.copy()
    one = np.empty(texts, dtype=np.int64)
    while True:
        uniform = generator.random((_BLOCK, 1 if size == 1 else 2, texts))
        places = np.empty((_BLOCK, texts), dtype=np.int64)
        accepted = np.empty((_BLOCK, texts), dtype=bool)
        for step in range(_BLOCK):
            places[step] = position
            np.multiply(position, size, out=one)
            one += regime
            np.less(uniform[step, 0], table.take(one), out=accepted[step])
            position += 1
            position *= accepted[step]
            if size == 2:
                regime = (uniform[step, 1] >= thresholds[:, 0].take(regime)).view(np.int8).astype(np.int64)
            elif size > 2:
                regime = (uniform[step, 1][:, None] >= thresholds[regime]).sum(-1)
        yield places, accepted
