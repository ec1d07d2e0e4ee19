"""Schedules of drafting and verification: one after the other, or at the same time."""

from __future__ import annotations

import numpy as np

from specsim.acceptance import AcceptedLengths, independent_tokens_per_round
from specsim.cost.passes import Array
from specsim.specs.drafter import AnyDraft, DraftModel


def exposed_seconds(draft: AnyDraft, drafting_seconds: Array, verification_seconds: Array) -> Array:
    """Time of drafting that verification does not hide [s].

    ``serial``: all of it. ``prepared``: the next draft is made during verification, and with the prepared share h it
    is the one that is needed: (1 - h) d + h max(0, d - v). ``pearl``: what is longer than verification.
    """
    if not isinstance(draft, DraftModel) or draft.schedule == "serial":
        return drafting_seconds
    beyond = np.maximum(drafting_seconds - verification_seconds, 0.0)
    hidden = draft.prepared_share if draft.schedule == "prepared" else 1.0
    return (1 - hidden) * drafting_seconds + hidden * beyond


def pearl_tokens_per_round(lengths: AcceptedLengths, first: AcceptedLengths) -> tuple[Array, Array]:
    """Mean and mean square of the tokens of a step of overlapped drafting, shape (..., G) (PEARL, Liu et al. 2024).

    After a rejection only the first new draft is verified beside drafting; once it is accepted, whole drafts are,
    without a bonus token. With x_j the survival of j drafts the share of such steps is x_1 / (x_1 + 1 - x_g), and
    they emit x_0 + ... + x_(g - 1) tokens, the others one.

    Args:
        lengths: Accepted lengths at each draft length.
        first: The same at one draft, and at none where nothing is drafted.
    """
    tokens, all_of_them = lengths.tokens_per_round, 1 - lengths.rejection_probability
    whole = _share_of_whole_drafts(first.tokens_per_round - 1, all_of_them)
    # Without its bonus a round of g accepted drafts emits g tokens in place of g + 1.
    squared = lengths.variance + tokens**2 - (2 * lengths.gamma + 1) * all_of_them
    drafts = lengths.gamma > 0
    mean, mean_square = 1 - whole + whole * (tokens - all_of_them), 1 - whole + whole * squared
    return np.where(drafts, mean, 1.0), np.where(drafts, mean_square, 1.0)


def _share_of_whole_drafts(first: Array, all_of_them: Array) -> Array:
    """Share of the steps that verify whole drafts, by the survival of one draft and of all of them."""
    return first / np.maximum(first + 1 - all_of_them, np.finfo(float).tiny)


def pearl_tokens_of_independent_drafts(rate: Array, gamma: Array) -> Array:
    """The mean for independent drafts at any rate, broadcast over both."""
    whole = _share_of_whole_drafts(rate, rate**gamma)
    emitted = 1 - whole + whole * (independent_tokens_per_round(rate, gamma) - rate**gamma)
    return np.where(gamma > 0, emitted, 1.0)


def cascade_cost_ratio(cost: Array, inner_cost: Array, inner_rate: Array, inner_gamma: Array) -> Array:
    """Cost of one token from a draft model that a smaller one speeds up: (g2 c2 + c1) / tokens per round of the two."""
    return (inner_gamma * inner_cost + cost) / independent_tokens_per_round(inner_rate, inner_gamma)
