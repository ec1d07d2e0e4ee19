"""The columns of rows: name, unit and meaning in one table that feeds CSV, help and manual."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from specsim.cost.memory import LIMITS
from specsim.cost.roofline import BOUNDS
from specsim.planning.rounds import DECISIONS, Rounds
from specsim.planning.sweep import Block
from specsim.report.table import Table
from specsim.specs.drafter import DraftModel, MeasuredDraft
from specsim.specs.scenario import Scenario


@dataclass(frozen=True, eq=False)
class Answer:
    """A block of a grid with its rounds: what one table of rows is made from."""

    block: Block
    rounds: Rounds

    @property
    def scenario(self) -> Scenario:
        """The scenario that the block is a part of."""
        return self.block.scenario

    @property
    def draft(self) -> DraftModel | MeasuredDraft:
        """The drafter."""
        return self.block.question.draft

    @property
    def draft_model(self) -> DraftModel | None:
        """The draft model, None where only its cost is known."""
        return self.draft if isinstance(self.draft, DraftModel) else None


@dataclass(frozen=True, eq=False)
class Column:
    """One column: how it is called, in which unit, what it means, how it is computed, and when it is empty.

    Attributes:
        timing: Whether it is a time or follows from one, and is empty where the point is not feasible.
        absolute: Whether it needs a plain step in seconds, and is empty where only ratios are known.
    """

    name: str
    unit: str
    meaning: str
    value: Callable[[Answer], object]
    timing: bool = False
    absolute: bool = False


def _described(path: str) -> Callable[[Answer], object]:
    """What the question says at a path of attributes; empty where a part of it is absent."""

    def value(answer: Answer) -> object:
        found: object = answer
        for name in path.split("."):
            if found is None:
                return ""
            found = getattr(found, name)
        return found

    return value


def _milliseconds(seconds: Callable[[Answer], np.ndarray]) -> Callable[[Answer], np.ndarray]:
    return lambda answer: seconds(answer) * 1e3


def _round_ms(a: Answer) -> np.ndarray:
    # Added up from the columns beside it, so that the sum is exact in every digit.
    costs = a.rounds.costs
    return costs.drafting_seconds * 1e3 + costs.verification_seconds * 1e3 + costs.overhead_seconds * 1e3


def _over_plain(seconds: Callable[[Answer], np.ndarray]) -> Callable[[Answer], np.ndarray]:
    return lambda answer: seconds(answer) / answer.rounds.costs.plain_seconds


def _draft_cost_ratio(a: Answer) -> np.ndarray:
    levels = np.where(a.rounds.axes.gamma > 0, a.rounds.axes.gamma, np.nan)
    return a.rounds.costs.drafting_seconds / (levels * a.rounds.costs.plain_seconds)


def _per_second(seconds_per_token: Callable[[Answer], np.ndarray]) -> Callable[[Answer], np.ndarray]:
    return lambda answer: answer.rounds.axes.batch_size / seconds_per_token(answer)


def _seconds_per_token(a: Answer) -> np.ndarray:
    return a.rounds.round_seconds / a.rounds.tokens_per_round


def _plain(a: Answer) -> np.ndarray:
    return a.rounds.costs.plain_seconds


def _fit(field: str, empty: object) -> Callable[[Answer], object]:
    return lambda answer: getattr(answer.rounds.fit, field) if answer.rounds.fit is not None else empty


def _bound(a: Answer) -> object:
    return "" if a.rounds.costs.bound is None else BOUNDS[a.rounds.costs.bound]


def _limit(a: Answer) -> object:
    return "" if a.rounds.fit is None else LIMITS[a.rounds.fit.limit]


COLUMNS = (
    Column("hardware", "", "accelerator, by its catalogue name", _described("scenario.hardware.name")),
    Column("accelerators", "", "accelerators that the target is split over", _described("scenario.target.tensor_parallel")),
    Column("target", "", "target model", _described("scenario.target.model.name")),
    Column("precision", "", "number format of the target's weights", _described("scenario.target.precision.name")),
    Column("kv_precision", "", "number format of the target's cache", _described("scenario.target.kv_precision")),
    Column("tensor_parallel", "", "devices that split each tensor of the target", _described("scenario.target.tensor_parallel")),
    Column("draft", "", "draft model", _described("draft_model.model.name")),
    Column("method", "", "method of drafting", _described("draft.method")),
    Column("draft_precision", "", "number format of the draft's weights", _described("draft_model.precision.name")),
    Column("draft_tensor_parallel", "", "devices that split each tensor of the draft", _described("draft_model.tensor_parallel")),
    Column("runtime", "", "runtime card", _described("scenario.runtime.name")),
    Column("acceptance", "", "acceptance, in its command-line form", _described("draft.acceptance.label")),
    Column("batch_size", "", "sequences decoded together", lambda a: a.rounds.axes.batch_size.astype(np.int64)),
    Column("context_length", "tokens", "tokens of each sequence in the cache", lambda a: a.rounds.axes.context_length.astype(np.int64)),
    Column("gamma", "tokens", "drafted tokens per round; 0 is plain decoding; the depth of a tree", lambda a: a.rounds.axes.gamma),
    Column("tree", "", "shape of the token tree, empty for a chain", lambda a: ""),
    Column("nodes", "", "verified tokens per sequence, the root included", lambda a: a.rounds.axes.gamma + 1),
    Column("feasible", "", "whether weights, caches and positions suffice", lambda a: a.rounds.feasible),
    Column("limit", "", "what stands against it: memory, kv_cache or position", _limit),
    Column("limit_excess_bytes", "bytes", "by how much one device's memory is exceeded", _fit("excess_bytes", np.nan)),
    Column("best", "", "whether this gamma is the best of its batch and context", lambda a: a.rounds.best),
    Column("near_best", "tokens", "the smallest gamma within 2 % of the best, -1 where nothing fits", lambda a: a.rounds.near_best),
    Column("tokens_per_round", "tokens", "emitted tokens per round and sequence, bonus included", lambda a: a.rounds.tokens_per_round),
    Column("accepted_per_drafted", "", "accepted / drafted tokens, what engines print", lambda a: a.rounds.accepted_per_drafted),
    Column("plain_step_ms", "ms", "one plain decoding step", _milliseconds(_plain), True, True),
    Column("drafting_ms", "ms", "all draft steps of a round", _milliseconds(lambda a: a.rounds.costs.drafting_seconds), True, True),
    Column("verification_ms", "ms", "verifying gamma + 1 tokens", _milliseconds(lambda a: a.rounds.costs.verification_seconds), True, True),
    Column("overhead_ms", "ms", "fixed costs and repairs of a round", _milliseconds(lambda a: a.rounds.costs.overhead_seconds), True, True),
    Column("round_ms", "ms", "drafting + verification + overhead", _round_ms, True, True),
    Column("draft_cost_ratio", "", "drafting / (gamma x plain step)", _draft_cost_ratio, True),
    Column("verify_cost_ratio", "", "verification / plain step", _over_plain(lambda a: a.rounds.costs.verification_seconds), True),
    Column("round_cost_ratio", "", "round / plain step", _over_plain(lambda a: a.rounds.round_seconds), True),
    Column("speedup", "", "plain / speculative time per output token", lambda a: a.rounds.speedup, True),
    Column("speedup_low", "", "speedup at the low end of a published acceptance", lambda a: a.rounds.speedup_low, True),
    Column("speedup_high", "", "speedup at its high end", lambda a: a.rounds.speedup_high, True),
    Column("decision", "", "speculate, off, or unclear where the range of speedups includes 1", lambda a: DECISIONS[a.rounds.decision]),
    Column("tokens_per_second", "tokens/s", "output tokens of the whole batch", _per_second(_seconds_per_token), True, True),
    Column("plain_tokens_per_second", "tokens/s", "the same without speculation", _per_second(_plain), True, True),
    Column("time_per_output_token_ms", "ms", "round / tokens_per_round", _milliseconds(_seconds_per_token), True, True),
    Column("operations_factor", "", "operations per output token / the same of plain decoding", lambda a: a.rounds.costs.operations_ratio / a.rounds.tokens_per_round),
    Column("bytes_factor", "", "bytes moved per output token / the same of plain decoding", lambda a: a.rounds.costs.bytes_ratio / a.rounds.tokens_per_round),
    Column("memory_bytes", "bytes", "weights and caches on one device", _fit("needed_bytes", np.nan)),
    Column("max_batch_size", "", "most sequences of this context that fit", _fit("max_batch_size", np.nan)),
    Column("bound", "", "what verification waits for most: memory, compute, network or overhead", _bound, True),
    Column("extrapolated", "", "whether this gamma lies beyond the recorded acceptance", lambda a: a.rounds.extrapolated),
)


def rows(answer: Answer) -> Table:
    """The table of one block: one row for every batch, context and gamma."""
    infeasible = ~answer.rounds.feasible
    blank = infeasible if infeasible.any() else None
    absolute = answer.rounds.costs.absolute
    columns = {}
    for column in COLUMNS:
        values = np.asarray(column.value(answer))
        if values.dtype.kind in "US":
            values = values.astype(object)
        if column.absolute and not absolute:
            values = np.full((), np.nan)
        elif column.timing and blank is not None:
            values = np.where(blank, "" if values.dtype == object else np.nan, values)
        columns[column.name] = values
    return Table(columns, answer.rounds.axes.shape)
