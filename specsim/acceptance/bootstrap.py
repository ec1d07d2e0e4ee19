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
    are moved along their logits.

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
        return np.concatenate([_unbounded(_inside(after)), _logits(share)], axis=-1)

    at, free = _unbounded(one)[0], _unbounded(one).shape[-1]
    shifts = np.concatenate([np.eye(free), -np.eye(free)]) * _SHIFT
    around = _bounded(at + shifts, size, one.first)
    ends = moved(around, passes(counts, stretches, around, messages)[0])
    slope = (ends[:free] - ends[free:]).T / (2 * _SHIFT)
    repeated = Parameters(*(np.repeat(part, replicates, 0) for part in (one.acceptance, one.transitions, one.first)))
    first_step = moved(repeated, expected.weighted(weights))
    at_fit = moved(one, expected)
    # Stretches of one log vary a little less around their own mean than around the truth.
    widen = (number / max(number - 1, 1)) ** 0.5
    first_step = at_fit + widen * (first_step - at_fit)
    change = np.linalg.solve(np.eye(free) - slope[:free], (first_step[:, :free] - at).T).T
    share = _from_logits(first_step[:, free:] + change @ slope[free:].T)
    tokens = np.where(stretches.filled, counts.kinds[np.minimum(stretches.kinds, len(counts.kinds) - 1), 1] + 1, 0)
    by_replicate = (weights @ tokens.sum(0)) / (weights @ stretches.filled.sum(0))
    return CountsFit(_bounded(at + change, size, one.first), share, likelihood, 1), by_replicate


_SHIFT = 1e-4
_EDGE = 1e-6


def _inside(parameters: Parameters) -> Parameters:
    """The same with no probability at its bounds, where logits end."""
    moves = np.maximum(parameters.transitions, _EDGE)
    return Parameters(
        np.clip(parameters.acceptance, _EDGE, 1 - _EDGE), moves / moves.sum(-1, keepdims=True), parameters.first
    )


def _logits(law: Array) -> Array:
    """Logarithms of a law over its first entry, without that one, shape (..., K - 1)."""
    logarithm = np.log(np.maximum(law, _EDGE))
    return np.asarray(logarithm[..., 1:] - logarithm[..., :1])


def _from_logits(logits: Array) -> Array:
    whole = np.concatenate([np.zeros((*logits.shape[:-1], 1)), logits], axis=-1)
    weights = np.exp(whole - whole.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def _unbounded(parameters: Parameters) -> Array:
    """Acceptance and rows of transitions as logits, shape (b, K + K (K - 1))."""
    acceptance = np.log(parameters.acceptance / (1 - parameters.acceptance))
    return np.concatenate([acceptance, _logits(parameters.transitions).reshape(len(acceptance), -1)], axis=-1)


def _bounded(unbounded: Array, size: int, first: Array) -> Parameters:
    rows = unbounded[:, size:].reshape(len(unbounded), size, size - 1)
    law = np.broadcast_to(first, (len(unbounded), size))
    # Beyond +-700 the exponential overflows, and nothing is told from 0 or 1 any more.
    acceptance = 1 / (1 + np.exp(-np.clip(unbounded[:, :size], -700, 700)))
    return Parameters(acceptance, _from_logits(rows), law)
