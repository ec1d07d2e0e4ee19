"""Every outcome of an experiment with its probability: the same code that runs by chance, branch by branch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from specsim.reference.sampling import Array, Chance

T = TypeVar("T")


class _Script:
    """Chance that takes given branches, then the first one of each, and notes what the others would be."""

    def __init__(self, branches: list[int]) -> None:
        self.branches = branches
        self.weight = 1.0
        self.left: list[int] = []
        self._made = 0

    def happens(self, probability: float) -> bool:
        return bool(self._take([1.0 - probability, probability]))

    def draw(self, law: Array) -> int:
        return self._take(law.tolist())

    def _take(self, weights: list[float]) -> int:
        possible = [index for index, weight in enumerate(weights) if weight > 0]
        if len(possible) == 1:
            return possible[0]
        if self._made == len(self.branches):
            self.branches.append(0)
        branch = self.branches[self._made]
        self._made += 1
        self.left.append(len(possible) - 1 - branch)
        self.weight *= weights[possible[branch]]
        return possible[branch]


def outcomes(experiment: Callable[[Chance], T]) -> Iterator[tuple[float, T]]:
    """Every outcome of an experiment, with its probability; the probabilities sum to 1.

    The experiment is run once for each branch and must do the same whenever chance does the same.

    >>> sorted(outcomes(lambda chance: chance.happens(0.25)))
    [(0.25, True), (0.75, False)]
    """
    branches: list[int] = []
    while True:
        script = _Script(branches)
        result = experiment(script)
        yield script.weight, result
        last = next((place for place in reversed(range(len(script.left))) if script.left[place]), None)
        if last is None:
            return
        branches = [*script.branches[:last], script.branches[last] + 1]


def law_of(experiment: Callable[[Chance], tuple[int, ...]], tokens: int, length: int) -> Array:
    """The joint law of the first ``length`` tokens that an experiment gives, shape (tokens,) * length."""
    law = np.zeros((tokens,) * length)
    for weight, found in outcomes(experiment):
        law[found[:length]] += weight
    return law
