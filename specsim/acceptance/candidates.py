"""Rules that verify several candidates for one position: acceptance by rank, and the exact law of what they emit.

In formulas p(x) is target_probs, q(x) draft_probs and k the number of candidates. Candidates are looked at one after
another until one is accepted; after the last one a token is drawn from what is left of the target. Nothing is sampled
here: sums run over all tokens, and over all sequences of rejected candidates where these matter. Shapes: probabilities
have tokens along the last axis, of V tokens; whatever stands before it is broadcast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from specsim.acceptance.rules import INEFFICIENT, LOSSLESS, WRONG, most_probable

Array = NDArray[np.float64]

BOUND = "bound, no rule"
"""What is to be held of the most that any rule could accept."""

MOST_SEQUENCES = 20_000
"""More sequences of rejected candidates, V ** k, are not enumerated."""

MOST_CANDIDATES = 64
"""Nobody verifies more candidates for one position."""

MOST_SUBSETS_OF = 12
"""Of more tokens than this the bound for candidates without replacement, which looks at all subsets, is not given."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """What a rule does with k candidates at one position.

    Attributes:
        ranks: Probability that candidate 1, 2, ... is the accepted one, shape (..., k).
        law: Probability that each token is emitted, shape (..., V); None of a bound.
    """

    ranks: Array
    law: Array | None

    @property
    def acceptance(self) -> Array:
        """Probability that a candidate is accepted, shape (...)."""
        return np.minimum(self.ranks.sum(-1), 1.0)


def multi_step(target_probs: Array, draft_probs: Array, k: int) -> Candidates:
    """Multi-step speculative sampling: candidates drawn independently from the draft, each judged by what is left.

    Candidate x is accepted with min(1, p_j(x) / q(x)); after a rejection p_(j + 1) = norm(max(0, p_j - q)). Lossless;
    accepts no less than ``naive`` (SpecInfer, Miao et al. 2024, algorithm 2 and theorem 4.3). Ranks never rise.
    """
    left, reach = np.broadcast_arrays(target_probs, draft_probs)[0].astype(float), np.ones(target_probs.shape[:-1])
    law, ranks = np.zeros(left.shape), []
    for _ in range(k):
        accepted = np.minimum(left, draft_probs)
        rank = np.minimum(accepted.sum(-1), 1.0)
        law = law + reach[..., None] * accepted
        ranks.append(reach * rank)
        left, reach = _left_over(left, draft_probs), reach * (1 - rank)
    return Candidates(np.stack(ranks, axis=-1), law + reach[..., None] * left)


def multi_step_without_residual(target_probs: Array, draft_probs: Array, k: int) -> Candidates:
    """WRONG: every candidate is judged by the whole target, as if none had been rejected before it."""
    accepted = np.minimum(target_probs, draft_probs)
    rank = np.minimum(accepted.sum(-1, keepdims=True), 1.0)
    reach = (1 - rank) ** np.arange(k)
    law = accepted * reach.sum(-1, keepdims=True) + (1 - rank) ** k * _left_over(target_probs, draft_probs)
    return Candidates(rank * reach, law)


def without_replacement(target_probs: Array, draft_probs: Array, k: int) -> Candidates:
    """Recursive rejection: as ``multi_step``, but no candidate is drawn twice.

    After a rejection of x the next candidate comes from the draft without x. Lossless; accepts no less than
    ``multi_step``, with k = V everything; ranks may rise (Sequoia, Chen et al. 2024; Yang et al. 2024). Exact over all
    V ** (k - 1) sequences of rejected candidates.
    """
    target, draft = np.broadcast_arrays(target_probs, draft_probs)
    reach, others = np.ones(target.shape[:-1]), 0
    law, ranks = np.zeros(target.shape), []
    for _ in range(k):
        # Where the draft has no other token there is no candidate, and what is left of the target is emitted.
        ends = ~draft.any(-1)
        law = law + _over((reach * ends)[..., None] * target, others, -2)
        reach = reach * ~ends
        accepted = np.minimum(target, draft)
        rank = np.minimum(accepted.sum(-1), 1.0)
        law = law + _over(reach[..., None] * accepted, others, -2)
        ranks.append(_over(reach * rank, others, -1))
        # One axis more, for the token that was rejected.
        rejected = np.maximum(draft - target, 0.0)
        reach = reach[..., None] * rejected
        left = _left_over(target, draft)[..., None, :]
        draft = _without_each(draft)
        target = np.broadcast_to(left, draft.shape)
        others += 1
    return Candidates(np.stack(ranks, axis=-1), law + _over(reach[..., None] * target, others, -2))


def estimated_without_replacement(
    target_probs: Array, draft_probs: Array, k: int, generator: np.random.Generator, samples: int
) -> Array:
    """Ranks of ``without_replacement`` where there are too many sequences: rejected candidates are sampled.

    Which candidate is rejected is sampled with its probability; what is accepted at each rank is summed exactly, so
    that rank 1 has no error.

    Args:
        target_probs: Shape (..., V).
        draft_probs: Same shape.
        k: Candidates.
        generator: Of the random numbers.
        samples: Sequences that are sampled for each pair.

    Returns:
        Shape (..., k).
    """
    shape = (samples, *target_probs.shape)
    target, draft = np.broadcast_to(target_probs, shape), np.broadcast_to(draft_probs, shape).copy()
    reach, ranks = np.ones(shape[:-1]), []
    for _ in range(k):
        rank = np.minimum(np.minimum(target, draft).sum(-1), 1.0)
        ranks.append((reach * rank).mean(0))
        reach = reach * (1 - rank)
        rejected = np.cumsum(np.maximum(draft - target, 0.0), axis=-1)
        drawn = (generator.random((*shape[:-1], 1)) * rejected[..., -1:] >= rejected).sum(-1)
        target = _left_over(target, draft)
        np.put_along_axis(draft, np.minimum(drawn, shape[-1] - 1)[..., None], 0.0, axis=-1)
        total = draft.sum(-1, keepdims=True)
        draft = np.divide(draft, total, out=np.zeros(shape), where=total > 0)
    return np.stack(ranks, axis=-1)


def k_seq(target_probs: Array, draft_probs: Array, k: int) -> Candidates:
    """SpecTr's k-SEQ: independent candidates, each accepted with min(1, p(x) / (rho q(x))).

    With b(rho) = sum of min(q, p / rho), rho in [1, k] solves 1 - (1 - b)^k = rho b; then norm(max(0, p - rho q)) is
    what is left after the last one. Lossless; its ranks depend on k (Sun et al. 2023, arXiv 2310.15141).
    """
    target, draft = np.broadcast_arrays(target_probs, draft_probs)
    low, high = np.ones(target.shape[:-1]), np.full(target.shape[:-1], float(k))

    def accepted_share(rho: Array) -> Array:
        return np.minimum(draft, target / rho[..., None]).sum(-1)

    for _ in range(80):
        rho = (low + high) / 2
        share = accepted_share(rho)
        short = 1 - (1 - share) ** k > rho * share
        low, high = np.where(short, rho, low), np.where(short, high, rho)
    rho = (low + high) / 2
    share = np.minimum(accepted_share(rho), 1.0)
    reach = (1 - share)[..., None] ** np.arange(k)
    accepted = np.minimum(draft, target / rho[..., None]) * reach.sum(-1, keepdims=True)
    left = _left_over(target, rho[..., None] * draft)
    return Candidates(reach * share[..., None], accepted + ((1 - share) ** k)[..., None] * left)


def naive(target_probs: Array, draft_probs: Array, k: int) -> Candidates:
    """Sample the target, and accept if a candidate is the same token; candidates independent from the draft.

    Lossless: what is emitted is what was sampled. Candidate j is the first such one with the sum of p q (1 - q)^(j - 1)
    (naive sampling of SpecInfer, Miao et al. 2024).
    """
    missed = (1 - draft_probs)[..., None] ** np.arange(k)
    ranks = ((target_probs * draft_probs)[..., None] * missed).sum(-2)
    return Candidates(ranks, np.broadcast_to(target_probs, np.broadcast_shapes(target_probs.shape, draft_probs.shape)))


def naive_without_replacement(target_probs: Array, draft_probs: Array, k: int) -> Candidates:
    """The same with candidates that are drawn without replacement: candidate j is the token with its marginal law."""
    target, draft = np.broadcast_arrays(target_probs, draft_probs)
    reach, ranks = np.ones(target.shape[:-1]), []
    for others in range(k):
        marginal = _over(reach[..., None] * draft, others, -2)
        ranks.append((target * marginal).sum(-1))
        reach = reach[..., None] * draft
        draft = _without_each(draft)
    return Candidates(np.stack(ranks, axis=-1), target)


def top_k(target_probs: Array, draft_probs: Array, k: int) -> Candidates:
    """The draft's k most probable tokens, proposed without sampling; accept if the target's sample is among them.

    Lossless, and the most that is possible for candidates that are not drawn at random. It is what EAGLE's reference
    code does when it judges top-k candidates as if the draft had proposed each with probability 1.
    """
    target, draft = np.broadcast_arrays(target_probs, draft_probs)
    order = _most_probable_first(draft)[..., :k]
    ranks = np.take_along_axis(target, order, axis=-1)
    missing = k - ranks.shape[-1]
    padded = np.concatenate([ranks, np.zeros((*ranks.shape[:-1], missing))], axis=-1) if missing > 0 else ranks
    return Candidates(padded, target)


def greedy(target_probs: Array, draft_probs: Array, k: int) -> Candidates:
    """Temperature 0: candidate j is accepted where the target's most probable token is the draft's j-th."""
    return top_k(most_probable(np.broadcast_arrays(target_probs, draft_probs)[0]), draft_probs, k)


def ratio_on_top_k(target_probs: Array, draft_probs: Array, k: int) -> Candidates:
    """WRONG: the draft's k most probable tokens, judged as if they had been drawn from the draft."""
    target, draft = np.broadcast_arrays(target_probs, draft_probs)
    order = _most_probable_first(draft)
    left, reach = target.astype(float), np.ones(target.shape[:-1])
    law, ranks = np.zeros(left.shape), []
    for j in range(k):
        if j >= left.shape[-1]:
            ranks.append(np.zeros(reach.shape))
            continue
        at = order[..., j : j + 1]
        p, q = np.take_along_axis(left, at, -1), np.take_along_axis(draft, at, -1)
        accept = np.minimum(1.0, np.divide(p, q, out=np.ones(p.shape), where=q > 0))
        here = np.zeros(left.shape)
        np.put_along_axis(here, at, reach[..., None] * accept, axis=-1)
        law = law + here
        ranks.append(reach * accept[..., 0])
        reach = reach * (1 - accept[..., 0])
        left = _left_over(left, draft)
    return Candidates(np.stack(ranks, axis=-1), law + reach[..., None] * left)


