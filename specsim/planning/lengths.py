"""How many tokens a round drafts and emits, along the axis of draft lengths."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance import AcceptanceProcess, independent_tokens_per_round, now_and_then, process_of
from specsim.cost.passes import Array
from specsim.planning.question import Axes
from specsim.planning.schedules import (
    pearl_lengths,
    pearl_rejections_of_independent_drafts,
    pearl_steps,
    pearl_tokens_of_independent_drafts,
)
from specsim.specs.acceptance import Point
from specsim.specs.drafter import AnyDraft, DraftModel, LookupDraft, MedusaDraft
from specsim.trees import TreeLengths, tree_lengths


@dataclass(frozen=True, eq=False)
class RoundLengths:
    """What an acceptance says of a round, at each draft length or tree; every array has shape (G, 1, 1).

    Where acceptance changes with the context, tokens, shares, rejections and overshoot have shape (G, 1, S).

    Attributes:
        tokens_per_round: Emitted tokens per round and sequence, bonus included.
        mean_square: Mean square of the emitted tokens of a round.
        drafted_per_round: Tokens per round and sequence that are proposed one after another; of a tree its levels.
        accepted_per_drafted: Accepted / proposed tokens.
        rejection_probability: P(a round rejects a draft).
        extrapolated: Whether the draft length lies beyond the recorded acceptance.
    """

    tokens_per_round: Array
    mean_square: Array
    drafted_per_round: Array
    accepted_per_drafted: Array
    rejection_probability: Array
    extrapolated: NDArray[np.bool_]

    @property
    def variance(self) -> Array:
        """Variance of the emitted tokens of a round."""
        return np.maximum(self.mean_square - self.tokens_per_round**2, 0.0)

    @property
    def overshoot(self) -> Array:
        """Expected tokens beyond the end of a long output, at the end of its last round."""
        return np.maximum(self.mean_square / self.tokens_per_round - 1, 0.0) / 2

    def per_output(self, output_length: int) -> Array:
        """Tokens per round that count in outputs of so many tokens; all of them if 0.

        The last round of an output emits what is not wanted any more: (E[T^2] / E[T] - 1) / 2 tokens, as renewal
        theory has it, for outputs that are long beside a round; no output takes less than a round.
        """
        if not output_length:
            return self.tokens_per_round
        counted = self.tokens_per_round * (output_length / (output_length + self.overshoot))
        return np.minimum(counted, float(output_length))


def proposed_by(draft: AnyDraft, gamma: NDArray[np.int64]) -> NDArray[np.int64]:
    """Drafts that a drafter proposes at each draft length: no more than it has heads."""
    return np.minimum(gamma, draft.head.heads) if isinstance(draft, MedusaDraft) else gamma


def hit_rate_of(draft: AnyDraft) -> float:
    """Share of the rounds in which a drafter has a draft."""
    return draft.hit_rate if isinstance(draft, LookupDraft) else 1.0


def process_with(draft: AnyDraft, acceptance: Point) -> AcceptanceProcess:
    """The acceptance of all rounds of a drafter, also of those in which it found nothing."""
    return now_and_then(process_of(acceptance), hit_rate_of(draft))


def lengths_of(
    draft: AnyDraft, acceptance: Point, gamma: NDArray[np.int64], context_length: Array | None = None
) -> RoundLengths:
    """Tokens of the rounds of a drafter at each draft length, shape (G,), and context, shape (S,)."""
    process = process_with(draft, acceptance)
    found = process.lengths(proposed_by(draft, gamma), context_length)
    tokens, second = found.tokens_per_round, found.variance + found.tokens_per_round**2
    drafted, rejected, per_drafted = found.drafted_per_round, found.rejection_probability, found.accepted_per_drafted
    if isinstance(draft, DraftModel) and draft.schedule == "pearl":
        steps = pearl_steps(*pearl_lengths(process, gamma, context_length))
        tokens, second, rejected = steps.tokens_per_step, steps.mean_square, steps.rejection_probability
        # No step has a bonus: every token is an accepted draft, or stands in place of a rejected one.
        per_drafted = np.where(drafted > 0, (tokens - rejected) / np.maximum(drafted, 1), np.nan)
    return RoundLengths(
        tokens_per_round=_over_the_grid(tokens),
        mean_square=_over_the_grid(second),
        drafted_per_round=_over_the_grid(drafted),
        accepted_per_drafted=_over_the_grid(per_drafted),
        rejection_probability=_over_the_grid(rejected),
        extrapolated=found.extrapolated.reshape(-1, 1, 1),
    )


def lengths_at(draft: AnyDraft, acceptance: Point, axes: Axes) -> RoundLengths:
    """Tokens of the rounds of a drafter at every chain and tree of some axes.

    Raises:
        ValueError: If there are trees, and the acceptance knows no ranks.
    """
    gamma, shapes = axes.gamma.reshape(-1), axes.shapes
    if shapes is None:
        return lengths_of(draft, acceptance, gamma, axes.context_length)
    accepted = tree_lengths(acceptance, shapes.trees, axes.context_length, hit_rate_of(draft))
    of_trees = lengths_of_trees(draft, accepted, axes)
    if not shapes.chains:
        return of_trees
    return _behind(lengths_of(draft, acceptance, gamma[: shapes.chains], axes.context_length), of_trees)


def lengths_of_trees(draft: AnyDraft, found: TreeLengths, axes: Axes) -> RoundLengths:
    """Tokens of the rounds of a drafter at the trees of some axes, from what all its rounds accept of them."""
    depth, nodes = (values.reshape(-1)[-len(found.extrapolated) :] for values in (axes.gamma, axes.verified_tokens))
    odd = 2 * np.arange(1, found.survival.shape[-1] + 1) + 1
    tokens, hit = found.tokens_per_round, np.asarray(hit_rate_of(draft))
    return RoundLengths(
        tokens_per_round=_over_the_grid(tokens),
        mean_square=_over_the_grid(1.0 + found.survival @ odd),
        drafted_per_round=_over_the_grid(hit * depth),
        accepted_per_drafted=_over_the_grid((tokens - 1) / np.maximum(hit * (nodes - 1), 1e-300)),
        rejection_probability=_over_the_grid(1 - found.whole),
        extrapolated=found.extrapolated.reshape(-1, 1, 1),
    )


def _behind(chains: RoundLengths, trees: RoundLengths) -> RoundLengths:
    """Chains, then trees, on one axis."""
    joined = {}
    for field in fields(RoundLengths):
        first, then = getattr(chains, field.name), getattr(trees, field.name)
        contexts = max(first.shape[-1], then.shape[-1])
        joined[field.name] = np.concatenate(
            [np.broadcast_to(one, (*one.shape[:-1], contexts)) for one in (first, then)]
        )
    return RoundLengths(**joined)


def _over_the_grid(values: Array) -> Array:
    """Values by draft length, shape (G,), or by context and draft length, (S, G), as (G, 1, 1) or (G, 1, S)."""
    return values.reshape(-1, values.shape[-1]).T[:, None, :]


def tokens_of_independent_drafts(draft: AnyDraft, rate: Array, gamma: NDArray[np.int64]) -> Array:
    """Tokens per round of a drafter whose drafts are accepted at a rate each for itself, broadcast over both."""
    gamma = proposed_by(draft, gamma)
    if isinstance(draft, DraftModel) and draft.schedule == "pearl":
        return pearl_tokens_of_independent_drafts(rate, gamma.astype(float))
    tokens = independent_tokens_per_round(rate, gamma)
    return 1 + hit_rate_of(draft) * (tokens - 1)


def rejections_of_independent_drafts(draft: AnyDraft, rate: Array, gamma: NDArray[np.int64]) -> Array:
    """P(a round rejects a draft) of such a drafter, broadcast over both."""
    rejected = 1 - rate ** proposed_by(draft, gamma)
    if isinstance(draft, DraftModel) and draft.schedule == "pearl":
        return pearl_rejections_of_independent_drafts(rate, gamma.astype(float))
    return hit_rate_of(draft) * rejected
