"""A transformer by its shape: the fields from which parameters, operations and bytes follow."""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated, Literal

from specsim.errors import Contradiction
from specsim.specs.attention import (
    Attention,
    GroupedAttention,
    LinearAttention,
    linear_matrix_parameters,
    linear_state_bytes,
)
from specsim.specs.card import Card
from specsim.specs.feed_forward import Experts, Mlp
from specsim.specs.fields import Count, CountOrZero, Flag, choice, record, tuple_of
from specsim.specs.precision import PRECISIONS, Module, PrecisionName

LAYER_KINDS = ("full", "sliding", "linear")


class Modules(defaultdict[Module, float]):
    """Parameters by module; what is not named is not there."""

    def __init__(self) -> None:
        super().__init__(float)


@record
class Encoder:
    """An encoder in front of the decoder, whose layers have the shape of the decoder's own (T5).

    Every layer of the decoder then has a second attention, over what the encoder made of the source text.
    """

    layers: Count


@record
class Model(Card):
    """A transformer: a decoder, with an encoder in front of it if it has one.

    Parameter counts follow the layout of the Hugging Face implementations and are exact.

    Attributes:
        published_precision: Number format in which the weights are published, and served if no other is asked for.
        layers: Layers of the decoder; draft heads that are stored with a model are not counted.
        attention: What layers of the kinds ``full`` and ``sliding`` have.
        linear_attention: What layers of the kind ``linear`` have.
        layer_pattern: Kinds of the first layers, repeated to the last one.
        sliding_window: Tokens that a layer of the kind ``sliding`` looks at, the new one included.
        mlp: The feed-forward part of layers without experts.
        experts: That of the other layers.
        post_norms: Whether what attention and feed-forward part give is normed too (Gemma 2 and 3).
        learned_position_rows: Rows of a table of positions (OPT).
        relative_position_buckets: Rows of a table of distances, one for each stack of layers (T5).
    """

    kind: Literal["model"] = "model"
    published_precision: PrecisionName = PRECISIONS["bf16"]
    layers: Count
    hidden_size: Count
    vocab_size: Count
    max_positions: Count
    attention: Attention
    linear_attention: LinearAttention | None = None
    layer_pattern: Annotated[tuple[str, ...], tuple_of(choice(*LAYER_KINDS), what="kinds of layers")] = ("full",)
    sliding_window: Count | None = None
    mlp: Mlp | None = None
    experts: Experts | None = None
    encoder: Encoder | None = None
    tied_embeddings: Flag = False
    norm: Annotated[str, choice("rmsnorm", "layernorm")] = "rmsnorm"
    post_norms: Flag = False
    learned_position_rows: CountOrZero = 0
    relative_position_buckets: CountOrZero = 0

    def __post_init__(self) -> None:
        if ("sliding" in self.layer_pattern) != (self.sliding_window is not None):
            _refuse_half("sliding_window", "sliding", self.sliding_window is None)
        if ("linear" in self.layer_pattern) != (self.linear_attention is not None):
            _refuse_half("linear_attention", "linear", self.linear_attention is None)
        if len(self.layer_pattern) > self.layers:
            sentence = f"It names {len(self.layer_pattern)} layers, and the model has {self.layers}."
            raise Contradiction(sentence, "layer_pattern")
        if self.mlp is None and self.experts is None:
            raise Contradiction("mlp or experts are needed: this model has no feed-forward part.")
        if self.experts is not None and not self.expert_layers:
            raise Contradiction(f"None of the {self.layers} layers has experts by these figures.", "experts")
        if self.mlp is None and self.dense_layers:
            raise Contradiction(f"{self.dense_layers} layers have no experts and need an mlp.", "experts")
        if self.mlp is not None and not self.dense_layers:
            raise Contradiction("Every layer has experts, so this mlp is never used; leave it out.", "mlp")
        if self.encoder is not None and (
            not isinstance(self.attention, GroupedAttention) or self.experts is not None or self.layer_pattern != _FULL
        ):
            raise Contradiction(
                "An encoder is modelled beside full grouped attention and an mlp only, not with latent, sliding or "
                "linear attention or with experts.",
                "encoder",
            )

    def layers_of(self, kind: str) -> int:
        """How many layers are ``full``, ``sliding`` or ``linear``."""
        whole, rest = divmod(self.layers, len(self.layer_pattern))
        return whole * self.layer_pattern.count(kind) + self.layer_pattern[:rest].count(kind)

    @property
    def attention_layers(self) -> int:
        """Layers that keep keys and values of tokens."""
        return self.layers - self.layers_of("linear")

    @property
    def expert_layers(self) -> int:
        """Layers with experts."""
        return 0 if self.experts is None else self.experts.layers_among(self.layers)

    @property
    def dense_layers(self) -> int:
        """Layers without experts."""
        return self.layers - self.expert_layers

    @property
    def norm_parameters(self) -> int:
        """Parameters of one normalisation: a scale, and a shift where it is a layer norm."""
        return self.hidden_size * (2 if self.norm == "layernorm" else 1)

    @property
    def norms_per_layer(self) -> int:
        """Normalisations of the hidden state in one layer of the decoder."""
        return (4 if self.post_norms else 2) + (self.encoder is not None)

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the input embedding table."""
        return self.vocab_size * self.hidden_size

    def decoder_modules(self, attention_shards: int = 1, shards: int = 1) -> Modules:
        """Parameters of the decoder's layers by module, without tables, on one of so many devices.

        Norms, biases and routers are whole on every device.

        Args:
            attention_shards: Devices that split what mixes tokens.
            shards: Devices that split everything else.
        """
        h, found = self.hidden_size, Modules()
        attention = self.attention
        stacks = 2 if self.encoder is not None else 1
        found["attention"] += stacks * self.attention_layers * attention.matrix_parameters(h, attention_shards)
        found["small"] += stacks * self.attention_layers * attention.small_parameters(h)
        if self.linear_attention is not None:
            layers, linear = self.layers_of("linear"), self.linear_attention
            found["attention"] += layers * linear_matrix_parameters(linear, h) / attention_shards
            found["small"] += layers * linear.small_parameters
        if self.mlp is not None:
            found["mlp"] += self.dense_layers * self.mlp.matrix_parameters(h) / shards
            found["small"] += self.dense_layers * self.mlp.small_parameters(h)
        if self.experts is not None:
            layers, experts = self.expert_layers, self.experts
            found["experts"] += layers * experts.count * experts.expert_parameters(h) / shards
            found["mlp"] += layers * experts.shared_parameters(h) / shards
            found["router"] += layers * experts.count * h
            found["small"] += layers * experts.small_parameters(h)
        found["small"] += (self.layers * self.norms_per_layer + 1) * self.norm_parameters
        found["small"] += self._distances
        return found

    def encoder_modules(self, attention_shards: int = 1, shards: int = 1) -> Modules:
        """The same for the encoder's layers, which no decoding step reads."""
        found, h = Modules(), self.hidden_size
        if self.encoder is not None and self.mlp is not None:
            n = self.encoder.layers
            found["attention"] += n * self.attention.matrix_parameters(h, attention_shards)
            found["mlp"] += n * self.mlp.matrix_parameters(h) / shards
            found["small"] += n * (self.attention.small_parameters(h) + self.mlp.small_parameters(h))
            found["small"] += (2 * n + 1) * self.norm_parameters + self._distances
        return found

    def table_modules(self, shards: int = 1) -> Modules:
        """Tables of tokens and positions on one of so many devices; a tied table counts once, as the head."""
        found = Modules()
        found["head"] += self.embedding_parameters / shards
        found["embedding"] += 0 if self.tied_embeddings else self.embedding_parameters / shards
        found["small"] += self.learned_position_rows * self.hidden_size
        return found

    @property
    def _distances(self) -> int:
        return self.relative_position_buckets * self.attention.heads

    @property
    def parameters(self) -> int:
        """All parameters; a tied table counts once."""
        parts = (self.decoder_modules(), self.encoder_modules(), self.table_modules())
        return int(sum(sum(part.values()) for part in parts))

    @property
    def active_parameters(self) -> int:
        """Parameters that one token meets: of the experts only those it is sent to; both tables count."""
        return self.parameters - self._resting_experts

    @property
    def active_parameters_without_embedding(self) -> int:
        """The same without an untied input table, of which a token reads one row."""
        return self.active_parameters - (0 if self.tied_embeddings else self.embedding_parameters)

    @property
    def streamed_parameters(self) -> int:
        """Parameters that a pass of one token reads: no table of looked-up rows, no encoder, no resting experts.

        A cross-attention's projections of keys and values rest too: they have run once, over the source.
        """
        decoder = int(sum(self.decoder_modules().values())) + self.embedding_parameters
        return decoder - self._resting_experts - self._resting_projections - self._distances

    @property
    def _resting_experts(self) -> int:
        if self.experts is None:
            return 0
        one = self.experts.expert_parameters(self.hidden_size) + self.experts.expert_biases(self.hidden_size)
        return self.expert_layers * (self.experts.count - self.experts.top_k) * one

    @property
    def _resting_projections(self) -> int:
        if self.encoder is None or not isinstance(self.attention, GroupedAttention):
            return 0
        biases = 2 * self.attention.kv_width * self.attention.qkv_bias
        return self.layers * (2 * self.attention.kv_width * self.hidden_size + biases)

    @property
    def state_bytes(self) -> float:
        """Bytes of the states that one sequence keeps in all layers of the kind ``linear``."""
        if self.linear_attention is None:
            return 0.0
        return self.layers_of("linear") * linear_state_bytes(self.linear_attention)


_FULL = ("full",)


def _refuse_half(field: str, kind: str, missing: bool) -> None:
    if missing:
        raise Contradiction(f"Layers of the kind {kind} need {field}.", "layer_pattern")
    raise Contradiction(f"No layer in layer_pattern is of the kind {kind}, so this says nothing.", field)
