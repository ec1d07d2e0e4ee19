"""A set-up that somebody measured, in cards, and what the timing model says of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specsim.cost.machine import Machine
from specsim.cost.passes import Pass
from specsim.cost.roofline import pass_time
from specsim.drafting import Drafting, Round, drafting_of
from specsim.planning.question import plain_step
from specsim.specs.drafter import AnyDraft
from specsim.specs.served import ServedModel


@dataclass(frozen=True)
class Shape:
    """What a round drafts and verifies of each sequence.

    Attributes:
        levels: Draft steps.
        width: Tokens of each draft step after the first one; 1 for a chain.
        verified: Tokens that verification looks at, with the root or the token before the drafts.
    """

    levels: int
    width: int
    verified: int

    @property
    def is_tree(self) -> bool:
        """Whether more is drafted or verified than one chain."""
        return self.width > 1 or self.verified > self.levels + 1


@dataclass(frozen=True, eq=False)
class SetUp:
    """What ran, in cards.

    Attributes:
        machine: Accelerators under the runtime.
        target: The target with its formats and layout.
        batch_size: Sequences decoded together.
        context_length: Tokens in the cache, at the middle of decoding.
        draft: The drafter, None in plain decoding.
        shape: What a round drafts, None in plain decoding.
        tokens_per_round: Measured tokens per round, None where the source has none.
    """

    machine: Machine
    target: ServedModel
    batch_size: int
    context_length: float
    draft: AnyDraft | None = None
    shape: Shape | None = None
    tokens_per_round: float | None = None

    def plain_seconds(self) -> float:
        """One plain step [s]."""
        return float(pass_time(plain_step(self.target, self.batch_size, self.context_length), self.machine).seconds)

    def prefill_seconds(self, tokens: int) -> float:
        """Reading prompts of so many tokens, the whole batch in one pass [s]."""
        batch = np.asarray(float(self.batch_size))
        reading = Pass(self.target, batch, np.asarray(float(tokens)), np.zeros(()), outputs_per_sequence=np.ones(()))
        return float(pass_time(reading, self.machine).seconds)

    @property
    def draft_steps(self) -> float:
        """Draft steps of a round, each of which costs what the runtime adds to one; none where nothing runs."""
        return float(self._plan().steps)

    def draft_step_seconds(self) -> float:
        """One draft step on average, with what the runtime adds to it [s]."""
        return self.drafting_seconds() / self._shape.levels

    def drafting_seconds(self) -> float:
        """All draft steps of a round, with what the runtime adds to each [s]."""
        plan = self._plan()
        machine = self.machine.of_drafts
        seconds = [sum(p.in_a_round(pass_time(p.of, machine).seconds).item() for p in lane) for lane in plan.lanes]
        fixed = self.machine.runtime.draft_step_overhead_seconds * float(plan.steps)
        return max(seconds, default=0.0) + fixed + plan.host_seconds

    def verification_seconds(self) -> float:
        """Verifying what a round has drafted [s]."""
        shape = self._shape
        tokens = np.asarray(float(shape.verified))
        batch, context = np.asarray(float(self.batch_size)), np.asarray(self.context_length)
        seconds = float(pass_time(Pass(self.target, batch, tokens, context), self.machine).seconds)
        return seconds * (self.machine.runtime.tree_factor if shape.is_tree else 1.0)

    def round_seconds(self) -> float:
        """One round [s]."""
        overhead = self.machine.runtime.round_overhead_seconds
        return self.drafting_seconds() + self.verification_seconds() + overhead

    @property
    def _shape(self) -> Shape:
        if self.shape is None:
            raise ValueError("nothing is drafted in plain decoding")
        return self.shape

    def _plan(self) -> Drafting:
        levels, width = float(self._shape.levels), self._shape.width
        points = (levels, float(self.batch_size), float(self.context_length))
        drafted, batch, context = (np.asarray(point) for point in points)
        wide = ((width, drafted - 1),) if width > 1 and levels > 1 else ()
        round_ = Round(drafted, drafted, batch, context, wide)
        found = drafting_of(self.draft, self.target, round_) if self.draft is not None else None
        if found is None:
            raise ValueError("the cost of drafting is not known")
        return found
