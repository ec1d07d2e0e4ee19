"""Draft lengths chosen round by round: rules, and what they make of a process, exactly where a chain exists.

A round that drafts d tokens costs 1 + d x draft_cost_ratio plain steps here, as verification costs as much as a plain
step; the speedup of a policy is its tokens / its cost.

- fixed: always gamma.
- heuristic: two more after a draft that was wholly accepted, one less otherwise (Hugging Face assisted generation). A
  chain over the draft length and the regime.
- confidence: stop after the first drafted token whose own probability of acceptance is below a threshold; cumulative:
  stop once the product of these probabilities is. The drafter is taken to know the acceptance of every token it drafts,
  which is that of its regime. A chain over the regime and the product.
- belief: regimes are inferred from what was accepted before; draft j + 1 is made while its probability of acceptance
  times the worth of a token exceeds its cost. Simulated.
- goodput: a moving average of accepted / examined, and the best fixed length for independent drafts at that rate.
  Simulated.
- oracle: drafts exactly what will be accepted, and nothing where a draft costs a plain step or more.
  E = 1 / (1 - pi beta) at any persistence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance.rates import independent_tokens_per_round
from specsim.acceptance.regimes import RegimeChain, stationary_law

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

LONGEST = 20
"""Drafted tokens of a round at most, for rules that have no end of their own."""

HEURISTIC_CAP = 64
_ORACLE_LONGEST = 1000
_FORGETS = 0.05
"""Weight of the newest token in the moving average of the goodput rule: it looks back over 20 examined tokens."""


@dataclass(frozen=True)
class PolicyResult:
    """What a policy makes of a process.

    Attributes:
        tokens_per_round: Emitted tokens per round.
        drafted_per_round: Drafted tokens per round.
        speedup: Tokens / cost in plain steps.
        standard_error: Of the speedup, 0 where it is exact.
    """

    tokens_per_round: float
    drafted_per_round: float
    speedup: float
    standard_error: float = 0.0


def _exact(tokens: float, drafted: float, draft_cost_ratio: float) -> PolicyResult:
    return PolicyResult(tokens, drafted, tokens / (1.0 + draft_cost_ratio * drafted))


def fixed(chain: RegimeChain, gamma: int, draft_cost_ratio: float) -> PolicyResult:
    """Always the same draft length; exact."""
    return _exact(float(chain.rounds([gamma]).tokens_per_round[0]), float(gamma), draft_cost_ratio)


def best_fixed(chain: RegimeChain, draft_cost_ratio: float, longest: int = LONGEST) -> tuple[int, PolicyResult]:
    """The fixed draft length of the largest speedup, the smallest of equals, and its result."""
    gamma = np.arange(longest + 1)
    tokens = chain.rounds(gamma).tokens_per_round
    best = int(np.argmax(tokens / (1.0 + draft_cost_ratio * gamma)))
    return best, _exact(float(tokens[best]), float(best), draft_cost_ratio)


def oracle(chain: RegimeChain, draft_cost_ratio: float) -> PolicyResult:
    """A drafter that stops where it would be rejected, after 1000 tokens at the latest; exact.

    It knows what drafts cost, too: where one costs as much as the plain step that it saves, it makes none.
    """
    if draft_cost_ratio >= 1:
        return fixed(chain, 0, draft_cost_ratio)
    tokens = float(chain.rounds([_ORACLE_LONGEST]).tokens_per_round[0])
    return _exact(tokens, tokens - 1.0, draft_cost_ratio)


def heuristic(chain: RegimeChain, draft_cost_ratio: float, cap: int = HEURISTIC_CAP) -> PolicyResult:
    """Two more after whole acceptance, one less otherwise, between 1 and a cap; exact, by the chain of both."""

    def evaluated(part: RegimeChain) -> PolicyResult:
        lengths, size = np.arange(1, cap + 1), part.share.shape[-1]
        rounds, index = part.rounds(lengths), np.arange(cap)
        whole = rounds.outcomes[index, lengths]
        moves = np.zeros((cap, size, cap, size))
        moves[index, :, np.minimum(index + 2, cap - 1), :] += whole
        moves[index, :, np.maximum(index - 1, 0), :] += rounds.outcomes.sum(-3) - whole
        law = np.maximum(stationary_law(moves.reshape(cap * size, cap * size)), 0.0).reshape(cap, size)
        emitted = float(np.einsum("gs,gjst,j->", law, rounds.outcomes, np.arange(1.0, cap + 2)))
        return _exact(emitted, float(law.sum(-1) @ lengths), draft_cost_ratio)

    return _over_parts(chain, evaluated)


def _over_parts(chain: RegimeChain, evaluated: Callable[[RegimeChain], PolicyResult]) -> PolicyResult:
    """A policy over regimes that do not all lead to each other: every sequence stays in its part of them.

    Inside a part the regimes have the shares that its transitions keep. Parts count by their tokens:
    1 / E = sum of t_i / E_i, and so do their drafts and their times.
    """
    size = chain.share.shape[-1]
    linked = np.linalg.matrix_power(np.eye(size) + (chain.transitions > 0), size) > 0
    together = linked & linked.T
    parts, shares = [], []
    for regimes in dict.fromkeys(tuple(np.flatnonzero(row).tolist()) for row in together):
        inside = list(regimes)
        share = float(chain.share[inside].sum())
        if share > 0:
            moves = chain.transitions[np.ix_(inside, inside)]
            # A part that is left for good counts only where its share was given, as if it were not.
            moves = moves / moves.sum(-1, keepdims=True)
            parts.append(evaluated(RegimeChain(chain.acceptance[:, inside], moves, stationary_law(moves))))
            shares.append(share)
    weights = np.array(shares) / sum(shares)
    rounds = weights / [part.tokens_per_round for part in parts]
    time = weights / [part.speedup for part in parts]
    errors = time / [part.speedup for part in parts] * [part.standard_error for part in parts]
    return PolicyResult(
        float(1.0 / rounds.sum()),
        float(rounds @ [part.drafted_per_round for part in parts] / rounds.sum()),
        float(1.0 / time.sum()),
        float(np.sqrt((errors**2).sum()) / time.sum() ** 2),
    )


def confident(
    chain: RegimeChain, threshold: float, draft_cost_ratio: float, *, cumulative: bool, longest: int = LONGEST
) -> PolicyResult:
    """Stop after a token whose acceptance, or the product so far, is below a threshold; exact.

    One path of drafted tokens is followed for each regime of its first position; paths that have reached the same
    regime with the same product are one.

    Raises:
        ValueError: If acceptance depends on the position in the round: products are then too many to follow.
    """
    if chain.positions > 1:
        raise ValueError("acceptance depends on the position")

    def evaluated(part: RegimeChain) -> PolicyResult:
        size = part.share.shape[-1]
        moves, emitted, drafted = np.zeros((size, size)), np.zeros(size), np.zeros(size)
        for start in range(size):
            moves[start], emitted[start], drafted[start] = _follow(part, start, threshold, cumulative, longest)
        law = np.maximum(stationary_law(moves), 0.0)
        return _exact(float(law @ emitted), float(law @ drafted), draft_cost_ratio)

    return _over_parts(chain, evaluated)


def _follow(
    chain: RegimeChain, start: int, threshold: float, cumulative: bool, longest: int
) -> tuple[Array, float, float]:
    """The next round's regime, the tokens and the drafts of rounds that begin in one regime."""
    acceptance, transitions = chain.acceptance[0], chain.transitions
    after, emitted, drafted = np.zeros(len(acceptance)), 0.0, 0.0
    # Regime and product to the weight of the draft, and to that of the draft with everything accepted so far.
    paths: dict[tuple[int, float], tuple[float, float]] = {(start, 1.0): (1.0, 1.0)}
    for position in range(1, longest + 1):
        onward: dict[tuple[int, float], tuple[float, float]] = {}
        for (regime, product), (made, alive) in paths.items():
            confidence = float(acceptance[regime])
            drafted += made
            rejected, accepted = alive * (1.0 - confidence), alive * confidence
            after += rejected * transitions[regime]
            emitted += rejected * position
            reached = round(product * confidence, 12)
            stops = position == longest or (reached if cumulative else confidence) < threshold
            if stops:
                after += accepted * (transitions[regime] @ transitions)
                emitted += accepted * (position + 1)
                continue
            kept = reached if cumulative else 1.0
            for following, chance in enumerate(transitions[regime]):
                if chance > 0:
                    before = onward.get((following, kept), (0.0, 0.0))
                    onward[following, kept] = (before[0] + made * chance, before[1] + accepted * chance)
        paths = onward
    return after, emitted, drafted


