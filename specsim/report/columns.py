"""The columns of rows: name, unit and meaning in one table that feeds CSV, help and manual."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from specsim.cost.memory import LIMITS
from specsim.cost.passes import Array
from specsim.cost.roofline import BOUNDS
from specsim.planning.rounds import DECISIONS, Rounds
from specsim.planning.sweep import Block
from specsim.report.table import Table, Words
from specsim.specs.drafter import HEAD_DRAFTS, AnyDraft, DraftModel, HeadDraft, MeasuredDraft, models_of
from specsim.specs.scenario import Scenario
from specsim.specs.served import ServedModel


@dataclass(frozen=True, eq=False)
class Answer:
    """A block of a grid with its rounds, in the units of the columns."""

    block: Block
    rounds: Rounds

    @property
    def scenario(self) -> Scenario:
        """The scenario that the block is a part of."""
        return self.block.scenario

    @property
    def draft(self) -> AnyDraft:
        """The drafter."""
        return self.block.question.draft

    @property
    def draft_name(self) -> str:
        """What the drafter is called; nothing where only its cost is known and it has no name."""
        return self.draft.name or "" if isinstance(self.draft, MeasuredDraft) else self.draft.label

    @property
    def draft_model(self) -> ServedModel | HeadDraft | None:
        """The draft model or head with its formats and layout, None where there is none, or more than one."""
        if isinstance(self.draft, HEAD_DRAFTS):
            return self.draft
        models = models_of(self.draft)
        return models[0] if models else None

    @property
    def accelerators(self) -> int | None:
        """Devices of the target, and those that the drafter has to itself."""
        target = self.scenario.target
        apart = self.draft.devices if isinstance(self.draft, DraftModel) and self.draft.own_device else 0
        return None if target is None else target.devices + apart

    @property
    def batch_size(self) -> np.ndarray:
        """Sequences, as whole numbers."""
        return self.rounds.axes.batch_size.astype(np.int64)

    @property
    def context_length(self) -> np.ndarray:
        """Tokens in the cache, as whole numbers."""
        return self.rounds.axes.context_length.astype(np.int64)

    @property
    def nodes(self) -> np.ndarray:
        """Verified tokens per sequence, as whole numbers."""
        return self.rounds.costs.verified_tokens.astype(np.int64)

    @property
    def tree(self) -> str | Words:
        """The shape of a token tree; a chain has none."""
        shapes = self.rounds.axes.shapes
        if shapes is None:
            return ""
        return Words(np.arange(shapes.nodes.size).reshape(-1, 1, 1), np.array(shapes.labels, dtype=object))

    @property
    def near_best(self) -> np.ndarray:
        """The smallest gamma within 2 % of the best, None where nothing is feasible."""
        near = self.rounds.near_best
        if near.min() >= 0:
            return near
        known = near.astype(object)
        known[near < 0] = None
        return known

    @property
    def limit(self) -> Words | None:
        """What stands against a point."""
        return None if self.rounds.fit is None else Words(self.rounds.fit.limit, LIMITS)

    @property
    def limit_excess_bytes(self) -> np.ndarray | None:
        """By how much a device's memory is exceeded, the target's or the draft's own, in whole bytes."""
        return None if self.rounds.fit is None else _whole(self.rounds.fit.excess_bytes)

    @property
    def memory_bytes(self) -> np.ndarray | None:
        """Weights, caches and activations on one device, in whole bytes."""
        return None if self.rounds.fit is None else _whole(self.rounds.fit.needed_bytes)

    @property
    def draft_memory_bytes(self) -> np.ndarray | None:
        """Weights and cache of the drafter on one device, in whole bytes."""
        return None if self.rounds.fit is None else _whole(self.rounds.fit.draft_bytes)

    @property
    def max_batch_size(self) -> np.ndarray | None:
        """Most sequences that fit, as a whole number."""
        return None if self.rounds.fit is None else _whole(self.rounds.fit.max_batch_size)

    @property
    def bound(self) -> Words | None:
        """What verification waits for most, where the point is feasible."""
        bound = self.rounds.costs.bound
        return None if bound is None else Words((bound + np.int8(1)) * self.rounds.feasible, _BOUNDS_OR_NONE)

    @property
    def decision(self) -> Words:
        """What to do."""
        return Words(self.rounds.decision, DECISIONS)

    @property
    def plain_step_ms(self) -> Array:
        """One plain step [ms]."""
        return self.rounds.costs.plain_seconds * 1e3

    @cached_property
    def drafting_ms(self) -> Array:
        """All draft steps of a round [ms]."""
        return self.rounds.costs.drafting_seconds * 1e3

    @cached_property
    def verification_ms(self) -> Array:
        """Verification [ms]."""
        return self.rounds.costs.verification_seconds * 1e3

    @cached_property
    def overhead_ms(self) -> Array:
        """Fixed costs and repairs of a round [ms]."""
        return self.rounds.costs.overhead_seconds * 1e3

    @cached_property
    def round_ms(self) -> Array:
        """The sum of the three columns beside it, exact in every digit [ms]."""
        return self.drafting_ms + self.verification_ms + self.overhead_ms

    @property
    def draft_cost_ratio(self) -> Array:
        """Drafting / (gamma x plain step), NaN at gamma 0."""
        return self.rounds.costs.draft_cost_ratio

    @property
    def verify_cost_ratio(self) -> Array:
        """Verification / plain step."""
        return self.rounds.costs.verification_seconds / self.rounds.costs.plain_seconds

    @cached_property
    def time_per_output_token_ms(self) -> Array:
        """Round / tokens_per_round [ms]."""
        return self.round_ms / self.rounds.lengths.per_output(self.block.question.output_length)

    @property
    def tokens_per_second(self) -> Array:
        """Output tokens of the whole batch [tokens/s]."""
        return self.rounds.axes.batch_size * 1e3 / self.time_per_output_token_ms

    @property
    def plain_tokens_per_second(self) -> Array:
        """Output tokens of the whole batch in plain decoding [tokens/s]."""
        return self.rounds.axes.batch_size / self.rounds.costs.plain_seconds

    @property
    def operations_factor(self) -> Array:
        """Operations per output token, of plain decoding."""
        return self.rounds.costs.operations_ratio / self.rounds.lengths.tokens_per_round

    @property
    def bytes_factor(self) -> Array:
        """Bytes per output token, of plain decoding."""
        return self.rounds.costs.bytes_ratio / self.rounds.lengths.tokens_per_round


