"""What mixes the tokens of a sequence in one layer: attention over a cache, or a state of fixed size."""

from __future__ import annotations

from typing import Annotated, Literal

from specsim.errors import Contradiction
from specsim.specs.fields import Count, CountOrZero, Flag, Tagged, choice, record


@record
class GroupedAttention:
    """Query heads in groups that share a key and a value; ``kv_heads`` equal to ``heads`` is multi-head attention.

    Attributes:
        query_key_norm: A norm over each head's queries and keys (Qwen3, Gemma 3).
        sinks: A learned logit for each head that takes part in every softmax (gpt-oss).
        output_gate: A gate beside the queries, as wide as they are (Qwen3-Next).
    """

    kind: Literal["grouped"] = "grouped"
    heads: Count
    kv_heads: Count
    head_dim: Count
    qkv_bias: Flag = False
    output_bias: Flag = False
    query_key_norm: Flag = False
    sinks: Flag = False
    output_gate: Flag = False

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise Contradiction(f"{self.kv_heads} kv_heads do not divide {self.heads} heads.", "kv_heads")

    @property
    def query_width(self) -> int:
        """Values of all query heads."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Values of all keys of one token, and of all its values."""
        return self.kv_heads * self.head_dim

    def kv_width_on(self, shards: int) -> float:
        """The part of ``kv_width`` on one of so many devices; heads are replicated when there are fewer of them."""
        return max(self.kv_heads / shards, 1) * self.head_dim

    def matrix_parameters(self, hidden_size: int, shards: int = 1, *, input_size: int | None = None) -> float:
        """Weights of the projections in and out on one of so many devices.

        The input may be wider than the output (EAGLE-3).
        """
        queries = self.query_width / shards
        first = queries * (2 if self.output_gate else 1) + 2 * self.kv_width_on(shards)
        return (input_size or hidden_size) * first + queries * hidden_size

    def small_parameters(self, hidden_size: int) -> int:
        """Biases, norms of queries and keys, and sinks."""
        return (
            self.qkv_bias * (self.query_width + 2 * self.kv_width)
            + self.output_bias * hidden_size
            + self.query_key_norm * 2 * self.head_dim
            + self.sinks * self.heads
        )

    @property
    def cached_values(self) -> int:
        """Cached values of one token in one layer, over all devices."""
        return 2 * self.kv_width


@record
class LatentAttention:
    """Multi-head latent attention: keys and values of all heads come from one cached vector (DeepSeek-V2).

    Attributes:
        query_rank: Width of the queries' own bottleneck, 0 where queries come straight from the hidden state.
        kv_rank: Width of the cached vector (kv_lora_rank).
        nope_dim: Width of a head's query and key without a position.
        rope_dim: Width of the part that carries the position, cached once for all heads.
        value_dim: Width of a head's value.
    """

    kind: Literal["latent"] = "latent"
    heads: Count
    query_rank: CountOrZero = 0
    kv_rank: Count
    nope_dim: Count
    rope_dim: Count
    value_dim: Count

    @property
    def query_width(self) -> int:
        """Values of all query heads."""
        return self.heads * (self.nope_dim + self.rope_dim)

    @property
    def down_width(self) -> int:
        """Values that the first projection makes: both bottlenecks and the shared position."""
        return self.query_rank + self.kv_rank + self.rope_dim

    def matrix_parameters(self, hidden_size: int, shards: int = 1) -> float:
        """Weights of all projections on one of so many devices; those to the bottlenecks are whole on each."""
        heads = self.heads / shards
        queries = (self.query_rank or hidden_size) * (self.nope_dim + self.rope_dim)
        up = self.kv_rank * (self.nope_dim + self.value_dim)
        return hidden_size * self.down_width + heads * (queries + up + self.value_dim * hidden_size)

    def small_parameters(self, hidden_size: int) -> int:
        """The norms of both bottlenecks."""
        return self.query_rank + self.kv_rank

    @property
    def cached_values(self) -> int:
        """Cached values of one token in one layer; every device holds all of them."""
        return self.kv_rank + self.rope_dim


Attention = Annotated[
    GroupedAttention | LatentAttention, Tagged("kind", (GroupedAttention, LatentAttention), default="grouped")
]

