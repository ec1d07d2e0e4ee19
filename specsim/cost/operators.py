"""The operators of a pass: what one device computes, reads and sends, as arrays.

One multiply-add is two operations. Weights are read once per pass. The cache is read once per sequence, however
many new tokens look at it; what the new tokens themselves add to it counts among the activations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from specsim.cost.passes import Array, Pass
from specsim.specs.precision import ACTIVATION_BYTES

OperatorKind = Literal["matrix", "attention", "lookup", "all_reduce"]

NOTHING = np.zeros(())
"""No operations, no bytes: broadcasts against everything."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Operator:
    """All runs of one operator in a pass, on one device.

    Attributes:
        name: What it is called in a transformer layer.
        kind: ``matrix`` product, ``attention`` over the cache, ``lookup`` of rows, or ``all_reduce``.
        runs: How often it runs: once a layer, or once.
        operations: Arithmetic.
        stored_bytes: Weights and cached keys and values that are read [bytes].
        activation_bytes: Activations and logits that are read and written [bytes].
        message_bytes: What is reduced over the devices [bytes].
    """

    name: str
    kind: OperatorKind
    runs: int
    operations: Array = field(default_factory=lambda: NOTHING)
    stored_bytes: Array = field(default_factory=lambda: NOTHING)
    activation_bytes: Array = field(default_factory=lambda: NOTHING)
    message_bytes: Array = field(default_factory=lambda: NOTHING)


def operators(of: Pass) -> tuple[Operator, ...]:
    """Operators of one pass of a dense decoder-only model, in the order in which they run.

    Tensor parallelism over p devices splits heads, the feed-forward width and the vocabulary; key-value heads
    are replicated once p exceeds their number; two all-reduces a layer join the parts.
    """
    served, model, p = of.served, of.served.model, of.served.tensor_parallel
    attention, mlp, hidden, layers = model.attention, model.mlp, model.hidden_size, model.layers
    tokens = of.sequences * of.tokens_per_sequence
    norm = model.norm_parameters

    query_width = attention.heads * attention.head_dim / p
    kv_width = served.kv_heads_per_device * attention.head_dim
    qkv_width = query_width + 2 * kv_width
    up_width = mlp.intermediate_size * (2 if mlp.gated else 1) / p
    down_width = mlp.intermediate_size / p
    vocab_width = model.vocab_size / p

    def matrix(name: str, runs: int, rows: float, columns: float, extra_parameters: float) -> Operator:
        return Operator(
            name=name,
            kind="matrix",
            runs=runs,
            operations=2 * rows * columns * runs * tokens,
            stored_bytes=np.asarray((rows * columns + extra_parameters) * runs * served.precision.weight_bytes),
            activation_bytes=(rows + columns) * runs * ACTIVATION_BYTES * tokens,
        )

    # New token i attends to the cache and to new tokens 1 to i: on average to context + (n + 1) / 2 tokens.
    over_cache = Operator(
        name="attention",
        kind="attention",
        runs=layers,
        operations=4 * query_width * layers * tokens * (of.context_length + (of.tokens_per_sequence + 1) / 2),
        stored_bytes=served.kv_bytes_per_token * (of.sequences * of.context_length),
        activation_bytes=2 * (query_width + kv_width) * layers * ACTIVATION_BYTES * tokens,
    )
    found = [
        Operator(name="embedding", kind="lookup", runs=1, activation_bytes=2 * hidden * ACTIVATION_BYTES * tokens),
        matrix("qkv", layers, hidden, qkv_width, norm + attention.qkv_bias * qkv_width),
        over_cache,
        matrix("output", layers, query_width, hidden, attention.output_bias * hidden),
        matrix("gate_up" if mlp.gated else "up", layers, hidden, up_width, norm + mlp.bias * up_width),
        matrix("down", layers, down_width, hidden, mlp.bias * hidden),
        matrix("head", 1, hidden, vocab_width, norm),
        Operator(name="sampling", kind="lookup", runs=1, activation_bytes=vocab_width * ACTIVATION_BYTES * tokens),
    ]
    if p > 1:
        message = 2 * layers * hidden * ACTIVATION_BYTES * tokens
        found.append(Operator(name="all_reduce", kind="all_reduce", runs=2 * layers, message_bytes=message))
    return tuple(found)
