"""Tables of what was measured beside what is predicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from specsim import units
from specsim.accuracy.comparison import QUANTITIES, Compared, Comparison
from specsim.accuracy.fit import POOLED, TYPICAL, Constants, Evidence
from specsim.accuracy.summary import Errors, best_gammas, sides, summary
from specsim.report.table import Table
from specsim.specs.measurement import Measurement


def _column(values: Sequence[Any]) -> np.ndarray:
    if values and all(isinstance(value, float) for value in values):
        return np.array(values, dtype=float)
    return np.array(values, dtype=object)


def table_of(rows: Sequence[Mapping[str, Any]], names: Sequence[str], assumed: tuple[str, ...] = ()) -> Table:
    """Rows as a table; what a row lacks is empty."""
    return Table({name: _column([row.get(name) for row in rows]) for name in names}, (len(rows),), assumed)


COLUMNS = (
    "id", "source", "hardware", "target", "draft", "method", "batch_size", "context_length", "gamma", "tree",
    "quantity", "measured", "predicted", "relative_error", "set_up", "assumed", "at", "runtime", "missing",
)  # fmt: skip
"""Columns of a comparison: ``at`` is the size of a point of a curve, in tokens or bytes; ``missing`` is why a row has
no prediction."""


def comparison_table(found: Compared) -> Table:
    """One row for every compared quantity, and then one for every row that has no prediction."""
    rows = [_compared(one) for one in found.comparisons]
    rows += [{**_what_ran(one.row), "missing": one.missing} for one in found.refused]
    return table_of(rows, COLUMNS, assumed=_assumed(found))


def _compared(one: Comparison) -> dict[str, Any]:
    return {
        **_what_ran(one.row), "quantity": one.quantity, "measured": one.measured, "predicted": one.predicted,
        "relative_error": one.relative_error, "set_up": one.set_up, "assumed": "; ".join(one.assumed), "at": one.at,
        "runtime": one.runtime,
    }  # fmt: skip


def _what_ran(row: Measurement) -> dict[str, Any]:
    tree = row.tree or (f"{row.draft_steps}/{row.draft_topk}/{row.verified_tokens}" if row.verified_tokens else "")
    return {
        "id": row.id, "source": row.source, "hardware": row.hardware, "target": row.target, "draft": row.draft,
        "method": row.method, "batch_size": row.batch, "context_length": row.context, "gamma": row.gamma, "tree": tree,
    }  # fmt: skip


def _assumed(found: Compared) -> tuple[str, ...]:
    fields: dict[str, int] = {}
    for one in found.comparisons:
        for field in one.assumed:
            fields[field] = fields.get(field, 0) + 1
    told = [f"{field} in {count} comparisons" for field, count in sorted(fields.items(), key=lambda item: -item[1])]
    return (f"where a source is silent: {', '.join(told)}",) if told else ()


SUMMARY = ("quantity", "group", "set_ups", "rows", "median_error", "p90_error", "bias")


def summary_table(found: Compared, by: str) -> Table:
    """Errors by quantity and group."""
    order = {name: index for index, name in enumerate(QUANTITIES)}
    errors = sorted(summary(found.comparisons, by), key=lambda one: order[one.quantity])
    return table_of([_errors(one) for one in errors], SUMMARY, assumed=_assumed(found))


def _errors(one: Errors) -> dict[str, Any]:
    return {
        "quantity": one.quantity, "group": one.group, "set_ups": one.set_ups, "rows": one.rows,
        "median_error": one.median, "p90_error": one.p90, "bias": one.bias,
    }  # fmt: skip


def told(found: Compared) -> list[str]:
    """Gains and losses, best draft lengths, and rows without a prediction, in words."""
    lines = []
    side = sides(found.comparisons)
    if side.gains[0] + side.losses[0]:
        gains, losses = (f"{right} of {total}" for total, right in (side.gains, side.losses))
        balanced = side.balanced_accuracy
        share = f", balanced accuracy {balanced:.2f}" if balanced == balanced else ""
        lines.append(f"Side of 1: {gains} gains and {losses} losses predicted as such{share}.")
    best = best_gammas(found.comparisons)
    if best:
        regrets = np.array([one.regret for one in best])
        mean = f"{np.median(regrets):.1%} at the median, {regrets.max():.1%} at most"
        lines.append(f"Best gamma: of {len(best)} sweeps the predicted one loses {mean} of the measured best.")
    lines += _refusals(found)
    return lines


_MOST_REASONS = 12


def _refusals(found: Compared) -> list[str]:
    """Rows without a prediction: each with its reason where they are few, else how many for which reason."""
    lines = []
    if len(found.refused) <= _MOST_REASONS:
        lines += [f"No prediction for {one.row.id}. Missing or impossible: {one.missing}" for one in found.refused]
    else:
        reasons = Counter(one.missing.partition(";")[0] for one in found.refused).most_common()
        shown = [f"{reason} ({count})" for reason, count in reasons[:_MOST_REASONS]]
        rest = f", and {len(reasons) - _MOST_REASONS} more reasons" if len(reasons) > _MOST_REASONS else ""
        lines.append(f"No prediction for {len(found.refused)} rows, for want of: {', '.join(shown)}{rest}.")
    silent = [row for row in found.without_times if row.kind != "acceptance"]
    if silent:
        some = ", ".join(row.id for row in silent[:_MOST_REASONS]) + (", ..." if len(silent) > _MOST_REASONS else "")
        lines.append(f"No time, ratio or speedup that is predicted stands in {len(silent)} rows: {some}.")
    return lines


CONSTANTS = ("runtime", "constant", "value", "unit", "low", "high", "own", "sources")


def constants_table(evidence: Evidence, runtimes: Sequence[str], without: str | None) -> Table:
    """Constants of runtimes with their intervals and sources."""
    rows = []
    for name in runtimes:
        found, spread = evidence.constants(name, without), evidence.intervals(name)
        own = evidence.own_constants(name, without)
        sources = [source for source in evidence.sources(name) if source != without]
        for constant, value in found.items():
            unit, scale = _unit(constant)
            low, high = spread[constant]
            rows.append({
                "runtime": name, "constant": constant.removesuffix("_seconds"), "value": value * scale, "unit": unit,
                "low": low * scale, "high": high * scale,
                "own": constant in own, "sources": "; ".join(sources) if constant in own else "typical",
            })  # fmt: skip
    unknown = [name for name in runtimes if not evidence.own_constants(name, without)]
    assumed = tuple(
        f"no published measurement tells a constant of {name}: these are those of typical" for name in unknown
    )
    return table_of(rows, CONSTANTS, assumed)


def origins(evidence: Evidence, runtime: str, without: str | None) -> tuple[dict[str, str], dict[str, str]]:
    """Where the constants of a runtime come from, and why those have their value that nothing tells, by field."""
    own, spread = evidence.own_constants(runtime, without), evidence.intervals(runtime)
    sources = "; ".join(source for source in evidence.sources(runtime) if source != without)
    told, assumed = {}, {}
    for constant in evidence.constants(runtime, without):
        written, (unit, scale) = units.written_name(constant), _unit(constant)
        low, high = (f"{bound * scale:.3g}" for bound in spread[constant])
        between = f"{low} to {high} {unit}".strip()
        if constant == "token_overhead_seconds" and not own.get(constant):
            assumed[written] = "kept at 0; it shows only where batches differ, and belongs to one code base"
        elif runtime == TYPICAL:
            told[written] = f"median over {', '.join(POOLED)}; {between} with one source left out"
        elif constant in own:
            told[written] = f"fit to {sources}; {between} with one source left out"
        else:
            assumed[written] = "no measurement of this runtime tells it; as typical has it"
    return told, assumed


def _unit(constant: str) -> tuple[str, float]:
    return ("us", 1e6) if constant.endswith("_seconds") else ("", 1.0)


def fitted_table(found: Constants, rows: int, misfits: np.ndarray) -> Table:
    """Constants that a user's own results tell, and how far off these results are under them."""
    cells = []
    for constant, value in found.items():
        unit, scale = _unit(constant)
        cells.append({"constant": constant.removesuffix("_seconds"), "value": value * scale, "unit": unit})
    off = f"{np.median(misfits):.1%} at the median, {misfits.max():.1%} at most"
    told = f"fitted to {rows} row{'s' if rows > 1 else ''}, which {'are' if rows > 1 else 'is'} off by {off}"
    return table_of(cells, ("constant", "value", "unit"), assumed=(told,))
