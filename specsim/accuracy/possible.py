"""Whether a measurement can be what it says: units taken for others, tokens that no round can emit, caches that no
device holds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from specsim.accuracy.comparison import measured_plain_seconds, reads_prompts
from specsim.accuracy.fit import OF_STEPS, with_constants
from specsim.accuracy.set_up import SetUp
from specsim.cost.memory import sequence_bytes
from specsim.planning.question import MOST_TIMES
from specsim.specs.measurement import Measurement

LEAST_TIMES = 0.5
"""Published steps take 0.64 times what the kernels of the cards take at the least."""
_MOST_OF_MEMORY = 2.0
"""Batches that are client concurrency exceed the memory, by 1.53 times in published rows; engines queue the rest."""


def impossible(row: Measurement, set_up: SetUp) -> str | None:
    """Why a row cannot be what was measured, None if it can."""
    return next(_contradictions(row, set_up), None)


def _contradictions(row: Measurement, set_up: SetUp) -> Iterator[str]:
    batch, context, machine, target = set_up.batch_size, set_up.context_length, set_up.machine, set_up.target
    cached = float(sequence_bytes(target, np.ones(()), np.asarray(context)))
    needed = target.device_weight_bytes + batch * cached / target.attention_data_parallel
    there = machine.hardware.memory.capacity_bytes
    if needed > _MOST_OF_MEMORY * there:
        yield (
            f"memory: batch {batch} at context {context:.0f} needs {needed / 1e9:.0f} of {there / 1e9:.0f} GB a device"
        )
    seconds = measured_plain_seconds(row)
    if seconds is not None:
        least = _kernels_alone(set_up)
        told = (
            f"a plain step that the hardware can take: {seconds * 1e3:.4g} ms, of which kernels need {least * 1e3:.4g}"
        )
        if seconds < LEAST_TIMES * least:
            yield f"{told}; is it in milliseconds, of a step and not of a token?"
        if seconds > MOST_TIMES * least:
            yield f"{told}; is it in milliseconds, and of one step?"
    if row.ms_per_token is not None and row.tokens_per_s is not None and not reads_prompts(row):
        ratio = batch / row.tokens_per_s / (row.ms_per_token * 1e-3)
        if not 0.5 < ratio < 2:
            yield f"one speed: ms_per_token and tokens_per_s differ by {max(ratio, 1 / ratio):.3g} times"
    tokens, shape = set_up.tokens_per_round, set_up.shape
    if tokens is not None and shape is not None:
        most = shape.verified if shape.is_tree else shape.levels + 1
        if not 1 <= tokens <= most:
            yield f"tokens per round that can be: {tokens:g}, where 1 to {most} are possible"


def _kernels_alone(set_up: SetUp) -> float:
    """A plain step under a runtime without any fixed cost [s]."""
    free = dict.fromkeys((*OF_STEPS, "step_overhead_seconds"), 0.0)
    return with_constants(set_up, **free).plain_seconds()
