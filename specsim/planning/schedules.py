"""Schedules of drafting and verification: one after the other, or at the same time."""

from __future__ import annotations

from dataclasses import dataclass

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
    hidden = draft.prepared_share or 0.0 if draft.schedule == "prepared" else 1.0
    return (1 - hidden) * drafting_seconds + hidden * beyond


@dataclass(frozen=True, eq=False)
class PearlSteps:
    """What steps of overlapped drafting emit (PEARL, Liu et al. 2024), at each draft length; shape (..., G).

    After a rejection all that was drafted meanwhile is lost. The next step verifies the first new draft alone, while
    drafting goes on for gamma tokens more behind it; if that draft is accepted, it is the one token of its step, and
    the next step verifies the gamma tokens behind it. So does every step after a draft that was accepted whole. No
    step has a bonus token: what follows an accepted draft is drafted already. With x_j the survival of j drafts, a
    share x_1 / (x_1 + 1 - x_g) of the steps verifies whole drafts and emits x_0 + ... + x_(g - 1) tokens; the others
    emit one.

    Attributes:
        whole_share: Share of the steps that verify whole drafts.
        tokens_per_whole_draft: Tokens that these emit.
        tokens_per_step: Tokens of any step.
        mean_square: Mean square of these.
        rejection_probability: P(a step rejects a draft).
    """

    whole_share: Array
    tokens_per_whole_draft: Array
    tokens_per_step: Array
    mean_square: Array
    rejection_probability: Array


def pearl_steps(lengths: AcceptedLengths, first: AcceptedLengths) -> PearlSteps:
    """Steps of overlapped drafting, from the accepted lengths at each draft length and those at one draft.

    Where nothing is drafted, ``first`` is at no draft either.
    """
    drafts = lengths.gamma > 0
    tokens, all_of_them = lengths.tokens_per_round, 1 - lengths.rejection_probability
    one = first.tokens_per_round - 1
    whole = _share_of_whole_drafts(one, all_of_them)
    # Without its bonus a round of g accepted drafts emits g tokens in place of g + 1.
    squared = lengths.variance + tokens**2 - (2 * lengths.gamma + 1) * all_of_them
    return PearlSteps(
        whole_share=np.where(drafts, whole, 0.0),
        tokens_per_whole_draft=tokens - all_of_them,
        tokens_per_step=np.where(drafts, 1 - whole + whole * (tokens - all_of_them), 1.0),
        mean_square=np.where(drafts, 1 - whole + whole * squared, 1.0),
        rejection_probability=np.where(drafts, (1 - whole) * (1 - one) + whole * (1 - all_of_them), 0.0),
    )


def _share_of_whole_drafts(first: Array, all_of_them: Array) -> Array:
    """Share of the steps that verify whole drafts, by the survival of one draft and of all of them."""
    return first / np.maximum(first + 1 - all_of_them, np.finfo(float).tiny)


def pearl_tokens_of_independent_drafts(rate: Array, gamma: Array) -> Array:
    """Tokens of a step for independent drafts at any rate, broadcast over both."""
    whole = _share_of_whole_drafts(rate, rate**gamma)
    emitted = 1 - whole + whole * (independent_tokens_per_round(rate, gamma) - rate**gamma)
    return np.where(gamma > 0, emitted, 1.0)


def pearl_rejections_of_independent_drafts(rate: Array, gamma: Array) -> Array:
    """P(a step rejects a draft) likewise."""
    whole = _share_of_whole_drafts(rate, rate**gamma)
    return np.where(gamma > 0, (1 - whole) * (1 - rate) + whole * (1 - rate**gamma), 0.0)
