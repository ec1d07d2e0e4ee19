"""The operators of a pass: what one device computes, reads and sends, as arrays.

One multiply-add is two operations. Weights are read once per pass. The cache is read once per sequence, however
many new tokens look at it; what the new tokens themselves add to it counts among the activations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from specsim.cost.passes import Array, Pass
from specsim.specs.precision import ACTIVATION_BYTES

OperatorKind = Literal["matrix", "attention", "lookup", "all_reduce"]


@dataclass(frozen=True, eq=False)
class Operator:
    """One operator on one device.

    Attributes:
        name: What it is called in a transformer layer.
        kind: ``matrix`` product, ``attention`` over the cache, ``lookup`` of rows, or ``all_reduce``.
        count: How often it runs in one pass.
        operations: Arithmetic of one run.
        weight_bytes: Weights that one run reads [bytes].
        cache_bytes: Cached keys and values that one run reads [bytes].
        activation_bytes: Activations and logits that one run reads and writes [bytes].
        message_bytes: What one run reduces over the devices [bytes].
    """

    name: str
    kind: OperatorKind
    count: int
    operations: Array
    weight_bytes: float
    cache_bytes: Array
    activation_bytes: Array
    message_bytes: Array


_NOTHING = np.zeros(())


def operators(of: Pass) -> tuple[Operator, ...]:
    """Operators of one pass of a dense decoder-only model, in the order in which they run.

    Tensor parallelism over p devices splits heads, the feed-forward width and the vocabulary; key-value heads
    are replicated once p exceeds their number; two all-reduces a layer join the parts.
    """
    served, model = of.served, of.served.model
    p = served.tensor_parallel
    attention, mlp, hidden = model.attention, model.mlp, model.hidden_size
    tokens = of.sequences * of.tokens_per_sequence
    norm = model.norm_parameters

    query_width = attention.heads * attention.head_dim / p
    kv_width = served.kv_heads_per_device * attention.head_dim
    qkv_width = query_width + 2 * kv_width
    up_width = mlp.intermediate_size * (2 if mlp.gated else 1) / p
    down_width = mlp.intermediate_size / p
    vocab_width = model.vocab_size / p

    def matrix(name: str, count: int, rows: float, columns: float, extra_parameters: float) -> Operator:
        return Operator(
            name=name,
            kind="matrix",
            count=count,
            operations=2 * rows * columns * tokens,
            weight_bytes=(rows * columns + extra_parameters) * served.precision.weight_bytes,
            cache_bytes=_NOTHING,
            activation_bytes=(rows + columns) * ACTIVATION_BYTES * tokens,
            message_bytes=_NOTHING,
        )

    def lookup(name: str, width: float) -> Operator:
        return Operator(name, "lookup", 1, _NOTHING, 0.0, _NOTHING, width * ACTIVATION_BYTES * tokens, _NOTHING)

    # New token i attends to the cache and to new tokens 1 to i.
    n = of.tokens_per_sequence
    looked_at = tokens * (of.context_length + (n + 1) / 2)
    over_cache = Operator(
        name="attention",
        kind="attention",
        count=model.layers,
        operations=4 * query_width * looked_at,
        weight_bytes=0.0,
        cache_bytes=served.kv_bytes_per_token / model.layers * (of.sequences * of.context_length),
        activation_bytes=(2 * query_width + 2 * kv_width) * ACTIVATION_BYTES * tokens,
        message_bytes=_NOTHING,
    )
    layers = model.layers
    found = [
        lookup("embedding", 2 * hidden),
        matrix("qkv", layers, hidden, qkv_width, norm + attention.qkv_bias * qkv_width),
        over_cache,
        matrix("output", layers, query_width, hidden, attention.output_bias * hidden),
        matrix("gate_up" if mlp.gated else "up", layers, hidden, up_width, norm + mlp.bias * up_width),
        matrix("down", layers, down_width, hidden, mlp.bias * hidden),
        matrix("head", 1, hidden, vocab_width, norm),
        lookup("sampling", vocab_width),
    ]
    if p > 1:
        message = hidden * ACTIVATION_BYTES * tokens
        found.append(Operator("all_reduce", "all_reduce", 2 * layers, _NOTHING, 0.0, _NOTHING, _NOTHING, message))
    return tuple(found)
