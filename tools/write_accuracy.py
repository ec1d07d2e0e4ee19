"""Writes docs/accuracy.md with its picture: how wrong predictions are, from the shipped measurements.

Run by ``make accuracy``; a test holds the page against what it would write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from specsim.accuracy.comparison import QUANTITIES, Compared, Comparison, interferes
from specsim.accuracy.experiments import Anchored, FromPlain, anchored_sources, from_plain_steps
from specsim.accuracy.fit import POOLED, TYPICAL, Case, Evidence
from specsim.accuracy.summary import BestGamma, Errors, best_gammas, errors_of, sides, summary
from specsim.api import accuracy
from specsim.catalog.compared import cases_of
from specsim.catalog.measured import Names
from specsim.catalog.measurements import shipped
from specsim.report.picture import draw_comparisons

DOCS = Path(__file__).resolve().parents[1] / "docs"
PICTURE = "accuracy.svg"
RUNTIMES = (TYPICAL, "gpt-fast", "huggingface", "huggingface-graphs", "sglang", "tensorrt-llm", "vllm")


def percent(share: float) -> str:
    """A share for the eye."""
    return f"{100 * share:.1f}"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [" | ".join(header), " | ".join(["---"] * len(header))]
    lines += [" | ".join(str(cell) for cell in row) for row in rows]
    return "".join(f"| {line} |\n" for line in lines)


def errors(one: Errors) -> list[str]:
    """n and errors of a line."""
    return [f"{one.set_ups} ({one.rows})", percent(one.median), percent(one.p90), f"{100 * one.bias:+.1f}"]


def of_quantities(shown: Compared, left: Compared) -> str:
    """Errors of every quantity, by shipped cards and left out."""
    by_name = {one.quantity: one for one in summary(left.comparisons)}
    rows = []
    for one in sorted(summary(shown.comparisons), key=lambda found: list(QUANTITIES).index(found.quantity)):
        other = by_name[one.quantity]
        rows.append([
            f"`{one.quantity}`", f"{one.set_ups} ({one.rows})", percent(one.median), percent(one.p90),
            percent(other.median), percent(other.p90), f"{100 * other.bias:+.1f}",
        ])  # fmt: skip
    header = ("quantity", "n", "median", "90th", "left out: median", "90th", "bias")
    return table(header, rows)


def chosen(comparisons: Iterable[Comparison], quantity: str, keep) -> list[Comparison]:  # type: ignore[no-untyped-def]
    """Some comparisons of one quantity."""
    return [one for one in comparisons if one.quantity == quantity and keep(one)]


def headline(left: Compared) -> list[tuple[str, Errors]]:
    """The sets that the front page quotes, left out by source."""
    everything = left.comparisons
    graphs = chosen(everything, "plain_step_ms", lambda c: c.runtime in POOLED and not c.row.excluded)
    known = chosen(everything, "speedup", lambda c: c.row.tau is not None and "hardware" not in c.row.inferred)
    return [
        ("plain step, engines with captured graphs", errors_of("plain_step_ms", "", graphs)),
        ("speedup, tokens per round measured", errors_of("speedup", "", known)),
    ]


def by_source(left: Compared) -> str:
    """Errors of steps and speedups, source by source."""
    rows = []
    for quantity in ("plain_step_ms", "speedup", "tokens_per_second"):
        found = [one for one in left.comparisons if one.quantity == quantity]
        for one in sorted(summary(found, "source"), key=lambda line: line.median):
            rows.append([f"`{quantity}`", one.group, *errors(one)])
    return table(("quantity", "source", "n", "median", "90th", "bias"), rows)


def by_batch(left: Compared) -> str:
    """Errors by band of batch sizes."""
    rows = []
    for quantity in ("plain_step_ms", "speedup"):
        found = [one for one in left.comparisons if one.quantity == quantity]
        rows += [[f"`{quantity}`", one.group, *errors(one)] for one in summary(found, "batch")]
    return table(("quantity", "batch", "n", "median", "90th", "bias"), rows)


def refinements(cases: Sequence[Case]) -> str:
    """What left-out errors become where a part of the timing model is taken away, constants fitted again."""
    changes = {
        "as it is": {},
        "one limit for the whole step": {"aggregation": "step"},
        "the larger limit in place of the 4-norm": {"corner": "sharp"},
        "no activations": {"activations": False},
        "no operations of attention": {"attention_operations": False},
        "no cost of a kernel": {"kernels": "bare"},
        "no latency of an all-reduce": {"all_reduce_latency_seconds": 0.0},
        "no cost per layer, draft step or round": {"constants": "none"},
    }
    rows = []
    for name, change in changes.items():
        plain, speedup = left_out_errors([changed(case, change) for case in cases], change)
        rows.append([name, *(percent(figure) for figure in (*plain, *speedup))])
    return table(("", "plain step: median", "90th", "speedup: median", "90th"), rows)


def changed(case: Case, change: dict[str, object]) -> Case:
    """A case under another timing model."""
    machine = case.set_up.machine
    fields = {key: value for key, value in change.items() if key not in ("kernels", "constants")}
    runtime = replace(machine.runtime, **fields)  # type: ignore[arg-type]
    if change.get("kernels") == "bare":
        bare = replace(machine.kernels, matrix_overhead_seconds=0.0, attention_overhead_seconds=0.0)
        runtime = replace(runtime, kernels=bare)
    return Case(case.row, replace(case.set_up, machine=replace(machine, runtime=runtime)), case.assumed)


def left_out_errors(
    cases: Sequence[Case], change: dict[str, object]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Median and 90th percentile, by set-up, of plain steps with captured graphs and of speedups."""
    evidence = Evidence(cases)
    plain: dict[str, list[float]] = {}
    speedup: dict[str, list[float]] = {}
    for case in cases:
        constants = evidence.constants(case.runtime, case.row.source)
        if change.get("constants") == "none":
            constants = {**dict.fromkeys(constants, 0.0), "tree_factor": 1.0}
        measured = case.measured_plain_seconds
        if measured is not None and case.runtime in POOLED and not case.row.excluded and not interferes(case.row):
            plain.setdefault(case.plain_words, []).append(case.plain_seconds(constants) / measured - 1)
        if case.has_round and "hardware" not in case.row.inferred:
            speedup.setdefault(case.set_up_words, []).append(case.speedup(constants) / (case.row.speedup or 1) - 1)
    found = []
    for group in (plain, speedup):
        sizes = np.abs([np.median(values) for values in group.values()])
        found.append((float(np.median(sizes)), float(np.quantile(sizes, 0.9))))
    return found[0], found[1]


