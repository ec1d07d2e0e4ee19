"""Requests as arrays, and the laws that their lengths are drawn from."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from specsim.specs.workload import AnyLength, Exponential, Fixed, LogNormal, Uniform

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

ATOMS = 64
"""Equally likely values that stand for a law of lengths where it is integrated over."""


@dataclass(frozen=True, eq=False)
class Requests:
    """Requests in the order of their arrival.

    Attributes:
        arrival_seconds: When each arrives, rising, shape (N,); of closed loops only the first ones, the others NaN.
        prompt_tokens: Shape (N,).
        output_tokens: At least 1 each, shape (N,).
        kind: Class of each request, shape (N,).
    """

    arrival_seconds: Array
    prompt_tokens: IntArray
    output_tokens: IntArray
    kind: IntArray

    def __len__(self) -> int:
        return len(self.arrival_seconds)

    def where(self, chosen: NDArray[np.bool_] | slice) -> Requests:
        """Some of them."""
        return Requests(
            self.arrival_seconds[chosen], self.prompt_tokens[chosen], self.output_tokens[chosen], self.kind[chosen]
        )

    def at(self, arrival_seconds: Array) -> Requests:
        """The same at other times."""
        return replace(self, arrival_seconds=arrival_seconds)

    @property
    def longest(self) -> int:
        """Most tokens that one of them keeps."""
        return int((self.prompt_tokens + self.output_tokens).max(initial=0))


@dataclass(frozen=True, eq=False)
class Sizes:
    """Prompts and outputs of requests by weighted pairs: what is integrated over.

    Attributes:
        prompt_tokens: Shape (A,).
        output_tokens: Shape (A,).
        weight: Share of the requests, summing to 1, shape (A,).
        kind: Class, shape (A,).
    """

    prompt_tokens: Array
    output_tokens: Array
    weight: Array
    kind: IntArray

    def mean(self, values: Array) -> Array:
        """The mean over requests of something along the last axis, which has shape (..., A)."""
        return np.asarray(values @ self.weight)


def draw_lengths(law: AnyLength, number: int, generator: np.random.Generator) -> IntArray:
    """Independent lengths of at least one token, shape (number,)."""
    return lengths_at(law, generator.random(number))


def lengths_at(law: AnyLength, share: Array) -> IntArray:
    """Quantiles of a law of lengths in whole tokens, at least 1, the shape of ``share`` (from 0 to below 1)."""
    match law:
        case Fixed():
            return np.full(share.shape, law.tokens, dtype=np.int64)
        case Uniform():
            return law.low + np.floor(share * (law.high - law.low + 1)).astype(np.int64)
        case Exponential():
            # Geometric from 1 with the mean 1 / p: P(more than n) = (1 - p)^n.
            p = 1.0 / law.mean
            if p >= 1:
                return np.ones(share.shape, dtype=np.int64)
            return 1 + np.floor(np.log1p(-share) / np.log1p(-p)).astype(np.int64)
        case LogNormal():
            sigma = law.sigma
            logarithm = np.log(law.mean) - sigma**2 / 2 + sigma * normal_quantile(share)
            return np.maximum(np.rint(np.exp(logarithm)), 1).astype(np.int64)


def normal_quantile(share: Array) -> Array:
    """Quantiles of the standard normal law; within 5e-9 (Acklam 2003, one rational function for each part)."""
    p = np.clip(np.asarray(share, dtype=float), 1e-300, 1 - 1e-16)
    tail = np.sqrt(-2 * np.log(np.minimum(p, 1 - p)))
    outer = _ratio(tail, _TAIL[0], _TAIL[1], 1.0) * np.where(p < 0.5, 1.0, -1.0)
    centre = p - 0.5
    inner = centre * _ratio(centre * centre, _CENTRE[0], _CENTRE[1], 1.0)
    return np.where(np.minimum(p, 1 - p) < _BREAK, outer, inner)


_BREAK = 0.02425
_CENTRE = (
    (-39.69683028665376, 220.9460984245205, -275.9285104469687, 138.3577518672690, -30.66479806614716,
     2.506628277459239),
    (-54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972, -13.28068155288572),
)  # fmt: skip
_TAIL = (
    (-7.784894002430293e-3, -0.3223964580411365, -2.400758277161838, -2.549732539343734, 4.374664141464968,
     2.938163982698783),
    (7.784695709041462e-3, 0.3224671290700398, 2.445134137142996, 3.754408661907416),
)  # fmt: skip


def _ratio(x: Array, above: tuple[float, ...], below: tuple[float, ...], last: float) -> Array:
    return np.asarray(np.polyval(above, x) / (np.polyval(below, x) * x + last))


def atoms_of(law: AnyLength) -> Array:
    """Equally likely values that stand for a law, shape (A,), with its mean: one for each of ``ATOMS`` equal parts."""
    if isinstance(law, Fixed):
        return np.array([float(law.tokens)])
    fine = (np.arange(ATOMS * 32) + 0.5) / (ATOMS * 32)
    return lengths_at(law, fine).astype(float).reshape(ATOMS, 32).mean(-1)
