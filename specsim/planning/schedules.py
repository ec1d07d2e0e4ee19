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


def pearl_tokens_per_round(lengths: AcceptedLengths, first: AcceptedLengths) -> Array:
    """Tokens that a step of overlapped drafting emits, shape (G,) (PEARL, Liu et al. 2024).

    After a rejection only the first new draft is verified beside drafting; once it is accepted, whole drafts are,
    without a bonus token. With x_j the survival of j drafts the share of such steps is x_1 / (x_1 + 1 - x_g), and
    they emit x_0 + ... + x_(g - 1) tokens, the others one.

    Args:
        lengths: Accepted lengths at each draft length.
        first: The same at one draft, and at none where nothing is drafted.
    """
    survival_of_all = 1 - lengths.rejection_probability
    survival_of_first = first.tokens_per_round - 1
    whole = survival_of_first / np.maximum(survival_of_first + 1 - survival_of_all, np.finfo(float).tiny)
    emitted = 1 - whole + whole * (lengths.tokens_per_round - survival_of_all)
    return np.where(lengths.gamma > 0, emitted, 1.0)


def cascade_cost_ratio(cost: Array, inner_cost: Array, inner_rate: Array, inner_gamma: Array) -> Array:
    """Cost of one token from a draft model that a smaller one speeds up: (g2 c2 + c1) / tokens per round of the two."""
    return (inner_gamma * inner_cost + cost) / independent_tokens_per_round(inner_rate, inner_gamma)
