"""What a drafter proposes: a tree of tokens, and for each candidate the law it was drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from specsim.reference.sampling import Array
from specsim.reference.trees import IntArray, depths


@dataclass(frozen=True, eq=False)
class Draw:
    """One candidate of a node.

    Attributes:
        child: The node that stands for it.
        law: The law it was drawn from, given all that was drawn before; None if it was chosen without chance. Draws
            without replacement say so by this law: what was drawn before has no probability in it.
    """

    child: int
    law: Array | None


@dataclass(eq=False)
class Proposal:
    """A tree of drafted tokens; a chain is a tree.

    Attributes:
        tokens: Token of each node; node 0 is the last committed token.
        parents: Parent of each node, -1 for node 0.
        draws: Candidates of each node in the order in which they are tried; drawing a token twice gives one node and
            two draws.
    """

    tokens: list[int]
    parents: list[int] = field(default_factory=lambda: [-1])
    draws: list[list[Draw]] = field(default_factory=lambda: [[]])

    def add(self, parent: int, token: int, law: Array | None) -> tuple[int, bool]:
        """One more candidate of a node: its node, and whether that is a new one."""
        for draw in self.draws[parent]:
            if self.tokens[draw.child] == token:
                self.draws[parent].append(Draw(draw.child, law))
                return draw.child, False
        self.tokens.append(token)
        self.parents.append(parent)
        self.draws.append([])
        child = len(self.tokens) - 1
        self.draws[parent].append(Draw(child, law))
        return child, True

    def add_sequence(self, tokens: Sequence[int]) -> None:
        """One more sequence after the current token, chosen without chance; what is there already is shared."""
        node = 0
        for token in tokens:
            node, _ = self.add(node, int(token), None)

    def add_tree(self, other: Proposal) -> dict[int, int]:
        """All candidates of another proposal for the same place, behind those that are there; where its nodes went."""
        place = {0: 0}
        for node in range(len(other.tokens)):
            for draw in other.draws[node]:
                child, _ = self.add(place[node], other.tokens[draw.child], draw.law)
                place[draw.child] = child
        return place

    @property
    def drafted(self) -> int:
        """Drafted tokens, the current one not counted."""
        return len(self.tokens) - 1

    @property
    def depth(self) -> int:
        """Most drafts that can be accepted."""
        return int(depths(self.parent_array).max())

    @property
    def parent_array(self) -> IntArray:
        """The parents as an array, shape (nodes,)."""
        return np.array(self.parents)
