"""What fits: weights and caches against the memory of one device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specsim.cost.passes import Array
from specsim.cost.roofline import Machine
from specsim.specs.model import ServedModel

LIMITS = np.array(["", "memory", "kv_cache", "position"], dtype=object)
"""What can stand against an operating point, in the order of the codes of ``Fit.limit``."""


@dataclass(frozen=True, eq=False)
class Fit:
    """Whether operating points fit on one device; arrays over the points.

    Attributes:
        needed_bytes: Weights and caches of all models, with a slot for every token of a round [bytes].
        limit: 0 where it fits, else an index into ``LIMITS``.
        excess_bytes: By how much memory is exceeded, 0 where it is not the limit [bytes].
        max_batch_size: Most sequences of this context and draft length that fit.
    """

    needed_bytes: Array
    limit: np.ndarray
    excess_bytes: Array
    max_batch_size: Array


def fit(
    models: tuple[ServedModel, ...], sequences: Array, tokens_per_sequence: Array, context_length: Array, machine: Machine
) -> Fit:
    """Hold the weights and caches of models that share one device against its memory and their positions.

    Every sequence keeps ``context_length + tokens_per_sequence`` tokens in the cache of every model.
    """
    capacity = machine.hardware.memory.capacity_bytes * machine.runtime.memory_utilization
    weights = sum(served.weight_bytes / served.tensor_parallel for served in models)
    slots = context_length + tokens_per_sequence
    per_sequence = slots * sum(served.kv_bytes_per_token for served in models)
    needed = weights + sequences * per_sequence
    positions = min(served.model.max_positions for served in models)
    limit = np.where(needed > capacity, 2 if weights <= capacity else 1, 0)
    limit = np.where(slots > positions, 3, limit)
    room = max(capacity - weights, 0.0)
    return Fit(
        needed_bytes=needed,
        limit=limit,
        excess_bytes=np.maximum(needed - capacity, 0.0),
        max_batch_size=np.floor(room / per_sequence) * (slots <= positions),
    )
