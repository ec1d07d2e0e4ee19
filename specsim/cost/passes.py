"""A pass: one forward call of one model, the unit of which every round is made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specsim.specs.model import ServedModel

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pass:
    """One forward call, over arrays of operating points that broadcast against each other.

    Attributes:
        served: The model, its number formats and its tensor parallelism.
        sequences: Sequences in the batch.
        tokens_per_sequence: New tokens of each sequence: 1 in plain decoding, gamma + 1 in verification.
        context_length: Tokens of each sequence that the cache already holds.
    """

    served: ServedModel
    sequences: Array
    tokens_per_sequence: Array
    context_length: Array
