"""From what was recorded to an acceptance that reproduces it: which form, how sure, and what cannot be told."""

from __future__ import annotations

import numpy as np

from specsim.acceptance.fit_counts import Counts
from specsim.acceptance.fitted import ASSUMED_ROUNDS, PREDICTED, CannotTell, Fit, MeanLength, Rates
from specsim.acceptance.from_counts import from_counts
from specsim.acceptance.from_rates import from_length, from_rates


def fit(recorded: Counts | Rates | MeanLength, regimes: int | None, replicates: int, seed: int) -> Fit:
    """The acceptance that what was recorded speaks for.

    Args:
        recorded: Ordered counts, rates by position, or a mean length.
        regimes: How many regimes, None to let the criterion choose.
        replicates: Bootstrap replicates behind the intervals.
        seed: Of the generator that draws them.

    Raises:
        CannotTell: If the record does not tell what was asked.
    """
    generator = np.random.default_rng(seed)
    match recorded:
        case Counts():
            return from_counts(recorded, regimes, replicates, generator)
        case Rates():
            return from_rates(recorded, regimes, replicates, generator)
        case MeanLength():
            return from_length(recorded, regimes)


__all__ = ["ASSUMED_ROUNDS", "PREDICTED", "CannotTell", "Counts", "Fit", "MeanLength", "Rates", "fit"]
