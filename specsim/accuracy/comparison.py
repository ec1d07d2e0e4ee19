"""One measured quantity beside what the model predicts for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from specsim.accuracy.set_up import SetUp
from specsim.specs.measurement import Measurement

QUANTITIES = {
    "plain_step_ms": "one plain step [ms]",
    "tokens_per_second": "output tokens of the whole batch with the reading of its prompts [tokens/s]",
    "token_latency_ms": "time per token with the reading of other requests' prompts between steps [ms]",
    "draft_step_ms": "one draft step [ms]",
    "drafting_ms": "all draft steps of a round [ms]",
    "verification_ms": "verifying what a round has drafted [ms]",
    "draft_cost_ratio": "one draft step / plain step",
    "verify_cost_ratio": "verification / plain step",
    "round_cost_ratio": "round / plain step",
    "speedup": "plain / speculative time per output token, with the measured tokens per round",
    "matrix_us": "one matrix product [us]",
    "linear_layers_ms": "the matrix products of all layers [ms]",
    "attention_us": "attention of one layer over the cache [us]",
    "all_reduce_us": "one all-reduce [us]",
}
"""What measurements and predictions are compared in."""


@dataclass(frozen=True)
class Comparison:
    """One measured quantity and its prediction.

    Attributes:
        row: The measurement.
        quantity: A key of ``QUANTITIES``.
        measured: What came out.
        predicted: What the model says.
        set_up: What ran, in words; rows that differ in nothing but the task share it.
        assumed: What was taken for granted of the set-up.
        at: Size of a point of a curve, in tokens or bytes, None elsewhere.
        runtime: Runtime of the prediction.
    """

    row: Measurement
    quantity: str
    measured: float
    predicted: float
    set_up: str
    assumed: tuple[str, ...] = ()
    at: int | None = None
    runtime: str = ""

    @property
    def relative_error(self) -> float:
        """Predicted / measured - 1."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True)
class Refusal:
    """A row that no prediction was made for, and what is missing."""

    row: Measurement
    missing: str


@dataclass(frozen=True)
class Compared:
    """All comparisons of some rows.

    Attributes:
        comparisons: One for every quantity that was measured and predicted.
        refused: Rows without a prediction.
        without_times: Rows that have nothing to predict.
    """

    comparisons: tuple[Comparison, ...]
    refused: tuple[Refusal, ...]
    without_times: tuple[Measurement, ...]


def measured_plain_seconds(row: Measurement) -> float | None:
    """A plain step as a source has it: per token, or from a throughput without the reading of prompts [s]."""
    if row.batch is None:
        return None
    per_token = row.ms_per_token or row.baseline_ms_per_token
    if per_token is not None:
        return per_token * 1e-3
    rate = row.baseline_tokens_per_s or (None if reads_prompts(row) else row.tokens_per_s)
    return row.batch / rate if rate is not None else None


def reads_prompts(row: Measurement) -> bool:
    """Whether a throughput counts the time in which prompts are read: it is one of whole requests."""
    return row.context is not None and bool(row.output) and row.ms_per_token is None


def measured_round_seconds(row: Measurement) -> float | None:
    """A round, from tokens per round and the time or the throughput beside it [s]."""
    tokens = row.tau
    if tokens is None or row.batch is None:
        return None
    if row.speculative_ms_per_token is not None:
        return tokens * row.speculative_ms_per_token * 1e-3
    return tokens * row.batch / row.speculative_tokens_per_s if row.speculative_tokens_per_s is not None else None


def of_decoding(row: Measurement, set_up: SetUp, assumed: tuple[str, ...]) -> Iterator[Comparison]:
    """The comparisons of a row of plain or of speculative decoding."""
    plain, shared = set_up.plain_seconds(), words(row)
    without_draft = tuple(field for field in assumed if not field.startswith("draft"))
    measured = measured_plain_seconds(row)
    if measured is not None and not interferes(row):
        alone = words(row, drafts=False)
        yield Comparison(row, "plain_step_ms", measured * 1e3, plain * 1e3, alone, without_draft)
    yield from _of_requests(row, set_up, plain, without_draft)
    if set_up.draft is None or set_up.shape is None:
        return
    drafting, verification, whole = set_up.drafting_seconds(), set_up.verification_seconds(), set_up.round_seconds()
    step, tokens = drafting / set_up.shape.levels, set_up.tokens_per_round
    ratio = tokens / row.speedup if tokens is not None and row.speedup is not None else row.step_cost_ratio
    for quantity, measured, predicted in (
        ("drafting_ms", row.draft_total_ms, drafting * 1e3),
        ("draft_step_ms", _printed(row, "draft_ms_per_token"), step * 1e3),
        ("verification_ms", row.verify_ms, verification * 1e3),
        ("draft_cost_ratio", _printed(row, "draft_cost_ratio") or None, step / plain),
        ("verify_cost_ratio", _printed(row, "verify_ratio"), verification / plain),
        ("round_cost_ratio", ratio, whole / plain),
        ("speedup", row.speedup, None if tokens is None else tokens * plain / whole),
    ):
        if measured is not None and predicted is not None:
            yield Comparison(row, quantity, measured, predicted, shared, assumed)


def _of_requests(row: Measurement, set_up: SetUp, plain: float, assumed: tuple[str, ...]) -> Iterator[Comparison]:
    """Figures of whole requests: reading the prompts of a batch, then a step for each token of the output."""
    if not row.batch or not row.output or row.context is None:
        return
    alone = words(row, drafts=False)
    rate = _whole_rate(row)
    if reads_prompts(row) and rate is not None:
        seconds = set_up.prefill_seconds(row.context) + row.output * plain
        yield Comparison(row, "tokens_per_second", rate, row.batch * row.output / seconds, alone, assumed)
    if interferes(row) and row.ms_per_token is not None:
        one = replace(set_up, batch_size=1).prefill_seconds(row.context)
        seconds = plain + row.batch * one / row.output
        yield Comparison(row, "token_latency_ms", row.ms_per_token, seconds * 1e3, alone, assumed)


def interferes(row: Measurement) -> bool:
    """Whether a time per token has the reading of other requests' prompts in it."""
    return "interference" in row.notes and (row.batch or 1) > 1


def _printed(row: Measurement, field: str) -> float | None:
    """A figure of the source; what was computed from others that are compared says nothing more."""
    value: float | None = getattr(row, field)
    return None if field in row.derived else value


def _whole_rate(row: Measurement) -> float | None:
    if row.tokens_per_s is not None:
        return row.tokens_per_s
    if row.tokens_per_s_per_gpu is not None:
        return row.tokens_per_s_per_gpu * (row.accelerators or 1)
    if row.total_latency_ms is not None and row.batch is not None and row.output:
        return row.batch * row.output / row.total_latency_ms * 1e3
    return None


def words(row: Measurement, *, drafts: bool = True) -> str:
    """What ran, in words that rows of one set-up share."""
    devices = row.tensor_parallel or row.accelerators
    told = [
        row.source, row.hardware, f"x{devices}" if devices else "", row.target, row.dtype, row.kv_dtype, row.engine,
        f"batch {row.batch}", f"context {row.context}" if row.context is not None else "",
    ]  # fmt: skip
    if drafts:
        told += [row.method, row.draft, row.tree, f"gamma {row.gamma}" if row.gamma else ""]
        told += [f"tree of {row.tree_size}" if row.tree_size and not row.tree else ""]
    return ", ".join(part for part in told if part)