def belief(
    chain: RegimeChain, draft_cost_ratio: float, rounds: int, generator: np.random.Generator, longest: int = LONGEST
) -> PolicyResult:
    """Draft while the next token is worth its cost under what is believed of the regime; simulated.

    A token is worth a plain step / the speedup, which is found by two short runs before.
    """

    def evaluated(part: RegimeChain) -> PolicyResult:
        reached = part.accepting(longest)[1:].sum(-1)
        result = best_fixed(part, draft_cost_ratio, longest)[1]
        for share in (0.1, 0.1, 1.0):
            rule = _Belief(part, reached, result.speedup * draft_cost_ratio)
            result = _simulated(part, rule, draft_cost_ratio, max(int(share * rounds), 1000), generator)
        return result

    return _over_parts(chain, evaluated)


def goodput(
    chain: RegimeChain, draft_cost_ratio: float, rounds: int, generator: np.random.Generator, longest: int = LONGEST
) -> PolicyResult:
    """The best fixed length for independent drafts at a moving average of accepted / examined; simulated."""
    rates, gamma = np.linspace(0.0, 1.0, 201), np.arange(longest + 1)
    speedup = independent_tokens_per_round(rates[:, None], gamma) / (1.0 + draft_cost_ratio * gamma)
    # Without a draft nothing would ever be learned again.
    table = np.maximum(speedup.argmax(-1), 1)
    return _over_parts(chain, lambda part: _simulated(part, _MovingAverage(table), draft_cost_ratio, rounds, generator))


