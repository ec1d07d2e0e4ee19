"""The time of a pass: a roofline per operator plus what software adds.

    matrix      [(bytes / (e_m BW))^4 + (operations / (e_c F))^4]^(1/4) + t_op
    attention   max(bytes / (e_a BW), operations / (e_c F)) + t_attn0
    exchange    see ``exchanges``
    pass        sum over operators + layers * t_layer + t_step

Where a card has a ``several_rows_efficiency`` a matrix product of more than one row reaches that share of e_m.

The 4-norm is the smooth corner that matrix kernels show between their two limits (m of 128 to 256 loses 15 to
25 percent to the sharp one); attention overlaps its reads with its arithmetic and keeps the sharp corner.
With ``aggregation: step`` the two limits are taken once, over the whole pass.

Weights that stay in the memory of the host come over its link while the device works on the layers before; a pass
takes the longer of the two. The stages of a pipeline wait for the slowest of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from specsim.cost.breakdown import operators
from specsim.cost.exchanges import exchange_seconds
from specsim.cost.machine import Machine
from specsim.cost.operators import NOTHING, Operator
from specsim.cost.passes import Array, Pass
from specsim.specs.runtime import Runtime
from specsim.specs.served import ServedModel

BOUNDS = np.array(["memory", "compute", "network", "overhead", "host"], dtype=object)
"""What a pass can wait for, in the order of the codes of ``PassTime.bound``."""


@dataclass(frozen=True, eq=False)
class PassTime:
    """Time and traffic of a pass; arrays over the operating points of the pass.

    Attributes:
        seconds: The whole pass [s].
        limited_seconds: Part of it by the roofline: waiting for memory or for arithmetic [s].
        memory_seconds: Part of that which waits for memory [s].
        network_seconds: Part that waits for other devices [s].
        stage_seconds: Part of that which waits for the slowest stage of a pipeline [s].
        overhead_seconds: Fixed costs of kernels and software [s].
        host_seconds: Part that waits for weights from the host, beyond all others [s].
        operations: Arithmetic on one device.
        moved_bytes: Weights, cache and activations moved on one device [bytes].
    """

    seconds: Array
    limited_seconds: Array
    memory_seconds: Array
    network_seconds: Array
    stage_seconds: Array
    overhead_seconds: Array
    host_seconds: Array
    operations: Array
    moved_bytes: Array

    @property
    def compute_seconds(self) -> Array:
        """Part that waits for arithmetic [s]."""
        return self.limited_seconds - self.memory_seconds

    @property
    def parts(self) -> tuple[Array, ...]:
        """What it waits for, part by part, in the order of ``BOUNDS`` [s]."""
        return (
            self.memory_seconds,
            self.compute_seconds,
            self.network_seconds,
            self.overhead_seconds,
            self.host_seconds,
        )

    @property
    def bound(self) -> NDArray[np.int8]:
        """What the pass waits for most, as an index into ``BOUNDS``."""
        memory, compute, *others = self.parts
        code = np.array(compute > memory, dtype=np.int8)
        most = np.maximum(memory, compute)
        # Most passes wait for some of these at no point at all.
        found = [(index, part) for index, part in enumerate(others, start=2) if part.any()]
        for index, part in found:
            code = np.maximum(code, (part > most) * np.int8(index))
            if part is not found[-1][1]:
                most = np.maximum(most, part)
        return code


def pass_time(of: Pass, machine: Machine) -> PassTime:
    """Time of one pass on one machine.

    Raises:
        ValueError: If the hardware has no dense rate for the precision.
    """
    timed = [operator_time(operator, of, machine) for operator in operators(of)]
    # Attention has the largest arrays, one entry per context; it is added last, to sums of small ones.
    timed.sort(key=lambda t: t.operator.kind == "attention")
    runtime = machine.runtime
    waiting = _waiting_for_stages(timed, of, machine)
    network = _total(t.network_seconds for t in timed) + waiting
    kernels = sum(t.overhead_seconds for t in timed)
    software = 0.0 if of.bare else _layer_overhead_seconds(of.served, machine)
    overhead = np.asarray(kernels + software + runtime.step_overhead_seconds)
    if runtime.token_overhead_seconds and not of.bare:
        overhead = overhead + runtime.token_overhead_seconds * of.tokens
    if runtime.aggregation == "operator":
        limited = _total(t.limited_seconds for t in timed)
        memory_bound = _total(t.limited_seconds * _ones_where(t.memory_seconds >= t.compute_seconds) for t in timed)
    else:
        memory, compute = _total(t.memory_seconds for t in timed), _total(t.compute_seconds for t in timed)
        limited = _corner(memory, compute, runtime)
        memory_bound = np.where(memory >= compute, limited, 0.0)
    device = limited + (network + overhead)
    host = _waiting_for_host(timed, of.served, device, machine) if of.served.offloaded else NOTHING
    return PassTime(
        seconds=device + host if of.served.offloaded else device,
        limited_seconds=limited,
        memory_seconds=memory_bound,
        network_seconds=network,
        stage_seconds=waiting,
        overhead_seconds=overhead,
        host_seconds=host,
        operations=_total(t.operations for t in timed),
        moved_bytes=_total(t.stored_bytes for t in timed) + _total(t.activation_bytes for t in timed),
    )


def _waiting_for_stages(timed: list[OperatorTime], of: Pass, machine: Machine) -> Array:
    """What the parts of a batch wait for the slowest stage, through which all of them have to go [s].

    Layers are shared out as evenly as they can be; the last stage, which has the head, is never the one with more.
    """
    stages, layers = of.served.pipeline_parallel, of.served.model.layers
    if stages == 1:
        return NOTHING
    at_the_end = _total(t.seconds for t in timed if t.operator.name in _AT_THE_END)
    of_layers = _total(t.seconds for t in timed if t.operator.name not in _OUTSIDE_LAYERS)
    of_layers = of_layers + _layer_overhead_seconds(of.served, machine)
    last = of_layers * (layers // stages / layers) + at_the_end
    slowest = np.maximum(of_layers * (-(-layers // stages) / layers), last)
    return np.maximum(np.minimum(stages, of.sequences) * slowest - (of_layers + at_the_end), 0.0)


_AT_THE_END = ("head", "gather_logits", "sampling")
_OUTSIDE_LAYERS = (*_AT_THE_END, "embedding", "next_stage")


def _waiting_for_host(timed: list[OperatorTime], served: ServedModel, device: Array, machine: Machine) -> Array:
    """What a pass waits for weights from the host [s].

    All weights but those of experts come while the device is at work; which experts are needed is known only when
    they are, and only these come.
    """
    per_byte = served.offloaded / machine.host_bytes_per_second
    matrices = [t.operator for t in timed if t.operator.kind == "matrix"]
    ahead = _total(o.stored_bytes for o in matrices if not o.name.startswith("experts_"))
    at_once = _total(o.stored_bytes for o in matrices if o.name.startswith("experts_"))
    return np.maximum(ahead * per_byte - device, 0.0) + at_once * per_byte


def _layer_overhead_seconds(served: ServedModel, machine: Machine) -> float:
    """What software adds to all layers of a pass [s]."""
    runtime, model, precision = machine.runtime, served.model, served.precision
    layers = model.layers * runtime.layer_overhead_seconds
    experts = model.expert_layers * runtime.expert_layer_overhead_seconds
    quantizes = precision.narrow_activations and not machine.is_weight_only(precision)
    return layers + experts + quantizes * model.layers * runtime.quantization_overhead_seconds


def _ones_where(condition: NDArray[np.bool_]) -> NDArray[np.int8]:
    """1 where it holds and 0 elsewhere; a product with it is many times faster than choosing by a mask."""
    return condition.view(np.int8)


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
    stored_bytes: Array
    activation_bytes: Array

    @property
    def seconds(self) -> Array:
        """All runs of the operator, fixed costs included [s]."""
        return self.limited_seconds + self.network_seconds + self.overhead_seconds

    @property
    def moved_bytes(self) -> Array:
        """Weights, cache and activations moved on one device [bytes]."""
        return self.stored_bytes + self.activation_bytes


def operator_time(operator: Operator, of: Pass, machine: Machine) -> OperatorTime:
    """Time of all runs of one operator in a pass."""
    kernels, runtime = machine.kernels, machine.runtime
    is_attention = operator.kind == "attention"
    operations = operator.operations if runtime.attention_operations or not is_attention else NOTHING
    stored, activations = operator.stored_bytes, operator.activation_bytes if runtime.activations else NOTHING
    rate = machine.bytes_per_second(operator, of.served.kv_bytes_per_value)
    memory = stored / rate + activations / rate
    if operator.kind == "matrix" and kernels.several_rows_efficiency < 1:
        memory = memory / np.where(operator.rows > 1, kernels.several_rows_efficiency, 1.0)
    rate = machine.operations_per_second(operator, of.served.precision)
    compute = _whole_units(operations, operator, machine.hardware.matrix_rows) / rate
    fixed = {"matrix": kernels.matrix_overhead_seconds, "attention": kernels.attention_overhead_seconds}
    return OperatorTime(
        operator=operator,
        limited_seconds=np.maximum(memory, compute) if is_attention else _corner(memory, compute, runtime),
        memory_seconds=memory,
        compute_seconds=compute,
        network_seconds=exchange_seconds(operator, machine),
        overhead_seconds=operator.runs * fixed.get(operator.kind, 0.0),
        operations=operations,
        stored_bytes=stored,
        activation_bytes=activations,
    )


def _whole_units(operations: Array, operator: Operator, rows: int) -> Array:
    """Operations of a matrix product as if its rows filled the matrix unit."""
    if rows == 1 or operator.kind != "matrix":
        return operations
    return operations * (np.ceil(operator.rows / rows) * rows / operator.rows)


def _corner(memory: Array, compute: Array, runtime: Runtime) -> Array:
    if runtime.corner == "sharp":
        return np.maximum(memory, compute)
    # Products and square roots round exactly, so equal inputs give equal times whatever the array's shape.
    memory_squared, compute_squared = memory * memory, compute * compute
    joined: Array = np.sqrt(np.sqrt(memory_squared * memory_squared + compute_squared * compute_squared))
    return joined
