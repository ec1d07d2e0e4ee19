"""Rules that accept or reject one drafted token: their acceptance and the exact law of what they emit.

In formulas p(x) is target_probs and q(x) is draft_probs, the probabilities of token x. A rule draws x from the draft,
accepts it with a probability of its own, and after a rejection samples from another law. All sums run over all tokens:
nothing is sampled here. Shapes: probabilities have tokens along the last axis; whatever stands before it is broadcast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LOSSLESS = "lossless"
INEFFICIENT = "lossless but inefficient"
LOSSY = "lossy by design"
WRONG = "wrong"

EXACT_WITHIN = 1e-12
"""Largest deviation of one probability up to which a law is the target's."""

DEFAULT_LENIENCE = 0.5
TYPICAL_EPSILON = 0.09
TYPICAL_DELTA = 0.3
"""The values with which Medusa's own callers call its typical acceptance; delta is the root of epsilon."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a rule does at one position.

    Attributes:
        acceptance: Probability that the drafted token is accepted, shape (...).
        law: Probability that each token is emitted, accepted or in place of a rejected one, shape (..., tokens).
    """

    acceptance: Array
    law: Array


def standard(target_probs: Array, draft_probs: Array) -> Outcome:
    """Speculative sampling: accept x with min(1, p(x) / q(x)), else sample norm(max(0, p - q)).

    Lossless; acceptance = sum of min(p, q) = 1 - total variation (Leviathan et al. 2023, algorithm 1 and theorem 3.5;
    Chen et al. 2023, algorithm 2).
    """
    accept = np.minimum(1.0, _ratio(target_probs, draft_probs))
    return _outcome(draft_probs, accept, _normalised(np.maximum(target_probs - draft_probs, 0.0)))


def greedy(target_probs: Array, draft_probs: Array) -> Outcome:
    """Temperature 0: ``standard`` of the most probable token of each; accepts where the two agree."""
    return standard(most_probable(target_probs), most_probable(draft_probs))


def deterministic(target_probs: Array, draft_probs: Array) -> Outcome:
    """The draft's most probable token x, proposed without sampling: accept with p(x), else the target without x.

    Lossless: ``standard`` of a draft that has all its probability on x.
    """
    return standard(target_probs, most_probable(draft_probs))


def lenient(target_probs: Array, draft_probs: Array, lenience: float = DEFAULT_LENIENCE) -> Outcome:
    """Accept x with min(1, p(x) / (l q(x))), else sample norm(max(0, p - l q)), where l is the lenience.

    Lossy below l = 1; acceptance = sum of min(q, p / l), and no token is emitted more often than p / l (Leviathan et
    al. 2023, appendix on lenience). Sources differ in the residual; here it is that of the draft as it is compared.
    """
    compared = lenience * draft_probs
    accept = np.minimum(1.0, _ratio(target_probs, compared))
    return _outcome(draft_probs, accept, _normalised(np.maximum(target_probs - compared, 0.0)))


def typical(
    target_probs: Array, draft_probs: Array, epsilon: float = TYPICAL_EPSILON, delta: float = TYPICAL_DELTA
) -> Outcome:
    """Accept x where p(x) > min(epsilon, delta exp(-H)), H the entropy of p; else the target's most probable token.

    Lossy (Medusa, Cai et al. 2024, section on typical acceptance). After a rejection Medusa's next token is the greedy
    one, which is why it stands here.
    """
    logarithm = np.log(np.where(target_probs > 0, target_probs, 1.0))
    entropy = -(target_probs * logarithm).sum(-1, keepdims=True)
    threshold = np.minimum(epsilon, delta * np.exp(-entropy))
    return _outcome(draft_probs, (target_probs > threshold).astype(float), most_probable(target_probs))


def naive(target_probs: Array, draft_probs: Array) -> Outcome:
    """Sample the target whatever was drafted, and accept if the draft is the same token: sum of p q.

    Lossless (naive sampling of SpecInfer, Miao et al. 2024), and never accepts more than ``standard``. Given a draft x,
    x is emitted with p(x), and else the target without x: together the target.
    """
    accepted = draft_probs * target_probs
    rejected = (
        draft_probs.sum(-1, keepdims=True) - draft_probs
    )  # that something else than the emitted token was drafted
    return Outcome(accepted.sum(-1), accepted + rejected * target_probs)


def one_round_rejection(target_probs: Array, draft_probs: Array) -> Outcome:
    """Classical rejection sampling, one round: accept x with p(x) / (M q(x)), M = max p / q, else sample the target.

    Lossless, and accepts 1 / M, never more than ``standard`` (Leviathan et al. 2023, appendix on rejection sampling).
    The residual of this rule is the target itself: p - q p / (M q) is proportional to p.
    """
    ratio = _ratio(target_probs, draft_probs)
    largest = ratio.max(-1, keepdims=True)  # infinite where the draft never proposes a token of the target
    accept = np.divide(ratio, largest, out=np.zeros(ratio.shape), where=np.isfinite(ratio))
    return _outcome(draft_probs, accept, target_probs)


