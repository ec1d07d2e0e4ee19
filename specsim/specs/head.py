"""Draft heads: small networks on top of a target's hidden states, by their shape."""

from __future__ import annotations

from typing import Annotated, Literal

from specsim.errors import Contradiction
from specsim.specs.attention import Attention, OnlyGroupedAttention
from specsim.specs.card import Card
from specsim.specs.feed_forward import Experts, Mlp
from specsim.specs.fields import Count, Tagged, record


@record
class _Head(Card):
    """What all draft heads share.

    Attributes:
        target: The model that it drafts for, by catalogue name.
        hidden_size: Width of its own hidden state.
        vocab_size: Rows of the target's table of tokens.
    """

    kind: Literal["head"] = "head"
    target: str
    hidden_size: Count
    vocab_size: Count


@record
class EagleHead(_Head):
    """EAGLE-1 and -2: one decoder layer without its first norm, and a projection of token and hidden state to one.

    Table and head are the target's; each draft step still reads the head.
    """

    method: Literal["eagle"] = "eagle"
    attention: OnlyGroupedAttention
    mlp: Mlp

    @property
    def parameters(self) -> int:
        """Its own parameters."""
        h = self.hidden_size
        layer = self.attention.matrix_parameters(h) + self.attention.small_parameters(h) + h
        return int(layer + self.mlp.matrix_parameters(h) + self.mlp.small_parameters(h) + 2 * h * h + h)


@record
class Eagle3Head(_Head):
    """EAGLE-3: one decoder layer that takes token and hidden state side by side, with an output head of its own.

    Attributes:
        target_hidden_size: Width of the target's hidden states, three of which are joined once a round.
        draft_vocab_size: Tokens that its head knows.
    """

    method: Literal["eagle3"] = "eagle3"
    target_hidden_size: Count
    draft_vocab_size: Count
    attention: OnlyGroupedAttention
    mlp: Mlp

    def __post_init__(self) -> None:
        if self.draft_vocab_size > self.vocab_size:
            raise Contradiction(f"It knows more tokens than the {self.vocab_size} of the target.", "draft_vocab_size")

    @property
    def parameters(self) -> int:
        """Its own parameters; the table of tokens is a copy of the target's."""
        h = self.hidden_size
        layer = self.attention.matrix_parameters(h, input_size=2 * h) + self.attention.small_parameters(h)
        layer += self.mlp.matrix_parameters(h) + self.mlp.small_parameters(h)
        return int(layer + 3 * self.target_hidden_size * h + h * self.draft_vocab_size + 4 * h)


@record
class MedusaHeads(_Head):
    """Medusa: heads side by side, one for each position ahead, each with an output matrix of its own.

    Attributes:
        heads: How many, one for each position.
        layers_per_head: Residual blocks in each.
    """

    method: Literal["medusa"] = "medusa"
    heads: Count
    layers_per_head: Count = 1

    @property
    def parameters(self) -> int:
        """Its own parameters."""
        h = self.hidden_size
        return self.heads * (self.layers_per_head * (h * h + h) + self.vocab_size * h)


@record
class MtpModule(_Head):
    """A multi-token-prediction module: one whole layer of the target's kind behind a projection of two states to one.

    Table and head are the target's.
    """

    method: Literal["mtp"] = "mtp"
    attention: Attention
    mlp: Mlp | None = None
    experts: Experts | None = None

    def __post_init__(self) -> None:
        if (self.mlp is None) == (self.experts is None):
            raise Contradiction("One of mlp and experts is needed, and not both: a module has one layer.")

    @property
    def parameters(self) -> int:
        """Its own parameters: the layer with two norms, the projection, and three norms around it."""
        h = self.hidden_size
        found = self.attention.matrix_parameters(h) + self.attention.small_parameters(h) + 2 * h + 2 * h * h + 3 * h
        if self.mlp is not None:
            found += self.mlp.matrix_parameters(h) + self.mlp.small_parameters(h)
        if self.experts is not None:
            e = self.experts
            found += e.count * (e.expert_parameters(h) + h) + e.shared_parameters(h) + e.small_parameters(h)
        return int(found)


HEADS = (EagleHead, Eagle3Head, MedusaHeads, MtpModule)
Head = Annotated[EagleHead | Eagle3Head | MedusaHeads | MtpModule, Tagged("method", HEADS)]