def transport_bound(target_probs: Array, draft_probs: Array, k: int) -> Candidates:
    """The most that any lossless rule accepts of k independent candidates: an optimal transport.

    1 + min over sets H of tokens of p(H) - q(H)^k; the smallest is among the sets of the first tokens by falling q / p
    (Sun et al. 2023). Its value stands as rank 1: it does not tell which candidate.
    """
    target, draft = np.broadcast_arrays(target_probs, draft_probs)
    ratio = np.divide(draft, target, out=np.where(draft > 0, np.inf, 0.0), where=target > 0)
    order = np.argsort(-ratio, axis=-1, kind="stable")
    p, q = (np.cumsum(np.take_along_axis(one, order, axis=-1), axis=-1) for one in (target, draft))
    value = 1 + np.minimum((p - q**k).min(-1), 0.0)
    return Candidates(np.concatenate([value[..., None], np.zeros((*value.shape, k - 1))], axis=-1), None)


def transport_bound_without_replacement(target_probs: Array, draft_probs: Array, k: int) -> Candidates:
    """The same of candidates that are drawn without replacement, over all sets of tokens."""
    target, draft = np.broadcast_arrays(target_probs, draft_probs)
    size = target.shape[-1]
    drawn = _sets_drawn(draft, min(k, size))
    best = np.zeros(target.shape[:-1])
    for members in range(1, size + 1):
        for chosen in combinations(range(size), members):
            inside = frozenset(chosen)
            within = sum(probability for held, probability in drawn.items() if held <= inside)
            best = np.minimum(best, target[..., list(chosen)].sum(-1) - within)
    value = 1 + best
    return Candidates(np.concatenate([value[..., None], np.zeros((*value.shape, k - 1))], axis=-1), None)


