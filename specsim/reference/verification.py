"""Rules that walk down a proposal: which drafts are accepted, and which token comes after them.

In formulas p is the target's law at a node, q the law that a candidate was drawn from, all probability on the
candidate if it was chosen without chance. A rule calls ``target(node)`` for the laws it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from specsim.reference.proposals import Draw, Proposal
from specsim.reference.sampling import Array, Chance, residual, without

Target = Callable[[int], Array]
"""The target's law after a node."""


@dataclass(frozen=True)
class Verdict:
    """What a rule decides.

    Attributes:
        path: Accepted nodes from the first draft on.
        token: The token after them: in place of a rejected draft, or the bonus.
    """

    path: tuple[int, ...]
    token: int


Rule = Callable[[Proposal, Target, Chance], Verdict]
Step = Callable[[Array, Proposal, list[Draw], Chance], "int | Array"]
"""One node: the accepted child, or the law of the token that comes in place of all its candidates."""


def walk(step: Step, proposal: Proposal, target: Target, chance: Chance) -> Verdict:
    """Go down as long as candidates are accepted, then sample."""
    path: list[int] = []
    node = 0
    while True:
        found = step(target(node), proposal, proposal.draws[node], chance)
        if not isinstance(found, int):
            return Verdict(tuple(path), chance.draw(found))
        path.append(found)
        node = found


def speculative_step(
    target: Array, proposal: Proposal, draws: list[Draw], chance: Chance, lenience: float = 1.0
) -> int | Array:
    """Try candidates in turn: accept x with min(1, p(x) / q(x)), or else go on with norm(max(0, p - q)) as target.

    With one candidate it is speculative sampling (Leviathan et al. 2023), with several multi-step speculative sampling
    (Miao et al. 2024), with laws that exclude what was drawn before recursive rejection sampling without replacement
    (Jeon et al. 2024). A candidate chosen without chance is accepted with p(x), and rejected leaves p without x.
    Lenience multiplies q.
    """
    for draw in draws:
        token = proposal.tokens[draw.child]
        if draw.law is None and lenience == 1.0:
            if chance.happens(target[token]):
                return draw.child
            target = without(target, token)
            continue
        law = _one_hot(token, len(target)) if draw.law is None else draw.law
        compared = lenience * law
        if chance.happens(min(1.0, target[token] / compared[token])):
            return draw.child
        target = residual(target, compared)
    return target


def naive_step(target: Array, proposal: Proposal, draws: list[Draw], chance: Chance) -> int | Array:
    """Sample the target, and go on where a candidate is that token (SpecInfer's naive sampling, Miao et al. 2024)."""
    if not draws:
        return target
    token = chance.draw(target)
    accepted = next((draw.child for draw in draws if proposal.tokens[draw.child] == token), None)
    return _one_hot(token, len(target)) if accepted is None else accepted


def block(proposal: Proposal, target: Target, chance: Chance) -> Verdict:
    """Block verification of a chain: the longest accepted prefix, all of them judged together.

    With w_0 = 1 and w_i = min(1, w_(i-1) p(x_i) / q(x_i)) along the draft, prefix i < gamma is accepted with
    s / (s + 1 - w_i), s the sum over x of max(0, w_i p(x) - q(x)) at the next position, and the whole draft with
    w_gamma; after prefix i comes norm(max(0, w_i p - q)) (Sun et al. 2024, arXiv 2403.10444).

    Raises:
        ValueError: If the proposal is no chain.
    """
    gamma = proposal.drafted
    if any(len(draws) > 1 for draws in proposal.draws):
        raise ValueError("block verification judges a chain, and this is a tree")
    weights = [1.0]
    laws = []
    for node in range(gamma):
        token, law = proposal.tokens[node + 1], proposal.draws[node][0].law
        laws.append(_one_hot(token, len(target(node))) if law is None else law)
        weights.append(min(1.0, weights[-1] * target(node)[token] / laws[-1][token]))
    for kept in range(gamma, -1, -1):
        path = tuple(range(1, kept + 1))
        if kept == gamma:
            if chance.happens(weights[gamma]):
                return Verdict(path, chance.draw(target(gamma)))
            continue
        left = np.maximum(weights[kept] * target(kept) - laws[kept], 0.0)
        missing = float(left.sum())
        whole = missing + (1.0 - weights[kept])
        if kept == 0 or chance.happens(missing / whole if whole > 0 else 0.0):
            return Verdict(path, chance.draw(left / missing if missing > 0 else target(kept)))
    raise AssertionError


TYPICAL_EPSILON = 0.09
TYPICAL_DELTA = 0.3
"""The values with which Medusa's own callers call its typical acceptance."""


def typical(
    proposal: Proposal,
    target: Target,
    chance: Chance,
    epsilon: float = TYPICAL_EPSILON,
    delta: float = TYPICAL_DELTA,
) -> Verdict:
    """Accept x where p(x) > min(epsilon, delta exp(-H)), H the entropy of p; the longest accepted path is kept.

    Then comes the target's most probable token (Medusa, Cai et al. 2024). Lossy; nothing is left to chance.
    """
    longest: tuple[int, ...] = ()
    open_paths: list[tuple[int, ...]] = [()]
    while open_paths:
        path = open_paths.pop(0)
        longest = max(longest, path, key=len)
        node = path[-1] if path else 0
        if not proposal.draws[node]:
            continue
        law = target(node)
        entropy = -float(law @ np.log(np.where(law > 0, law, 1.0)))
        threshold = min(epsilon, delta * np.exp(-entropy))
        children = dict.fromkeys(draw.child for draw in proposal.draws[node])
        open_paths += [(*path, child) for child in children if law[proposal.tokens[child]] > threshold]
    return Verdict(longest, int(target(longest[-1] if longest else 0).argmax()))


def _one_hot(token: int, tokens: int) -> Array:
    law = np.zeros(tokens)
    law[token] = 1.0
    return law


def lenient(lenience: float) -> Rule:
    """Speculative sampling with the draft's law multiplied by ``lenience``; no token comes out above p / lenience."""
    return partial(walk, partial(speculative_step, lenience=lenience))


standard: Rule = partial(walk, speculative_step)
naive: Rule = partial(walk, naive_step)

RULES: dict[str, Rule] = {"standard": standard, "naive": naive, "block": block, "typical": typical}
"""Rules without a constant of their own; ``lenient`` makes the others."""

LOSSLESS = ("standard", "naive", "block")
