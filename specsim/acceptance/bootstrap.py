"""How sure a fit of ordered counts is: fits to logs put together from stretches of the one there is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance.fit_counts import (
    Counts,
    CountsFit,
    Expected,
    Messages,
    Parameters,
    Stretches,
    maximised,
    passes,
)

Array = NDArray[np.float64]


def bootstrap(
    counts: Counts, fit: CountsFit, replicates: int, generator: np.random.Generator
) -> tuple[CountsFit, Array]:
    """Fits to logs put together from stretches of this one, drawn with replacement, and their tokens per round.

    Stretches are long beside runs, so they are as good as independent. With M_w the step of the fit on weighted
    stretches and J its derivative at the fit theta, where M(theta) = theta, replicates are
    theta + (I - J)^-1 (M_w(theta) - theta): the first step of each, and what all that follow would add. Probabilities
    are moved along their logits, laws along their logarithms. One of which the log holds next to no event, as of moves
    out of regimes that hardly ever end, has no scale to be moved on and is held.

    Args:
        counts: The log.
        fit: Its fit, one set.
        replicates: How many, b.
        generator: Source of randomness.
    """
    stretches, one = Stretches.of(counts), _inside(fit.parameters)
    number, size = stretches.kinds.shape[1], one.acceptance.shape[-1]
    weights = generator.multinomial(number, np.full(number, 1 / number), replicates).astype(float)
    messages = Messages(np.full((1, number, size), 1 / size), np.ones((1, number, size)))
    for _ in range(5):
        expected, likelihood, messages = passes(counts, stretches, one, messages)

    def moved(parameters: Parameters, expected: Expected) -> Array:
        share, after = maximised(counts, parameters, expected)
        return np.concatenate([_unbounded(_inside(after)), np.log(np.maximum(share, _EDGE))], axis=-1)

    at = _unbounded(one)[0]
    last, free = len(at), np.flatnonzero(_events(counts, fit) >= _FEWEST)
    shifts = np.concatenate([np.eye(last)[free], -np.eye(last)[free]]) * _SHIFT
    around = _bounded(at + shifts, size, one.first)
    ends = moved(around, passes(counts, stretches, around, messages)[0])
    slope = (ends[: len(free)] - ends[len(free) :]).T / (2 * _SHIFT)
    repeated = Parameters(*(np.repeat(part, replicates, 0) for part in (one.acceptance, one.transitions, one.first)))
    first_step = moved(repeated, expected.weighted(weights))
    at_fit = moved(one, expected)
    # Stretches of one log vary a little less around their own mean than around the truth.
    widen = (number / max(number - 1, 1)) ** 0.5
    first_step = at_fit + widen * (first_step - at_fit)
    change = np.zeros((replicates, last))
    change[:, free] = np.linalg.solve(np.eye(len(free)) - slope[free], (first_step[:, free] - at[free]).T).T
    share = _normalised(first_step[:, last:] + change[:, free] @ slope[last:].T)
    tokens = np.where(stretches.filled, counts.kinds[np.minimum(stretches.kinds, len(counts.kinds) - 1), 1] + 1, 0)
    by_replicate = (weights @ tokens.sum(0)) / (weights @ stretches.filled.sum(0))
    return CountsFit(_bounded(at + change, size, one.first), share, likelihood, 1), by_replicate


_SHIFT = 1e-4
_EDGE = 1e-6
_FEWEST = 5
"""Events that a probability must have on both of its sides for the log to say how sure it is."""


def _events(counts: Counts, fit: CountsFit) -> Array:
    """Expected events behind each of the numbers of ``_unbounded``, of the rarer side, one set."""
    acceptance, moves, share = fit.parameters.acceptance[0], fit.parameters.transitions[0], fit.share[0]
    examined = counts.symbols * share * np.minimum(acceptance, 1 - acceptance)
    return np.concatenate([examined, (counts.tokens * share[:, None] * moves).reshape(-1)])


def _inside(parameters: Parameters) -> Parameters:
    """The same with no probability at its bounds, where logits end."""
    moves = np.maximum(parameters.transitions, _EDGE)
    return Parameters(
        np.clip(parameters.acceptance, _EDGE, 1 - _EDGE), moves / moves.sum(-1, keepdims=True), parameters.first
    )


def _normalised(logarithms: Array) -> Array:
    """Laws of which the logarithms are given, but for a constant, along the last axis."""
    weights = np.exp(logarithms - logarithms.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def _unbounded(parameters: Parameters) -> Array:
    """Logits of the acceptance and logarithms of the transitions, shape (b, K + K^2)."""
    acceptance = np.log(parameters.acceptance / (1 - parameters.acceptance))
    return np.concatenate([acceptance, np.log(parameters.transitions).reshape(len(acceptance), -1)], axis=-1)


def _bounded(unbounded: Array, size: int, first: Array) -> Parameters:
    rows = unbounded[:, size:].reshape(len(unbounded), size, size)
    law = np.broadcast_to(first, (len(unbounded), size))
    # Beyond +-700 the exponential overflows, and nothing is told from 0 or 1 any more.
    acceptance = 1 / (1 + np.exp(-np.clip(unbounded[:, :size], -700, 700)))
    return Parameters(acceptance, _normalised(rows), law)