def _sets_drawn(draft: Array, k: int) -> dict[frozenset[int], Array]:
    """P(each set of tokens is what k draws without replacement give); fewer where the draft has no more tokens."""
    found: dict[frozenset[int], Array] = {frozenset(): np.ones(draft.shape[:-1])}
    for _ in range(k):
        after: dict[frozenset[int], Array] = {}
        for held, probability in found.items():
            left = 1 - draft[..., sorted(held)].sum(-1)
            for token in range(draft.shape[-1]):
                if token in held:
                    continue
                share = np.divide(draft[..., token], left, out=np.zeros(left.shape), where=left > 1e-15)
                if not share.any():
                    continue
                wider = held | {token}
                after[wider] = after.get(wider, np.zeros(left.shape)) + probability * share
            exhausted = probability * (left <= 1e-15)
            if exhausted.any():
                after[held] = after.get(held, np.zeros(left.shape)) + exhausted
        found = after
    return found


Rule = Callable[[Array, Array, int], Candidates]

RULES: dict[str, Rule] = {
    "multi-step": multi_step,
    "without-replacement": without_replacement,
    "k-seq": k_seq,
    "top-k": top_k,
    "greedy": greedy,
    "naive": naive,
    "naive-without-replacement": naive_without_replacement,
    "transport-bound": transport_bound,
    "transport-bound-without-replacement": transport_bound_without_replacement,
    "multi-step-without-residual": multi_step_without_residual,
    "ratio-on-top-k": ratio_on_top_k,
}
"""Every rule among several candidates by its name."""

