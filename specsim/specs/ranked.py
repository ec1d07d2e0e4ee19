"""What is known of the acceptance of several candidates for one position: by rank, by pairs, or of whole trees."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Annotated, Literal

from specsim.errors import Contradiction
from specsim.specs.fields import Factor, RanksByLevel, choice, record
from specsim.specs.tree import Shape, read_shape

SUM_WITHIN = 1e-6
"""Probabilities that people write sum to 1 as nearly as this."""


@record
class Ranks:
    """Acceptance of the candidates of a token tree by their rank.

    Entry r is the probability that the child of rank r is the one that goes on, once its parent was accepted. A chain
    has the children of rank 1 alone.

    Attributes:
        ranks: One list for every level, or one for each, of which the last holds beyond.
    """

    kind: Literal["ranks"] = "ranks"
    ranks: RanksByLevel

    def __post_init__(self) -> None:
        for level, ranks in enumerate(self.ranks, start=1):
            total = math.fsum(ranks)
            if total > 1 + SUM_WITHIN:
                which = f"Those of level {level}" if len(self.ranks) > 1 else "They"
                sentence = f"One child at most is accepted: probabilities of ranks sum to at most 1. {which} sum to "
                raise Contradiction(f"{sentence}{total:.9g}.", "ranks")

    @property
    def label(self) -> str:
        """The command-line form."""
        return f"ranks={';'.join(map(listed, self.ranks))}"


@record
class TreeLength:
    """Tokens per round of some token trees, as measured, bonus token included.

    Attributes:
        tokens_per_round: By the tree as it is written, ``<5,1,1,1>`` for one.
    """

    kind: Literal["tree_length"] = "tree_length"
    tokens_per_round: dict[str, Factor] = field(hash=False)

    def __post_init__(self) -> None:
        if not self.tokens_per_round:
            raise Contradiction("There must be a tree.", "tokens_per_round")
        for text, tokens in self.tokens_per_round.items():
            try:
                tree = read_shape(text)
            except ValueError as error:
                raise Contradiction(f"Expected {error}, found {text!r}.", "tokens_per_round", text) from None
            if tokens > tree.depth + 1:
                most = f"A round of {text} emits at most {tree.depth + 1} tokens"
                raise Contradiction(f"{most}, found {tokens:g}.", "tokens_per_round", text)

    @property
    def measured(self) -> dict[Shape, float]:
        """Tokens per round by tree."""
        return {read_shape(text): tokens for text, tokens in self.tokens_per_round.items()}

    @property
    def label(self) -> str:
        """The command-line form; of several trees the range of their tokens."""
        (tree, tokens), *others = self.measured.items()
        if not others:
            return f"length={tokens:g}@{tree.text}"
        low, high = min(self.tokens_per_round.values()), max(self.tokens_per_round.values())
        return f"length={low:g} to {high:g} of {len(self.measured)} trees"


VERIFICATIONS = ("multi-step", "without-replacement", "naive", "top-k", "greedy")
"""Rules among several candidates whose acceptance by rank does not depend on how many there are."""

_MOST_PAIRED = 2_000_000


@record
class Paired:
    """Probabilities of the next token by target and draft at the same positions of some texts.

    Attributes:
        target_probs: The target's, one list of all tokens for each position.
        draft_probs: The draft's.
        verification: The rule by which candidates are accepted.
    """

    kind: Literal["paired"] = "paired"
    target_probs: RanksByLevel
    draft_probs: RanksByLevel
    verification: Annotated[str, choice(*VERIFICATIONS)] = "multi-step"

    def __post_init__(self) -> None:
        shape = len(self.target_probs), len(self.target_probs[0])
        if len(self.draft_probs) != shape[0]:
            sentence = f"The target has {shape[0]} positions, and the draft {len(self.draft_probs)}."
            raise Contradiction(sentence, "draft_probs")
        if shape[0] * shape[1] > _MOST_PAIRED:
            raise Contradiction(f"At most {_MOST_PAIRED:,} probabilities are read.", "target_probs")
        for field_name in ("target_probs", "draft_probs"):
            for position, row in enumerate(getattr(self, field_name), start=1):
                if len(row) != shape[1]:
                    sentence = f"Position {position} has {len(row)} tokens, and position 1 of the target {shape[1]}."
                    raise Contradiction(sentence, field_name)
                total = math.fsum(row)
                if abs(total - 1) > SUM_WITHIN:
                    sentence = f"Probabilities of tokens sum to 1; those of position {position} sum to {total:.9g}."
                    raise Contradiction(sentence, field_name)

    @property
    def label(self) -> str:
        """How many positions, and by which rule; there is no form on one line."""
        return f"{len(self.target_probs)} paired positions, {self.verification}"


def listed(values: tuple[float, ...]) -> str:
    """Numbers as the command line takes them."""
    return ",".join(f"{value:g}" for value in values)
