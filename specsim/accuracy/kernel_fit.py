"""Constants of device families from published tables of their kernels.

A product takes [(bytes / (e_m BW))^4 + (operations / (e_c F))^4]^(1/4) + t_op, attention max(bytes / (e_a BW),
operations / (e_c F)) + t_attn0, an all-reduce latency + bytes / (e_l link), as in ``roofline`` and ``exchanges``. What
of that does not depend on the constants is worked out once; then a coordinate search by golden sections finds those
with the least mean of |log(predicted / measured)|, in which every table counts the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from specsim.accuracy.kernel_tables import Point, points
from specsim.cost.machine import Machine
from specsim.cost.roofline import OperatorTime, operator_time
from specsim.specs.hardware import Hardware, Kernels
from specsim.specs.measurement import Measurement
from specsim.specs.precision import Precision
from specsim.specs.runtime import Runtime
from specsim.specs.served import ServedModel

Array = NDArray[np.float64]
Constants = dict[str, float]

GENERIC = "generic"
"""The family of what no table speaks of: the median of all others."""
LIMITS = {"efficiency": (0.05, 1.0), "seconds": (1e-6, 100e-6)}
"""Between which constants are looked for: shares; fixed costs, never less than a microsecond [s]."""
SWEEPS = 40
"""At most so many times through all constants."""

_PEAK = Kernels(
    name="peak", memory_efficiency=1.0, attention_memory_efficiency=1.0, compute_efficiency=1.0, link_efficiency=1.0
)
_NO_SOFTWARE = Runtime(name="none", all_reduce_latency_seconds=0.0)
_PRODUCTS = ("matrix_us", "linear_layers_ms")
_MEMORY = {"attention_us": "attention_memory_efficiency", "all_reduce_us": "link_efficiency"}
_OVERHEAD = {"attention_us": "attention_overhead_seconds", "all_reduce_us": "latency_seconds"}


@dataclass(frozen=True, eq=False)
class Table:
    """One row with a curve, with the time of every point at the peaks of the datasheet.

    Attributes:
        row: Its identifier.
        group: Its source and accelerator, which are left out together.
        family: Name of the kernels card.
        quantity: What was measured, a key of ``kernel_tables.SCALES``.
        constants: Names of the efficiency of the memory or link, of the efficiency of arithmetic, and of the overhead.
        at: Tokens, contexts or bytes of messages, shape (points,).
        measured: Shape (points,) [s].
        memory: Time for the bytes of each operator at the peak, shape (points, operators) [s].
        compute: The same for its operations.
        runs: Kernels that ran, shape (points,).
    """

    row: str
    group: tuple[str, str]
    family: str
    quantity: str
    constants: tuple[str, str, str]
    at: Array
    measured: Array
    memory: Array
    compute: Array
    runs: Array


def table_of(
    row: Measurement, hardware: Hardware, target: ServedModel | None, precision: Precision, cached: str
) -> Table | None:
    """The table of a row, None if it has no curve of kernels; parameters as of ``kernel_tables.points``."""
    found = list(points(row, hardware, target, precision, cached))
    if not found:
        return None
    machine = Machine(replace(hardware, kernels=_PEAK), _NO_SOFTWARE)
    timed = [[operator_time(operator, point.of, machine) for operator in point.operators] for point in found]

    def each(part: Callable[[OperatorTime], object]) -> Array:
        return np.array([[float(np.asarray(part(t))) for t in point] for point in timed])

    return Table(
        row=row.id,
        group=(row.source, hardware.name),
        family=hardware.kernels.name,
        quantity=found[0].quantity,
        constants=_constants(found[0], machine, precision, "nccl" in row.engine.lower()),
        at=np.array([float(point.at) for point in found]),
        measured=np.array([point.measured_seconds for point in found]),
        memory=each(lambda t: t.memory_seconds + t.network_seconds),
        compute=each(lambda t: t.compute_seconds),
        runs=each(lambda t: t.operator.runs).sum(axis=1),
    )


def _constants(point: Point, machine: Machine, precision: Precision, plain_nccl: bool) -> tuple[str, str, str]:
    memory = _MEMORY.get(point.quantity, "memory_efficiency")
    if memory == "attention_memory_efficiency" and point.of.served.kv_bytes_per_value < 2:
        memory += "_8bit"
    narrow = precision.narrow and not machine.is_weight_only(precision) and point.quantity in _PRODUCTS
    memory += "_8bit" if narrow else ""
    overhead = _OVERHEAD.get(point.quantity, "matrix_overhead_seconds")
    if plain_nccl:
        overhead = "nccl_" + overhead
    return memory, "compute_efficiency_8bit" if narrow else "compute_efficiency", overhead


def predicted(table: Table, constants: Mapping[str, float]) -> Array:
    """What the model says of every point of a table [s]."""
    memory, compute, overhead = (constants[name] for name in table.constants)
    joined = _join(table.memory / memory, table.compute / compute, table.quantity)
    return joined.sum(axis=1) + table.runs * overhead


def error(table: Table, constants: Mapping[str, float]) -> float:
    """Median of |predicted / measured - 1| over the points of a table."""
    return float(np.median(np.abs(predicted(table, constants) / table.measured - 1)))


def _join(memory: Array, compute: Array, quantity: str) -> Array:
    if quantity == "attention_us":
        return np.maximum(memory, compute)
    joined: Array = ((memory * memory) ** 2 + (compute * compute) ** 2) ** 0.25
    return joined


def fit(tables: Sequence[Table], start: Mapping[str, float] | None = None) -> Constants:
    """Constants of the least mean over tables of the mean of |log(predicted / measured)|.

    Quantities share no constant but the efficiency of arithmetic, which decoding attention does not show: it is fitted
    to products, and each quantity by itself.

    Args:
        tables: Tables of one family, of any quantities.
        start: Where the search begins.
    """
    found: Constants = {}
    for names in (_PRODUCTS, *((quantity,) for quantity in _MEMORY)):
        if part := [t for t in tables if t.quantity in names]:
            found.update(_search(part, start or {}))
    return found


def _search(tables: Sequence[Table], start: Mapping[str, float]) -> Constants:
    quantity = tables[0].quantity
    roles = (0, 1, 2) if quantity in _PRODUCTS else (0, 2)
    names = sorted({t.constants[role] for t in tables for role in roles})
    place = {name: index for index, name in enumerate(names)}
    measured = np.concatenate([t.measured for t in tables])
    memory, compute = _stacked([t.memory for t in tables]), _stacked([t.compute for t in tables])
    runs = np.concatenate([t.runs for t in tables])
    rows = np.repeat(np.arange(len(tables)), [t.measured.size for t in tables])
    weight = 1 / np.bincount(rows)[rows] / len(tables)
    at = np.array([[place.get(name, len(names)) for name in t.constants] for t in tables])[rows].T

    def loss(x: Array) -> float:
        limits = np.append(x, 1.0)
        joined = _join(memory / limits[at[0]][:, None], compute / limits[at[1]][:, None], quantity).sum(axis=1)
        return float(weight @ np.abs(np.log((joined + runs * x[at[2]]) / measured)))

    low, high = np.array([LIMITS["seconds" if n.endswith("seconds") else "efficiency"] for n in names]).T
    x = np.array([start.get(n, 5e-6 if n.endswith("seconds") else 0.7) for n in names])
    best = loss(x)
    for _ in range(SWEEPS):
        before = x
        for index in range(len(names)):
            x = _along(loss, x, np.eye(len(names))[index], low, high)
        # The search for each in turn creeps along valleys; a step along the way it went gets through them.
        x = _along(loss, x, x - before, low, high)
        last, best = best, loss(x)
        if last - best < 1e-6:
            break
    return dict(zip(names, x.tolist(), strict=True))


def _stacked(arrays: Sequence[Array]) -> Array:
    width = max(array.shape[1] for array in arrays)
    return np.concatenate([np.pad(array, ((0, 0), (0, width - array.shape[1]))) for array in arrays])


def _along(loss: Callable[[Array], float], x: Array, direction: Array, low: Array, high: Array) -> Array:
    """The best point on a line, by golden section, or the point itself if it is better."""
    moving = direction != 0
    if not moving.any():
        return x
    ends = np.sort([(side[moving] - x[moving]) / direction[moving] for side in (low, high)], axis=0)
    a, b = float(ends[0].max()), float(ends[1].min())
    golden = (5**0.5 - 1) / 2
    c, d = b - golden * (b - a), a + golden * (b - a)
    at_c, at_d = loss(x + c * direction), loss(x + d * direction)
    for _ in range(22):
        if at_c < at_d:
            b, d, at_d = d, c, at_c
            c = b - golden * (b - a)
            at_c = loss(x + c * direction)
        else:
            a, c, at_c = c, d, at_d
            d = a + golden * (b - a)
            at_d = loss(x + d * direction)
    found: Array = np.clip(x + (c if at_c < at_d else d) * direction, low, high)
    return found if loss(found) < loss(x) else x


def fit_families(tables: Iterable[Table], start: Mapping[str, Constants] | None = None) -> dict[str, Constants]:
    """Constants of every family; what no table of a family shows is as of the family ``generic``."""
    of: dict[str, list[Table]] = {}
    for table in tables:
        of.setdefault(table.family, []).append(table)
    found = {family: fit(part, (start or {}).get(family)) for family, part in of.items()}
    names = {name for constants in found.values() for name in constants}
    generic = {name: float(np.median([c[name] for c in found.values() if name in c])) for name in names}
    return {**{family: {**generic, **constants} for family, constants in found.items()}, GENERIC: generic}


def left_out_errors(tables: Sequence[Table], together: Callable[[Table], object]) -> dict[str, float]:
    """The error of every row, by constants that were fitted without it.

    Args:
        tables: All tables.
        together: What tables that are left out at the same time have in common: ``lambda t: t.row`` for each table by
            itself, ``lambda t: t.group`` for all of a source and accelerator.
    """
    start = fit_families(tables)
    found: dict[str, float] = {}
    for left in dict.fromkeys(together(t) for t in tables):
        families = fit_families([t for t in tables if together(t) != left], start)
        out = [t for t in tables if together(t) == left]
        found.update({t.row: error(t, families.get(t.family, families[GENERIC])) for t in out})
    return found


def intervals(tables: Sequence[Table]) -> dict[str, dict[str, tuple[float, float]]]:
    """The least and the greatest of each constant, by family, over the fit to all and fits without some tables.

    Each table is left out in turn, then each source and accelerator; a range of fits, no confidence interval.
    """
    whole = fit_families(tables)
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for family in dict.fromkeys(t.family for t in tables):
        own = [t for t in tables if t.family == family]
        parts = [[t for t in own if t.row != left.row] for left in own]
        parts += [[t for t in own if t.group != group] for group in dict.fromkeys(t.group for t in own)]
        fits = [fit(own), *(fit(part, whole[family]) for part in parts)]
        found[family] = {n: (min(v), max(v)) for n in fits[0] for v in [[f[n] for f in fits if n in f]]}
    return found