class _Belief:
    """Probabilities of the regimes at the next position, by sequence, and the draft length that follows from them."""

    def __init__(self, chain: RegimeChain, reached: Array, least: float) -> None:
        self.chain, self.reached, self.least = chain, reached, least

    def begin(self, sequences: int) -> None:
        self.law = np.broadcast_to(self.chain.share, (sequences, len(self.chain.share))).copy()

    def lengths(self) -> IntArray:
        worth = self.law @ self.reached.T > self.least
        # Survival falls: the drafts that are worth their cost come first.
        return np.maximum(worth.sum(-1), 1)

    def examined(self, which: IntArray, accepted: NDArray[np.bool_], position: int) -> None:
        likely = np.where(accepted[:, None], self.chain.at(position), 1.0 - self.chain.at(position))
        law = self.law[which] * likely
        total = law.sum(-1, keepdims=True)
        self.law[which] = np.where(total > 0, law / np.maximum(total, 1e-300), self.law[which])

    def moved(self, which: IntArray) -> None:
        self.law[which] = self.law[which] @ self.chain.transitions


class _MovingAverage:
    """A moving average of accepted / examined, by sequence, and the draft length of a table for it."""

    def __init__(self, table: IntArray) -> None:
        self.table = table

    def begin(self, sequences: int) -> None:
        self.rate = np.full(sequences, 0.5)

    def lengths(self) -> IntArray:
        return self.table[np.rint(self.rate * (len(self.table) - 1)).astype(np.int64)]

    def examined(self, which: IntArray, accepted: NDArray[np.bool_], position: int) -> None:
        self.rate[which] += _FORGETS * (accepted - self.rate[which])

    def moved(self, which: IntArray) -> None:
        """Positions without a draft teach nothing."""


def _simulated(
    chain: RegimeChain,
    rule: _Belief | _MovingAverage,
    draft_cost_ratio: float,
    rounds: int,
    generator: np.random.Generator,
) -> PolicyResult:
    """Rounds of many sequences side by side; the first tenth of them is not counted."""
    sequences = int(np.clip(rounds // 100, 64, 2048))
    each = -(-rounds // sequences)
    cumulated = np.cumsum(chain.transitions, axis=-1)[:, :-1]
    regime = np.searchsorted(np.cumsum(chain.share)[:-1], generator.random(sequences), side="right")
    rule.begin(sequences)
    tokens, drafted = np.zeros(sequences), np.zeros(sequences)
    for number in range(-(-each // 10), -each, -1):
        lengths = rule.lengths()
        alive, position = np.arange(sequences), 0
        emitted = np.zeros(sequences)
        while alive.size:
            position += 1
            emitted[alive] += 1
            bonus = position > lengths[alive]
            accepted = generator.random(alive.size) < chain.at(position)[regime[alive]]
            rule.examined(alive[~bonus], accepted[~bonus], position)
            uniform = generator.random(alive.size)
            regime[alive] = (uniform[:, None] >= cumulated[regime[alive]]).sum(-1)
            rule.moved(alive)
            alive = alive[accepted & ~bonus]
        if number <= 0:
            tokens += emitted
            drafted += lengths
    cost = each + draft_cost_ratio * drafted
    speedup = float(tokens.sum() / cost.sum())
    spread = float((tokens - speedup * cost).std(ddof=1)) / sequences**0.5
    error = spread / float(cost.mean())
    return PolicyResult(float(tokens.mean()) / each, float(drafted.mean()) / each, speedup, error)
