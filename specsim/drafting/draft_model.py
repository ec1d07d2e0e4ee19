"""An independent draft model: one pass of one token per sequence for every drafted token."""

from __future__ import annotations

import numpy as np

from specsim.cost.passes import Array, Pass
from specsim.specs.drafter import DraftModel


def draft_step(draft: DraftModel, sequences: Array, context_length: Array) -> Pass:
    """The pass that drafts one token of every sequence; a round at draft length gamma repeats it gamma times.

    The token that a fully accepted round leaves for the draft's cache rides along in the next round's first
    step, where a second token of a small batch costs next to nothing; it is not charged.
    """
    return Pass(draft, sequences, np.ones(()), context_length)
