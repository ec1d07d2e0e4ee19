"""Tables of ``measure``: what was accepted, what it took, and whether the output is the target's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specsim.reference.measuring import NEAR_TIE, PLAIN, Text, TextRun
from specsim.reference.statistics import Summary, summary
from specsim.reference.texts import repetition
from specsim.report.table import Table


@dataclass(frozen=True, eq=False)
class Measured:
    """What ``measure`` found.

    Attributes:
        table: One row for each drafter and shape, and kind, sort or text if that was asked for.
        runs: Every text, plain and drafted.
        texts: The prompts in tokens.
    """

    table: Table
    runs: tuple[TextRun, ...]
    texts: tuple[Text, ...]


@dataclass(frozen=True)
class RowShape:
    """A shape as rows have it: draft length, label of a tree ("" for chains), nodes with the root."""

    label: str
    gamma: int
    tree: str
    nodes: int


def measured(
    runs: Sequence[TextRun],
    texts: Sequence[Text],
    drafters: Sequence[str],
    shapes: Sequence[RowShape],
    by: str,
    seed: int,
    lead: Callable[[Text, TextRun, TextRun], float | None] | None,
    assumed: Sequence[str],
) -> Measured:
    """Sum runs up.

    Args:
        runs: Every text, plain and drafted.
        texts: The prompts.
        drafters: Labels, in the order of rows.
        shapes: Shapes, in the order of rows.
        by: ``draft``, ``kind``, ``sort`` or ``text``.
        seed: Of intervals.
        lead: The target's lead where two outputs part; None where they need not be the same.
        assumed: What the table ends with.
    """
    found = {run.key: run for run in runs}
    plain = {text.name: found[text.name, *PLAIN] for text in texts}
    sorts = {text.name: repetition(text.prompt, plain[text.name].output).sort for text in texts}
    groups: dict[str, list[Text]] = {}
    for text in texts:
        label = {"kind": text.kind or "unnamed", "sort": sorts[text.name], "text": text.name}.get(by, "")
        groups.setdefault(label, []).append(text)
    depth = max(shape.gamma for shape in shapes)
    rows = []
    for drafter in drafters:
        for shape in shapes:
            for label, members in groups.items():
                drafted = [found[text.name, drafter, shape.label] for text in members]
                beside = [plain[text.name] for text in members]
                row: dict[str, Any] = {"draft": drafter, "gamma": shape.gamma, "tree": shape.tree, "nodes": shape.nodes}
                if by != "draft":
                    row[by] = label
                if by == "text":
                    shares = repetition(members[0].prompt, beside[0].output)
                    row |= {"sort": sorts[label], "copied": shares.copied, "looped": shares.looped}
                row |= _counts(summary([run.rounds for run in drafted], shape.gamma, seed), depth)
                row |= _times(drafted, beside)
                row |= _sameness(members, drafted, beside, lead)
                rows.append(row)
    return Measured(_table(rows, tuple(assumed)), tuple(runs), tuple(texts))


def _counts(found: Summary, depth: int) -> dict[str, Any]:
    def filled(values: Any, length: int) -> list[float]:
        return [*values.tolist(), *[float("nan")] * (length - len(values))]

    row = {
        "texts": found.texts,
        "tokens": found.tokens,
        "rounds": found.rounds,
        "whole_rounds": found.whole_rounds,
        "tokens_per_round": found.tokens_per_round,
        "tokens_low": found.low,
        "tokens_high": found.high,
        "accepted_per_drafted": found.accepted_per_drafted,
        "acceptance_rate": found.acceptance_rate,
        "drafted_per_round": found.drafted_per_round,
        "empty_rounds": found.empty_rounds,
        "empty_rounds_per_token": found.empty_rounds_per_token,
        "draft_passes_per_round": found.draft_passes_per_round,
        "proposal_ms": found.proposal_seconds * 1e3,
        "verification_ms": found.verification_seconds * 1e3,
        "repair_ms": found.repair_seconds * 1e3,
    }
    row |= {f"accepted_{k}": share for k, share in enumerate(filled(found.distribution, depth + 1))}
    return row | {f"survival_{j}": share for j, share in enumerate(filled(found.survival, depth), start=1)}


def _times(drafted: Sequence[TextRun], beside: Sequence[TextRun]) -> dict[str, Any]:
    """Times per token, plain and drafted, over all texts; and their ratio, text by text."""
    per_token = [_per_token(run) for run in beside]
    ratios = [
        _per_token(one) / _per_token(other)
        for one, other in zip(beside, drafted, strict=True)
        if other.seconds > 0 and one.output and other.output
    ]
    return {
        "prefill_ms": float(np.mean([run.prefill_seconds for run in drafted])) * 1e3,
        "plain_step_ms": float(np.median(per_token)) * 1e3,
        "speedup": _pooled(beside) / _pooled(drafted) if _pooled(drafted) > 0 else float("nan"),
        "speedup_median": float(np.median(ratios)) if ratios else float("nan"),
    }


def _per_token(run: TextRun) -> float:
    return run.seconds / len(run.output) if run.output else float("nan")


def _pooled(runs: Sequence[TextRun]) -> float:
    tokens = sum(len(run.output) for run in runs)
    return sum(run.seconds for run in runs) / tokens if tokens else float("nan")


def _sameness(
    texts: Sequence[Text],
    drafted: Sequence[TextRun],
    beside: Sequence[TextRun],
    lead: Callable[[Text, TextRun, TextRun], float | None] | None,
) -> dict[str, Any]:
    """How many outputs are the target's own, and how many part from it at a near tie or elsewhere."""
    if lead is None:
        return {"same_output": float("nan"), "near_ties": float("nan"), "differing": float("nan")}
    leads = [
        None if one.output == other.output else lead(text, other, one)
        for text, one, other in zip(texts, drafted, beside, strict=True)
    ]
    near = sum(one is not None and one < NEAR_TIE for one in leads)
    same = sum(one is None for one in leads)
    return {"same_output": float(same), "near_ties": float(near), "differing": float(len(leads) - same - near)}


def _table(rows: Sequence[dict[str, Any]], assumed: tuple[str, ...]) -> Table:
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    words = {name: values.astype(object) for name, values in columns.items() if values.dtype.kind == "U"}
    return Table(columns | words, (len(rows),), assumed)
