"""A transformer as drafter, with a cache of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from specsim.reference.cache import Cache
from specsim.reference.drafters import Drafter
from specsim.reference.proposals import Proposal
from specsim.reference.sampling import Array, Chance, Sampling, without
from specsim.reference.transformer import Block, Transformer, chain_block, forward
from specsim.reference.trees import IntArray, ancestors, children, depths

Candidates = Literal["sampled", "without-replacement", "most-probable"]


class ModelDrafter(Drafter):
    """Drafts level by level; what it has not read yet of the committed text it reads first.

    Its cache holds committed text only: of a round the accepted path stays and the rest is taken back. It may owe a
    token or two, as the last draft of a round is never read.
    """

    def __init__(
        self, model: Transformer, sampling: Sampling, candidates: Candidates = "sampled", cache: Cache | None = None
    ) -> None:
        """A drafter at the start of a text.

        Args:
            model: What drafts.
            sampling: As the target samples.
            candidates: Drawn from the model one by one, drawn without replacement, or its most probable tokens.
            cache: An empty cache of the model; one array if left out.
        """
        self.model = model
        self.sampling = sampling
        self.candidates = "most-probable" if sampling.greedy else candidates
        self.cache = model.cache() if cache is None else cache
        self.passes = 0
        self._start = 0
        self._read: list[int] = []

    def propose(self, tokens: Sequence[int], shape: IntArray, chance: Chance) -> Proposal:
        """A tree of the shape, narrower where a token was drawn twice."""
        proposal = Proposal([tokens[-1]])
        below = children(shape)
        logits = self._forward([chain_block(self.cache, list(tokens[self.cache.length :]))], "last")
        self._start, self._read = self.cache.length, []
        level = [(0, 0)]
        while level:
            next_level = []
            for (node, place), row in zip(level, logits, strict=True):
                for next_place, (token, law) in zip(
                    below[place], self._drawn(row, len(below[place]), chance), strict=False
                ):
                    child, new = proposal.add(node, token, law)
                    if new and below[next_place]:
                        next_level.append((child, next_place))
            level = next_level
            if level:
                logits = self._forward([self._tree_block(proposal, [node for node, _ in level])], "all")
        return proposal

    def settle(self, accepted: Sequence[int]) -> None:
        """Keep the cache entries of the accepted path, as far as it was read."""
        kept = []
        for node in accepted:
            if node not in self._read:
                break
            kept.append(self._read.index(node))
        if self._read:
            self.cache.keep(self._start, kept)
        self._read = []

    def _forward(self, blocks: list[Block], wanted: Literal["all", "last"]) -> Array:
        self.passes += 1
        return forward(self.model, blocks, wanted)[0]

    def _tree_block(self, proposal: Proposal, nodes: list[int]) -> Block:
        """Nodes of the next level, which see their ancestors among what was read of this tree."""
        parents = proposal.parent_array
        self._read += nodes
        visible = ancestors(parents)[np.ix_(nodes, self._read)]
        # The root is not among them: it was read as the last token of the text, which all see.
        positions = self._start - 1 + depths(parents)[nodes]
        return Block(self.cache, np.array([proposal.tokens[node] for node in nodes]), positions, visible)

    def _drawn(self, logits: Array, count: int, chance: Chance) -> list[tuple[int, Array | None]]:
        if count == 0:
            return []
        if self.candidates == "most-probable":
            best = np.argsort(-logits, kind="stable")[:count] if count > 1 else [logits.argmax()]
            return [(int(token), None) for token in best]
        law = self.sampling.law(logits)
        found: list[tuple[int, Array | None]] = []
        for _ in range(count):
            if not law.any():
                break
            token = chance.draw(law)
            found.append((token, law))
            if self.candidates == "without-replacement":
                law = without(law, token)
        return found
