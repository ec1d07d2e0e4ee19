"""What fits: weights and caches against the memory of one device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specsim.cost.passes import Array
from specsim.cost.roofline import Machine
from specsim.specs.model import ServedModel

LIMITS = np.array(["", "memory", "kv_cache", "position"], dtype=object)
"""What can stand against an operating point, in the order of the codes of ``Fit.limit``."""


@dataclass(frozen=True, eq=False)
class Residents:
    """What models keep on one device; arrays, since a device may hold different models at different points.

    Attributes:
        weight_bytes: Weights of all models [bytes].
        kv_bytes_per_token: Cache that one token of one sequence takes in all models [bytes].
        max_positions: Most tokens of a sequence that every model can hold.
    """

    weight_bytes: Array
    kv_bytes_per_token: Array
    max_positions: Array

    @classmethod
    def of(cls, *models: ServedModel) -> Residents:
        """Models that share one device."""
        return cls(
            np.asarray(sum(served.weight_bytes / served.tensor_parallel for served in models)),
            np.asarray(sum(served.kv_bytes_per_token for served in models)),
            np.asarray(float(min(served.model.max_positions for served in models))),
        )

    def where(self, condition: NDArray[np.bool_], other: Residents) -> Residents:
        """These residents where the condition holds, the others elsewhere."""
        return Residents(
            np.where(condition, self.weight_bytes, other.weight_bytes),
            np.where(condition, self.kv_bytes_per_token, other.kv_bytes_per_token),
            np.where(condition, self.max_positions, other.max_positions),
        )


@dataclass(frozen=True, eq=False)
class Fit:
    """Whether operating points fit on one device; arrays over the points.

    Attributes:
        needed_bytes: Weights and caches of all models, with a slot for every token of a round [bytes].
        limit: 0 where it fits, else an index into ``LIMITS``.
        excess_bytes: By how much the memory is exceeded, 0 where it suffices [bytes].
        max_batch_size: Most sequences of this context and draft length that fit.
    """

    needed_bytes: Array
    limit: NDArray[np.int8]
    excess_bytes: Array
    max_batch_size: Array


def fit(
    residents: Residents, sequences: Array, tokens_per_sequence: Array, context_length: Array, machine: Machine
) -> Fit:
    """Hold weights and caches against the memory of a device and the positions of its models.

    Every sequence keeps ``context_length + tokens_per_sequence`` tokens in the cache of every model.
    """
    capacity = machine.hardware.memory.capacity_bytes * machine.runtime.memory_utilization
    slots = context_length + tokens_per_sequence
    per_sequence = slots * residents.kv_bytes_per_token
    needed = residents.weight_bytes + sequences * per_sequence
    beyond = slots > residents.max_positions
    without_cache = np.where(residents.weight_bytes > capacity, np.int8(1), np.int8(2))
    limit = np.where(beyond, np.int8(3), (needed > capacity) * without_cache)
    room = np.maximum(capacity - residents.weight_bytes, 0.0)
    return Fit(
        needed_bytes=needed,
        limit=limit,
        excess_bytes=np.maximum(needed - capacity, 0.0) if limit.any() else np.zeros(()),
        max_batch_size=np.where(beyond, 0.0, np.floor(room / per_sequence)),
    )
