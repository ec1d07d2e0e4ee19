"""Measurements held against predictions: every row mapped to cards, or refused with what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from specsim.accuracy.comparison import Compared, Comparison, Refusal, of_decoding
from specsim.accuracy.fit import Case, Evidence, with_constants
from specsim.accuracy.kernel_tables import of_kernels
from specsim.catalog.measured import Names, Refused, kernel_machine, map_row
from specsim.catalog.measurements import shipped
from specsim.specs.measurement import Measurement


def cases_of(rows: Iterable[Measurement], names: Names) -> tuple[list[Case], list[Refusal]]:
    """The rows of decoding as cases for fits, and those that cannot be mapped."""
    found, refused = [], []
    for row in rows:
        if row.kind in ("baseline", "speculative"):
            try:
                mapped = map_row(row, names)
            except Refused as missing:
                refused.append(Refusal(row, str(missing)))
                continue
            found.append(Case(row, mapped.set_up, mapped.assumed))
    return found, refused


def compare(rows: Sequence[Measurement], names: Names, *, left_out: bool = False) -> Compared:
    """Hold rows against predictions.

    Args:
        rows: The measurements.
        names: Names of their sources to cards.
        left_out: Predict each row by constants of its runtime that were fitted without its source, and not by those
            of the runtime's card.
    """
    evidence = Evidence(cases_of(shipped(), Names())[0]) if left_out else None
    comparisons: list[Comparison] = []
    refused, silent = [], []
    for row in rows:
        try:
            found = _of_row(row, names, evidence)
        except Refused as missing:
            refused.append(Refusal(row, str(missing)))
            continue
        if found:
            comparisons.extend(found)
        else:
            silent.append(row)
    return Compared(tuple(comparisons), tuple(refused), tuple(silent))


def _of_row(row: Measurement, names: Names, evidence: Evidence | None) -> list[Comparison]:
    if row.kind == "acceptance":
        return []
    if row.kind == "step_time":
        machine, target, precision, cached = kernel_machine(row, names)
        found = list(of_kernels(row, machine, target, precision, cached))
        return [replace(one, runtime=machine.runtime.name) for one in found]
    mapped = map_row(row, names)
    set_up = mapped.set_up
    runtime = set_up.machine.runtime.name
    if evidence is not None:
        set_up = with_constants(set_up, **evidence.constants(runtime, row.source))
    return [replace(one, runtime=runtime) for one in of_decoding(row, set_up, mapped.assumed)]
