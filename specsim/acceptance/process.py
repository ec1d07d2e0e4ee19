"""Acceptance as a process over draft positions: proposed and accepted lengths, and what follows from them.

Everything rests on two families of probabilities for one round at draft length gamma: that at least j drafts
are proposed (d_j) and that at least j are accepted (x_j). Costs of drafting and verification follow d, tokens
follow x: tokens_per_round = 1 + sum x_j.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance.paired import ranks_of_pairs
from specsim.acceptance.rates import rate_from_tokens_per_round
from specsim.acceptance.regimes import RegimeChain, runs_to_transitions, stationary_law
from specsim.specs.acceptance import (
    ByContext,
    Classes,
    Drafted,
    Independent,
    Length,
    Point,
    Positional,
    Regimes,
    Simple,
    Survival,
)
from specsim.specs.ranked import Paired, Ranks, TreeLength

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AcceptedLengths:
    """What a round proposes and accepts at each draft length.

    Leading axes, written ..., are the contexts where acceptance depends on them, and absent elsewhere.

    Attributes:
        gamma: Draft lengths, shape (G,).
        proposed: P(at least j drafts are proposed), j = 1 to J along the last axis, shape (G, J); 0 for j > gamma.
        accepted: P(at least j drafts are accepted), shape (..., G, J).
        extrapolated: Whether the draft length lies beyond what was recorded, shape (G,).
    """

    gamma: IntArray
    proposed: Array
    accepted: Array
    extrapolated: NDArray[np.bool_]

    @property
    def tokens_per_round(self) -> Array:
        """Emitted tokens per round, the bonus or corrected token included, shape (..., G)."""
        return 1.0 + self.accepted.sum(-1)

    @property
    def drafted_per_round(self) -> Array:
        """Proposed tokens per round, shape (G,)."""
        return self.proposed.sum(-1)

    @property
    def accepted_per_drafted(self) -> Array:
        """Accepted / proposed tokens: what engines print; NaN where nothing is drafted, shape (..., G)."""
        drafted, accepted = self.drafted_per_round, self.accepted.sum(-1)
        return np.divide(accepted, drafted, out=np.full(accepted.shape, np.nan), where=drafted > 0)

    @property
    def acceptance_rate(self) -> Array:
        """Accepted / examined tokens, that is accepted or rejected ones; NaN where nothing is drafted."""
        accepted = self.accepted.sum(-1)
        examined = np.where(self.drafting > 0, accepted + self.rejection_probability, np.nan)
        return np.asarray(accepted / examined)

    @property
    def rejection_probability(self) -> Array:
        """P(a round rejects a draft) = P(it has one) - P(all proposed drafts are accepted), shape (..., G)."""
        whole = self.distribution[..., np.arange(len(self.gamma)), self.gamma]
        return np.where(self.gamma > 0, self.drafting - whole, 0.0)

    @property
    def drafting(self) -> Array:
        """Share of the rounds that have a draft, shape (G,)."""
        return self.proposed[:, 0]

    @property
    def of_drafts(self) -> AcceptedLengths:
        """The same of the rounds that have a draft."""
        share = np.where(self.drafting > 0, self.drafting, 1.0)[:, None]
        return replace(self, proposed=self.proposed / share, accepted=self.accepted / share)

    @property
    def at_least(self) -> Array:
        """P(at least k drafts are accepted), k = 0 to J + 1 along the last axis, shape (..., G, J + 2)."""
        ones = np.ones((*self.accepted.shape[:-1], 1))
        return np.concatenate([ones, self.accepted, 0 * ones], axis=-1)

    @property
    def distribution(self) -> Array:
        """P(exactly k drafts are accepted), k = 0 to J along the last axis, shape (..., G, J + 1)."""
        return self.at_least[..., :-1] - self.at_least[..., 1:]

    @property
    def variance(self) -> Array:
        """Variance of the tokens of one round, shape (..., G)."""
        odd = 2 * np.arange(1, self.accepted.shape[-1] + 1) + 1
        return 1.0 + self.accepted @ odd - self.tokens_per_round**2


class AcceptanceProcess(Protocol):
    """How many drafts are proposed and accepted at each draft length."""

    def lengths(self, gamma: IntArray, context_length: Array | None = None) -> AcceptedLengths:
        """Proposed and accepted lengths at each draft length, shape (G,), and context where that matters, (S,)."""
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

    def lengths(self, gamma: IntArray, context_length: Array | None = None) -> AcceptedLengths:
        """Proposed and accepted lengths at each draft length, shape (G,), at any context."""
        known, drafted = np.asarray(self.conditional), _drafted(gamma)
        position = np.arange(drafted.shape[-1])
        survival = np.cumprod(known[np.minimum(position, len(known) - 1)])
        return AcceptedLengths(gamma, drafted, survival * drafted, _beyond(gamma, self.recorded))


@dataclass(frozen=True)
class MeasuredChains:
    """Tokens per round that were measured at some draft lengths, each with one rate of its own.

    Other lengths have the rate of the next longer one; longer ones, and all where nothing was measured, are
    extrapolated.

    Attributes:
        by_gamma: Draft lengths, rising, each with the process that gives its tokens.
    """

    by_gamma: tuple[tuple[int, Conditional], ...]

    def lengths(self, gamma: IntArray, context_length: Array | None = None) -> AcceptedLengths:
        """Proposed and accepted lengths at each draft length, shape (G,), at any context."""
        drafted, known = _drafted(gamma), np.array([length for length, _ in self.by_gamma], dtype=np.int64)
        if not known.size:
            return AcceptedLengths(gamma, drafted, 0 * drafted, gamma > 0)
        each = np.stack([process.lengths(gamma).accepted for _, process in self.by_gamma])
        chosen = np.minimum(np.searchsorted(known, gamma), len(known) - 1)
        return AcceptedLengths(gamma, drafted, each[chosen, np.arange(len(gamma))], gamma > known[-1])


@dataclass(frozen=True, eq=False)
class InRegimes:
    """Acceptance that comes in stretches of easy and hard text.

    Attributes:
        chain: The regimes of token positions.
        recorded: Draft length up to which they were observed, None if they hold at any length.
        drafting: Share of the rounds that have a draft.
    """

    chain: RegimeChain
    recorded: int | None = None
    drafting: float = 1.0

    def lengths(self, gamma: IntArray, context_length: Array | None = None) -> AcceptedLengths:
        """Proposed and accepted lengths at each draft length, shape (G,), at any context."""
        drafted = _drafted(gamma)
        survival = self.chain.rounds(gamma, self.drafting).survival
        # Where nothing is drafted there is no first position; everything else has one.
        accepted = np.zeros(drafted.shape) if survival.shape[-1] == 0 else survival
        return AcceptedLengths(gamma, self.drafting * drafted, accepted, _beyond(gamma, self.recorded))


@dataclass(frozen=True)
class NowAndThen:
    """Rounds of a process without memory, of which a share has a draft.

    Attributes:
        process: Acceptance of the rounds that have one.
        drafting: Their share.
    """

    process: AcceptanceProcess
    drafting: float

    def lengths(self, gamma: IntArray, context_length: Array | None = None) -> AcceptedLengths:
        """Proposed and accepted lengths of all rounds at each draft length, shape (G,)."""
        one = self.process.lengths(gamma, context_length)
        return replace(one, proposed=self.drafting * one.proposed, accepted=self.drafting * one.accepted)


@dataclass(frozen=True, eq=False)
class InClasses:
    """Requests of several classes in one batch, each as often as it is in flight.

    Of class i there are arrivals x output / tokens_per_round in flight, and a round of the batch emits the mean over
    the sequences in flight: 1 / tokens_per_round = sum of t_i / tokens_per_round_i with the shares t of all tokens.

    Attributes:
        token_share: Share of all emitted tokens that belongs to each class, summing to 1.
        processes: The acceptance of each.
    """

    token_share: tuple[float, ...]
    processes: tuple[AcceptanceProcess, ...]

    def lengths(self, gamma: IntArray, context_length: Array | None = None) -> AcceptedLengths:
        """Proposed and accepted lengths of the sequences in flight at each draft length, shape (G,)."""
        each = [process.lengths(gamma, context_length) for process in self.processes]
        weights = [share / one.tokens_per_round for share, one in zip(self.token_share, each, strict=True)]
        total = sum(weights)
        accepted = sum((w / total)[..., None] * one.accepted for w, one in zip(weights, each, strict=True))
        beyond = np.logical_or.reduce([one.extrapolated for one in each])
        return AcceptedLengths(gamma, each[0].proposed, np.asarray(accepted), beyond)


@dataclass(frozen=True, eq=False)
class AlongContext:
    """Acceptance that changes with the context: survival is read linearly between entries, and held beyond them.

    Attributes:
        contexts: Context lengths of the entries, rising, shape (C,).
        processes: The acceptance at each.
    """

    contexts: Array
    processes: tuple[AcceptanceProcess, ...]

    def lengths(self, gamma: IntArray, context_length: Array | None = None) -> AcceptedLengths:
        """Proposed and accepted lengths at each context and draft length; accepted has shape (S, G, J).

        Raises:
            ValueError: If no context is given.
        """
        if context_length is None:
            raise ValueError("acceptance that depends on the context needs one")
        each = [process.lengths(gamma) for process in self.processes]
        accepted = np.stack([one.accepted for one in each])
        place = np.interp(context_length, self.contexts, np.arange(len(self.contexts)))
        before = np.minimum(place.astype(np.int64), max(len(self.contexts) - 2, 0))
        after = np.minimum(before + 1, len(self.contexts) - 1)
        part = (place - before)[:, None, None]
        between = (1 - part) * accepted[before] + part * accepted[after]
        beyond = np.logical_or.reduce([one.extrapolated for one in each])
        return AcceptedLengths(gamma, each[0].proposed, between, beyond)


def now_and_then(process: AcceptanceProcess, drafting: float) -> AcceptanceProcess:
    """The same process where only a share of the rounds has a draft, whatever the text; the others emit one token.

    Tokens per round are 1 + share (tokens of a round with a draft - 1) only where rounds do not remember each other:
    rounds without a draft also shift where the others begin, and how long requests of a class stay.
    """
    match process:
        case InRegimes():
            return replace(process, drafting=drafting)
        case InClasses() | AlongContext():
            return replace(process, processes=tuple(now_and_then(one, drafting) for one in process.processes))
        case _:
            return NowAndThen(process, drafting) if drafting < 1 else process


def _drafted(gamma: IntArray) -> Array:
    """P(at least j drafts are proposed) where gamma always are, shape (G, J)."""
    position = np.arange(1, max(int(gamma.max(initial=0)), 1) + 1)
    return (position <= gamma[:, None]).astype(float)


def _beyond(gamma: IntArray, recorded: int | None) -> NDArray[np.bool_]:
    return gamma > recorded if recorded is not None else np.zeros(gamma.shape, dtype=bool)


def process_of(spec: Point) -> AcceptanceProcess:
    """The process that an acceptance in any written form describes.

    A length or a share of drafted tokens at one gamma determines one effective rate for independent drafts;
    at longer drafts that rate is an extrapolation. In ``survival``, positions after a certain rejection are
    never reached, whatever their conditional probability: it is taken as 0.
    """
    match spec:
        case Independent():
            return Conditional((spec.rate,), spec.recorded_gamma)
        case Positional():
            return Conditional(spec.conditional, recorded=len(spec.conditional))
        case Survival():
            before = (1.0, *spec.survival)
            conditional = tuple(x / b if b > 0 else 0.0 for x, b in zip(spec.survival, before, strict=False))
            return Conditional(conditional, recorded=len(spec.survival))
        case Ranks():
            first = tuple(ranks[0] for ranks in spec.ranks)
            return Conditional(first, recorded=len(first) if len(first) > 1 else None)
        case TreeLength():
            chains = {tree.depth: tokens for tree, tokens in spec.measured.items() if tree.is_chain}
            return MeasuredChains(tuple((gamma, _effective(chains[gamma], gamma)) for gamma in sorted(chains)))
        case Paired():
            return Conditional((float(ranks_of_pairs(spec, 1)[0]),))
        case Length():
            return _effective(spec.tokens_per_round, spec.gamma)
        case Drafted():
            return _effective(1.0 + spec.accepted_per_drafted * spec.gamma, spec.gamma)
        case Regimes():
            return InRegimes(chain_of(spec), spec.recorded_gamma)
        case Classes():
            return InClasses(
                tuple(_token_shares(spec)), tuple(process_of(one.acceptance) for one in spec.classes.values())
            )
        case ByContext():
            contexts = np.array([float(entry.context_length) for entry in spec.table])
            return AlongContext(contexts, tuple(process_of(entry.acceptance) for entry in spec.table))


def chain_of(spec: Simple | Regimes | Classes) -> RegimeChain:
    """The chain of regimes that is described; lists of probabilities go on with their last entry.

    Drafts without stretches are one regime; classes are regimes that do not lead to each other, with the shares of the
    classes among all tokens.
    """
    match spec:
        case Regimes():
            return _chain_of_regimes(spec)
        case Classes():
            return _side_by_side([chain_of(one.acceptance) for one in spec.classes.values()], _token_shares(spec))
        case _:
            process = process_of(spec)
            conditional = process.conditional if isinstance(process, Conditional) else (0.0,)
            return RegimeChain(np.array(conditional)[:, None], np.ones((1, 1)), np.ones(1))


def _token_shares(spec: Classes) -> list[float]:
    tokens = [one.request_share * one.output_tokens for one in spec.classes.values()]
    return [number / sum(tokens) for number in tokens]


def _side_by_side(chains: list[RegimeChain], shares: list[float]) -> RegimeChain:
    """Chains that do not lead to each other, as one."""
    longest = max(chain.positions for chain in chains)
    acceptance = np.concatenate(
        [np.stack([chain.at(position) for position in range(1, longest + 1)]) for chain in chains], axis=-1
    )
    transitions, start = np.zeros(2 * acceptance.shape[-1:]), 0
    for chain in chains:
        end = start + chain.share.shape[-1]
        transitions[start:end, start:end] = chain.transitions
        start = end
    share = np.concatenate([weight * chain.share for weight, chain in zip(shares, chains, strict=True)])
    return RegimeChain(acceptance, transitions, share)


def _chain_of_regimes(spec: Regimes) -> RegimeChain:
    regimes = list(spec.regimes.values())
    given = [regime.acceptance_probability for regime in regimes]
    longest = max(map(len, given))
    by_regime = [entries + entries[-1:] * (longest - len(entries)) for entries in given]
    if spec.transitions is None:
        transitions = runs_to_transitions([regime.mean_run_tokens for regime in regimes])
    else:
        transitions = np.array([[spec.transitions[a][b] for b in spec.regimes] for a in spec.regimes])
        transitions /= transitions.sum(-1, keepdims=True)
    shares = [regime.token_share for regime in regimes if regime.token_share is not None]
    share = np.array(shares) / sum(shares) if shares else stationary_law(transitions)
    return RegimeChain(np.array(by_regime).T, transitions, share)


def _effective(tokens_per_round: float, gamma: int) -> Conditional:
    return Conditional((float(rate_from_tokens_per_round(tokens_per_round, gamma)),), recorded=gamma)
