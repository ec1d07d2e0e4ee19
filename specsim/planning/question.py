"""One question to the planner: a machine, a target, one drafter, and the axes of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specsim.cost.machine import Machine
from specsim.cost.passes import Array, Pass
from specsim.cost.roofline import pass_time
from specsim.errors import InputError
from specsim.planning.shapes import Shapes
from specsim.specs.drafter import AnyDraft
from specsim.specs.scenario import MeasuredCosts
from specsim.specs.served import ServedModel
from specsim.specs.tree import Shape


@dataclass(frozen=True, eq=False)
class Axes:
    """Operating points as three arrays that broadcast to (gamma, batch, context).

    The short axis comes first: what is computed over it runs along long stretches of memory.

    Attributes:
        gamma: Drafted tokens per round, of a token tree its levels, shape (G, 1, 1).
        batch_size: Sequences, shape (B, 1).
        context_length: Tokens already in the cache, shape (S,).
        shapes: The token trees along the first axis, None if it holds chains alone.
    """

    gamma: NDArray[np.int64]
    batch_size: Array
    context_length: Array
    shapes: Shapes | None = None

    @classmethod
    def of(
        cls, batch_size: ArrayLike, context_length: ArrayLike, gamma: ArrayLike, trees: Sequence[Shape] = ()
    ) -> Axes:
        """Axes from one-dimensional lists of values; trees stand behind the chains, and those that are one among them.

        >>> from specsim.specs.tree import read_shape
        >>> Axes.of([1], [0], [0, 2], [read_shape("<2,1>"), read_shape("<1,1,1>")]).gamma.reshape(-1).tolist()
        [0, 2, 3, 2]
        """
        chains = [*np.asarray(gamma, dtype=np.int64).reshape(-1).tolist(), *(t.depth for t in trees if t.is_chain)]
        others = [tree for tree in trees if not tree.is_chain]
        return cls(
            gamma=np.array([*chains, *(tree.depth for tree in others)], dtype=np.int64).reshape(-1, 1, 1),
            batch_size=np.asarray(batch_size, dtype=float).reshape(-1, 1),
            context_length=np.asarray(context_length, dtype=float).reshape(-1),
            shapes=Shapes.of(chains, others) if others else None,
        )

    @property
    def verified_tokens(self) -> Array:
        """Tokens of each sequence that verification looks at: gamma + 1, of a tree its nodes, shape (G, 1, 1)."""
        return np.asarray(self.gamma + 1, dtype=float) if self.shapes is None else self.shapes.nodes

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of draft lengths, batches and contexts."""
        return self.gamma.size, self.batch_size.size, self.context_length.size


@dataclass(frozen=True, eq=False)
class Question:
    """What is planned: with cards the roofline answers, and measured costs replace parts of it or all of it.

    Attributes:
        machine: Accelerator and runtime, None if only measured costs are known.
        target: The served target, None likewise.
        draft: The drafter with its acceptance.
        costs: Measured costs, None if the roofline says everything.
        extrapolate: Whether draft lengths beyond the recorded acceptance may be called best.
        output_length: Tokens of an output, over which prefill is spread; outputs have no end if 0.
    """

    machine: Machine | None
    target: ServedModel | None
    draft: AnyDraft
    costs: MeasuredCosts | None = None
    extrapolate: bool = False
    output_length: int = 0


def plain_step(target: ServedModel, batch_size: ArrayLike, context_length: ArrayLike) -> Pass:
    """The pass of plain decoding: one new token of every sequence."""
    return Pass(target, np.asarray(batch_size, dtype=float), np.ones(()), np.asarray(context_length, dtype=float))


MOST_TIMES = 100
"""No software takes so many times what its kernels take."""


def anchored(machine: Machine, target: ServedModel, plain_step_seconds: float, batch: int, context: int) -> Machine:
    """The machine whose runtime takes exactly the measured time for one plain step at one operating point.

    The fixed cost per layer is solved for: it is what differs most between installations of one engine.

    Raises:
        InputError: If the measured step is faster than the kernels alone allow; the text gives that limit.
    """
    bare = replace(machine, runtime=replace(machine.runtime, layer_overhead_seconds=0.0))
    least = float(pass_time(plain_step(target, batch, context), bare).seconds)
    if plain_step_seconds < least:
        raise InputError(
            f"A plain step of {plain_step_seconds * 1e3:g} ms at batch {batch}, context {context} is faster than "
            f"the {least * 1e3:.4g} ms that {machine.hardware.name} needs under runtime {machine.runtime.name} "
            "without any cost per layer; check hardware, precision and tensor parallelism."
        )
    if plain_step_seconds > MOST_TIMES * least:
        raise InputError(
            f"A plain step of {plain_step_seconds * 1e3:g} ms at batch {batch}, context {context} is "
            f"{plain_step_seconds / least:.0f} times the {least * 1e3:.4g} ms that the kernels need on "
            f"{machine.hardware.name}; is it in milliseconds, and of one step?"
        )
    layer = (plain_step_seconds - least) / target.model.layers
    return replace(machine, runtime=replace(machine.runtime, layer_overhead_seconds=layer))