def resample_from_target(target_probs: Array, draft_probs: Array) -> Outcome:
    """WRONG: accept as ``standard`` does, but after a rejection sample the target itself.

    The tokens that were rejected for being drafted too often get a second chance, and come out too often.
    """
    return _outcome(draft_probs, np.minimum(1.0, _ratio(target_probs, draft_probs)), target_probs)


def ratio_on_deterministic(target_probs: Array, draft_probs: Array) -> Outcome:
    """WRONG: propose the draft's most probable token, and accept as if it had been sampled from the draft.

    It is proposed with probability 1 and judged by q; ``deterministic`` is what is right.
    """
    accept = np.minimum(1.0, _ratio(target_probs, draft_probs))
    residual = _normalised(np.maximum(target_probs - draft_probs, 0.0))
    return _outcome(most_probable(draft_probs), accept, residual)


@dataclass(frozen=True, eq=False)
class BlockOutcome:
    """What block verification does with gamma drafted tokens.

    Attributes:
        lengths: Probability that exactly k drafts are accepted, k = 0 to gamma, shape (gamma + 1,).
        law: Joint probability of the first gamma tokens, the target going on after the round, shape (tokens,) * gamma.
    """

    lengths: Array
    law: Array


def block(target_probs: Sequence[Array], draft_probs: Sequence[Array]) -> BlockOutcome:
    """Block verification: all prefixes are judged together, and the longest accepted one is kept.

    Along a draft x_1 x_2 ... let w_0 = 1 and w_i = min(1, w_(i-1) p(x_i) / q(x_i)). Prefix i < gamma is accepted with
    s / (s + 1 - w_i), s the sum over x of max(0, w_i p(x) - q(x)) at the next position, and the whole draft with
    w_gamma. After prefix i the next token comes from norm(max(0, w_i p - q)). Lossless, and accepts no less than
    ``standard`` (Sun et al. 2024, arXiv 2403.10444). With one position it is ``standard``.

    Args:
        target_probs: One array for each position: shape (tokens,), or with an axis of tokens for each position before
            it, shape (tokens,) * i, where the probabilities depend on the path.
        draft_probs: The same of the draft.
    """
    gamma = len(target_probs)
    weight, reached = [np.ones(())], [np.ones(())]
    for target, draft in zip(target_probs, draft_probs, strict=True):
        weight.append(np.minimum(1.0, _ratio(weight[-1][..., None] * target, draft)))
        reached.append(reached[-1][..., None] * draft)
    residual = [np.maximum(weight[i][..., None] * target_probs[i] - draft_probs[i], 0.0) for i in range(gamma)]
    accept = [np.ones(())]
    for i in range(1, gamma):
        missing = residual[i].sum(-1)
        whole = missing + (1.0 - weight[i])  # in this order a share is never above 1
        # 0 / 0 is a prefix that goes on as the target does: a longer one is accepted for certain.
        accept.append(np.divide(missing, whole, out=np.zeros(whole.shape), where=whole > 0))
    accept.append(weight[gamma])
    none_longer = [np.ones(())] * (gamma + 1)
    for i in reversed(range(gamma)):
        none_longer[i] = (draft_probs[i] * (1.0 - accept[i + 1]) * none_longer[i + 1]).sum(-1)
    kept = [r * a * n for r, a, n in zip(reached, accept, none_longer, strict=True)]
    law = kept[gamma]
    for i in range(gamma):
        emitted = kept[i][..., None] * _normalised(residual[i])
        law = law + reduce(lambda joint, target: joint[..., None] * target, target_probs[i + 1 :], emitted)
    return BlockOutcome(np.array([k.sum() for k in kept]), law)


@dataclass(frozen=True, eq=False)
class Judgement:
    """A rule at one or several positions, held against what it should emit.

    Attributes:
        acceptance: Probability that the first draft is accepted.
        accepted_length: Expected accepted drafts of all positions; with one position the acceptance.
        law: Joint probability of the tokens of all positions, the last position fastest, shape (tokens ** positions,).
        wanted: The same of the target; of the target at temperature 0 for ``greedy``.
    """

    acceptance: float
    accepted_length: float
    law: Array
    wanted: Array

    @property
    def total_variation(self) -> float:
        """Half the sum of all deviations from the target: 0 where the laws are equal, 1 where they share nothing."""
        return float(np.abs(self.law - self.wanted).sum() / 2)

    @property
    def largest_deviation(self) -> float:
        """Largest deviation of one probability from the target's."""
        return float(np.abs(self.law - self.wanted).max())

    @property
    def exact(self) -> bool:
        """Whether the law is the target's, to ``EXACT_WITHIN``."""
        return self.largest_deviation < EXACT_WITHIN


