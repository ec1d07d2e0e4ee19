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
from specsim.planning.lengths import lengths_at, process_with, proposed_by
from specsim.planning.question import Axes, Question, plain_step
from specsim.planning.rounds import Rounds
from specsim.specs.acceptance import typical_of
from specsim.specs.scenario import Scenario
from specsim.specs.served import ServedModel
from specsim.specs.tree import Shape
from specsim.trees import tree_lengths


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
        """All draft lengths, of trees their levels, shape (G,)."""
        return self.axes.gamma.reshape(-1)

    @property
    def chains(self) -> Axes:
        """The draft lengths alone, without the tree."""
        shapes = self.axes.shapes
        return self.axes if shapes is None else replace(self.axes, gamma=self.axes.gamma[: shapes.chains], shapes=None)

    @property
    def tree(self) -> Shape | None:
        """The tree that is explained, None if it is a chain."""
        shapes = self.axes.shapes
        is_tree = shapes is not None and self.index >= shapes.chains
        return shapes.trees[self.index - shapes.chains] if shapes is not None and is_tree else None

    @property
    def name(self) -> str:
        """What is drafted, in words."""
        return f"gamma {self.gamma}" if self.tree is None else f"tree {self.tree.label}"

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

    def distribution(self) -> np.ndarray:
        """P(exactly k drafts of a round that drafts are accepted), k = 0 to gamma."""
        if self.tree is None:
            return self.lengths(self.gamma).distribution.reshape(-1)[: self.gamma + 1]
        found = tree_lengths(typical_of(self.question.draft.acceptance), [self.tree], self.axes.context_length)
        at_least = np.concatenate([[1.0], found.survival.reshape(-1), [0.0]])
        return at_least[:-1] - at_least[1:]

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
        chain, trees = ([self.gamma], []) if self.tree is None else ([], [self.tree])
        here = Axes.of([self.batch], [self.context], chain, trees)
        lengths = lengths_at(self.question.draft, typical_of(self.question.draft.acceptance), here)
        drafting = drafting_of(self.question.draft, target, round_of(here, lengths))
        tokens = np.asarray(self.at(self.rounds.costs.verified_tokens))
        if drafting is not None:
            for part in (part for lane in drafting.lanes for part in lane):
                for name, of in part.passes():
                    width = of.tokens_per_sequence.reshape(-1)[-1]
                    yield name, replace(of, sequences=batch, tokens_per_sequence=width, context_length=context)
        if here.shapes is not None and self.question.draft.path_by_path:
            paths = here.shapes.paths.reshape(())
            yield "verification", Pass(target, batch * paths, here.shapes.path_tokens.reshape(()) / paths, context)
        else:
            yield "verification", Pass(target, batch, tokens, context)
