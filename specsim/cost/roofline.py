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

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from specsim.cost.operators import NOTHING, Operator, operators
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
        limited_seconds: Part of it by the roofline: waiting for memory or for arithmetic [s].
        memory_seconds: Part of that which waits for memory [s].
        network_seconds: Part that waits for other devices [s].
        overhead_seconds: Fixed costs of kernels and software [s].
        operations: Arithmetic on one device.
        moved_bytes: Weights, cache and activations moved on one device [bytes].
    """

    seconds: Array
    limited_seconds: Array
    memory_seconds: Array
    network_seconds: Array
    overhead_seconds: Array
    operations: Array
    moved_bytes: Array

    @property
    def compute_seconds(self) -> Array:
        """Part that waits for arithmetic [s]."""
        return self.limited_seconds - self.memory_seconds

    @property
    def bound(self) -> NDArray[np.int8]:
        """What the pass waits for most, as an index into ``BOUNDS``."""
        memory, compute = self.memory_seconds, self.compute_seconds
        network, overhead = self.network_seconds, self.overhead_seconds
        code = np.array(compute > memory, dtype=np.int8)
        np.copyto(code, np.int8(2), where=(network > memory) & (network > compute))
        np.copyto(code, np.int8(3), where=(overhead > memory) & (overhead > compute) & (overhead > network))
        return code


def pass_time(of: Pass, machine: Machine) -> PassTime:
    """Time of one pass on one machine.

    Raises:
        ValueError: If the hardware has no dense rate for the precision.
    """
    timed = [operator_time(operator, of, machine) for operator in operators(of)]
    # Attention has the largest arrays, one entry per context; it is added last, to sums of small ones.
    timed.sort(key=lambda t: t.operator.kind == "attention")
    runtime, layers = machine.runtime, of.served.model.layers
    network = _total(t.network_seconds for t in timed)
    kernels = sum(t.overhead_seconds for t in timed)
    overhead = np.asarray(kernels + layers * runtime.layer_overhead_seconds + runtime.step_overhead_seconds)
    if runtime.aggregation == "operator":
        limited = _total(t.limited_seconds for t in timed)
        memory_bound = _total(np.where(t.memory_seconds >= t.compute_seconds, t.limited_seconds, 0.0) for t in timed)
    else:
        memory, compute = _total(t.memory_seconds for t in timed), _total(t.compute_seconds for t in timed)
        limited = _corner(memory, compute, runtime)
        memory_bound = np.where(memory >= compute, limited, 0.0)
    return PassTime(
        seconds=limited + (network + overhead),
        limited_seconds=limited,
        memory_seconds=memory_bound,
        network_seconds=network,
        overhead_seconds=overhead,
        operations=_total(t.operations for t in timed),
        moved_bytes=_total(t.moved_bytes for t in timed),
    )


def _total(terms: Iterable[Array]) -> Array:
    return reduce(np.add, terms, NOTHING)


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
    kernels, runtime = machine.kernels, machine.runtime
    is_attention = operator.kind == "attention"
    operations = operator.operations if runtime.attention_operations or not is_attention else NOTHING
    moved = operator.stored_bytes + operator.activation_bytes if runtime.activations else operator.stored_bytes
    efficiency = kernels.attention_memory_efficiency if is_attention else kernels.memory_efficiency
    memory = moved / (efficiency * machine.hardware.memory.bandwidth_bytes_per_second)
    compute = operations / (kernels.compute_efficiency * _rate(of, machine))
    fixed = {"matrix": kernels.matrix_overhead_seconds, "attention": kernels.attention_overhead_seconds}
    network = NOTHING
    if operator.kind == "all_reduce":
        p = of.served.tensor_parallel
        per_byte = 2 * (p - 1) / p / (kernels.link_efficiency * machine.link_bytes_per_second)
        network = operator.runs * runtime.all_reduce_latency_seconds + per_byte * operator.message_bytes
    return OperatorTime(
        operator=operator,
        limited_seconds=np.maximum(memory, compute) if is_attention else _corner(memory, compute, runtime),
        memory_seconds=memory,
        compute_seconds=compute,
        network_seconds=network,
        overhead_seconds=operator.runs * fixed.get(operator.kind, 0.0),
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
