"""Operators that mix the tokens of a sequence: attention of every kind, and layers with a state."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from specsim.cost.operators import Operator, matrix
from specsim.cost.passes import Array, Pass
from specsim.specs.attention import GroupedAttention, LatentAttention, linear_state_bytes
from specsim.specs.precision import SIXTEEN_BITS


def attention_operators(of: Pass) -> Iterator[Operator]:
    """Everything between the hidden state and the hidden state, over all layers, but for exchanges."""
    model = of.served.model
    if isinstance(model.attention, GroupedAttention):
        yield from _grouped(of, model.attention)
    else:
        yield from _latent(of, model.attention)
    if model.linear_attention is not None:
        yield from _linear(of)
    if model.encoder is not None:
        yield from _cross(of)


def _grouped(of: Pass, attention: GroupedAttention) -> Iterator[Operator]:
    model, shards = of.served.model, of.served.attention_shards
    hidden, layers = model.hidden_size, model.attention_layers
    queries = attention.query_width / shards
    kv = of.served.cached_values_per_device / 2
    first = queries * (2 if attention.output_gate else 1) + 2 * kv
    beside = model.norm_parameters + attention.qkv_bias * (queries + 2 * kv)
    beside += attention.query_key_norm * 2 * attention.head_dim
    yield matrix(of, "qkv", "attention", layers, (hidden, first), of.attention_tokens, beside)
    # Four operations for each pair of a query's value with a key's, or of a weight with a value.
    yield from _over_cache(of, 4 * queries, 2 * (queries + kv), attention.sinks * attention.heads / shards)
    # What attention gives is normed before it joins the hidden state, where the model does that.
    after = attention.output_bias * hidden + model.post_norms * model.norm_parameters
    yield matrix(of, "output", "attention", layers, (queries, hidden), of.attention_tokens, after)


def _latent(of: Pass, attention: LatentAttention) -> Iterator[Operator]:
    """Latent attention as engines decode with it: keys and values are never made, queries go to the latent space."""
    model, shards = of.served.model, of.served.attention_shards
    hidden, layers, tokens = model.hidden_size, model.attention_layers, of.attention_tokens
    heads, rank = attention.heads / shards, attention.kv_rank
    norms = model.norm_parameters + attention.query_rank + rank
    queries = attention.query_width / shards
    if attention.query_rank:
        yield matrix(of, "qkv_down", "attention", layers, (hidden, attention.down_width), tokens, norms)
        yield matrix(of, "query_up", "attention", layers, (attention.query_rank, queries), tokens)
    else:
        yield matrix(of, "qkv_down", "attention", layers, (hidden, attention.down_width + queries), tokens, norms)
    absorbed = heads * (attention.nope_dim + rank)
    yield matrix(of, "key_absorb", "attention", layers, (heads * attention.nope_dim, rank), tokens, 0, absorbed)
    # A query meets the latent vector and the position; its weights then add up latent vectors.
    per_pair = 2 * heads * (rank + attention.rope_dim) + 2 * heads * rank
    yield from _over_cache(of, per_pair, heads * (2 * rank + attention.rope_dim) + attention.cached_values, 0)
    raised = heads * (rank + attention.value_dim)
    yield matrix(of, "value_up", "attention", layers, (heads * rank, attention.value_dim), tokens, 0, raised)
    yield matrix(of, "output", "attention", layers, (heads * attention.value_dim, hidden), tokens)


def _over_cache(
    of: Pass, operations_per_pair: float, moved_values: float, small_parameters: float
) -> Iterator[Operator]:
    """Attention of layers that look at everything, and of those that look at a window."""
    model, context = of.served.model, of.context_length
    for name, kind, window in (("attention", "full", None), ("window_attention", "sliding", model.sliding_window)):
        layers = model.layers_of(kind)
        if layers:
            # A new token is the last one of its own window.
            in_reach = context if window is None else np.minimum(context, window - 1.0)
            per_token = of.served.cached_values_per_device * layers * of.served.kv_bytes_per_value
            pairs = _pairs(of.tokens_per_sequence, context, window)
            yield Operator(
                name=name,
                kind="attention",
                runs=layers,
                # The product over the batch comes last: it makes the array of all points.
                operations=operations_per_pair * layers * pairs * of.attention_sequences,
                stored_bytes=per_token * (of.attention_sequences * in_reach) + small_parameters * layers * SIXTEEN_BITS,
                activation_bytes=moved_values * layers * SIXTEEN_BITS * of.attention_tokens,
            )


def _pairs(tokens: Array, context: Array, window: int | None) -> Array:
    """Pairs of a new token of one sequence with a token that it looks at, itself included.

    New token i looks at the context and at new tokens 1 to i: in all n c + n (n + 1) / 2 pairs. Under a window of w
    no token looks at more than w: the first k = w - c tokens, if so many, see everything, the others w each.
    """
    if window is None:
        return tokens * (context + (tokens + 1) / 2)
    whole = np.clip(window - context, 0, tokens)
    return whole * (context + (whole + 1) / 2) + (tokens - whole) * window


def _linear(of: Pass) -> Iterator[Operator]:
    """Layers with a state, which is read once and written after every new token.

    A rejected draft cannot be taken out of a state, so the state after each token is kept until the target has
    judged; the state of the last accepted token is the one that the next round starts from.
    """
    model, shards = of.served.model, of.served.attention_shards
    linear = model.linear_attention
    if linear is None:
        return
    hidden, layers = model.hidden_size, model.layers_of("linear")
    beside = model.norm_parameters + linear.small_parameters / shards
    state = linear_state_bytes(linear) / shards * layers
    taken, given = linear.input_width / shards, linear.output_width / shards
    yield matrix(of, "linear_in", "attention", layers, (hidden, taken), of.attention_tokens, beside)
    arithmetic = (
        linear.operations_per_state_value * linear.state_values + 2 * linear.channels * linear.convolution_width
    )
    yield Operator(
        name="linear_attention",
        kind="attention",
        runs=layers,
        operations=arithmetic / shards * layers * of.attention_tokens,
        stored_bytes=state * of.attention_sequences,
        activation_bytes=(state + (taken + given) * layers * SIXTEEN_BITS) * of.attention_tokens,
    )
    yield matrix(of, "linear_out", "attention", layers, (given, hidden), of.attention_tokens)


def _cross(of: Pass) -> Iterator[Operator]:
    """Attention of every layer of a decoder over the source, whose keys and values are cached once for all."""
    served, model = of.served, of.served.model
    attention = model.attention
    if not isinstance(attention, GroupedAttention):
        return
    hidden, layers, shards = model.hidden_size, model.layers, served.attention_shards
    queries = attention.query_width / shards
    source = served.source_tokens
    beside = model.norm_parameters + attention.qkv_bias * queries + attention.query_key_norm * 2 * attention.head_dim
    yield matrix(of, "cross_query", "attention", layers, (hidden, queries), of.attention_tokens, beside)
    yield Operator(
        name="cross_attention",
        kind="attention",
        runs=layers,
        operations=4 * queries * layers * source * of.attention_tokens,
        stored_bytes=served.cached_values_per_device * layers * served.kv_bytes_per_value * source
        * of.attention_sequences,
        activation_bytes=2 * queries * layers * SIXTEEN_BITS * of.attention_tokens,
    )  # fmt: skip
    biases = attention.output_bias * hidden
    yield matrix(of, "cross_output", "attention", layers, (queries, hidden), of.attention_tokens, biases)
