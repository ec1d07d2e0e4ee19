"""Markov-modulated acceptance: easy and hard stretches of text, exactly.

The regime s belongs to the token position: position t + 1 is in regime b with probability P[a, b] where position t is
in a, and draft j of a round is accepted there with probability D_j[s]. A round that begins at position t and accepts A
drafts ends at t + A; the next one begins at t + A + 1. With

    X_j = D_1 P D_2 P ... D_j P                     j drafts accepted
    M_j = X_j (I - D_(j+1)) P  for j < gamma,  M_gamma = X_gamma P      j drafts accepted, then the next round begins
    N   = X_0 + ... + X_gamma,   M = sum of M_j = I - N (I - P)

a law nu of the regime in which rounds begin is stationary where nu N is proportional to pi, the shares of the regimes
among token positions, and as nu N 1 = tokens_per_round:

    tokens_per_round = 1 / (pi N^-1 1),    nu = tokens_per_round pi N^-1,    x_j = nu X_j 1

so one solve of the size of the regimes answers everything at one draft length. Where only a share h of the rounds has a
draft, whatever the regime, the others are rounds of no draft: N becomes h N + (1 - h) I, and x_j = h nu X_j 1.

Over a text of any length, nu N = pi tokens_per_round holds for the shares that the regimes have in that text, whatever
the law that made them: shares may be given apart from P.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

_SINGULAR = 1e-10
_DOUBLINGS = 50
"""Steps of 2^50 tokens are beyond the longest runs."""


@dataclass(frozen=True, eq=False)
class RegimeChain:
    """Regimes of token positions; leading axes hold sets of parameters that are worked on at once.

    Attributes:
        acceptance: Probability by position in the round and by regime, shape (..., J, K); the last position holds
            beyond.
        transitions: From regime to regime, shape (..., K, K), rows summing to 1.
        share: Shares of the regimes among token positions, shape (..., K).
    """

    acceptance: Array
    transitions: Array
    share: Array

    @classmethod
    def of(cls, acceptance: ArrayLike, transitions: ArrayLike, share: ArrayLike | None = None) -> RegimeChain:
        """A chain of regimes whose acceptance does not depend on the position in the round.

        Args:
            acceptance: Shape (..., K).
            transitions: Shape (..., K, K).
            share: Shape (..., K); the stationary law of ``transitions`` if None.
        """
        moves = np.asarray(transitions, dtype=float)
        shares = stationary_law(moves) if share is None else np.asarray(share, dtype=float)
        return cls(np.asarray(acceptance, dtype=float)[..., None, :], moves, shares)

    @property
    def positions(self) -> int:
        """Positions for which acceptance is given."""
        return int(self.acceptance.shape[-2])

    @property
    def settled_share(self) -> Array:
        """Shares at which a text settles that begins with the shares given, shape (..., K)."""
        identity = np.eye(self.transitions.shape[-1])
        # Half a step at a time, so that regimes that alternate settle too.
        moves = (identity + self.transitions) / 2
        for _ in range(_DOUBLINGS):
            moves = moves @ moves
            moves = moves / moves.sum(-1, keepdims=True)
        return np.asarray((self.share[..., None, :] @ moves)[..., 0, :])

    def at(self, position: int) -> Array:
        """Acceptance at a position in the round, the first being 1, shape (..., K)."""
        return self.acceptance[..., min(position, self.positions) - 1, :]

    def accepting(self, longest: int) -> Array:
        """X_j for j = 0 to ``longest``, shape (..., longest + 1, K, K)."""
        identity = np.broadcast_to(np.eye(self.transitions.shape[-1]), self.transitions.shape)
        found = [identity]
        for position in range(1, longest + 1):
            found.append((found[-1] * self.at(position)[..., None, :]) @ self.transitions)
        return np.stack(found, axis=-3)

    def rounds(self, gamma: ArrayLike, drafting: float = 1.0) -> RegimeRounds:
        """Rounds at some draft lengths, shape (G,), of which a share has a draft."""
        lengths = np.asarray(gamma, dtype=np.int64).reshape(-1)
        return RegimeRounds(self, lengths, self.accepting(int(lengths.max(initial=0))), drafting)


@dataclass(frozen=True, eq=False)
class RegimeRounds:
    """Rounds of a chain of regimes at some draft lengths; arrays have shape (..., G), and further axes as said.

    Attributes:
        chain: The chain.
        gamma: Draft lengths, shape (G,).
        accepting: X_j up to the longest draft, shape (..., J + 1, K, K).
        drafting: Share of the rounds that have a draft, whatever the regime; the others emit one token.
    """

    chain: RegimeChain
    gamma: IntArray
    accepting: Array
    drafting: float = 1.0

    @cached_property
    def start_share(self) -> Array:
        """Share of the rounds that begin in each regime (nu), shape (..., G, K).

        Shares that no rounds can have, which happens only where they were given apart from the transitions, are
        cut at 0.
        """
        visits = self.drafting * np.cumsum(self.accepting, axis=-3)[..., self.gamma, :, :]
        visits = visits + (1.0 - self.drafting) * np.eye(visits.shape[-1])
        share = np.broadcast_to(self.chain.share[..., None, :], visits.shape[:-1])
        found = np.maximum(solved_from_the_left(visits, share), 0.0)
        return found / found.sum(-1, keepdims=True)

    @cached_property
    def survival(self) -> Array:
        """P(at least j drafts are accepted), j = 1 to J, shape (..., G, J); 0 for j > gamma."""
        reached = self.accepting.sum(-1)[..., 1:, :]
        drafted = np.arange(1, reached.shape[-2] + 1) <= self.gamma[:, None]
        return (self.start_share @ np.swapaxes(reached, -1, -2)) * (self.drafting * drafted)

    @cached_property
    def tokens_per_round(self) -> Array:
        """Emitted tokens per round, bonus included."""
        return 1.0 + self.survival.sum(-1)

    @cached_property
    def variance(self) -> Array:
        """Variance of the tokens of one round: 1 + sum of (2 j + 1) x_j - tokens_per_round^2."""
        odd = 2 * np.arange(1, self.survival.shape[-1] + 1) + 1
        return 1.0 + self.survival @ odd - self.tokens_per_round**2

    @cached_property
    def outcomes(self) -> Array:
        """M_j, the law of j accepted drafts and of the next round's regime, shape (..., G, J + 1, K, K)."""
        chain, longest = self.chain, self.accepting.shape[-3] - 1
        rejected = np.stack([1.0 - chain.at(j + 1) for j in range(longest + 1)], axis=-2)
        rejecting = (self.accepting * rejected[..., None, :]) @ chain.transitions[..., None, :, :]
        whole = self.accepting @ chain.transitions[..., None, :, :]
        accepted, gamma = np.arange(longest + 1)[:, None, None], self.gamma[:, None, None, None]
        outcome = np.where(accepted < gamma, rejecting[..., None, :, :, :], 0.0)
        drafts = np.where(accepted == gamma, whole[..., None, :, :, :], outcome)
        none = np.where(accepted == 0, whole[..., None, :, :, :], 0.0)
        return self.drafting * drafts + (1.0 - self.drafting) * none

    @cached_property
    def _by_tokens(self) -> Array:
        """The sum of (j + 1) M_j, shape (..., G, K, K)."""
        tokens = np.arange(1.0, self.accepting.shape[-3] + 1)
        return np.einsum("j,...jab->...ab", tokens, self.outcomes)

    @cached_property
    def lag_1_autocorrelation(self) -> Array:
        """Correlation of the tokens of one round with those of the next; NaN where rounds do not vary."""
        squared = self.tokens_per_round**2
        product = np.einsum("...a,...ab,...bc->...", self.start_share, self._by_tokens, self._by_tokens)
        return np.divide(
            product - squared, self.variance, out=np.full(squared.shape, np.nan), where=self.variance > 1e-12
        )

    @cached_property
    def asymptotic_variance(self) -> Array:
        """Variance of the tokens of m rounds / m, for many rounds; infinite where regimes never end.

        V = variance + 2 nu M1 (Z - 1 nu) M1 1 with M1 the sum of (j + 1) M_j and Z = (I - M + 1 nu)^-1.
        """
        ones = np.ones(self.start_share.shape[-1])
        moves, nu = self.outcomes.sum(-3), self.start_share[..., None, :]
        around = np.eye(len(ones)) - moves + ones[:, None] * nu
        determinant = np.linalg.det(around)
        ends = np.abs(determinant) > _SINGULAR
        safe = np.where(ends[..., None, None], around, np.eye(len(ones)))
        # (Z - 1 nu) M1 1 by one solve.
        emitted = self._by_tokens.sum(-1)
        spread = np.linalg.solve(safe, emitted[..., None])[..., 0] - (nu[..., 0, :] * emitted).sum(-1, keepdims=True)
        found = self.variance + 2 * np.einsum("...a,...ab,...b->...", self.start_share, self._by_tokens, spread)
        return np.where(ends, np.maximum(found, 0.0), np.inf)


