"""Acceptance from rates by position: what survives of rounds, without the order in which rounds came.

Survival of any chain of regimes is a mixture of geometric ones, x_j = sum of C_k lam_k^j; two of them and their weight
are found from three or more positions. That is enough for tokens per round at any draft length. It says nothing of how
long stretches are: a whole family of regimes has the same rates at every draft length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specsim.acceptance.rates import independent_tokens_per_round, rate_from_tokens_per_round
from specsim.acceptance.regimes import RegimeChain

Array = NDArray[np.float64]

_TINY = 1e-300


@dataclass(frozen=True)
class Mixture:
    """Two geometric survivals.

    Attributes:
        rates: lam_1 > lam_2.
        weight: C_1, weight of the first among the rounds.
        gamma: Draft length of the rounds.
    """

    rates: tuple[float, float]
    weight: float
    gamma: int

    def survival(self, longest: int) -> Array:
        """x_1 to x_longest of these rounds, continued beyond gamma as if they drafted on."""
        position = np.arange(1, longest + 1)
        one, other = self.rates
        return self.weight * one**position + (1.0 - self.weight) * other**position

    @property
    def token_share(self) -> tuple[float, float]:
        """Share of the tokens that each has: C_k E_iid(lam_k, gamma) / E(gamma)."""
        tokens = np.array([self.weight, 1.0 - self.weight]) * independent_tokens_per_round(self.rates, self.gamma)
        shares = tokens / tokens.sum()
        return float(shares[0]), float(shares[1])

    @property
    def chain(self) -> RegimeChain:
        """The same as regimes that never end."""
        return RegimeChain.of(self.rates, np.eye(2), self.token_share)


def deviance(observed: ArrayLike, expected: ArrayLike) -> Array:
    """Twice the mean log-likelihood that a round loses by expected survival in place of its own, shape (...).

    Args:
        observed: x_1 to x_g as observed, shape (..., g).
        expected: The same as expected.
    """
    found, wanted = _outcomes(np.asarray(observed)), _outcomes(np.asarray(expected))
    ratio = np.where(found > 0, np.maximum(found, _TINY) / np.maximum(wanted, _TINY), 1.0)
    return np.asarray(2.0 * (found * np.log(ratio)).sum(-1))


def _outcomes(survival: Array) -> Array:
    """P(exactly k accepted), k = 0 to g, shape (..., g + 1)."""
    ends = np.ones((*survival.shape[:-1], 1))
    whole = np.concatenate([ends, survival, 0 * ends], axis=-1)
    return np.maximum(whole[..., :-1] - whole[..., 1:], 0.0)


def fit_independent(survival: ArrayLike) -> float:
    """The most likely rate of independent drafts: accepted / examined."""
    known = np.asarray(survival, dtype=float)
    examined = 1.0 + known[:-1].sum()
    return float(known.sum() / examined)


def fit_mixture(survival: ArrayLike, gamma: int | None = None) -> Mixture:
    """The most likely mixture of two.

    The best pair of rates on a grid, with the weight that least squares give it, is where the refinement begins.

    Args:
        survival: x_1 to x_g, three or more positions.
        gamma: Draft length of the rounds, g if None; more if only the first positions are looked at.

    Raises:
        ValueError: If there are fewer than three positions: two rates and a weight need three.
    """
    known = np.asarray(survival, dtype=float)
    if len(known) < 3:
        raise ValueError("two rates and a weight need three positions")
    rates = np.linspace(0.0, 1.0, 81)
    one, other = (side.reshape(-1) for side in np.meshgrid(rates, rates, indexing="ij"))
    kept = one > other
    start = _best(known, one[kept], other[kept], _weights(known, one[kept], other[kept]))
    first, second, weight = _refined(known, np.array(start)).tolist()
    if first < second:
        first, second, weight = second, first, 1.0 - weight
    return Mixture((first, second), weight, len(known) if gamma is None else gamma)


def _refined(known: Array, start: Array) -> Array:
    """Two rates and the weight of the first, by damped scoring of the likelihood from a start (Levenberg-Marquardt)."""
    position = np.arange(1, len(known) + 1)
    wanted, best, damping = _outcomes(known), start, 1e-3
    least = float(deviance(known, _mixed(best, position)))
    for _ in range(200):
        one, other, weight = best
        slope = np.stack(
            [
                weight * position * one ** (position - 1),
                (1 - weight) * position * other ** (position - 1),
                one**position - other**position,
            ]
        )
        # Outcomes are differences of survival, and so are their slopes.
        padded = np.concatenate([np.zeros((3, 1)), slope, np.zeros((3, 1))], axis=-1)
        moved, law = padded[:, :-1] - padded[:, 1:], np.maximum(_outcomes(_mixed(best, position)), 1e-9)
        information = (moved / law) @ moved.T
        step = np.linalg.lstsq(
            information + damping * np.diag(np.diag(information) + 1e-12), (moved / law) @ (wanted - law), rcond=None
        )[0]
        tried = np.clip(best + step, 0.0, 1.0)
        found = float(deviance(known, _mixed(tried, position)))
        if found <= least:
            if np.abs(tried - best).max() < 1e-13:
                break
            best, least, damping = tried, found, max(damping / 5, 1e-12)
        else:
            damping *= 10
            if damping > 1e8:
                break
    return np.asarray(best)


def _mixed(parameters: Array, position: NDArray[np.int64]) -> Array:
    one, other, weight = parameters
    return np.asarray(weight * one**position + (1 - weight) * other**position)


def _weights(known: Array, one: Array, other: Array) -> Array:
    """The weight of the first of two rates by least squares of survival, within its bounds."""
    position = np.arange(1, len(known) + 1)
    difference = one[:, None] ** position - other[:, None] ** position
    wanted = known - other[:, None] ** position
    return np.clip((difference * wanted).sum(-1) / np.maximum((difference**2).sum(-1), _TINY), 0.0, 1.0)


def _best(known: Array, one: Array, other: Array, weight: Array) -> tuple[float, float, float]:
    position = np.arange(1, len(known) + 1)
    expected = weight[:, None] * one[:, None] ** position + (1 - weight[:, None]) * other[:, None] ** position
    chosen = int(np.argmin(deviance(known, expected)))
    return float(one[chosen]), float(other[chosen]), float(weight[chosen])


@dataclass(frozen=True)
class RatesChoice:
    """Which form rates by position speak for.

    Attributes:
        kind: ``independent``, ``regimes`` (a mixture) or ``survival`` (the rates themselves).
        criterion: BIC of the three, in this order; of a mixture infinite where there are too few positions.
    """

    kind: str
    criterion: tuple[float, float, float]


def choose_form(survival: ArrayLike, rounds: int) -> RatesChoice:
    """The form of the smallest BIC: deviance of the rounds + parameters x log(rounds), with 1, 3 and g parameters."""
    known = np.asarray(survival, dtype=float)
    rate = fit_independent(known)
    position = np.arange(1, len(known) + 1)
    cost = float(np.log(rounds))
    independent = rounds * float(deviance(known, rate**position)) + cost
    mixture = float("inf")
    if len(known) >= 3:
        mixture = rounds * float(deviance(known, fit_mixture(known).survival(len(known)))) + 3 * cost
    found = (independent, mixture, len(known) * cost)
    return RatesChoice(("independent", "regimes", "survival")[int(np.argmin(found))], found)


def rates_of_length(tokens_per_round: float, gamma: int) -> float:
    """The rate of independent drafts for one mean length."""
    return float(rate_from_tokens_per_round(tokens_per_round, gamma))


def look_alikes(mixture: Mixture, easy: ArrayLike) -> RegimeChain:
    """Two regimes that end, with the survival of a mixture at every draft length, for each acceptance of the easy one.

    With the sum s and product d of the rates, and the mean m of acceptance over tokens, acceptance of the hard regime
    is d (easy - m) / ((s - m) easy - d), the chain keeps its regime by q = d / (easy hard) more than by chance, and m
    fixes the shares.

    Args:
        mixture: The mixture.
        easy: From its larger rate, where regimes never end, to 1; shape (...,).
    """
    sum_, product = sum(mixture.rates), mixture.rates[0] * mixture.rates[1]
    mean = float(np.dot(mixture.token_share, mixture.rates))
    high = np.asarray(easy, dtype=float)
    low = product * (high - mean) / ((sum_ - mean) * high - product)
    kept = product / (high * low)
    share = (mean - low) / (high - low)
    leave_easy, leave_hard = (1 - kept) * (1 - share), (1 - kept) * share
    rows = [np.stack([1 - leave_easy, leave_easy], -1), np.stack([leave_hard, 1 - leave_hard], -1)]
    return RegimeChain.of(np.stack([high, low], -1), np.stack(rows, -2), np.stack([share, 1 - share], -1))