VERDICTS = {
    "multi-step": LOSSLESS,
    "without-replacement": LOSSLESS,
    "k-seq": LOSSLESS,
    "top-k": LOSSLESS,
    "greedy": LOSSLESS,
    "naive": INEFFICIENT,
    "naive-without-replacement": INEFFICIENT,
    "transport-bound": BOUND,
    "transport-bound-without-replacement": BOUND,
    "multi-step-without-residual": WRONG,
    "ratio-on-top-k": WRONG,
}
"""What is to be held of each."""


def most_candidates(rule: str, tokens: int) -> int:
    """The most candidates of so many tokens for which a rule is enumerated."""
    if rule == "transport-bound-without-replacement" and tokens > MOST_SUBSETS_OF:
        return 0
    if not rule.endswith("without-replacement"):
        return MOST_CANDIDATES
    counted = [k for k in range(1, MOST_CANDIDATES + 1) if max(tokens, 2) ** k <= MOST_SEQUENCES]
    return counted[-1] if counted else 0


def _left_over(target: Array, draft: Array) -> Array:
    """norm(max(0, p - q)); the target itself where nothing is left."""
    masses = np.maximum(target - draft, 0.0)
    total = masses.sum(-1, keepdims=True)
    # Below rounding nothing is ever rejected, and what would follow does not matter.
    return np.where(total > 1e-15, np.divide(masses, total, out=np.zeros(masses.shape), where=total > 0), target)


def _without_each(draft: Array) -> Array:
    """The draft without each of its tokens, shape (..., V) to (..., V, V); zeros where nothing else is drafted."""
    rest = draft[..., None, :] * (1 - np.eye(draft.shape[-1]))
    total = rest.sum(-1, keepdims=True)
    return np.divide(rest, total, out=np.zeros(rest.shape), where=total > 0)


def _over(values: Array, axes: int, last: int) -> Array:
    """The sum over the axes of rejected tokens, which stand before the last one or at the end."""
    return values.sum(axis=tuple(range(last - axes + 1, last + 1))) if axes else values


def _most_probable_first(probs: Array) -> NDArray[np.int64]:
    return np.argsort(-probs, axis=-1, kind="stable")