def _whole(values: Array) -> np.ndarray:
    """Whole numbers as integers, where 64 bits hold them."""
    return values.astype(np.int64) if values.max() < 2**63 else values


@dataclass(frozen=True)
class Column:
    """One column: how it is called, in which unit, what it means, and when it is empty.

    Attributes:
        path: Attributes of an ``Answer`` that lead to its values; empty where a part of the path is None.
        is_time: Whether it is a time or follows from one, and is empty where the point does not fit.
        is_absolute: Whether it needs a plain step in seconds, and is empty where only ratios are known.
    """

    name: str
    path: str
    unit: str
    meaning: str
    is_time: bool = False
    is_absolute: bool = False


def _time(name: str, path: str, unit: str, meaning: str) -> Column:
    return Column(name, path, unit, meaning, is_time=True, is_absolute=True)


def _ratio(name: str, path: str, meaning: str) -> Column:
    return Column(name, path, "", meaning, is_time=True)


COLUMNS = (
    Column("hardware", "scenario.hardware.name", "", "accelerator, by its catalogue name"),
    Column("accelerators", "accelerators", "", "accelerators that target and drafter are spread over"),
    Column("target", "scenario.target.model.name", "", "target model"),
    Column("precision", "scenario.target.precision.name", "", "number format of the target's weights"),
    Column("kv_precision", "scenario.target.kv_precision", "", "number format of the target's cache"),
    Column("tensor_parallel", "scenario.target.tensor_parallel", "", "devices that split each layer of the target"),
    Column("draft", "draft_name", "", "draft model, draft head or other drafter"),
    Column("method", "draft.method", "", "method of drafting"),
    Column("draft_precision", "draft_model.precision.name", "", "number format of the draft's weights"),
    Column("draft_tensor_parallel", "draft_model.tensor_parallel", "", "devices that split each layer of the draft"),
    Column("runtime", "scenario.runtime.name", "", "runtime card"),
    Column("acceptance", "draft.acceptance.label", "", "acceptance, in its command-line form"),
    Column("batch_size", "batch_size", "", "sequences decoded together"),
    Column("context_length", "context_length", "tokens", "tokens of each sequence in the cache"),
    Column(
        "gamma", "rounds.axes.gamma", "tokens", "drafted tokens per round, or levels of a tree; 0 is plain decoding"
    ),
    Column("tree", "tree", "", "shape of the token tree, empty for a chain"),
    Column("nodes", "nodes", "", "verified tokens per sequence, the root included; of a lookup where it finds some"),
    Column("feasible", "rounds.feasible", "", "whether weights, caches and positions suffice"),
    Column("limit", "limit", "", "what stands against it: memory, kv_cache or position"),
    Column(
        "limit_excess_bytes",
        "limit_excess_bytes",
        "bytes",
        "by how much a device's memory is exceeded, also a draft's own",
    ),
    Column("best", "rounds.best", "", "whether this gamma or tree is the best of its batch and context"),
    Column("near_best", "near_best", "tokens", "gamma of the smallest draft within 2 % of the best"),
    Column("tokens_per_round", "rounds.lengths.tokens_per_round", "tokens", "emitted tokens per round, bonus included"),
    Column(
        "accepted_per_drafted",
        "rounds.lengths.accepted_per_drafted",
        "",
        "accepted / drafted tokens; under pearl of all that a step drafts, lost or not",
    ),
    _time("plain_step_ms", "plain_step_ms", "ms", "one plain decoding step"),
    _time("drafting_ms", "drafting_ms", "ms", "all draft steps of a round"),
    _time("verification_ms", "verification_ms", "ms", "verifying the drafts of a round"),
    _time("overhead_ms", "overhead_ms", "ms", "fixed costs and repairs of a round"),
    _time("round_ms", "round_ms", "ms", "drafting + verification + overhead"),
    _ratio("draft_cost_ratio", "draft_cost_ratio", "drafting that verification waits for / (gamma x plain step)"),
    _ratio("verify_cost_ratio", "verify_cost_ratio", "verification / plain step"),
    _ratio("round_cost_ratio", "rounds.round_cost_ratio", "round / plain step"),
    _ratio("speedup", "rounds.speedup", "plain / speculative time per output token"),
    _ratio("speedup_low", "rounds.speedup_low", "speedup at the low end of a published acceptance"),
    _ratio("speedup_high", "rounds.speedup_high", "speedup at its high end"),
    Column(
        "decision",
        "decision",
        "",
        "speculate, off, or unclear if the range of speedups includes 1",
    ),
    _time("tokens_per_second", "tokens_per_second", "tokens/s", "output tokens of the whole batch"),
    _time("plain_tokens_per_second", "plain_tokens_per_second", "tokens/s", "the same in plain decoding"),
    _time("time_per_output_token_ms", "time_per_output_token_ms", "ms", "round / tokens_per_round"),
    Column("operations_factor", "operations_factor", "", "operations per output token / those of plain decoding"),
    Column("bytes_factor", "bytes_factor", "", "bytes moved per output token / those of plain decoding"),
    Column("memory_bytes", "memory_bytes", "bytes", "weights, caches and activations on one device"),
    Column("max_batch_size", "max_batch_size", "", "most sequences of this context that fit"),
    Column("bound", "bound", "", "what verification waits for most: memory, compute, network, overhead or host"),
    Column("extrapolated", "rounds.lengths.extrapolated", "", "whether this gamma lies beyond the recorded acceptance"),
    # Columns that came later stand at the end, so that those before keep their places.
    Column("node", "scenario.node.name", "", "node card: how accelerators are wired"),
    Column("pipeline_parallel", "scenario.target.pipeline_parallel", "", "stages of the target's layers"),
    Column("expert_parallel", "scenario.target.expert_parallel", "", "groups of devices that hold whole experts"),
    Column(
        "attention_data_parallel",
        "scenario.target.attention_data_parallel",
        "",
        "groups of devices that run attention for a part of the batch each",
    ),
    Column("offloaded", "scenario.target.offloaded", "", "share of the target's weights that stays on the host"),
    Column(
        "source_tokens", "scenario.target.source_tokens", "tokens", "tokens of source text that an encoder has read"
    ),
    Column("draft_memory_bytes", "draft_memory_bytes", "bytes", "weights and cache of the drafter on one device"),
)