def constants(evidence: Evidence) -> str:
    """The constants of runtimes with their intervals."""
    rows = []
    for name in RUNTIMES:
        spread = evidence.intervals(name)
        own = evidence.own_constants(name)
        for constant, value in evidence.constants(name).items():
            if constant in own and (value or spread[constant][1]):
                scale, unit = (1e6, " us") if constant.endswith("_seconds") else (1.0, "")
                low, high = (f"{bound * scale:.3g}" for bound in spread[constant])
                written = f"`{constant.removesuffix('_seconds')}`"
                rows.append([name, written, f"{value * scale:.3g}{unit}", f"{low} to {high}"])
    return table(("runtime", "constant", "value", "one source left out"), rows)


def head(left: Compared) -> str:
    """What the front page quotes."""
    rows = [[name, *errors(one)] for name, one in headline(left)]
    return table(("left out by source", "n", "median", "90th", "bias"), rows)


def regret(best: Sequence[BestGamma]) -> str:
    """What the predicted draft length loses."""
    lost = [one.regret for one in best]
    return f"{percent(float(np.median(lost)))} % at the median and {percent(max(lost))} % at most"


def from_plain(column: FromPlain) -> str:
    """Errors of each column of a table whose plain column was fitted."""
    columns = {
        "plain step (fitted)": column.plain,
        "verification": column.verification,
        "drafting": column.drafting,
    }
    rows = []
    for name, values in columns.items():
        sizes = np.abs(values)
        rows.append([name, len(values), percent(float(np.median(sizes))), percent(float(np.quantile(sizes, 0.9)))])
    return table(("column", "n", "median", "90th"), rows)


def with_anchor(found: Sequence[Anchored]) -> str:
    """Errors of speedups without and with a plain step of the source."""
    rows: list[list[object]] = [[o.source, o.set_ups, percent(o.before), percent(o.after)] for o in found]
    pairs = zip(*((o.before, o.after) for o in found), strict=True)
    rows.append(["**mean over sources**", "", *(percent(float(np.mean(values))) for values in pairs)])
    return table(("source", "speedups", "class constants", "with one plain step"), rows)


def page() -> str:
    """The whole page."""
    shown, _ = accuracy.compare_measurements(None, None, left_out=False)
    left, _ = accuracy.compare_measurements(None, None, left_out=True)
    cases = cases_of(shipped(), Names())[0]
    evidence = Evidence(cases)
    side = sides(chosen(left.comparisons, "speedup", lambda c: c.row.tau is not None))
    best = best_gammas(left.comparisons)
    anchored = anchored_sources(evidence)
    column = from_plain_steps(case for case in cases if "MagicDec" in case.row.source)
    text = (DOCS / "accuracy.template.md").read_text(encoding="utf-8")
    parts = {
        "ROWS": f"{len(shipped()):,}",
        "COMPARISONS": f"{len(left.comparisons):,}",
        "REFUSED": f"{len(left.refused):,}",
        "HEADLINE": head(left),
        "SIDES": f"{side.gains[1]} of {side.gains[0]} gains and {side.losses[1]} of {side.losses[0]} losses",
        "BALANCED": f"{side.balanced_accuracy:.2f}",
        "REGRET": regret(best),
        "SWEEPS": str(len(best)),
        "QUANTITIES": of_quantities(shown, left),
        "MAGICDEC": from_plain(column),
        "ANCHORED": with_anchor(anchored),
        "REFINEMENTS": refinements(cases),
        "CONSTANTS": constants(evidence),
        "BATCH": by_batch(left),
        "SOURCES": by_source(left),
    }
    for name, part in parts.items():
        text = text.replace("{{" + name + "}}", part.rstrip("\n"))
    return text


def main() -> None:
    """Rewrite the page and its picture."""
    (DOCS / "accuracy.md").write_text(page(), encoding="utf-8")
    left, _ = accuracy.compare_measurements(None, None, left_out=True)
    draw_comparisons(left.comparisons, str(DOCS / PICTURE))


if __name__ == "__main__":
    main()
