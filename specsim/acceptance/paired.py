"""Acceptance from the probabilities of target and draft at the same positions."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance.candidates import RULES, estimated_without_replacement, most_candidates
from specsim.acceptance.rules import most_probable
from specsim.specs.ranked import Paired

Array = NDArray[np.float64]

SAMPLES = 64
"""Sequences of rejected candidates that are sampled at each position where there are too many to sum over."""

_AT_ONCE = 16
"""Positions whose sequences of rejected candidates are held in memory at the same time."""

_SEED = 0


def probabilities(spec: Paired) -> tuple[Array, Array]:
    """Target and draft, shape (positions, tokens), each row summing to 1."""
    target, draft = (np.asarray(one, dtype=float) for one in (spec.target_probs, spec.draft_probs))
    return target / target.sum(-1, keepdims=True), draft / draft.sum(-1, keepdims=True)


@lru_cache(maxsize=8)
def ranks_of_pairs(spec: Paired, count: int) -> Array:
    """Probability that the candidate of each rank is the accepted one, its mean over the positions, shape (count,).

    Exact at each position; without replacement, where there are too many sequences of rejected candidates, from
    ``SAMPLES`` of them, the same ones every time.
    """
    return ranks_at_positions(spec.verification, *probabilities(spec), count).mean(0)


def ranks_at_positions(rule: str, target_probs: Array, draft_probs: Array, count: int) -> Array:
    """Acceptance by rank at each position, shape (positions, tokens) of both to (positions, count).

    Without replacement it is estimated where ``is_estimated`` says so.
    """
    tokens = target_probs.shape[-1]
    within = min(count, tokens) if rule in ("top-k", "greedy", "without-replacement") else count
    generator, each = np.random.default_rng(_SEED), []
    for start in range(0, len(target_probs), _AT_ONCE):
        p, q = target_probs[start : start + _AT_ONCE], draft_probs[start : start + _AT_ONCE]
        if is_estimated(rule, tokens, within):
            each.append(estimated_without_replacement(p, q, within, generator, SAMPLES))
        else:
            each.append(RULES[rule](p, q, within).ranks)
    return np.pad(np.concatenate(each), ((0, 0), (0, count - within)))


def is_estimated(rule: str, tokens: int, count: int) -> bool:
    """Whether there are too many sequences of rejected candidates to sum over."""
    return rule == "without-replacement" and min(count, tokens) > most_candidates(rule, tokens)


def most_probable_candidates(spec: Paired, width: int) -> tuple[Array, Array]:
    """The draft's most probable tokens at each position: how sure the draft is of each, and how often it is right.

    Returns:
        The draft's and the target's probability of each, most probable first, shape (positions, width); greedy
        verification accepts the target's most probable token alone.
    """
    target, draft = probabilities(spec)
    if spec.verification == "greedy":
        target = most_probable(target)
    order = np.argsort(-draft, axis=-1, kind="stable")[:, :width]
    found = [np.take_along_axis(one, order, axis=-1) for one in (draft, target)]
    missing = np.zeros((len(order), max(width - order.shape[-1], 0)))
    sure, right = (np.concatenate([one, missing], axis=-1) for one in found)
    return sure, right
