"""Regimes from the ordered accepted counts of rounds, by expectation and maximisation (Baum-Welch).

A round that drafts g tokens and accepts A < g of them says: A positions accepted, one rejected. A = g says: g positions
accepted, and the next position, of the bonus token, unknown. The symbols of all rounds in their order are a hidden
Markov chain over token positions that emits accepted, rejected or nothing; what is missing depends on nothing but the
symbols before it. Rounds that draft less than the others, or nothing, are covered as they are.

All rounds of one kind (g, A) act by one matrix of the size of the regimes, so forward and backward passes go from round
to round and not from token to token:

    W = (D P)^A (I - D) P  for A < g,        W = (D P)^g P  for A = g

The log is cut into stretches that are worked on side by side; each takes over what its neighbours knew at their ends in
the step before, and at convergence the passes are those of the uncut log. A leading axis holds sets of parameters, for
bootstrap replicates at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

STRETCH = 150
"""Rounds of a stretch: several times the memory of any run that a log of some thousand rounds can show."""

_SMALL = 1e-12
_MOST_STEPS = 500


@dataclass(frozen=True, eq=False)
class Counts:
    """Rounds in the order in which they were made.

    Attributes:
        drafted: Drafted tokens of each round, shape (R,).
        accepted: Accepted tokens of each round, shape (R,).
        first: Whether the round is the first one of its request, shape (R,).
    """

    drafted: IntArray
    accepted: IntArray
    first: NDArray[np.bool_]

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.drafted)

    @cached_property
    def tokens(self) -> int:
        """Emitted tokens."""
        return int(self.accepted.sum()) + self.rounds

    @cached_property
    def symbols(self) -> int:
        """Drafts that were examined, accepted or not."""
        return int((self.accepted + (self.accepted < self.drafted)).sum())

    @cached_property
    def several(self) -> bool:
        """Whether there are several requests."""
        return bool(self.first[1:].any())

    @cached_property
    def _kinds(self) -> tuple[IntArray, IntArray]:
        pairs = np.stack([self.drafted, self.accepted], axis=-1)
        kinds, index = np.unique(pairs, axis=0, return_inverse=True)
        return kinds, index.reshape(-1)

    @property
    def kinds(self) -> IntArray:
        """The different rounds, drafted and accepted, shape (k, 2)."""
        return self._kinds[0]

    @property
    def kind(self) -> IntArray:
        """Which of them each round is, shape (R,)."""
        return self._kinds[1]


@dataclass(frozen=True, eq=False)
class Parameters:
    """Sets of parameters; leading axis b.

    Attributes:
        acceptance: Shape (b, K).
        transitions: Shape (b, K, K).
        first: Law of the first position of a request, shape (b, K).
    """

    acceptance: Array
    transitions: Array
    first: Array


@dataclass(frozen=True, eq=False)
class CountsFit:
    """What was fitted; leading axis b.

    Attributes:
        parameters: In the order of falling acceptance.
        share: Share of the regimes among the token positions of the log, as the log itself tells, shape (b, K).
        likelihood: Logarithm of the likelihood, shape (b,).
        steps: Steps that were taken.
    """

    parameters: Parameters
    share: Array
    likelihood: Array
    steps: int


@dataclass(frozen=True, eq=False)
class _Stretches:
    """A log in stretches: kinds of rounds, shape (L, n), with a kind of its own for what fills the last one up."""

    kinds: IntArray
    first: NDArray[np.bool_]
    filled: NDArray[np.bool_]

    @classmethod
    def of(cls, counts: Counts) -> _Stretches:
        number = max(-(-counts.rounds // STRETCH), 1)
        length = -(-counts.rounds // number)
        spare = number * length - counts.rounds

        def laid(values: NDArray[np.generic], fill: int) -> NDArray[np.generic]:
            return np.concatenate([values, np.full(spare, fill, dtype=values.dtype)]).reshape(number, length).T

        nothing = len(counts.kinds)
        return cls(
            laid(counts.kind, nothing).astype(np.int64),
            laid(counts.first, 0).astype(bool),
            laid(np.ones(counts.rounds, dtype=bool), 0).astype(bool),
        )


@dataclass(frozen=True, eq=False)
class _Messages:
    """What stretches know of each other: the law at their start and the likelihood of what follows, shape (b, n, K)."""

    before: Array
    after: Array


@dataclass(frozen=True, eq=False)
class _Expected:
    """What a pass expects of each stretch, or of several together.

    Attributes:
        pairs: For every kind of round the sum over its rounds of the law before it times the likelihood after it, over
            their product, shape (b, n, kinds, K, K).
        starts: Sum of the laws at first positions, shape (b, n, K).
    """

    pairs: Array
    starts: Array

    def weighted(self, weights: Array) -> _Expected:
        """Sums of one set over its stretches with weights (b, n), as b sets of one stretch."""
        pairs = np.einsum("bn,nkij->bkij", weights, self.pairs[0], optimize=True)
        return _Expected(pairs[:, None], (weights @ self.starts[0])[:, None])


def fit_counts(counts: Counts, start: Parameters, tolerance: float = 1e-7) -> CountsFit:
    """The most likely parameters, from a start; one set.

    Args:
        counts: The log.
        start: One set of parameters.
        tolerance: Least gain of likelihood of a step, per symbol.
    """
    stretches, likelihood = _Stretches.of(counts), -np.inf
    number, size = stretches.kinds.shape[1], start.acceptance.shape[-1]
    messages = _Messages(np.full((1, number, size), 1 / size), np.ones((1, number, size)))
    parameters, steps = start, 0
    while True:
        expected, found, messages = _passes(counts, stretches, parameters, messages)
        share, after = _maximised(counts, parameters, expected)
        steps += 1
        gain = float(found[0]) - likelihood
        # The first steps also bring the stretches to agree with each other.
        if (steps > 5 and gain < tolerance * counts.symbols) or steps >= _MOST_STEPS:
            return _ordered(CountsFit(parameters, share, found, steps))
        likelihood, parameters = float(found[0]), after


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
    stretches, one = _Stretches.of(counts), _inside(fit.parameters)
    number, size = stretches.kinds.shape[1], one.acceptance.shape[-1]
    weights = generator.multinomial(number, np.full(number, 1 / number), replicates).astype(float)
    messages = _Messages(np.full((1, number, size), 1 / size), np.ones((1, number, size)))
    for _ in range(5):
        expected, likelihood, messages = _passes(counts, stretches, one, messages)

    def moved(parameters: Parameters, expected: _Expected) -> Array:
        share, after = _maximised(counts, parameters, expected)
        return np.concatenate([_unbounded(_inside(after)), _logits(share)], axis=-1)

    at, free = _unbounded(one)[0], _unbounded(one).shape[-1]
    shifts = np.concatenate([np.eye(free), -np.eye(free)]) * _SHIFT
    around = _bounded(at + shifts, size, one.first)
    ends = moved(around, _passes(counts, stretches, around, messages)[0])
    slope = (ends[:free] - ends[free:]).T / (2 * _SHIFT)
    repeated = Parameters(*(np.repeat(part, replicates, 0) for part in (one.acceptance, one.transitions, one.first)))
    first_step = moved(repeated, expected.weighted(weights))
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
    return Parameters(1 / (1 + np.exp(-unbounded[:, :size])), _from_logits(rows), law)


def _matrices(counts: Counts, parameters: Parameters) -> tuple[Array, Array, Array]:
    """Powers of D P, (b, J + 1, K, K), the last move of each kind and the whole of it, (b, kinds + 1, K, K)."""
    acceptance, moves = parameters.acceptance, parameters.transitions
    sets, size = acceptance.shape
    step = acceptance[..., None] * moves
    powers = [np.broadcast_to(np.eye(size), (sets, size, size))]
    for _ in range(int(counts.kinds.max(initial=0))):
        powers.append(powers[-1] @ step)
    stacked = np.stack(powers, axis=1)
    rejecting = (1.0 - acceptance)[..., None] * moves
    whole = counts.kinds[:, 0] == counts.kinds[:, 1]
    last = np.where(whole[:, None, None], moves[:, None], rejecting[:, None])
    matrices = stacked[:, counts.kinds[:, 1]] @ last
    nothing = np.broadcast_to(np.eye(size), (sets, 1, size, size))
    return stacked, last, np.concatenate([matrices, nothing], axis=1)


def _passes(
    counts: Counts,
    stretches: _Stretches,
    parameters: Parameters,
    messages: _Messages,
) -> tuple[_Expected, Array, _Messages]:
    """Forward and backward, once: what is expected, the logarithm of the likelihood, (b,), and the next messages."""
    matrices = _matrices(counts, parameters)[2]
    length, number = stretches.kinds.shape
    sets, size = parameters.acceptance.shape
    law = np.broadcast_to(messages.before, (sets, number, size))
    laws = np.empty((length, sets, number, size))
    likelihood = np.zeros((sets, number))
    restart = parameters.first[:, None, :]
    for index in range(length):
        first = stretches.first[index]
        if first.any():
            law = np.where(first[:, None], restart, law)
        laws[index] = law
        law = np.einsum("bni,bnij->bnj", law, matrices[:, stretches.kinds[index]])
        total = np.maximum(law.sum(-1), 1e-300)
        likelihood += np.log(total)
        law = law / total[..., None]
    ended = law
    after = np.broadcast_to(messages.after, (sets, number, size))
    kinds, each = len(counts.kinds) + 1, np.arange(number)
    pairs, starts = np.zeros((sets, number, kinds, size, size)), np.zeros((sets, number, size))
    for index in range(length - 1, -1, -1):
        kind, first = stretches.kinds[index], stretches.first[index]
        before = np.einsum("bnij,bnj->bni", matrices[:, kind], after)
        scaled = laws[index] / np.maximum((laws[index] * before).sum(-1, keepdims=True), 1e-300)
        pairs[:, each, kind] += scaled[..., :, None] * after[..., None, :]
        if first.any():
            starts += scaled * before * first[:, None]
            before = np.where(first[:, None], 1.0, before)
        after = before / before.sum(-1, keepdims=True)
    # What a stretch ends with is what the next one begins with, and the other way round.
    onward = np.concatenate([parameters.first[:, None], ended[:, :-1]], axis=1)
    back = np.concatenate([after[:, 1:], np.ones((sets, 1, size))], axis=1)
    return _Expected(pairs[:, :, :-1], starts), likelihood.sum(-1), _Messages(onward, back)


def _maximised(counts: Counts, parameters: Parameters, expected: _Expected) -> tuple[Array, Parameters]:
    """Shares of the positions, and the parameters that the expected moves and symbols have."""
    pairs, starts = expected.pairs.sum(1), expected.starts.sum(1)
    powers, last, _ = _matrices(counts, parameters)
    step = parameters.acceptance[..., None] * parameters.transitions
    sets, size = parameters.acceptance.shape
    moves, accepted, rejected = np.zeros((sets, size, size)), np.zeros((sets, size)), np.zeros((sets, size))
    for kind, (drafted, count) in enumerate(counts.kinds.tolist()):
        here, final = pairs[:, kind], last[:, kind]
        for position in range(count + 1):
            before = np.swapaxes(powers[:, position], -1, -2)
            rest = powers[:, count - position - 1] @ final if position < count else np.eye(size)
            found = before @ here @ np.swapaxes(np.broadcast_to(rest, here.shape), -1, -2)
            found = found * (step if position < count else final)
            moves += found
            if position < count:
                accepted += found.sum(-1)
            elif count < drafted:
                rejected += found.sum(-1)
    occupied = moves.sum(-1)
    share = occupied / occupied.sum(-1, keepdims=True)
    first = starts / np.maximum(starts.sum(-1, keepdims=True), _SMALL) if counts.several else share
    return share, Parameters(
        acceptance=np.clip(accepted / np.maximum(accepted + rejected, _SMALL), 0.0, 1.0),
        transitions=moves / np.maximum(occupied[..., None], _SMALL),
        first=first,
    )


def _ordered(fit: CountsFit) -> CountsFit:
    """The same with regimes in the order of falling acceptance; one set."""
    order = np.argsort(-fit.parameters.acceptance[0], kind="stable")
    one = fit.parameters
    parameters = Parameters(one.acceptance[:, order], one.transitions[:, order][:, :, order], one.first[:, order])
    return replace(fit, parameters=parameters, share=fit.share[:, order])


def matrices_of_counts(counts: Counts, parameters: Parameters) -> Array:
    """N of rounds that draft as those of a log, whatever the regime: the mean of N over their lengths, (b, K, K)."""
    powers = _matrices(counts, parameters)[0]
    lengths = np.bincount(counts.drafted, minlength=powers.shape[1]) / counts.rounds
    # A position is visited where the draft is at least as long.
    visited = np.cumsum(lengths[::-1])[::-1][: powers.shape[1]]
    return np.einsum("j,bjik->bik", visited, powers)


def starting_points(counts: Counts, regimes: int, run: float = 10.0, reach: float = 0.6) -> Parameters:
    """Runs of one length, and acceptance spread around accepted / examined, by a share of the room beside it."""
    rate = counts.accepted.sum() / max(counts.symbols, 1)
    aside = reach * min(rate, 1 - rate) if regimes > 1 else 0.0
    acceptance = np.linspace(rate + aside, rate - aside, regimes)[None]
    others = max(regimes - 1, 1)
    stay = 1 - 1 / run if regimes > 1 else 1.0
    transitions = np.eye(regimes) * stay + (1 - np.eye(regimes)) * (1 - stay) / others
    return Parameters(acceptance, transitions[None], np.full((1, regimes), 1 / regimes))
