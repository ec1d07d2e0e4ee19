"""Tables of single kernels beside what the timing model says of each: products, attention, all-reduces.

A benchmark of attention reads the same cache again and again: sets smaller than the last-level cache of the device come
from there, three to six times too fast for a server, where weights pass in between. Such points are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from specsim.accuracy.comparison import Comparison
from specsim.cost.attention import attention_operators
from specsim.cost.breakdown import operators
from specsim.cost.machine import Machine
from specsim.cost.operators import Operator
from specsim.cost.passes import Pass
from specsim.cost.roofline import operator_time
from specsim.specs.attention import GroupedAttention
from specsim.specs.feed_forward import Mlp
from specsim.specs.hardware import Hardware
from specsim.specs.measurement import Measurement
from specsim.specs.model import Model
from specsim.specs.precision import PRECISIONS, SIXTEEN_BITS, Precision
from specsim.specs.served import ServedModel

LAST_LEVEL_CACHE_BYTES = {
    "a100": 40e6, "h100": 50e6, "h200": 50e6, "h20": 60e6, "gh200": 50e6, "b200": 126e6, "gb200": 126e6,
    "l40s": 96e6, "l4": 48e6, "a40": 6e6, "a10": 6e6, "a10g": 6e6, "mi300x": 256e6,
}  # fmt: skip
"""By the first part of the name of a hardware card; vendors' architecture papers [bytes]."""

SCALES = {"matrix_us": 1e6, "linear_layers_ms": 1e3, "attention_us": 1e6, "all_reduce_us": 1e6}
"""Quantities of kernel tables, by their unit in a second."""

_LINEAR = ("qkv", "output", "gate_up", "up", "down")
"""Products of a layer that a table of its linear layers adds up."""


@dataclass(frozen=True, eq=False)
class Point:
    """One point of a table.

    Attributes:
        quantity: A key of ``SCALES``.
        at: Tokens, context or bytes of the message.
        measured_seconds: What came out [s].
        operators: What ran, on one device.
        of: The pass that it is a part of.
    """

    quantity: str
    at: int
    measured_seconds: float
    operators: tuple[Operator, ...]
    of: Pass

    def seconds(self, machine: Machine) -> float:
        """What the model says [s]."""
        return float(sum(operator_time(operator, self.of, machine).seconds for operator in self.operators))


def points(
    row: Measurement, hardware: Hardware, target: ServedModel | None, precision: Precision, cached: str
) -> Iterator[Point]:
    """The points of a row with a curve over tokens, contexts or bytes, but for those from the last-level cache.

    Args:
        row: The measurement.
        hardware: What it ran on.
        target: The model whose layers were measured, None for single kernels.
        precision: Number format of the weights.
        cached: Number format of the cache.
    """
    for tokens, microseconds in row.latency_us_by_tokens:
        if row.gemm_n and row.gemm_k:
            product = _product(row.gemm_k, row.gemm_n, tokens, precision)
            of = _pass(_one_layer(_ONE_HEAD, precision, "bf16"), tokens, 0)
            yield Point("matrix_us", tokens, microseconds * 1e-6, (product,), of)
    for tokens, milliseconds in row.linear_layers_ms_by_tokens:
        if target is not None:
            of = _pass(target, tokens, 0)
            linear = tuple(operator for operator in operators(of) if operator.name in _LINEAR)
            yield Point("linear_layers_ms", tokens, milliseconds * 1e-3, linear, of)
    kept = LAST_LEVEL_CACHE_BYTES.get(hardware.name.partition("-")[0], 0.0)
    for context, microseconds in row.latency_us_by_context:
        if row.num_heads and row.num_kv_heads and row.head_dim and row.batch:
            heads = GroupedAttention(heads=row.num_heads, kv_heads=row.num_kv_heads, head_dim=row.head_dim)
            of = _pass(_one_layer(heads, PRECISIONS["bf16"], cached), row.batch, context)
            attention = tuple(operator for operator in attention_operators(of) if operator.kind == "attention")
            if attention[0].stored_bytes > kept:
                yield Point("attention_us", context, microseconds * 1e-6, attention, of)
    for size, microseconds in row.latency_us_by_message:
        if row.accelerators:
            message = np.asarray(float(size))
            joined = Operator(name="all_reduce", kind="exchange", runs=1, message_bytes=message, group=row.accelerators)
            of = _pass(_one_layer(_ONE_HEAD, PRECISIONS["bf16"], "bf16"), 1, 0)
            yield Point("all_reduce_us", size, microseconds * 1e-6, (joined,), of)


def of_kernels(
    row: Measurement, machine: Machine, target: ServedModel | None, precision: Precision, cached: str
) -> Iterator[Comparison]:
    """The comparisons of the points of a row; see ``points``.

    Args:
        row: The measurement.
        machine: Its accelerators under a runtime; the runtime's latency of an all-reduce counts.
        target: The model whose layers were measured, None for single kernels.
        precision: Number format of the weights.
        cached: Number format of the cache.
    """
    words = ", ".join(filter(None, (row.source, row.hardware, row.target, row.dtype, row.kv_dtype, _shape(row))))
    for point in points(row, machine.hardware, target, precision, cached):
        scale = SCALES[point.quantity]
        measured, predicted = point.measured_seconds * scale, point.seconds(machine) * scale
        yield Comparison(row, point.quantity, measured, predicted, words, (), point.at)


def _shape(row: Measurement) -> str:
    parts = (
        f"{row.gemm_n} x {row.gemm_k}" if row.gemm_n else "",
        f"batch {row.batch}" if row.batch else "",
        f"{row.num_heads}/{row.num_kv_heads} heads" if row.num_heads else "",
        f"x{row.accelerators}" if row.accelerators else "",
    )
    return " ".join(part for part in parts if part)


def _pass(served: ServedModel, sequences: float, context: float) -> Pass:
    return Pass(served, np.asarray(float(sequences)), np.ones(()), np.asarray(float(context)))


def _one_layer(attention: GroupedAttention, precision: Precision, cached: str) -> ServedModel:
    model = Model(
        name="one layer", layers=1, hidden_size=attention.heads * attention.head_dim, vocab_size=2, max_positions=2,
        attention=attention, mlp=Mlp(intermediate_size=1),
    )  # fmt: skip
    return ServedModel(model=model, precision=precision, kv_precision=cached)


def _product(inputs: int, outputs: int, tokens: int, precision: Precision) -> Operator:
    rows = np.asarray(float(tokens))
    return Operator(
        name="product", kind="matrix", runs=1, operations=2.0 * inputs * outputs * rows, rows=rows,
        narrow=precision if precision.narrow else None,
        stored_bytes=np.asarray(inputs * outputs * precision.bytes_of("mlp")),
        activation_bytes=(inputs + outputs) * SIXTEEN_BITS * rows,
    )  # fmt: skip


_ONE_HEAD = GroupedAttention(heads=1, kv_heads=1, head_dim=1)


def with_latency(machine: Machine, seconds: float) -> Machine:
    """The same machine with another latency of exchanges."""
    return replace(machine, runtime=replace(machine.runtime, all_reduce_latency_seconds=seconds))
