"""An operating point: one batch and one context, with all draft lengths around the one that is explained."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from specsim.acceptance import AcceptedLengths
from specsim.cost.machine import Machine
from specsim.cost.passes import Array, Pass
from specsim.drafting import drafting_of
from specsim.planning.costs import round_of
from specsim.planning.lengths import lengths_of, process_with, proposed_by
from specsim.planning.question import Axes, Question, plain_step
from specsim.planning.rounds import Rounds
from specsim.specs.acceptance import typical_of
from specsim.specs.scenario import Scenario
from specsim.specs.served import ServedModel


@dataclass(frozen=True, eq=False)
class Point:
    """The operating point with all draft lengths around it."""

    scenario: Scenario
    question: Question
    axes: Axes
    rounds: Rounds
    index: int

    @property
    def gamma(self) -> int:
        return int(self.gammas[self.index])

    @property
    def gammas(self) -> np.ndarray:
        """All draft lengths, shape (G,)."""
        return self.axes.gamma.reshape(-1)

    @property
    def batch(self) -> int:
        return self.scenario.grid.batch_size[0]

    @property
    def context(self) -> int:
        return self.scenario.grid.context_length[0]

    @property
    def cards(self) -> tuple[Machine, ServedModel] | None:
        """Machine and target, None where only measured costs are known."""
        machine, target = self.question.machine, self.question.target
        return None if machine is None or target is None else (machine, target)

    def lengths(self, gamma: int) -> AcceptedLengths:
        """Accepted lengths of a round that drafts."""
        proposed = proposed_by(self.question.draft, np.array([gamma]))
        acceptance = typical_of(self.question.draft.acceptance)
        return process_with(self.question.draft, acceptance).lengths(proposed, self.axes.context_length).of_drafts

    def all(self, values: np.ndarray) -> np.ndarray:
        """The values of all draft lengths."""
        return np.broadcast_to(values, self.axes.shape)[:, 0, 0]

    def at(self, values: np.ndarray) -> float:
        """The value of this draft length."""
        return float(self.all(values)[self.index])

    def time(self, seconds: Array) -> str:
        """A time in milliseconds, or in plain steps where no absolute time is known."""
        value = self.at(seconds)
        return f"{value * 1e3:.3f} ms" if self.rounds.costs.absolute else f"{value:.3f} plain steps"

    def passes(self) -> Iterable[tuple[str, Pass]]:
        """The different passes of a round and of plain decoding, by name."""
        if self.cards is None:
            return
        _, target = self.cards
        yield "plain", plain_step(target, self.batch, self.context)
        if self.gamma == 0:
            return
        batch, context = np.asarray(float(self.batch)), np.asarray(float(self.context))
        here = Axes.of([self.batch], [self.context], [self.gamma])
        lengths = lengths_of(
            self.question.draft, typical_of(self.question.draft.acceptance), here.gamma.reshape(-1), here.context_length
        )
        drafting = drafting_of(self.question.draft, target, round_of(here, lengths))
        tokens = np.asarray(self.at(self.rounds.costs.verified_tokens))
        if drafting is not None:
            for part in (part for lane in drafting.lanes for part in lane):
                if np.any(part.times > 0):
                    width = part.of.tokens_per_sequence.reshape(-1)[-1]
                    yield (
                        part.name,
                        replace(part.of, sequences=batch, tokens_per_sequence=width, context_length=context),
                    )
        yield "verification", Pass(target, batch, tokens, context)