def rows(answer: Answer, **notes: Any) -> Table:
    """The table of one block, one row for every batch, context and gamma, with the notes that go with it."""
    columns: dict[str, np.ndarray | Words] = {}
    for column in COLUMNS:
        values = _at(answer, column.path)
        if column.is_absolute and not answer.rounds.costs.absolute:
            values = _NO_NUMBER
        columns[column.name] = values
    for path, value in answer.block.varied:
        # Where a field of the scenario is an axis, rows tell its value, under its path if no column does.
        columns.setdefault(path, np.full((), value, dtype=object))
    return Table(
        columns,
        answer.rounds.axes.shape,
        **notes,
        row_order=_BATCH_CONTEXT_GAMMA,
        empty_where=None if answer.rounds.feasible.all() else ~answer.rounds.feasible,
        may_be_empty=_TIMES,
    )


TREE_COLUMNS = (
    ("chain_gamma", "tokens", "gamma of the best chain at this batch and context"),
    ("chain_speedup", "", "its speedup"),
    ("speedup_bound", "", "no tree within the limits has a larger speedup"),
    ("speedup_gap", "", "speedup_bound / speedup - 1; 0 where the row is certain to be the best"),
)
"""What rows of a search for trees have besides: name, unit and meaning."""


def beside_chains(answer: Answer, table: Table, bound: Array) -> Table:
    """The rows of a search for trees with the best chain of each point, and what no tree exceeds.

    Args:
        answer: The block, chains before trees on its axis of drafts.
        table: Its rows.
        bound: The largest speedup that no tree exceeds, NaN where none is known, shape (batch, context).
    """
    axes, rounds = answer.rounds.axes, answer.rounds
    chains = axes.shapes.chains if axes.shapes is not None else axes.gamma.size
    fits = rounds.feasible & (~rounds.lengths.extrapolated | answer.block.question.extrapolate)
    value = np.broadcast_to(np.where(fits, rounds.speedup, 0.0), axes.shape)[:chains]
    best = value.argmax(axis=0)
    speedup = np.where(value.max(axis=0) > 0, value.max(axis=0), np.nan)
    gap = np.maximum(bound / np.broadcast_to(rounds.speedup, axes.shape) - 1, 0.0)
    columns = {
        **table.columns,
        "chain_gamma": axes.gamma.reshape(-1)[:chains][best],
        "chain_speedup": speedup,
        "speedup_bound": bound,
        "speedup_gap": np.where(gap < _ROUNDING, 0.0, gap),
    }
    return replace(table, columns=columns, may_be_empty=table.may_be_empty | {"speedup_bound", "speedup_gap"})


_ROUNDING = 1e-9

_TIMES = frozenset(column.name for column in COLUMNS if column.is_time)
_BATCH_CONTEXT_GAMMA = (1, 2, 0)
_NO_NUMBER = np.full((), np.nan)
_NO_TEXT = np.full((), "", dtype=object)
_BOUNDS_OR_NONE = np.concatenate([np.array([""], dtype=object), BOUNDS])


def _at(answer: Answer, path: str) -> np.ndarray | Words:
    """What an answer has at a path of attributes; nothing where a part of it is None."""
    found: object = answer
    for name in path.split("."):
        found = getattr(found, name)
        if found is None:
            return _NO_TEXT
    if isinstance(found, Words):
        return found
    return np.full((), found, dtype=object) if isinstance(found, str) else np.asarray(found)
