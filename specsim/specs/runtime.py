"""Serving software by its fixed costs, and by what a timing model counts at all."""

from __future__ import annotations

from typing import Annotated, Literal

from specsim.specs.card import Card
from specsim.specs.fields import Factor, Flag, Fraction, Seconds, choice, record
from specsim.specs.hardware import Kernels


@record
class Runtime(Card):
    """What serving software adds to the time of kernels.

    Attributes:
        aggregation: ``operator`` adds up operators, each limited by memory or by compute; ``step`` lets one
            limit hold for the whole step, as published analyses often do.
        corner: ``smooth`` joins the two limits by a 4-norm, as kernels do; ``sharp`` takes the larger one.
        attention_operations: Whether attention's own arithmetic is counted.
        activations: Whether reading and writing activations and logits is counted.
        kernels: Replaces what the hardware card says of its family, if given.
        layer_overhead_seconds: Fixed cost of one layer (t_layer) [s].
        draft_layer_overhead_seconds: The same in the passes of a drafter, where these run in another way [s].
        step_overhead_seconds: Fixed cost of every pass, draft or target [s].
        token_overhead_seconds: Fixed cost of one new token of the batch in a pass: pages and sampling on the host [s].
        round_overhead_seconds: Fixed cost of a round that drafts: host, rejection sampling (t_round0) [s].
        draft_step_overhead_seconds: Fixed cost of one draft step beyond its pass (t_dstep) [s].
        quantization_overhead_seconds: Fixed cost of one layer whose activations are brought to 8 or 4 bits (t_fp8) [s].
        expert_layer_overhead_seconds: Fixed cost of one layer with experts: routing and sorting tokens (t_moe) [s].
        all_reduce_latency_seconds: Latency of one all-reduce, or of another exchange between devices [s].
        host_link_efficiency: Share of the host link that streamed weights reach.
        tree_factor: By how much verifying a tree is slower than a chain of as many tokens.
        memory_utilization: Share of device memory that weights and caches may take.
    """

    kind: Literal["runtime"] = "runtime"
    aggregation: Annotated[str, choice("operator", "step")] = "operator"
    corner: Annotated[str, choice("smooth", "sharp")] = "smooth"
    attention_operations: Flag = True
    activations: Flag = True
    kernels: Kernels | None = None
    layer_overhead_seconds: Seconds = 0.0
    draft_layer_overhead_seconds: Seconds | None = None
    step_overhead_seconds: Seconds = 0.0
    token_overhead_seconds: Seconds = 0.0
    round_overhead_seconds: Seconds = 0.0
    draft_step_overhead_seconds: Seconds = 0.0
    quantization_overhead_seconds: Seconds = 0.0
    expert_layer_overhead_seconds: Seconds = 0.0
    all_reduce_latency_seconds: Seconds = 0.0
    host_link_efficiency: Fraction = 1.0
    tree_factor: Factor = 1.0
    memory_utilization: Fraction = 1.0
