"""Which round an engine chooses for a step, given the batch and its mean context.

- off, fixed: always the same.
- table: the round of the most tokens in a second at this batch and context; a round once chosen is left only for one
  that is better by more than the hysteresis.
- adaptive: the same with what the requests at hand have shown of their acceptance in place of its mean (the goodput
  rule of SmartSpec, Liu et al. 2024).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from specsim.acceptance import independent_tokens_per_round
from specsim.serving.choices import Choices
from specsim.serving.requests import Array, IntArray
from specsim.serving.steps import StepTimes

_RATES = 101
"""Acceptance rates at which the adaptive rule knows the tokens of a round."""

_FORGETS = 0.05
"""Weight of the newest token in the moving average: it looks back over 20 examined tokens."""

_PROBES_EVERY = 64
"""Steps after which one drafts anyway: without a draft nothing would ever be learned again."""


class Policy(Protocol):
    """Chooses a round for each step of one replica."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    def begin(self, requests: int) -> Chooser:
        """A chooser for one run over so many requests, which may remember."""
        ...

    def at(self, times: StepTimes, context: float) -> IntArray:
        """The choice at each batch from 1 upward, as far as it can be told before a run, shape (B,)."""
        ...


class Chooser(Protocol):
    """A policy at work."""

    @property
    def learns(self) -> bool:
        """Whether it wants to see what was accepted."""
        ...

    def choose(self, batch: int, context: float, requests: IntArray) -> int:
        """The choice for a step of some requests, by their numbers."""
        ...

    def saw(self, requests: IntArray, accepted: IntArray, choice: int) -> None:
        """How many drafts each of them accepted; only told to those that learn."""
        ...


@dataclass(frozen=True)
class Always:
    """One choice for every step."""

    name: str
    choice: int
    learns: bool = False

    def begin(self, requests: int) -> Always:
        """Itself: it remembers nothing."""
        return self

    def at(self, times: StepTimes, context: float) -> IntArray:
        """The same at each batch."""
        return np.full(times.max_batch_size, self.choice)

    def choose(self, batch: int, context: float, requests: IntArray) -> int:
        """The same at each step."""
        return self.choice

    def saw(self, requests: IntArray, accepted: IntArray, choice: int) -> None:
        """Teaches it nothing."""


@dataclass(frozen=True, eq=False)
class ByTable:
    """The best choice by batch and context.

    Attributes:
        name: Of the policy.
        goodput: Tokens of a request in a second by choice, batch and context, shape (K, B, S); 0 for what is not
            allowed.
        tokens_per_entry: Distance of the contexts [tokens].
        hysteresis: By which share another choice must be better.
    """

    name: str
    goodput: Array
    tokens_per_entry: float
    hysteresis: float

    def begin(self, requests: int) -> _TableAtWork:
        """A chooser that begins with the best choice."""
        return _TableAtWork(self)

    def at(self, times: StepTimes, context: float) -> IntArray:
        """The best choice at each batch, without hysteresis."""
        entry = min(round(context / self.tokens_per_entry), self.goodput.shape[-1] - 1)
        return np.asarray(self.goodput[:, :, entry].argmax(0))


class _TableAtWork:
    learns = False

    def __init__(self, table: ByTable) -> None:
        best = table.goodput.argmax(0)
        largest = table.goodput.max(0)
        self.best = best.tolist()
        # Where the choice in force is nearly as good, it stays.
        self.stays = (table.goodput * (1 + table.hysteresis) >= largest).tolist()
        self.per_entry, self.last = 1.0 / table.tokens_per_entry, table.goodput.shape[-1] - 1
        self.now = -1

    def choose(self, batch: int, context: float, requests: IntArray) -> int:
        entry = min(int(context * self.per_entry + 0.5), self.last)
        if self.now < 0 or not self.stays[self.now][batch - 1][entry]:
            self.now = self.best[batch - 1][entry]
        return self.now

    def saw(self, requests: IntArray, accepted: IntArray, choice: int) -> None:
        """Teaches it nothing."""


@dataclass(frozen=True, eq=False)
class Adaptive:
    """The goodput rule: the choice of the most tokens in a second at the acceptance that requests have shown.

    Attributes:
        name: Of the policy.
        table: What is known before.
        round_seconds: By choice, batch and context, shape (K, B, S) [s].
        longest: Drafts that a round can accept, by choice, shape (K,).
        first_rate: What is believed of a request that has shown nothing.
    """

    name: str
    table: ByTable
    round_seconds: Array
    longest: IntArray
    first_rate: float

    def begin(self, requests: int) -> _AdaptiveAtWork:
        """A chooser that knows nothing of any request."""
        return _AdaptiveAtWork(self, requests)

    def at(self, times: StepTimes, context: float) -> IntArray:
        """As the table has it."""
        return self.table.at(times, context)


class _AdaptiveAtWork:
    learns = True

    def __init__(self, rule: Adaptive, requests: int) -> None:
        rates = np.linspace(0.0, 1.0, _RATES)
        self.tokens = independent_tokens_per_round(rates[:, None], rule.longest)
        self.rate = np.full(requests, rule.first_rate)
        self.cost = rule.round_seconds
        self.longest = rule.longest.tolist()
        self.per_entry, self.last = 1.0 / rule.table.tokens_per_entry, rule.round_seconds.shape[-1] - 1
        self.hysteresis = 1 + rule.table.hysteresis
        self.now, self.idle = 0, 0

    def choose(self, batch: int, context: float, requests: IntArray) -> int:
        entry = min(int(context * self.per_entry + 0.5), self.last)
        known = self.tokens[np.rint(self.rate[requests] * (_RATES - 1)).astype(np.int64)].sum(0)
        goodput = known / self.cost[:, batch - 1, entry]
        best = int(goodput.argmax())
        if goodput[self.now] * self.hysteresis < goodput[best]:
            self.now = best
        self.idle = 0 if self.longest[self.now] else self.idle + 1
        if self.idle >= _PROBES_EVERY and len(self.longest) > 1:
            self.idle = 0
            return 1
        return self.now

    def saw(self, requests: IntArray, accepted: IntArray, choice: int) -> None:
        examined = accepted + (accepted < self.longest[choice])
        self.rate[requests] += _FORGETS * (accepted - examined * self.rate[requests])


def table_policy(
    times: StepTimes, choices: Choices, hysteresis: float, extrapolate: bool, name: str = "table"
) -> ByTable:
    """The table of the best choices: tokens_per_round / round, over batch and context.

    Tokens are those of the rounds of all classes. Choices beyond the recorded acceptance are left out unless asked for.
    """
    allowed = np.array([extrapolate or not choice.extrapolated for choice in choices.each])
    goodput = choices.tokens_per_round[:, None, None] / times.round_seconds * allowed[:, None, None]
    return ByTable(name, goodput, float(times.context[1]), hysteresis)
