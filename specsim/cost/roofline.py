"""The time of a pass: a roofline per operator plus what software adds.

    matrix      [(bytes / (e_m BW))^4 + (operations / (e_c F))^4]^(1/4) + t_op
    attention   max(bytes / (e_a BW), operations / (e_c F)) + t_attn0
    all-reduce  latency + 2 (p - 1) / p * bytes / (e_l link)
    pass        sum over operators + layers * t_layer + t_step

The 4-norm is the smooth corner that matrix kernels show between their two limits (m of 128 to 256 loses 15 to
25 percent to the sharp one); attention overlaps its reads with its arithmetic and keeps the sharp corner.
With ``aggregation: step`` the two limits are taken once, over the whole pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specsim.cost.operators import Operator, operators
from specsim.cost.passes import Array, Pass
from specsim.specs.hardware import Hardware, Kernels
from specsim.specs.runtime import Runtime

BOUNDS = np.array(["memory", "compute", "network", "overhead"], dtype=object)
"""What a pass can wait for, in the order of the codes of ``PassTime.bound``."""


@dataclass(frozen=True, eq=False)
class Machine:
    """One accelerator under one runtime: the effective rates that the roofline needs."""

    hardware: Hardware
    runtime: Runtime

    @property
    def kernels(self) -> Kernels:
        """The efficiencies in force: the runtime's own, or those of the device family."""
        return self.runtime.kernels or self.hardware.kernels

    @property
    def link_bytes_per_second(self) -> float:
        """One-way bandwidth between devices: the interconnect, else the host link [bytes/s]."""
        link = self.hardware.interconnect or self.hardware.host_link
        return link.bandwidth_bytes_per_second if link is not None else float("nan")


@dataclass(frozen=True, eq=False)
class PassTime:
    """Time and traffic of a pass; arrays over the operating points of the pass.

    Attributes:
        seconds: The whole pass [s].
        memory_seconds: Part of it that waits for memory [s].
        compute_seconds: Part of it that waits for arithmetic [s].
        network_seconds: Part of it that waits for other devices [s].
        overhead_seconds: Fixed costs of kernels and software [s].
        operations: Arithmetic on one device.
        moved_bytes: Weights, cache and activations moved on one device [bytes].
    """

    seconds: Array
    memory_seconds: Array
    compute_seconds: Array
    network_seconds: Array
    overhead_seconds: Array
    operations: Array
    moved_bytes: Array

    @property
    def bound(self) -> np.ndarray:
        """What the pass waits for most, as an index into ``BOUNDS``."""
        code = np.where(self.compute_seconds > self.memory_seconds, 1, 0)
        most = np.maximum(self.compute_seconds, self.memory_seconds)
        for index, seconds in ((2, self.network_seconds), (3, self.overhead_seconds)):
            if np.any(seconds):
                code = np.where(seconds > most, index, code)
                most = np.maximum(most, seconds)
        return code


def pass_time(of: Pass, machine: Machine) -> PassTime:
    """Time of one pass on one machine.

    Raises:
        ValueError: If the hardware cannot compute the precision, or has no link for tensor parallelism.
    """
    timed = [operator_time(operator, of, machine) for operator in operators(of)]
    # Operators over the cache have the largest arrays, one entry per context: they are added last.
    timed.sort(key=lambda t: t.operator.kind == "attention")
    runtime, layers = machine.runtime, of.served.model.layers
    memory, compute = sum(t.memory_seconds for t in timed), sum(t.compute_seconds for t in timed)
    network = sum(t.network_seconds for t in timed)
    overhead = sum(t.overhead_seconds for t in timed) + layers * runtime.layer_overhead_seconds + runtime.step_overhead_seconds
    if runtime.aggregation == "operator":
        limited = sum(t.limited_seconds for t in timed)
        memory_bound = sum(t.limited_seconds * (t.memory_seconds >= t.compute_seconds) for t in timed)
    else:
        limited = _corner(memory, compute, runtime)
        memory_bound = limited * (memory >= compute)
    return PassTime(
        seconds=limited + (network + overhead),
        memory_seconds=memory_bound,
        compute_seconds=limited - memory_bound,
        network_seconds=network,
        overhead_seconds=overhead,
        operations=sum(t.operations for t in timed),
        moved_bytes=sum(t.moved_bytes for t in timed),
    )


@dataclass(frozen=True, eq=False)
class OperatorTime:
    """Time of all runs of one operator in a pass; the fields of ``PassTime``, before the aggregation rule.

    Attributes:
        operator: The operator itself.
        limited_seconds: Time by the roofline of this operator alone, both limits joined [s].
    """

    operator: Operator
    limited_seconds: Array
    memory_seconds: Array
    compute_seconds: Array
    network_seconds: Array
    overhead_seconds: float
    operations: Array
    moved_bytes: Array

    @property
    def seconds(self) -> Array:
        """All runs of the operator, fixed costs included [s]."""
        return self.limited_seconds + self.network_seconds + self.overhead_seconds


def operator_time(operator: Operator, of: Pass, machine: Machine) -> OperatorTime:
    """Time of all runs of one operator in a pass."""
    kernels, runtime, count = machine.kernels, machine.runtime, operator.count
    is_attention = operator.kind == "attention"
    counts_operations = runtime.attention_operations or not is_attention
    operations = operator.operations * count if counts_operations else np.zeros(())
    moved = (operator.weight_bytes + operator.cache_bytes) * count
    if runtime.activations:
        moved = moved + operator.activation_bytes * count
    efficiency = kernels.attention_memory_efficiency if is_attention else kernels.memory_efficiency
    memory = moved / (efficiency * machine.hardware.memory.bandwidth_bytes_per_second)
    compute = operations / (kernels.compute_efficiency * _rate(of, machine))
    fixed = {"matrix": kernels.matrix_overhead_seconds, "attention": kernels.attention_overhead_seconds}.get(operator.kind, 0.0)
    network = np.zeros(())
    if operator.kind == "all_reduce":
        p = of.served.tensor_parallel
        per_byte = 2 * (p - 1) / p / (kernels.link_efficiency * machine.link_bytes_per_second)
        network = count * (runtime.all_reduce_latency_seconds + per_byte * operator.message_bytes)
    return OperatorTime(
        operator=operator,
        limited_seconds=np.maximum(memory, compute) if is_attention else _corner(memory, compute, runtime),
        memory_seconds=memory,
        compute_seconds=compute,
        network_seconds=network,
        overhead_seconds=count * fixed,
        operations=operations,
        moved_bytes=moved,
    )


def _corner(memory: Array, compute: Array, runtime: Runtime) -> Array:
    if runtime.corner == "sharp":
        return np.maximum(memory, compute)
    # Products and square roots round exactly, so equal inputs give equal times whatever the array's shape.
    memory_squared, compute_squared = memory * memory, compute * compute
    joined: Array = np.sqrt(np.sqrt(memory_squared * memory_squared + compute_squared * compute_squared))
    return joined


def _rate(of: Pass, machine: Machine) -> float:
    number_format = of.served.precision.rate
    rate = machine.hardware.dense_rate.of(number_format)
    if rate is None:
        raise ValueError(f"{machine.hardware.name} has no dense rate for {number_format}")
    return rate
