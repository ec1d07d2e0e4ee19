"""What devices send each other in a pass, and how long that takes."""

from __future__ import annotations

from collections.abc import Iterator

from specsim.cost.feed_forward import groups_of_a_token
from specsim.cost.machine import Machine
from specsim.cost.operators import NOTHING, Operator, Pattern
from specsim.cost.passes import Array, Pass
from specsim.specs.precision import SIXTEEN_BITS


def exchange_operators(of: Pass) -> Iterator[Operator]:
    """All exchanges of a pass.

    Two all-reduces a layer join the parts of attention and feed-forward, three where there is cross-attention, and
    one those of the embedding; the logits are gathered. With attention shared out by sequences, its all-reduce stays
    inside one share; the feed-forward part gathers the tokens of all shares and scatters what it made of them, and the
    head gathers them once.
    Where every device is a group of experts of its own it gets its tokens one by one, and sends them back; groups
    that see all tokens already join by an all-reduce.
    """
    served, model = of.served, of.served.model
    p, shards, layers = served.tensor_parallel, served.attention_shards, model.layers
    mixing = (1 + (model.encoder is not None)) * layers

    def exchange(name: str, pattern: Pattern, runs: int, group: int, values: Array) -> Operator:
        message = runs * SIXTEEN_BITS * values
        return Operator(name=name, kind="exchange", runs=runs, pattern=pattern, group=group, message_bytes=message)

    hidden = model.hidden_size * of.tokens
    if served.attention_data_parallel > 1:
        if shards > 1:
            yield exchange("all_reduce", "all_reduce", mixing, shards, model.hidden_size * of.attention_tokens)
        sent = model.expert_layers if served.expert_parallel == p else 0
        yield exchange("gather_scatter", "gather", 2 * (layers - sent) + 1, p, hidden)
        if sent and model.experts is not None:
            copies = groups_of_a_token(model.experts, p)
            yield exchange("send_to_experts", "all_to_all", 2 * sent, p, hidden / p * copies)
    elif p > 1:
        yield exchange("all_reduce", "all_reduce", mixing + layers + 1, p, hidden)
    if p > 1:
        yield exchange("gather_logits", "gather", 1, p, model.vocab_size * of.tokens)
    if served.pipeline_parallel > 1:
        yield exchange("next_stage", "transfer", served.pipeline_parallel - 1, served.devices, hidden)


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
    here, beyond = machine.runtime.all_reduce_latency_seconds, machine.runtime.all_reduce_latency_seconds
    here, beyond = here + machine.link_latency_seconds, beyond + machine.network_latency_seconds
    link, network = machine.link_bytes_per_second(inside), machine.network_bytes_per_second
    runs, message = operator.runs, operator.message_bytes
    if operator.pattern == "transfer":
        # Stages are laid out node by node: so many of their transfers leave a node.
        leaving = across - 1
        return (
            (runs - leaving) * here
            + leaving * beyond
            + message * ((runs - leaving) / link + _per(leaving, network)) / runs
        )
    factor = 2.0 if operator.pattern == "all_reduce" else 1.0
    if across == 1:
        return runs * here + factor * (inside - 1) / inside / link * message
    if operator.pattern == "all_to_all":
        # What stays inside a node and what leaves it go at the same time.
        stays, leaves = (inside - 1) / operator.group, (operator.group - inside) / operator.group
        return runs * max(here, beyond) + max(stays / link, leaves / network) * message
    per_byte = (inside - 1) / inside / link + (across - 1) / across / inside / network
    return runs * (here + beyond) + factor * per_byte * message


def _per(amount: float, rate: float) -> float:
    """Amount / rate, and nothing where there is nothing to send over what may not be there."""
    return amount / rate if amount else 0.0
