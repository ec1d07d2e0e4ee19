"""A model as it is served: its number formats, and how it is laid out over devices."""

from __future__ import annotations

from typing import Annotated

from specsim.errors import Contradiction
from specsim.specs.attention import GroupedAttention
from specsim.specs.fields import Count, Length, Probability, choice, record
from specsim.specs.model import Model, Modules
from specsim.specs.precision import KV_BYTES, PrecisionName


@record
class ServedModel:
    """A model with its number formats and its layout.

    ``tensor_parallel`` devices work on every layer together; ``expert_parallel`` and ``attention_data_parallel``
    say how they share out experts and sequences in place of slices of matrices, as SGLang has it.

    Attributes:
        tensor_parallel: Devices that split each layer.
        pipeline_parallel: Stages, each with its part of the layers on ``tensor_parallel`` devices of its own.
        expert_parallel: Groups of those devices that hold whole experts; each expert is split inside its group.
        attention_data_parallel: Groups of those devices that run attention for a part of the batch each.
        offloaded: Share of the weights that stay in the memory of the host and come over its link in every pass.
        source_tokens: Tokens of source text that the encoder has read for each sequence.
    """

    model: Model
    precision: PrecisionName
    kv_precision: Annotated[str, choice(*KV_BYTES)]
    tensor_parallel: Count = 1
    pipeline_parallel: Count = 1
    expert_parallel: Count = 1
    attention_data_parallel: Count = 1
    offloaded: Probability = 0.0
    source_tokens: Length = 0

    def __post_init__(self) -> None:
        model, name = self.model, self.model.name
        for field in ("expert_parallel", "attention_data_parallel"):
            groups = getattr(self, field)
            if self.tensor_parallel % groups:
                sentence = f"{field} {groups} does not divide the {self.tensor_parallel} devices of tensor_parallel."
                raise Contradiction(sentence, field)
        if self.expert_parallel > 1 and model.experts is None:
            raise Contradiction(f"{name} has no experts.", "expert_parallel")
        if model.experts is not None and model.experts.count % self.expert_parallel:
            sentence = f"expert_parallel {self.expert_parallel} does not divide the {model.experts.count} experts."
            raise Contradiction(sentence, "expert_parallel")
        if self.pipeline_parallel > model.layers:
            raise Contradiction(f"{name} has only {model.layers} layers.", "pipeline_parallel")
        for heads in (model.attention.heads, model.linear_attention and model.linear_attention.heads):
            if heads and heads % self.attention_shards:
                of = (
                    f"tensor_parallel {self.tensor_parallel}"
                    if self.attention_data_parallel == 1
                    else f"tensor_parallel / attention_data_parallel {self.attention_shards}"
                )
                raise Contradiction(f"{of} does not divide the {heads} heads of {name}.", "tensor_parallel")
        if model.encoder is None and self.source_tokens:
            raise Contradiction(f"{name} has no encoder that would read a source.", "source_tokens")

    @property
    def devices(self) -> int:
        """Devices that the model is spread over."""
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def attention_shards(self) -> int:
        """Devices that split the heads of one sequence."""
        return self.tensor_parallel // self.attention_data_parallel

    def _bytes_of(self, modules: Modules) -> float:
        return sum(count * self.precision.bytes_of(module) for module, count in modules.items())

    @property
    def weight_bytes(self) -> float:
        """Bytes of all weights, each counted once."""
        model = self.model
        return sum(map(self._bytes_of, (model.decoder_modules(), model.encoder_modules(), model.table_modules())))

    @property
    def device_weight_bytes(self) -> float:
        """Bytes of weights on the device that holds most of them.

        In a pipeline the first stage holds the input table and the last one the head, which a tied table is both; the
        larger of the two counts. Of what is offloaded, two layers are on their way through a buffer.
        """
        model, shards = self.model, (self.attention_shards, self.tensor_parallel)
        layers = self._bytes_of(model.decoder_modules(*shards)) + self._bytes_of(model.encoder_modules(*shards))
        tables = model.table_modules(self.tensor_parallel)
        if self.pipeline_parallel > 1:
            bytes_of = self.precision.bytes_of
            input_is_larger = tables["embedding"] * bytes_of("embedding") > tables["head"] * bytes_of("head")
            tables["head" if input_is_larger else "embedding"] = 0.0
        whole = layers / self.pipeline_parallel + self._bytes_of(tables)
        buffer = 2 * layers / model.layers
        return whole * (1 - self.offloaded) + min(buffer, whole) * self.offloaded

    @property
    def kv_bytes_per_value(self) -> float:
        """Bytes of one cached value."""
        return KV_BYTES[self.kv_precision]

    @property
    def cached_values_per_device(self) -> float:
        """Cached values of one token in one layer on one device.

        Key-value heads are replicated when there are more devices than heads, and so is a latent vector always.
        """
        attention, shards = self.model.attention, self.attention_shards
        if isinstance(attention, GroupedAttention):
            return 2 * attention.kv_width_on(shards)
        return attention.cached_values

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes of cache that one token takes on one device while it is inside every window, over all stages."""
        return self.cached_values_per_device * self.model.attention_layers * self.kv_bytes_per_value
