"""One effective acceptance rate from a mean length: the inverse of the formula for independent drafts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]


def independent_tokens_per_round(rate: ArrayLike, gamma: ArrayLike) -> Array:
    """Tokens per round of independent drafts: sum of rate^j for j = 0 to gamma (Leviathan et al. 2023, eq. 1).

    The sum by Horner's rule is exact at rate 1 and free of the cancellation of (1 - a^(g+1)) / (1 - a).

    Args:
        rate: acceptance_rate, any shape.
        gamma: Draft lengths, broadcast against ``rate``.
    """
    rate, gamma = np.asarray(rate, dtype=float), np.asarray(gamma)
    total = np.ones(np.broadcast_shapes(rate.shape, gamma.shape))
    for step in range(int(gamma.max(initial=0))):
        # Gammas already reached keep their sum.
        total = np.where(step < gamma, 1.0 + rate * total, total)
    return total


def rounds_for_tokens(rate: float, gamma: int, tokens: IntArray) -> Array:
    """Expected number of whole rounds of independent drafts until they have emitted at least so many tokens.

    With p_k the probability that a round emits k tokens, N(n) = 1 + sum over k of p_k N(n - k), N(n <= 0) = 0; that is
    more than n / tokens per round, since the last round may emit more than is wanted.

    Args:
        rate: acceptance_rate.
        gamma: Draft length of these rounds.
        tokens: Numbers of tokens, any shape.
    """
    emits = rate ** np.arange(gamma + 1.0)
    emits[:-1] *= 1 - rate
    most = int(tokens.max(initial=0))
    # N at n = -gamma to most; what is not above 0 stays 0.
    rounds = np.zeros(gamma + 1 + most)
    for n in range(1, most + 1):
        rounds[gamma + n] = 1 + emits @ rounds[n - 1 : gamma + n][::-1]
    return rounds[gamma + np.maximum(tokens, 0)]


def rate_where(rising: Callable[[Array], Array], reaches: ArrayLike) -> Array:
    """The rate in [0, 1] at which a function that rises with the rate reaches a value, by bisection.

    NaN where the value lies outside what the function takes on [0, 1].
    """
    wanted = np.asarray(reaches, dtype=float)
    low, high = np.zeros(wanted.shape), np.ones(wanted.shape)
    within = (rising(low) <= wanted) & (wanted <= rising(high))
    for _ in range(60):
        middle = (low + high) / 2
        short = rising(middle) < wanted
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    # The upper end is returned: there the function has reached the value, at both ends exactly.
    return np.where(within, np.where(rising(np.zeros(wanted.shape)) == wanted, 0.0, high), np.nan)


def rate_from_tokens_per_round(tokens_per_round: ArrayLike, gamma: ArrayLike) -> Array:
    """The rate at which independent drafts give these tokens per round at these draft lengths.

    Lengths outside 1 to gamma + 1 give NaN: no rate reaches them.

    Args:
        tokens_per_round: Emitted tokens per round, bonus included, any shape.
        gamma: Draft lengths, broadcast against it.
    """
    wanted, gamma = np.broadcast_arrays(np.asarray(tokens_per_round, dtype=float), np.asarray(gamma))
    return rate_where(lambda rate: independent_tokens_per_round(rate, gamma), wanted)
