"""Operators of the feed-forward part: one block for all tokens, or experts that each token chooses from."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import NormalDist

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
    inside = p // of.served.expert_parallel
    width = experts.intermediate_size / inside
    yield _expert_product(of, "experts_gate_up", (hidden, 2 * width), touched, rows, 2 * width * experts.bias)
    yield _expert_product(of, "experts_down", (width, hidden), touched, rows, hidden * experts.bias)
    if experts.shared:
        shared = experts.shared_width / p
        gate = experts.shared_gate * hidden
        yield matrix(of, "shared_gate_up", "mlp", layers, (hidden, 2 * shared), of.tokens, gate)
        yield matrix(of, "shared_down", "mlp", layers, (shared, hidden), of.tokens)


def _expert_product(
    of: Pass, name: str, shape: tuple[float, float], touched: Array, rows: Array, biases: float
) -> Operator:
    """The products of routed tokens with one matrix of every touched expert, of which a device has such a part."""
    precision, layers = of.served.precision, of.served.model.expert_layers
    inputs, outputs = shape
    weights = inputs * outputs * precision.bytes_of("experts") + biases * SIXTEEN_BITS
    return Operator(
        name=name,
        kind="matrix",
        runs=layers,
        operations=2 * inputs * outputs * layers * rows,
        rows=rows / touched,
        narrow=precision if precision.narrow and "experts" in precision.modules else None,
        stored_bytes=weights * layers * touched,
        activation_bytes=(inputs + outputs) * layers * SIXTEEN_BITS * rows,
    )


def distinct_experts(experts: Experts, sequences: Array, tokens_per_sequence: Array) -> Array:
    """Expected number of different experts that the tokens of a batch are sent to, in one layer.

    E (1 - (1 - k / E)^n) for n tokens that choose k of E experts evenly and each for itself. Tokens of one sequence
    that choose alike count for fewer: n = B (1 + (1 - correlation) (tokens - 1)).
    """
    tokens = sequences * (1 + (1 - experts.correlation) * (tokens_per_sequence - 1))
    if experts.top_k == experts.count:
        return np.full_like(tokens, float(experts.count))
    return -experts.count * np.expm1(tokens * np.log1p(-experts.top_k / experts.count))


def _busiest_group(of: Pass, experts: Experts) -> tuple[Array, Array]:
    """Touched experts, and tokens sent to them, in the group of experts that has most to do, in one layer.

    With one group these are all. Among several, loads are even on average and the largest one sets the pace.
    """
    groups = of.served.expert_parallel
    touched = distinct_experts(experts, of.stage_sequences, of.tokens_per_sequence)
    rows = experts.top_k * of.tokens
    if groups == 1:
        return touched, rows
    most = np.maximum(_largest_of(groups, experts.count // groups, touched / experts.count), 1.0)
    # The largest of as many normal loads lies so many deviations above their mean (Blom's approximation).
    above = NormalDist().inv_cdf((groups - 0.375) / (groups + 0.25))
    sent = rows / groups + above * np.sqrt(rows / groups * (1 - 1 / groups))
    return most, np.maximum(sent, most)


def _largest_of(groups: int, own: int, touched_share: Array) -> Array:
    """Expected touched experts of the group with most, where each group's own are touched with a probability each.

    The sum over m of 1 - F(m)^groups, with F the distribution of a binomial.
    """
    rest = np.maximum(1 - touched_share, np.finfo(float).tiny)
    odds = touched_share / rest
    exactly = rest**own
    up_to = np.zeros_like(touched_share)
    largest = np.zeros_like(touched_share)
    for m in range(own):
        up_to = np.minimum(up_to + exactly, 1.0)
        largest = largest + (1 - up_to**groups)
        exactly = exactly * odds * ((own - m) / (m + 1))
    return largest


def groups_of_a_token(experts: Experts, groups: int) -> float:
    """Expected number of groups of experts that the choices of one token fall into."""
    own = experts.count // groups
    missed = 1.0
    for choice in range(experts.top_k):
        missed *= max(experts.count - own - choice, 0) / (experts.count - choice)
    return groups * (1 - missed)
