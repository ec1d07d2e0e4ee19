"""What a policy may choose for a round: how much it verifies, and with which law drafts are accepted.

This is all that the rest of ``serving`` knows of drafting. A chain of gamma drafts is one choice; whatever else is
verified in one pass is another, as long as it can say these things of itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance import RegimeChain, chain_of, process_of
from specsim.planning.lengths import lengths_of, proposed_by
from specsim.planning.question import Question
from specsim.serving.requests import Array, IntArray
from specsim.specs.acceptance import ByContext, Classes, Point, typical_of
from specsim.specs.drafter import LookupDraft
from specsim.specs.ranked import TreeLength


@dataclass(frozen=True)
class Choice:
    """A round that may be chosen.

    Attributes:
        gamma: Drafts after each other; 0 drafts nothing.
        longest: Drafts that a round can accept.
        extrapolated: Whether it lies beyond the recorded acceptance.
        texts: The law of its drafts by class, where it is not that of all choices.
    """

    gamma: int
    longest: int
    extrapolated: bool = False
    texts: tuple[Text, ...] | None = None


@dataclass(frozen=True, eq=False)
class Text:
    """The law of the drafts of one class of requests.

    Attributes:
        request_share: Share of the requests.
        chain: Acceptance by position and regime, and how regimes follow each other, for each context of ``contexts``.
        contexts: Contexts at which acceptance is known, rising; one if it does not depend on them.
        hit_rate: Share of the rounds in which anything is drafted.
    """

    request_share: float
    chain: tuple[RegimeChain, ...]
    contexts: Array
    hit_rate: float = 1.0


@dataclass(frozen=True, eq=False)
class Choices:
    """The rounds among which a policy chooses; the first one drafts nothing.

    Attributes:
        each: Shape (K,).
        texts: Of each class of requests.
        tokens_per_round: Mean tokens of a round, of the rounds of all classes, shape (K,).
        tokens_by_class: The same of each class, shape (C, K).
        overshoot: Mean tokens that the last round of a long output emits beyond its end, shape (K,).
    """

    each: tuple[Choice, ...]
    texts: tuple[Text, ...]
    tokens_per_round: Array
    tokens_by_class: Array
    overshoot: Array

    @property
    def gamma(self) -> IntArray:
        """Draft lengths, shape (K,)."""
        return np.array([choice.gamma for choice in self.each], dtype=np.int64)

    @property
    def drafts(self) -> bool:
        """Whether anything is ever drafted."""
        return bool(self.gamma.any())

    def texts_of(self, choice: Choice) -> tuple[Text, ...]:
        """The law of the drafts of one choice, by class."""
        return self.texts if choice.texts is None else choice.texts


@dataclass(frozen=True)
class Acceptances:
    """The acceptance of each class of requests, with its share; one class if they are all alike."""

    shares: tuple[float, ...]
    each: tuple[Point, ...]


def acceptances_of(question: Question, shares: tuple[float, ...], given: tuple[Point | None, ...]) -> Acceptances:
    """What the classes of a load say themselves, or the drafter says of all."""
    own = typical_of(question.draft.acceptance)
    return Acceptances(shares, tuple(own if one is None else one for one in given))


def chain_choices(
    question: Question, gammas: tuple[int, ...], acceptances: Acceptances, output_tokens: Array
) -> Choices:
    """The choices of a drafter of chains.

    Args:
        question: The drafter.
        gammas: Draft lengths, 0 first.
        acceptances: Of each class.
        output_tokens: Mean output of each class, by which its rounds count, shape (C,).
    """
    gamma = np.array(gammas, dtype=np.int64)
    draft = question.draft
    found = [lengths_of(draft, one, gamma, _middle(one)) for one in acceptances.each]
    tokens = np.stack([one.tokens_per_round[:, 0, 0] for one in found])
    over = np.stack([one.overshoot[:, 0, 0] for one in found])
    beyond = np.logical_or.reduce([one.extrapolated[:, 0, 0] for one in found])
    # Rounds of a class: its tokens / its tokens per round.
    rounds = np.array(acceptances.shares)[:, None] * output_tokens[:, None] / tokens
    mean = (rounds * tokens).sum(0) / rounds.sum(0)
    shares = np.array(acceptances.shares)[:, None]
    hit = draft.hit_rate if isinstance(draft, LookupDraft) else 1.0
    texts = tuple(_text(one, share, hit) for one, share in zip(acceptances.each, acceptances.shares, strict=True))
    proposed = proposed_by(draft, gamma).tolist()
    each = tuple(Choice(g, p, bool(b)) for g, p, b in zip(gammas, proposed, beyond, strict=True))
    return Choices(each, texts, mean, tokens, (shares * over).sum(0))


def _middle(acceptance: Point) -> Array | None:
    """Where acceptance along the context is looked at for means: the middle of its table."""
    if not isinstance(acceptance, ByContext):
        return None
    return np.array([float(acceptance.table[len(acceptance.table) // 2].context_length)])


def _text(acceptance: Point, share: float, hit_rate: float) -> Text:
    if isinstance(acceptance, TreeLength):
        raise ValueError("tokens per round of a tree say nothing of single drafts")
    if isinstance(acceptance, Classes):
        # A request belongs to one of them as often as they arrive, and not as often as tokens are theirs.
        each = list(acceptance.classes.values())
        begins = np.concatenate([one.request_share * chain_of(one.acceptance).share for one in each])
        return Text(share, (replace(chain_of(acceptance), share=begins),), np.zeros(1), hit_rate)
    if not isinstance(acceptance, ByContext):
        return Text(share, (chain_of(acceptance),), np.zeros(1), hit_rate)
    chains = tuple(
        chain_of(entry.acceptance) if not isinstance(entry.acceptance, Classes) else _pooled(entry.acceptance)
        for entry in acceptance.table
    )
    if len({chain.share.shape[-1] for chain in chains}) > 1 or chains[0].share.shape[-1] > 1:
        # Regimes of one context are not those of another: stretches are left out, their survival stays.
        chains = tuple(_pooled(entry.acceptance) for entry in acceptance.table)
    return Text(share, chains, np.array([float(entry.context_length) for entry in acceptance.table]), hit_rate)


_LONGEST = 64


def _pooled(acceptance: Point) -> RegimeChain:
    """One regime whose acceptance by position is what is left of several."""
    survival = process_of(acceptance).lengths(np.array([_LONGEST])).accepted[..., 0, :]
    before = np.concatenate([[1.0], survival[:-1]])
    conditional = np.divide(survival, before, out=np.zeros_like(survival), where=before > 0)
    return RegimeChain(conditional[:, None], np.ones((1, 1)), np.ones(1))


def accepted_drafts(
    text: Text, longest: int, prompt_tokens: IntArray, output_tokens: IntArray, generator: np.random.Generator
) -> NDArray[np.uint8]:
    """How many of ``longest`` drafts a round would accept that begins at each token of some outputs.

    Tokens have one random number each, so that rounds of all lengths see the same text: a shorter draft accepts the
    fewer of its length and these.

    Args:
        text: The law.
        longest: The longest draft.
        prompt_tokens: Of each request, shape (N,).
        output_tokens: Of each request, shape (N,).
        generator: Source of randomness.

    Returns:
        One request after the other, shape (sum of the outputs,).
    """
    number = int(output_tokens.sum())
    uniform = generator.random(number)
    if len(text.chain) == 1:
        found = _accepted(text.chain[0], longest, uniform, _regimes(text.chain[0], output_tokens, generator))
    else:
        start = np.cumsum(output_tokens) - output_tokens
        context = np.repeat(prompt_tokens - start, output_tokens) + np.arange(number)
        place = np.interp(context, text.contexts, np.arange(len(text.contexts)))
        # Survival is read linearly between two entries: a round belongs to one of them, as often as it is near.
        entry = np.minimum(np.floor(place + generator.random(number)), len(text.chain) - 1).astype(np.int64)
        found = np.choose(entry, [_accepted(chain, longest, uniform, None) for chain in text.chain])
    if text.hit_rate < 1:
        found *= generator.random(number) < text.hit_rate
    return found


def _accepted(chain: RegimeChain, longest: int, uniform: Array, regime: IntArray | None) -> NDArray[np.uint8]:
    number = len(uniform)
    found, alive = np.zeros(number, dtype=np.uint8), np.ones(number, dtype=bool)
    accepted = alive
    for position in range(1, min(longest, number) + 1):
        if position <= chain.positions:
            at = chain.at(position)
            accepted = uniform < (at[0] if regime is None else at.take(regime))
        # Draft j of a round at token t is token t + j - 1; what lies beyond an output counts for nothing later.
        alive[: number - position + 1] &= accepted[position - 1 :]
        alive[number - position + 1 :] = False
        found += alive.view(np.uint8)
    return found


def _regimes(chain: RegimeChain, lengths: IntArray, generator: np.random.Generator) -> IntArray | None:
    """The regime of each token: drawn by the shares at the start of a request, then by the transitions."""
    size = chain.share.shape[-1]
    if size == 1:
        return None
    uniform = generator.random(int(lengths.sum()))
    starts = np.cumsum(lengths) - lengths
    thresholds = np.cumsum(chain.transitions, axis=-1)[:, :-1]
    found = np.empty(len(uniform), dtype=np.int64)
    found[starts] = np.searchsorted(np.cumsum(chain.share)[:-1], uniform[starts], side="right")
    # Longest requests first, so that those that still go on are a part at the front.
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order], lengths[order]
    for step in range(1, int(lengths.max(initial=0))):
        going = int(np.searchsorted(-lengths, -step, side="left"))
        at = starts[:going] + step
        found[at] = (uniform[at][:, None] >= thresholds[found[at - 1]]).sum(-1)
    return found
