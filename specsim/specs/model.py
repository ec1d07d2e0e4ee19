"""A transformer by its shape: the fields from which parameters, operations and bytes follow."""

from __future__ import annotations

from typing import Annotated, Literal

from specsim.errors import Contradiction
from specsim.specs.card import Card
from specsim.specs.fields import Count, CountOrZero, Flag, choice, record
from specsim.specs.precision import KV_BYTES, Precision, PrecisionName


@record
class Attention:
    """Full attention with grouped query heads (``kv_heads`` equal to ``heads`` is multi-head attention)."""

    heads: Count
    kv_heads: Count
    head_dim: Count
    qkv_bias: Flag = False
    output_bias: Flag = False

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise Contradiction(f"{self.kv_heads} kv_heads do not divide {self.heads} heads.", "kv_heads")


@record
class Mlp:
    """The feed-forward part of a layer; ``gated`` has two input matrices (SwiGLU and its kin)."""

    intermediate_size: Count
    gated: Flag = True
    bias: Flag = False


@record
class Model(Card):
    """A dense decoder-only transformer.

    Parameter counts follow the layout of the Hugging Face implementations and are exact.
    """

    kind: Literal["model"] = "model"
    layers: Count
    hidden_size: Count
    vocab_size: Count
    max_positions: Count
    attention: Attention
    mlp: Mlp
    tied_embeddings: Flag = False
    norm: Annotated[str, choice("rmsnorm", "layernorm")] = "rmsnorm"
    learned_position_rows: CountOrZero = 0

    @property
    def norm_parameters(self) -> int:
        """Parameters of one normalisation: a scale, and a shift where it is a layer norm."""
        return self.hidden_size * (2 if self.norm == "layernorm" else 1)

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer."""
        a, m, h = self.attention, self.mlp, self.hidden_size
        qkv = (a.heads + 2 * a.kv_heads) * a.head_dim
        output = a.heads * a.head_dim * h
        up = m.intermediate_size * (2 if m.gated else 1)
        biases = a.qkv_bias * qkv + a.output_bias * h + m.bias * (up + h)
        return h * qkv + output + h * up + m.intermediate_size * h + biases + 2 * self.norm_parameters

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the input embedding table."""
        return self.vocab_size * self.hidden_size

    @property
    def parameters(self) -> int:
        """All parameters; a tied table counts once."""
        tables = self.embedding_parameters * (1 if self.tied_embeddings else 2)
        positions = self.learned_position_rows * self.hidden_size
        return self.layers * self.layer_parameters + tables + positions + self.norm_parameters

    @property
    def streamed_parameters(self) -> int:
        """Parameters that every pass reads: all but tables of which only looked-up rows are read."""
        positions = self.learned_position_rows * self.hidden_size
        lookup = 0 if self.tied_embeddings else self.embedding_parameters
        return self.parameters - lookup - positions


@record
class ServedModel:
    """A model as it is served: its number formats and over how many devices its tensors are split."""

    model: Model
    precision: PrecisionName
    kv_precision: Annotated[str, choice(*KV_BYTES)]
    tensor_parallel: Count = 1

    def __post_init__(self) -> None:
        heads = self.model.attention.heads
        if heads % self.tensor_parallel:
            name = self.model.name
            sentence = f"tensor_parallel {self.tensor_parallel} does not divide the {heads} heads of {name}."
            raise Contradiction(sentence, "tensor_parallel")

    @property
    def weight_bytes(self) -> float:
        """Bytes of all weights, over all devices."""
        precision: Precision = self.precision
        return self.model.parameters * precision.weight_bytes

    @property
    def kv_heads_per_device(self) -> float:
        """Key-value heads that one device holds; heads are replicated when there are more devices than heads."""
        return max(self.model.attention.kv_heads / self.tensor_parallel, 1.0)

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes of cache that one token takes on one device, over all layers."""
        return (
            2
            * self.kv_heads_per_device
            * self.model.attention.head_dim
            * self.model.layers
            * KV_BYTES[self.kv_precision]
        )
