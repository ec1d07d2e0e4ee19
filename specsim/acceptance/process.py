"""Acceptance as a process over draft positions: proposed and accepted lengths, and what follows from them.

Everything rests on two families of probabilities for one round at draft length gamma: that at least j drafts
are proposed (d_j) and that at least j are accepted (x_j). Costs of drafting and verification follow d, tokens
follow x: tokens_per_round = 1 + sum x_j.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance.rates import rate_from_tokens_per_round
from specsim.specs.acceptance import Drafted, Independent, Length, Point, Positional, Survival

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AcceptedLengths:
    """What a round proposes and accepts at each draft length.

    Attributes:
        gamma: Draft lengths, shape (G,).
        proposed: P(at least j drafts are proposed), j = 1 to J along the last axis, shape (G, J); 0 for j > gamma.
        accepted: P(at least j drafts are accepted), same shape.
        extrapolated: Whether the draft length lies beyond what was recorded, shape (G,).
    """

    gamma: IntArray
    proposed: Array
    accepted: Array
    extrapolated: NDArray[np.bool_]

    @property
    def tokens_per_round(self) -> Array:
        """Emitted tokens per round, the bonus or corrected token included, shape (G,)."""
        return 1.0 + self.accepted.sum(-1)

    @property
    def drafted_per_round(self) -> Array:
        """Proposed tokens per round, shape (G,)."""
        return self.proposed.sum(-1)

    @property
    def accepted_per_drafted(self) -> Array:
        """Accepted / proposed tokens: what engines print; NaN where nothing is drafted, shape (G,)."""
        drafted = self.drafted_per_round
        return np.divide(self.accepted.sum(-1), drafted, out=np.full(drafted.shape, np.nan), where=drafted > 0)

    @property
    def rejection_probability(self) -> Array:
        """P(a round rejects a draft) = 1 - P(all proposed drafts are accepted), shape (G,)."""
        return 1.0 - self.distribution[np.arange(len(self.gamma)), self.gamma]

    @property
    def at_least(self) -> Array:
        """P(at least k drafts are accepted), k = 0 to J + 1 along the last axis, shape (G, J + 2)."""
        ones = np.ones((len(self.gamma), 1))
        return np.concatenate([ones, self.accepted, 0 * ones], axis=-1)

    @property
    def distribution(self) -> Array:
        """P(exactly k drafts are accepted), k = 0 to J along the last axis, shape (G, J + 1)."""
        return self.at_least[:, :-1] - self.at_least[:, 1:]

    @property
    def variance(self) -> Array:
        """Variance of the tokens of one round, shape (G,)."""
        odd = 2 * np.arange(1, self.accepted.shape[-1] + 1) + 1
        return 1.0 + self.accepted @ odd - self.tokens_per_round**2


class AcceptanceProcess(Protocol):
    """How many drafts are proposed and accepted at each draft length."""

    def lengths(self, gamma: IntArray) -> AcceptedLengths:
        """Proposed and accepted lengths at each draft length, shape (G,)."""
        ...


@dataclass(frozen=True)
class Conditional:
    """Acceptance by position, given that all drafts before were accepted; the last entry holds beyond the list.

    One entry is the independent process of Leviathan et al. (2023).

    Attributes:
        conditional: Probability for position 1, 2, ...
        recorded: Draft length up to which the probabilities were observed, None if they hold at any length.
    """

    conditional: tuple[float, ...]
    recorded: int | None = None

    @property
    def single_rate(self) -> float | None:
        """The rate of independent drafts, None where it depends on the position."""
        return self.conditional[0] if len(self.conditional) == 1 else None

    def lengths(self, gamma: IntArray) -> AcceptedLengths:
        """Proposed and accepted lengths at each draft length, shape (G,)."""
        longest = max(int(gamma.max(initial=0)), 1)
        position = np.arange(1, longest + 1)
        known = np.asarray(self.conditional)
        survival = np.cumprod(known[np.minimum(position, len(known)) - 1])
        drafted = position <= gamma[:, None]
        beyond = gamma > self.recorded if self.recorded is not None else np.zeros(gamma.shape, dtype=bool)
        return AcceptedLengths(gamma, drafted.astype(float), survival * drafted, beyond)


def process_of(spec: Point) -> AcceptanceProcess:
    """The process that an acceptance in any written form describes.

    A length or a share of drafted tokens at one gamma determines one effective rate for independent drafts;
    at longer drafts that rate is an extrapolation. In ``survival``, positions after a certain rejection are
    never reached, whatever their conditional probability: it is taken as 0.
    """
    match spec:
        case Independent():
            return Conditional((spec.rate,))
        case Positional():
            return Conditional(spec.conditional, recorded=len(spec.conditional))
        case Survival():
            before = (1.0, *spec.survival)
            conditional = tuple(x / b if b > 0 else 0.0 for x, b in zip(spec.survival, before, strict=False))
            return Conditional(conditional, recorded=len(spec.survival))
        case Length():
            return _effective(spec.tokens_per_round, spec.gamma)
        case Drafted():
            return _effective(1.0 + spec.accepted_per_drafted * spec.gamma, spec.gamma)


def _effective(tokens_per_round: float, gamma: int) -> Conditional:
    return Conditional((float(rate_from_tokens_per_round(tokens_per_round, gamma)),), recorded=gamma)
