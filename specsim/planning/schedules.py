"""Schedules of drafting and verification: one after the other, or at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance import (
    AcceptanceProcess,
    AcceptedLengths,
    InClasses,
    InRegimes,
    RegimeChain,
    independent_tokens_per_round,
)
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


def pearl_steps(lengths: AcceptedLengths, first: AcceptedLengths, whole_share: Array | None = None) -> PearlSteps:
    """Steps of overlapped drafting, from the accepted lengths of whole drafts and those of first drafts alone.

    Where nothing is drafted, ``first`` is at no draft either. The share of whole drafts follows from both where steps
    do not remember each other.
    """
    drafts = lengths.gamma > 0
    tokens, all_of_them = lengths.tokens_per_round, 1 - lengths.rejection_probability
    one = first.tokens_per_round - 1
    whole = _share_of_whole_drafts(one, all_of_them) if whole_share is None else whole_share
    # Without its bonus a round of g accepted drafts emits g tokens in place of g + 1.
    squared = lengths.variance + tokens**2 - (2 * lengths.gamma + 1) * all_of_them
    return PearlSteps(
        whole_share=np.where(drafts, whole, 0.0),
        tokens_per_whole_draft=tokens - all_of_them,
        tokens_per_step=np.where(drafts, 1 - whole + whole * (tokens - all_of_them), 1.0),
        mean_square=np.where(drafts, 1 - whole + whole * squared, 1.0),
        rejection_probability=np.where(drafts, (1 - whole) * (1 - one) + whole * (1 - all_of_them), 0.0),
    )


def pearl_lengths(
    process: AcceptanceProcess, gamma: NDArray[np.int64], context_length: Array | None = None
) -> tuple[AcceptedLengths, AcceptedLengths, Array | None]:
    """What ``pearl_steps`` takes, for a process at each draft length, shape (G,).

    Steps of stretches begin in other regimes than rounds do. From a first draft, regimes move by D_1 P to a whole one,
    and from a whole one by X_g to the next; both kinds of steps together visit the positions of the text, so with
    W = D_1 P (I - X_g)^-1 the law of the first drafts is proportional to pi (I + W (X_0 + ... + X_(g - 1)))^-1, and
    that of whole ones is the same times W. Classes count by the steps that they take.
    """
    lengths, first = process.lengths(gamma, context_length), process.lengths(np.minimum(gamma, 1), context_length)
    match process:
        case InRegimes():
            alone, whole = _starts_of_steps(process.chain, gamma)
            kept = process.chain.accepting(lengths.accepted.shape[-1]).sum(-1)[1:]
            share = whole.sum(-1) / (alone.sum(-1) + whole.sum(-1))
            return _weighted(lengths, whole, kept), _weighted(first, alone, kept[: first.accepted.shape[-1]]), share
        case InClasses():
            each = [pearl_lengths(one, gamma, context_length) for one in process.processes]
            steps = [pearl_steps(*one) for one in each]
            weights = [t / one.tokens_per_step for t, one in zip(process.token_share, steps, strict=True)]
            wholes = [w * one.whole_share for w, one in zip(weights, steps, strict=True)]
            alones = [w - whole for w, whole in zip(weights, wholes, strict=True)]
            lengths = _mixed([one[0] for one in each], wholes)
            return lengths, _mixed([one[1] for one in each], alones), np.asarray(sum(wholes) / sum(weights))
        case _:
            return lengths, first, None


def _starts_of_steps(chain: RegimeChain, gamma: NDArray[np.int64]) -> tuple[Array, Array]:
    """Steps per token that begin in each regime, with a first draft alone and with a whole one, shape (G, K)."""
    accepting, identity = chain.accepting(max(int(gamma.max(initial=0)), 1)), np.eye(chain.share.shape[-1])
    longest = np.maximum(gamma, 1)
    visits = np.cumsum(accepting, axis=-3)[longest - 1]
    # Whole drafts that never fail follow each other for ever: the limit of those that hardly ever do.
    again = (1 - 1e-12) * accepting[longest]
    onward = accepting[1] @ np.linalg.inv(identity - again)
    system = identity + onward @ visits
    wanted = np.broadcast_to(chain.share, (len(gamma), chain.share.size))
    alone = np.maximum(np.linalg.solve(np.swapaxes(system, -1, -2), wanted[..., None])[..., 0], 0.0)
    return alone, np.einsum("ga,gab->gb", alone, onward)


def _weighted(lengths: AcceptedLengths, starts: Array, kept: Array) -> AcceptedLengths:
    """Accepted lengths of rounds that begin in these regimes, of which ``kept`` are reached, shape (J, K)."""
    law = starts / np.maximum(starts.sum(-1, keepdims=True), np.finfo(float).tiny)
    return replace(lengths, accepted=(law @ kept.T) * lengths.proposed)


def _mixed(each: Sequence[AcceptedLengths], weights: Sequence[Array]) -> AcceptedLengths:
    total = np.maximum(sum(weights), np.finfo(float).tiny)
    accepted = sum((weight / total)[..., None] * one.accepted for weight, one in zip(weights, each, strict=True))
    return replace(each[0], accepted=np.asarray(accepted))


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
