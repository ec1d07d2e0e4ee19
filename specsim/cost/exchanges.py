"""What devices send each other in a pass, and how long that takes."""

from __future__ import annotations

from collections.abc import Iterator
import numpy as np

from specsim.cost.machine import Machine
from specsim.cost.operators import NOTHING, Operator, Pattern
from specsim.cost.passes import Array, Pass
from specsim.specs.precision import SIXTEEN_BITS

def exchange_operators(of: Pass) -> Iterator[Operator]:
    """All exchanges of a pass.

    Two all-reduces a layer join the parts of attention and feed-forward, three where there is cross-attention. With
    attention shared out by sequences, its all-reduce stays inside one share, and the feed-forward part gathers the
    tokens of all shares and scatters what it made of them. Groups of experts that take their tokens from shares
    send each token to its experts and back; those that see all tokens already join by an all-reduce.
    """
    served, model = of.served, of.served.model
    p, shards, layers = served.tensor_parallel, served.attention_shards, model.layers
    sent_experts = model.expert_layers if served.expert_parallel > 1 and served.attention_data_parallel > 1 else 0

    def exchange(name: str, pattern: Pattern, runs: int, group: int, tokens: Array) -> Operator:
        message = runs * model.hidden_size * SIXTEEN_BITS * tokens
        return Operator(name=name, kind="exchange", runs=runs, pattern=pattern, group=group, message_bytes=message)

    if served.attention_data_parallel == 1:
        if p > 1:
            yield exchange("all_reduce", "all_reduce", (2 + (model.encoder is not None)) * layers, p, of.tokens)
    else:
        if shards > 1:
            runs = (1 + (model.encoder is not None)) * layers
            yield exchange("all_reduce", "all_reduce", runs, shards, of.attention_tokens)
        if layers > sent_experts:
            yield exchange("gather_scatter", "gather", 2 * (layers - sent_experts), p, of.tokens)
        if sent_experts and model.experts is not None:
            groups = served.expert_parallel
            # A token goes once to every group that has one of its experts, and most groups are elsewhere.
            copies = groups * -np.expm1(model.experts.top_k * np.log1p(-1 / groups))
            tokens = of.tokens / p * copies
            yield exchange("send_to_experts", "all_to_all", 2 * sent_experts, groups, tokens)
    if served.pipeline_parallel > 1:
        yield exchange("next_stage", "transfer", served.pipeline_parallel - 1, served.devices, of.tokens)


def exchange_seconds(operator: Operator, machine: Machine) -> Array:
    """Time of all runs of one exchange.

        all-reduce            latency + 2 (g - 1) / g x bytes / link
        gather or scatter     latency + (g - 1) / g x bytes / link
        all-to-all            latency + (g - 1) / g x bytes / link
        transfer              latency + bytes / link

    A group that spans q nodes of d devices runs inside them first and then between them, where each device carries
    the d-th part of the message of its node.
    """
    if operator.kind != "exchange":
        return NOTHING
    inside = min(operator.group, machine.node_devices)
    across = operator.group // inside
    factor = {"all_reduce": 2.0, "gather": 1.0, "all_to_all": 1.0, "transfer": 1.0}[operator.pattern]

    def share(devices: int) -> float:
        return factor * (1.0 if operator.pattern == "transfer" else (devices - 1) / devices)

    latency = machine.runtime.all_reduce_latency_seconds + machine.link_latency_seconds
    if across == 1:
        return operator.runs * latency + share(inside) / machine.link_bytes_per_second * operator.message_bytes
    beyond = machine.runtime.all_reduce_latency_seconds + machine.network_latency_seconds
    if operator.pattern == "transfer":
        # One step in so many leaves its node; stages are laid out node by node.
        crossings = across - 1
        stay = operator.runs - crossings
        per_run = operator.message_bytes / operator.runs
        return (
            stay * (latency + per_run / machine.link_bytes_per_second)
            + crossings * (beyond + per_run / machine.network_bytes_per_second)
        )  # fmt: skip
    if operator.pattern == "all_to_all":
        # Every device sends to every other one by itself: what leaves the node takes the network.
        remote = (operator.group - inside) / operator.group
        local = (inside - 1) / operator.group
        per_byte = max(remote / machine.network_bytes_per_second, local / machine.link_bytes_per_second)
        return operator.runs * max(latency, beyond) + per_byte * operator.message_bytes
    per_byte = share(inside) / machine.link_bytes_per_second
    per_byte += share(across) / inside / machine.network_bytes_per_second
    return operator.runs * (latency + beyond) + per_byte * operator.message_bytes
