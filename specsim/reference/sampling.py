"""From logits to the law of the next token, and the one place where chance comes in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen: the same for target and draft.

    Attributes:
        temperature: 0 is greedy: all probability on the largest logit, the first of equal ones.
        top_k: Keep so many of the most probable tokens, None for all.
        top_p: Keep the fewest tokens, the most probable first, that have this probability together; None for all.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None

    @property
    def greedy(self) -> bool:
        """Whether nothing is left to chance."""
        return self.temperature == 0 or self.top_k == 1

    def law(self, logits: NDArray[Any]) -> Array:
        """The law of the next token: temperature, then top-k, then top-p, then to a sum of 1; shape (vocabulary,)."""
        if self.greedy:
            law = np.zeros(len(logits))
            law[logits.argmax()] = 1.0
            return law
        scaled = (logits - logits.max()).astype(np.float64) / self.temperature
        law = np.exp(scaled)
        law /= law.sum()
        if self.top_k is None and self.top_p is None:
            return law
        order = np.argsort(-law, kind="stable")
        kept = min(self.top_k or len(law), len(law))
        if self.top_p is not None:
            within = law[order[:kept]]
            reached = np.cumsum(within) / within.sum()
            kept = min(kept, int(np.searchsorted(reached, self.top_p - 1e-12)) + 1)
        law[order[kept:]] = 0.0
        return law / law.sum()


class Chance(Protocol):
    """Everything that an engine leaves to chance."""

    def happens(self, probability: float) -> bool:
        """Whether something of this probability happens."""

    def draw(self, law: Array) -> int:
        """A token drawn from a law."""


class RandomChance:
    """Chance by random numbers."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator

    def happens(self, probability: float) -> bool:
        """Whether a uniform number lies below the probability."""
        return bool(self.generator.random() < probability)

    def draw(self, law: Array) -> int:
        """A token by the inverse of the distribution function."""
        reached = np.cumsum(law)
        token = int(np.searchsorted(reached, self.generator.random() * reached[-1], side="right"))
        # Rounding must not end on a token that cannot be drawn.
        return token if token < len(law) and law[token] > 0 else int(np.flatnonzero(law)[-1])


def residual(target: Array, draft: Array) -> Array:
    """norm(max(0, target - draft)): what is left of the target once a draft was rejected (Leviathan et al. 2023).

    Where nothing is left the two are equal but for rounding, and it is the target.
    """
    left = np.maximum(target - draft, 0.0)
    total = left.sum()
    return left / total if total > 0 else target


def without(law: Array, token: int) -> Array:
    """A law given that a token does not come; zeros if there is no other."""
    left = law.copy()
    left[token] = 0.0
    total = left.sum()
    return left / total if total > 0 else left
