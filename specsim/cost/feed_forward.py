"""Operators of the feed-forward part: one block for all tokens, or experts that each token chooses from."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from specsim.cost.operators import Operator, matrix
from specsim.cost.passes import Array, Pass
from specsim.specs.feed_forward import Experts
from specsim.specs.precision import SIXTEEN_BITS


def feed_forward_operators(of: Pass) -> Iterator[Operator]:
    """The feed-forward part of all layers but for exchanges."""
    model, p = of.served.model, of.served.tensor_parallel
    hidden, mlp, layers = model.hidden_size, model.mlp, model.dense_layers
    norm, after = model.norm_parameters, model.post_norms * model.norm_parameters
    if mlp is not None:
        name, up, down = "gate_up" if mlp.gated else "up", mlp.up_width / p, mlp.intermediate_size / p
        yield matrix(of, name, "mlp", layers, (hidden, up), of.tokens, norm + mlp.bias * up)
        yield matrix(of, "down", "mlp", layers, (down, hidden), of.tokens, mlp.bias * hidden + after)
    if model.experts is not None:
        yield from _mixture(of, model.experts, norm + after)


def _mixture(of: Pass, experts: Experts, norms: int) -> Iterator[Operator]:
    model, p = of.served.model, of.served.tensor_parallel
    hidden, layers = model.hidden_size, model.expert_layers
    bias = experts.router_bias * experts.count
    yield matrix(of, "router", "router", layers, (hidden, experts.count), of.tokens, norms + bias)
    touched, rows = _busiest_group(of, experts)
    width = experts.intermediate_size
    for name, shape, biases in (
        ("experts_gate_up", (hidden, 2 * width), 2 * width * experts.bias),
        ("experts_down", (width, hidden), hidden * experts.bias),
    ):
        yield _expert_product(of, name, layers, shape, touched, rows, biases)
    if experts.shared:
        shared = experts.shared_width / p
        gate = experts.shared_gate * hidden
        yield matrix(of, "shared_gate_up", "mlp", layers, (hidden, 2 * shared), of.tokens, gate)
        yield matrix(of, "shared_down", "mlp", layers, (shared, hidden), of.tokens)


def _expert_product(
    of: Pass, name: str, layers: int, shape: tuple[int, int], touched: Array, rows: Array, biases: int
) -> Operator:
    """The products of routed tokens with one matrix of every touched expert, each split inside its group."""
    served = of.served
    inside = served.tensor_parallel // served.expert_parallel
    inputs, outputs = shape
    weights = inputs * outputs * served.precision.bytes_of("experts") + biases * SIXTEEN_BITS
    return Operator(
        name=name,
        kind="matrix",
        runs=layers,
        operations=2 * inputs * outputs / inside * layers * rows,
        rows=rows / touched,
        narrow=served.precision if served.precision.narrow and "experts" in served.precision.modules else None,
        stored_bytes=weights / inside * layers * touched,
        activation_bytes=(inputs + outputs) / inside * layers * SIXTEEN_BITS * rows,
    )


def distinct_experts(experts: Experts, sequences: Array, tokens_per_sequence: Array) -> Array:
    """Expected number of different experts that the tokens of a batch are sent to, in one layer.

    E (1 - (1 - k / E)^n) for n tokens that choose k of E experts evenly and each for itself. Tokens of one sequence
    that choose alike count for fewer: n = B (1 + (1 - correlation) (tokens - 1)).
    """
    independent = sequences * (1 + (1 - experts.correlation) * (tokens_per_sequence - 1))
    return _expected(experts.count, experts.top_k, independent)


def _expected(count: int, top_k: int, tokens: Array) -> Array:
    if top_k == count:
        return np.full_like(tokens, float(count))
    return -count * np.expm1(tokens * np.log1p(-top_k / count))


def _busiest_group(of: Pass, experts: Experts) -> tuple[Array, Array]:
    """Touched experts, and tokens sent to them, in the group of experts that has most to do, in one layer.

    With one group these are all. Among e groups the largest of e even but random loads is expected sqrt(2 ln e)
    standard deviations above their mean; a group has no more than its own experts.
    """
    groups = of.served.expert_parallel
    touched = distinct_experts(experts, of.stage_sequences, of.tokens_per_sequence)
    rows = experts.top_k * of.tokens
    if groups == 1:
        return touched, rows
    above = np.sqrt(2 * np.log(groups))
    spread = np.sqrt(touched / groups * (1 - touched / experts.count))
    most = np.minimum(touched / groups + above * spread, experts.count / groups)
    return most, rows / groups + above * np.sqrt(rows / groups * (1 - 1 / groups))
