"""What a drafter does in one round: passes, their number, and what it keeps in memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np

from specsim.cost.memory import Resident
from specsim.cost.passes import Array, Pass

NOTHING = np.zeros(())


@dataclass(frozen=True, eq=False)
class Repeated:
    """A pass and how often a round repeats it.

    Attributes:
        name: What it is called in an explanation.
        of: The pass.
        times: Expected number in one round, shape (G, 1, 1).
        by_width: Of a pass over several numbers W of tokens, along the first axis of its arrays, the number of each in
            one round, shape (G, W); None of a pass over one.
    """

    name: str
    of: Pass
    times: Array
    by_width: Array | None = None

    def in_a_round(self, each: Array) -> Array:
        """What all of them take in a round, from what each takes."""
        if self.by_width is None:
            return each * self.times
        points = np.broadcast_shapes(each.shape, (self.by_width.shape[-1], 1, 1))
        return np.tensordot(self.by_width, np.broadcast_to(each, points), axes=1)

    def passes(self) -> tuple[tuple[str, Pass], ...]:
        """The passes over each number of tokens by themselves, that any round has."""
        if self.by_width is None:
            return ((self.name, self.of),) if np.any(self.times > 0) else ()
        widths = self.of.tokens_per_sequence.reshape(-1)
        return tuple(
            (f"{self.name}_of_{width:.0f}", replace(self.of, tokens_per_sequence=np.asarray(width)))
            for width, count in zip(widths, self.by_width.T, strict=True)
            if np.any(count > 0)
        )


@dataclass(frozen=True, eq=False)
class Round:
    """What a drafter is told of the rounds it drafts for.

    Attributes:
        gamma: Draft lengths, of trees their levels, shape (G, 1, 1).
        drafted: Expected tokens that are drafted one after another, of trees levels, shape (G, 1, 1).
        sequences: Sequences in the batch, shape (B, 1).
        context_length: Tokens in the cache, shape (S,).
        wide: Draft steps of trees that work on several tokens of each sequence: how many tokens, and how many of the
            steps in ``drafted`` these are, shape (G, 1, 1).
        nodes: Tokens of each sequence that are verified, shape (G, 1, 1); gamma + 1 if None.
    """

    gamma: Array
    drafted: Array
    sequences: Array
    context_length: Array
    wide: tuple[tuple[int, Array], ...] = ()
    nodes: Array | None = None

    @property
    def narrow(self) -> Array:
        """Draft steps that work on one token of each sequence, shape (G, 1, 1)."""
        return reduce(np.subtract, (times for _, times in self.wide), self.drafted)

    @property
    def any_drafted(self) -> Array:
        """1 where anything is drafted, 0 elsewhere."""
        return (self.gamma > 0).astype(float)


@dataclass(frozen=True, eq=False)
class Drafting:
    """What a drafter does in one round.

    Attributes:
        lanes: Passes one after another in each lane; lanes run at the same time.
        steps: Draft steps that each cost what the runtime takes for one, shape (G, 1, 1).
        host_seconds: Time of the host [s].
        verified_tokens: Tokens of each sequence that verification looks at, shape (G, 1, 1); gamma + 1 if None.
        resident: What it keeps on the target's devices.
        apart: What it keeps on devices of its own, None if it has none.
        readings: Passes in which its models read the context of a new sequence, before they draft, in lanes likewise.
    """

    lanes: tuple[tuple[Repeated, ...], ...] = ()
    steps: Array = field(default_factory=lambda: NOTHING)
    host_seconds: float = 0.0
    verified_tokens: Array | None = None
    resident: Resident = field(default_factory=Resident)
    apart: Resident | None = None
    readings: tuple[tuple[Pass, ...], ...] = ()


def level_by_level(of: Pass, round_: Round, times: Array | None = None) -> tuple[Repeated, ...]:
    """The same pass for every draft step; in trees as wide as the level that it works on.

    Args:
        of: The pass over one token of each sequence.
        round_: The rounds.
        times: Steps over one token, all of these if None.
    """
    narrow = Repeated("draft_step", of, round_.narrow if times is None else times)
    if not round_.wide:
        return (narrow,)
    widths = np.array([float(tokens) for tokens, _ in round_.wide]).reshape(-1, 1, 1)
    by_width = np.stack([steps.reshape(-1) for _, steps in round_.wide], axis=-1)
    together = by_width.sum(-1).reshape(-1, 1, 1)
    return narrow, Repeated("draft_step", replace(of, tokens_per_sequence=widths), together, by_width)


def reading(of: Pass) -> Pass:
    """The same model reading a whole context at once; only what follows the last token is asked for."""
    tokens = np.maximum(of.context_length, 1.0)
    return replace(of, tokens_per_sequence=tokens, context_length=NOTHING, outputs_per_sequence=np.ones(()))