def stationary_law(transitions: ArrayLike) -> Array:
    """The law that transitions keep, shape (..., K) of (..., K, K); where several are kept, their middle.

    Solved as the least squares of pi (I - P) = 0, pi 1 = 1.
    """
    moves = np.asarray(transitions, dtype=float)
    size = moves.shape[-1]
    around = np.eye(size) - moves
    # The columns of I - P are dependent: any of them may be replaced by the sum of the law.
    system = np.concatenate([around[..., :, :-1], np.ones((*moves.shape[:-1], 1))], axis=-1)
    wanted = np.zeros((*moves.shape[:-2], size))
    wanted[..., -1] = 1.0
    if (np.abs(np.linalg.det(system)) > _SINGULAR).all():
        return np.asarray(np.linalg.solve(np.swapaxes(system, -1, -2), wanted[..., None])[..., 0])
    return np.asarray((wanted[..., None, :] @ np.linalg.pinv(system))[..., 0, :])


def runs_to_transitions(mean_run_tokens: Sequence[float | None]) -> Array:
    """Transitions of regimes that end after so many tokens on average, and lead to all others alike, shape (K, K).

    A regime without a run, and one that has no other to lead to, never ends.
    """
    count = len(mean_run_tokens)
    leaves = np.array([0.0 if run is None or count == 1 else 1.0 / run for run in mean_run_tokens])
    others = np.maximum(count - 1, 1)
    return np.asarray(np.diag(1.0 - leaves) + (1.0 - np.eye(count)) * (leaves / others)[:, None])


def solved_from_the_left(matrices: Array, wanted: Array) -> Array:
    """The rows y with y A = w, shape (..., K); where A has no inverse, the shortest of them.

    N is singular only where eigenvalues of D P are roots of unity: certain acceptance in regimes that alternate.
    """
    regular = np.abs(np.linalg.det(matrices)) > _SINGULAR
    if regular.all():
        return np.asarray(np.linalg.solve(np.swapaxes(matrices, -1, -2), wanted[..., None])[..., 0])
    return np.asarray((wanted[..., None, :] @ np.linalg.pinv(matrices, rcond=1e-9))[..., 0, :])