VERDICTS = {
    "standard": LOSSLESS,
    "greedy": LOSSLESS,
    "deterministic": LOSSLESS,
    "block": LOSSLESS,
    "naive": INEFFICIENT,
    "one-round-rejection": INEFFICIENT,
    "lenience": LOSSY,
    "typical": LOSSY,
    "resample-from-target": WRONG,
    "ratio-on-deterministic": WRONG,
}
"""Every rule by its name, with what is to be held of it."""

AT_ONE_POSITION: dict[str, Callable[[Array, Array], Outcome]] = {
    "standard": standard,
    "greedy": greedy,
    "deterministic": deterministic,
    "naive": naive,
    "one-round-rejection": one_round_rejection,
    "lenience": lenient,
    "typical": typical,
    "resample-from-target": resample_from_target,
    "ratio-on-deterministic": ratio_on_deterministic,
}
"""The rules that judge each position by itself: all but ``block``."""


def judge(rule: str, target_probs: Array, draft_probs: Array, lenience: float = DEFAULT_LENIENCE) -> Judgement:
    """A rule at positions whose probabilities do not depend on the tokens before them.

    Args:
        rule: One of ``VERDICTS``.
        target_probs: Shape (positions, tokens), each row summing to 1.
        draft_probs: The same of the draft.
        lenience: What ``lenience`` multiplies draft probabilities with, above 0 and at most 1.

    Raises:
        KeyError: If there is no such rule.
    """
    wanted = _joint(most_probable(target_probs) if rule == "greedy" else target_probs)
    if rule == "block":
        whole = block(list(target_probs), list(draft_probs))
        lengths = np.arange(len(whole.lengths))
        return Judgement(float(1.0 - whole.lengths[0]), float(lengths @ whole.lengths), whole.law.reshape(-1), wanted)
    apply = partial(lenient, lenience=lenience) if rule == "lenience" else AT_ONE_POSITION[rule]
    each = apply(target_probs, draft_probs)
    return Judgement(float(each.acceptance[0]), float(np.cumprod(each.acceptance).sum()), _joint(each.law), wanted)


def conventions(rules: Sequence[str], positions: int, lenience: float) -> tuple[str, ...]:
    """What these rules leave open and how it is settled here, one clause each."""
    found = []
    if {"greedy", "deterministic", "typical", "ratio-on-deterministic"} & set(rules):
        found.append("of equally probable tokens the first one counts as the most probable")
    if "greedy" in rules:
        found.append("greedy is held against the target at temperature 0")
    if "lenience" in rules:
        found.append(f"lenience {lenience:g}, after a rejection norm(max(0, target - {lenience:g} draft))")
    if "typical" in rules:
        constants = f"epsilon {TYPICAL_EPSILON:g} and delta {TYPICAL_DELTA:g}"
        found.append(f"typical with {constants}, after a rejection the target's most probable token")
    if positions > 1:
        found.append("positions do not depend on the tokens before them")
        if set(rules) - {"block"}:
            found.append("every rule but block judges each position by itself")
        if "block" in rules:
            found.append("where a round of block ends early the target itself goes on")
    return tuple(found)


def most_probable(probs: Array) -> Array:
    """All probability on the most probable token, the first of equal ones; same shape."""
    best = probs.argmax(-1)
    return (np.arange(probs.shape[-1]) == best[..., None]).astype(float)


def _outcome(drawn: Array, accept: Array, instead: Array) -> Outcome:
    """Draw from one law, accept by a probability of each token, emit from another law after a rejection."""
    accepted = drawn * accept
    acceptance = np.minimum(accepted.sum(-1), 1.0)
    return Outcome(acceptance, accepted + (1.0 - acceptance)[..., None] * instead)


def _ratio(above: Array, below: Array) -> Array:
    """above / below; infinite where only below is 0, and 0 where both are."""
    above, below = np.broadcast_arrays(above, below)
    out = np.where(above > 0, np.inf, 0.0)
    with np.errstate(over="ignore"):
        return np.divide(above, below, out=out, where=below > 0)


def _normalised(masses: Array) -> Array:
    """Masses divided by their sum; zeros where there is nothing to share out."""
    total = masses.sum(-1, keepdims=True)
    return np.divide(masses, total, out=np.zeros(masses.shape), where=total > 0)


def _joint(laws: Array) -> Array:
    """The joint law of independent positions, shape (positions, tokens) to (tokens ** positions,)."""
    return reduce(lambda joint, law: (joint[:, None] * law).reshape(-1), laws, np.ones(1))
