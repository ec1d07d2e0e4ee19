"""Where the time of each pass goes, operator by operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from specsim.cost.breakdown import operators
from specsim.cost.machine import Machine
from specsim.cost.passes import Pass
from specsim.cost.roofline import BOUNDS, OperatorTime, operator_time, pass_time
from specsim.report.table import Table

NAMES = ("pass", "operator", "runs", "ms", "operations", "moved_bytes", "bound")
Row = tuple[str, str, int, float, float, float, str]


def operator_table(passes: Sequence[tuple[str, Pass]], machine: Machine | None) -> Table:
    """One row for each operator of each pass, and for what a pass takes beside them, so that rows add up to it."""
    found = [row for name, one in passes if machine is not None for row in _rows(name, one, machine)]
    columns = {name: np.array([row[i] for row in found], dtype=object) for i, name in enumerate(NAMES)}
    return Table(columns, (len(found),))


def _rows(name: str, one: Pass, machine: Machine) -> Iterator[Row]:
    times = [operator_time(operator, one, machine) for operator in operators(one)]
    for time in times:
        yield name, time.operator.name, time.operator.runs, *_figures(time)
    whole = pass_time(one, machine)
    software = float(whole.overhead_seconds) - sum(time.overhead_seconds for time in times)
    beside = (
        ("software", max(one.layers, 1), software, "overhead"),
        ("stages", 1, float(whole.stage_seconds), "network"),
        ("host", 1, float(whole.host_seconds), "host"),
    )
    for what, runs, seconds, bound in beside:
        if seconds > 0:
            yield name, what, runs, seconds * 1e3, 0.0, 0.0, bound


def _figures(time: OperatorTime) -> tuple[float, float, float, str]:
    limits = (time.memory_seconds, time.compute_seconds, time.network_seconds, time.overhead_seconds)
    bound = str(BOUNDS[int(np.argmax([float(seconds) for seconds in limits]))])
    return float(time.seconds) * 1e3, float(time.operations), float(time.moved_bytes), bound
