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

from specsim.acceptance.regimes import RegimeChain
from specsim.acceptance.simulate import simulate_log

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

_LONGEST_STRETCH, _SHORTEST_STRETCH, _STRETCHES = 250, 50, 40
"""Rounds of a stretch, and how many stretches there should be at least: many, and each long beside its runs."""

_SMALL = 1e-12
_MOST_STEPS = 500


@dataclass(frozen=True, eq=False)
class Counts:
    """Rounds in the order in which they were made.

    Attributes:
        drafted: Drafted tokens of each round, shape (R,).
        accepted: Accepted tokens of each round, shape (R,).
        first: Whether the round is the first one of its request, shape (R,).
        proposed: Drafts that there were where the drafter ran out of guesses, shape (R,); those it did not make count
            as rejected. None where it never does.
    """

    drafted: IntArray
    accepted: IntArray
    first: NDArray[np.bool_]
    proposed: IntArray | None = None

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


def stretch_of(rounds: int) -> int:
    """Rounds of a stretch of a log of so many rounds."""
    return int(np.clip(rounds // _STRETCHES, _SHORTEST_STRETCH, _LONGEST_STRETCH))


@dataclass(frozen=True, eq=False)
class Stretches:
    """A log in stretches: kinds of rounds, shape (L, n), with a kind of its own for what fills the last one up."""

    kinds: IntArray
    first: NDArray[np.bool_]
    filled: NDArray[np.bool_]

    @classmethod
    def of(cls, counts: Counts) -> Stretches:
        number = max(-(-counts.rounds // stretch_of(counts.rounds)), 1)
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
class Messages:
    """What stretches know of each other: the law at their start and the likelihood of what follows, shape (b, n, K)."""

    before: Array
    after: Array


@dataclass(frozen=True, eq=False)
class Expected:
    """What a pass expects of each stretch, or of several together.

    Attributes:
        pairs: For every kind of round the sum over its rounds of the law before it times the likelihood after it, over
            their product, shape (b, n, kinds, K, K).
        starts: Sum of the laws at first positions, shape (b, n, K).
    """

    pairs: Array
    starts: Array

    def weighted(self, weights: Array) -> Expected:
        """Sums of one set over its stretches with weights (b, n), as b sets of one stretch."""
        pairs = np.einsum("bn,nkij->bkij", weights, self.pairs[0], optimize=True)
        return Expected(pairs[:, None], (weights @ self.starts[0])[:, None])


def fit_counts(counts: Counts, start: Parameters, tolerance: float = 1e-7) -> CountsFit:
    """The most likely parameters, from a start; one set.

    Args:
        counts: The log.
        start: One set of parameters.
        tolerance: Least gain of likelihood of a step, per symbol.
    """
    stretches, likelihood = Stretches.of(counts), -np.inf
    number, size = stretches.kinds.shape[1], start.acceptance.shape[-1]
    messages = Messages(np.full((1, number, size), 1 / size), np.ones((1, number, size)))
    parameters, steps = start, 0
    while True:
        expected, found, messages = passes(counts, stretches, parameters, messages)
        share, after = maximised(counts, parameters, expected)
        steps += 1
        gain = float(found[0]) - likelihood
        # The first steps also bring the stretches to agree with each other.
        if (steps > 5 and gain < tolerance * counts.symbols) or steps >= _MOST_STEPS:
            return _ordered(CountsFit(parameters, share, found, steps))
        likelihood, parameters = float(found[0]), after


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


def passes(
    counts: Counts,
    stretches: Stretches,
    parameters: Parameters,
    messages: Messages,
) -> tuple[Expected, Array, Messages]:
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
    return Expected(pairs[:, :, :-1], starts), likelihood.sum(-1), Messages(onward, back)


def maximised(counts: Counts, parameters: Parameters, expected: Expected) -> tuple[Array, Parameters]:
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


def rounds_to_tell_apart(
    one: RegimeChain, other: RegimeChain, gamma: int, generator: np.random.Generator, rounds: int = 20_000
) -> float:
    """Rounds in their order after which one chain is taken for another in 5 % of the cases.

    The difference of log-likelihoods grows by a mean d a round, found on a simulated log, with a variance of 2 d; it is
    on the wrong side in 5 % of the cases after 2 x 1.645^2 / d rounds.

    Args:
        one: The chain that makes the rounds; acceptance does not depend on the position.
        other: The one that it is compared with.
        gamma: Draft length.
        generator: Source of randomness.
        rounds: Of the simulated log.
    """
    accepted, first = simulate_log(one, gamma, rounds, max(rounds // 1000, 1), generator)
    counts = Counts(np.full(len(accepted), gamma), accepted, first)
    both = Parameters(
        np.concatenate([one.acceptance, other.acceptance]),
        np.stack([one.transitions, other.transitions]),
        np.stack([one.share, other.share]),
    )
    likelihood = likelihood_of(counts, both)
    gain = max(float(likelihood[0] - likelihood[1]) / counts.rounds, 1e-12)
    return 2 * 1.645**2 / gain


def likelihood_of(counts: Counts, parameters: Parameters) -> Array:
    """Logarithm of the likelihood of a log, shape (b,)."""
    stretches = Stretches.of(counts)
    number, size = stretches.kinds.shape[1], parameters.acceptance.shape[-1]
    messages = Messages(np.full((1, number, size), 1 / size), np.ones((1, number, size)))
    for _ in range(4):
        _, likelihood, messages = passes(counts, stretches, parameters, messages)
    return likelihood


def visits_of_rounds(parameters: Parameters, gamma: int) -> Array:
    """N of rounds of one draft length, shape (b, K, K)."""
    step = parameters.acceptance[..., None] * parameters.transitions
    visits = np.broadcast_to(np.eye(step.shape[-1]), step.shape)
    for _ in range(gamma):
        visits = np.eye(step.shape[-1]) + step @ visits
    return visits


def starting_points(counts: Counts, regimes: int, run: float = 10.0, reach: float = 0.6) -> Parameters:
    """Runs of one length, and acceptance spread around accepted / examined, by a share of the room beside it."""
    rate = counts.accepted.sum() / max(counts.symbols, 1)
    aside = reach * min(rate, 1 - rate) if regimes > 1 else 0.0
    acceptance = np.linspace(rate + aside, rate - aside, regimes)[None]
    others = max(regimes - 1, 1)
    stay = 1 - 1 / run if regimes > 1 else 1.0
    transitions = np.eye(regimes) * stay + (1 - np.eye(regimes)) * (1 - stay) / others
    return Parameters(acceptance, transitions[None], np.full((1, regimes), 1 / regimes))
