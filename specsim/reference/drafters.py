"""What a drafter is, and those that guess without looking: nothing, uniform, several merged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specsim.reference.proposals import Proposal
from specsim.reference.sampling import Array, Chance
from specsim.reference.trees import IntArray, children, depths


class Drafter:
    """Guesses the tokens of one sequence, round by round.

    Attributes:
        passes: Passes of a model made so far.
    """

    passes = 0

    def propose(self, tokens: Sequence[int], shape: IntArray, chance: Chance) -> Proposal:
        """Candidates after a text.

        Args:
            tokens: All committed tokens, prompt and output.
            shape: Parents of the tree that is asked for; less may be proposed, more or deeper may not.
            chance: For candidates that are drawn.
        """
        raise NotImplementedError

    def settle(self, accepted: Sequence[int]) -> None:
        """Learn which nodes of the last proposal stay, from the first draft on; the others are taken back."""


class Independent(Drafter):
    """Draws every candidate from a law that depends on nothing but the text, if on that.

    Subclasses say the law.
    """

    def law(self, tokens: Sequence[int]) -> Array | None:
        """The law of the token after a text, None where there is no guess."""
        raise NotImplementedError

    def propose(self, tokens: Sequence[int], shape: IntArray, chance: Chance) -> Proposal:
        """Candidates drawn one by one, each level given its path."""
        proposal = Proposal([tokens[-1]])
        below = children(shape)
        text = list(tokens)
        open_nodes: list[tuple[int, int, list[int]]] = [(0, 0, [])]
        while open_nodes:
            node, place, path = open_nodes.pop(0)
            law = self.law([*text, *path]) if below[place] else None
            if law is None:
                continue
            for next_place in below[place]:
                token = chance.draw(law)
                child, new = proposal.add(node, token, law)
                if new:
                    open_nodes.append((child, next_place, [*path, token]))
        return proposal


class Uniform(Independent):
    """Every token is as likely as any other: the worst drafter that still follows the rules."""

    def __init__(self, vocabulary: int) -> None:
        self._law = np.full(vocabulary, 1.0 / vocabulary)

    def law(self, tokens: Sequence[int]) -> Array:
        """The same law after every text."""
        return self._law


class Merged(Drafter):
    """The trees of several drafters merged into one, their candidates tried in the order of the drafters."""

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self.drafters = tuple(drafters)
        self._nodes: list[dict[int, int]] = []

    @property
    def passes(self) -> int:  # type: ignore[override]
        """Passes of all drafters."""
        return sum(drafter.passes for drafter in self.drafters)

    def propose(self, tokens: Sequence[int], shape: IntArray, chance: Chance) -> Proposal:
        """The union of what each of them proposes for the whole shape."""
        merged = Proposal([tokens[-1]])
        self._nodes = []
        for drafter in self.drafters:
            proposal = drafter.propose(tokens, shape, chance)
            places = merged.add_tree(proposal)
            self._nodes.append({place: node for node, place in places.items()})
        return merged

    def settle(self, accepted: Sequence[int]) -> None:
        """Each drafter keeps what was accepted of its own."""
        for drafter, nodes in zip(self.drafters, self._nodes, strict=True):
            own = []
            for place in accepted:
                if place not in nodes:
                    break
                own.append(nodes[place])
            drafter.settle(own)


def continuations(tokens: Sequence[int], shape: IntArray, found: Sequence[Sequence[int]]) -> Proposal:
    """Sequences chosen without chance, as many as the first level of a shape is wide, as long as it is deep."""
    proposal = Proposal([tokens[-1]])
    width, depth = int((shape == 0).sum()), int(depths(shape).max())
    for sequence in found[:width]:
        proposal.add_sequence(sequence[:depth])
    return proposal
