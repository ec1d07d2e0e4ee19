"""Which entries of cards a prediction stands on."""

from __future__ import annotations

from collections.abc import Iterator

from specsim.cost.machine import Machine
from specsim.specs.served import ServedModel


def card_entries(machine: Machine, target: ServedModel, *, tree: bool = False) -> Iterator[str]:
    """One line for each card behind the times of a target, with the figures in force for its formats and layout.

    Args:
        machine: Accelerator and runtime.
        target: The target.
        tree: Whether a token tree is verified in one pass.
    """
    hardware, memory, precision = machine.hardware, machine.hardware.memory, target.precision
    rate = machine.rate_of(precision)
    dense = 0.0 if rate is None else hardware.dense_rate.of(rate) or 0.0
    host = hardware.host_link
    yield (
        f"hardware {hardware.name}: {memory.bandwidth_bytes_per_second / 1e12:g} TB/s, {dense / 1e12:g} TFLOP/s dense "
        f"at {rate}, {memory.capacity_bytes / 1e9:g} GB"
        + (f", {host.bandwidth_bytes_per_second / 1e9:g} GB/s to the host" if host and target.offloaded else "")
    )
    if target.devices > 1:
        yield from _wiring(machine, target)
    yield from _kernels(machine, target)
    runtime = machine.runtime
    told = [
        f"{runtime.layer_overhead_seconds * 1e6:.4g} us a layer",
        f"{runtime.step_overhead_seconds * 1e3:g} ms a step",
        f"{runtime.round_overhead_seconds * 1e3:g} ms a round",
        f"{runtime.draft_step_overhead_seconds * 1e3:g} ms a draft step",
    ]
    if precision.narrow_activations and not machine.is_weight_only(precision):
        told.append(f"{runtime.quantization_overhead_seconds * 1e6:g} us a layer to narrow activations")
    if target.model.experts is not None:
        told.append(f"{runtime.expert_layer_overhead_seconds * 1e6:g} us a layer with experts")
    if target.devices > 1:
        told.append(f"{runtime.all_reduce_latency_seconds * 1e6:g} us an exchange")
    if tree:
        told.append(f"{runtime.tree_factor:g} times a chain's verification")
    if target.offloaded:
        told.append(f"{runtime.host_link_efficiency:g} of the host link")
    yield f"runtime {runtime.name}: {', '.join(told)}; limits taken by {runtime.aggregation}, {runtime.corner} corner"


def _kernels(machine: Machine, target: ServedModel) -> Iterator[str]:
    kernels, precision = machine.kernels, target.precision
    told = [
        f"memory {machine.matrix_memory_efficiency(precision if precision.narrow else None):g}",
        f"attention memory {machine.attention_memory_efficiency(target.kv_bytes_per_value):g}",
        f"compute {machine.compute_efficiency(machine.rate_of(precision)):g}",
        f"{kernels.matrix_overhead_seconds * 1e6:g} us a matrix product",
        f"{kernels.attention_overhead_seconds * 1e6:g} us an attention call",
    ]
    owner = "runtime" if machine.runtime.kernels is not None else "hardware"
    yield f"kernels {kernels.name}, by the {owner} card: {', '.join(told)}"


def _wiring(machine: Machine, target: ServedModel) -> Iterator[str]:
    node, inside = machine.node, min(target.tensor_parallel, machine.node_devices)
    name = f"node {node.name}" if node is not None else "no node card"
    told = f"{name}: {machine.node_devices} devices"
    if inside > 1:
        told += f", {machine.link_bytes_per_second(inside) / 1e9:.4g} GB/s reached inside"
    if target.devices > machine.node_devices:
        told += f", {machine.network_bytes_per_second / 1e9:.4g} GB/s between nodes"
    yield told