OnlyGroupedAttention = Annotated[GroupedAttention, Tagged("kind", (GroupedAttention,), default="grouped")]
"""Where latent attention has no meaning."""

STATE_BYTES = {"fp32": 4.0, "bf16": 2.0}
"""Bytes of one value of a recurrent state by the name of its format."""


@record
class GatedDelta:
    """A gated delta rule: linear attention whose state is a matrix for each value head (Qwen3-Next, Qwen3.5).

    Attributes:
        convolution_width: Tokens that the causal convolution before it looks at.
        state_precision: Number format of the state.
    """

    kind: Literal["gated_delta"] = "gated_delta"
    key_heads: Count
    value_heads: Count
    key_head_dim: Count
    value_head_dim: Count
    convolution_width: Count = 4
    state_precision: Annotated[str, choice(*STATE_BYTES)] = "fp32"

    def __post_init__(self) -> None:
        if self.value_heads % self.key_heads:
            raise Contradiction(
                f"{self.key_heads} key_heads do not divide {self.value_heads} value_heads.", "key_heads"
            )

    @property
    def heads(self) -> int:
        """Heads that devices may share out."""
        return self.key_heads

    @property
    def channels(self) -> int:
        """Channels of the convolution: queries, keys and values."""
        return 2 * self.key_heads * self.key_head_dim + self.output_width

    @property
    def input_width(self) -> int:
        """Values that the projection in makes: the channels, an output gate, a decay and a step for each head."""
        return self.channels + self.output_width + 2 * self.value_heads

    @property
    def output_width(self) -> int:
        """Values that the projection out takes."""
        return self.value_heads * self.value_head_dim

    @property
    def small_parameters(self) -> int:
        """The convolution, decays, steps and the norm of a head."""
        return self.channels * self.convolution_width + 2 * self.value_heads + self.value_head_dim

    @property
    def state_values(self) -> int:
        """Values of the recurrent state of one sequence in one layer."""
        return self.value_heads * self.key_head_dim * self.value_head_dim

    operations_per_state_value = 7
    """Decay 1; state times key, outer product, state times query 2 each."""


@record
class Mamba2:
    """A state-space layer of the Mamba-2 kind.

    Attributes:
        groups: Groups of heads that share input and output vectors of the state.
        state_size: Width of the state of one channel.
        convolution_width: Tokens that the causal convolution before it looks at.
        state_precision: Number format of the state.
    """

    kind: Literal["mamba2"] = "mamba2"
    heads: Count
    head_dim: Count
    groups: Count = 1
    state_size: Count
    convolution_width: Count = 4
    state_precision: Annotated[str, choice(*STATE_BYTES)] = "fp32"

    def __post_init__(self) -> None:
        if self.heads % self.groups:
            raise Contradiction(f"{self.groups} groups do not divide {self.heads} heads.", "groups")

    @property
    def channels(self) -> int:
        """Channels of the convolution: the values, and both vectors of the state."""
        return self.output_width + 2 * self.groups * self.state_size

    @property
    def input_width(self) -> int:
        """Values that the projection in makes: the channels, a gate, and a step for each head."""
        return self.channels + self.output_width + self.heads

    @property
    def output_width(self) -> int:
        """Values that the projection out takes."""
        return self.heads * self.head_dim

    @property
    def small_parameters(self) -> int:
        """The convolution with its bias, three numbers a head, and the norm of the output."""
        return self.channels * (self.convolution_width + 1) + 3 * self.heads + self.output_width

    @property
    def state_values(self) -> int:
        """Values of the recurrent state of one sequence in one layer."""
        return self.heads * self.head_dim * self.state_size

    operations_per_state_value = 5
    """Decay 1; outer product, state times output vector 2 each."""


LinearAttention = Annotated[GatedDelta | Mamba2, Tagged("kind", (GatedDelta, Mamba2))]


def linear_matrix_parameters(of: GatedDelta | Mamba2, hidden_size: int) -> int:
    """Weights of the projections in and out of a layer with a state."""
    return hidden_size * (of.input_width + of.output_width)


def linear_state_bytes(of: GatedDelta | Mamba2) -> float:
    """Bytes that one sequence keeps in one layer: its state, and the convolution's last tokens in 16 bits."""
    return STATE_BYTES[of.state_precision] * of.state_values + 2.0 * (of.convolution_width - 1) * of.channels
