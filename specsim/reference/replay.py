"""Rounds along a text that is known already: what greedy drafts would have been accepted, without running the target.

At temperature 0 a draft is accepted if it is the next token of the target's own text, and later drafts of a round are
examined only where all before them were right; so one pass of a drafter over the text tells the rounds of every draft
length. Tests hold these rounds against those of the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specsim.reference.drafters import Drafter
from specsim.reference.sampling import RandomChance, Sampling
from specsim.reference.transformer import Array, Transformer, chain_block, forward
from specsim.reference.trees import BoolArray, chain

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Replayed:
    """Rounds of one text in their order, without those that its end cuts.

    Attributes:
        drafted: Drafts of each round.
        accepted: Accepted ones.
    """

    drafted: IntArray
    accepted: IntArray


def output_logits(model: Transformer, prompt: Sequence[int], output: Sequence[int]) -> Array:
    """Logits for every token of an output, the text before it given, shape (tokens, vocabulary)."""
    cache = model.cache()
    if len(prompt) > 1:
        forward(model, [chain_block(cache, list(prompt[:-1]))], "none")
    return forward(model, [chain_block(cache, [prompt[-1], *output[:-1]])])[0]


def agreements(model: Transformer, prompt: Sequence[int], output: Sequence[int]) -> BoolArray:
    """Whether a model's most probable token is the output's, at each of its tokens."""
    found: BoolArray = output_logits(model, prompt, output).argmax(-1) == np.asarray(output)
    return found


def rounds_of_agreements(agrees: BoolArray, gamma: int) -> Replayed:
    """Rounds of a drafter that always drafts gamma tokens and agrees at these places."""
    accepted, place = [], 0
    while place + gamma < len(agrees):
        window = agrees[place : place + gamma]
        right = gamma if window.all() else int(window.argmin())
        accepted.append(right)
        place += right + 1
    return Replayed(np.full(len(accepted), gamma), np.array(accepted, dtype=np.int64))


def rounds_of_drafter(drafter: Drafter, prompt: Sequence[int], output: Sequence[int], gamma: int) -> Replayed:
    """Rounds of a drafter that leaves nothing to chance and looks at committed text only, such as a lookup."""
    text, start, shape = [*prompt, *output], len(prompt), chain(gamma)
    nothing = RandomChance(np.random.default_rng(0))
    drafted, accepted, place = [], [], start
    while place + gamma < len(text):
        drafts = drafter.propose(text[:place], shape, nothing).tokens[1:]
        right = 0
        while right < len(drafts) and drafts[right] == text[place + right]:
            right += 1
        drafted.append(len(drafts))
        accepted.append(right)
        place += right + 1
    return Replayed(np.array(drafted, dtype=np.int64), np.array(accepted, dtype=np.int64))


def overlaps(target: Array, draft: Array, sampling: Sampling) -> Array:
    """Sum of min(p, q) at each place, from logits, shape (places,): the acceptance of a draft sampled there."""
    return np.array([np.minimum(sampling.law(p), sampling.law(q)).sum() for p, q in zip(target, draft, strict=True)])


def acceptance_along(target: Array, draft: Array, output: Sequence[int], sampling: Sampling) -> Array:
    """min(1, q(y) / p(y)) of each emitted token y, from logits: the law of acceptance along a given text."""
    found = []
    for p_logits, q_logits, token in zip(target, draft, output, strict=True):
        p, q = sampling.law(p_logits), sampling.law(q_logits)
        found.append(min(1.0, q[token] / p[token]) if p[token] > 0 else 0.0)
    return np.array(found)


def expected_tokens_per_round(acceptance: Array, gamma: int) -> tuple[float, float]:
    """Expected tokens and expected rounds along a text where token t is accepted with ``acceptance[t]`` if examined.

    Rounds that the end of the text could cut are left out of both.
    """
    places = len(acceptance) - gamma
    starts = np.zeros(len(acceptance) + gamma + 2)
    starts[0] = 1.0
    tokens = rounds = 0.0
    for place in range(max(places, 0)):
        share = starts[place]
        if share == 0.0:
            continue
        rounds += share
        reached = share
        for kept in range(gamma + 1):
            stays = acceptance[place + kept] if kept < gamma else 0.0
            ends = reached * (1.0 - stays)
            starts[place + kept + 1] += ends
            tokens += ends * (kept + 1)
            reached *= stays
    return tokens, rounds
