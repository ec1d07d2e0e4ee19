"""One question to the planner: a machine, a target, one drafter, and the axes of a grid."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specsim.cost.passes import Array, Pass
from specsim.cost.roofline import Machine, pass_time
from specsim.errors import InputError
from specsim.specs.drafter import DraftModel, MeasuredDraft
from specsim.specs.model import ServedModel
from specsim.specs.scenario import MeasuredCosts


@dataclass(frozen=True, eq=False)
class Axes:
    """Operating points as three arrays that broadcast to (batch, context, gamma).

    Attributes:
        batch_size: Sequences, shape (B, 1, 1).
        context_length: Tokens already in the cache, shape (1, S, 1).
        gamma: Drafted tokens per round, shape (G,).
    """

    batch_size: Array
    context_length: Array
    gamma: NDArray[np.int64]

    @classmethod
    def of(cls, batch_size: ArrayLike, context_length: ArrayLike, gamma: ArrayLike) -> Axes:
        """Axes from one-dimensional lists of values."""
        return cls(
            np.asarray(batch_size, dtype=float).reshape(-1, 1, 1),
            np.asarray(context_length, dtype=float).reshape(1, -1, 1),
            np.asarray(gamma, dtype=np.int64).reshape(-1),
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of batches, contexts and draft lengths."""
        return self.batch_size.size, self.context_length.size, self.gamma.size


@dataclass(frozen=True, eq=False)
class Question:
    """What is planned: with cards the roofline answers, and measured costs replace parts of it or all of it.

    Attributes:
        machine: Accelerator and runtime, None if only measured costs are known.
        target: The served target, None likewise.
        draft: The drafter with its acceptance.
        costs: Measured costs, None if the roofline says everything.
        extrapolate: Whether draft lengths beyond the recorded acceptance may be called best.
    """

    machine: Machine | None
    target: ServedModel | None
    draft: DraftModel | MeasuredDraft
    costs: MeasuredCosts | None = None
    extrapolate: bool = False


def anchored(machine: Machine, target: ServedModel, plain_step_seconds: float, batch: int, context: int) -> Machine:
    """The machine whose runtime takes exactly the measured time for one plain step at one operating point.

    The fixed cost per layer is solved for: it is what differs most between installations of one engine.

    Raises:
        InputError: If the measured step is faster than the kernels alone allow; the text gives that limit.
    """
    bare = replace(machine, runtime=replace(machine.runtime, layer_overhead_seconds=0.0))
    least = float(pass_time(Pass(target, np.float64(batch), np.ones(()), np.float64(context)), bare).seconds)
    if plain_step_seconds < least:
        raise InputError(
            f"A plain step of {plain_step_seconds * 1e3:g} ms at batch {batch}, context {context} is faster than "
            f"the {least * 1e3:.4g} ms that {machine.hardware.name} needs under runtime {machine.runtime.name} "
            "without any cost per layer; check hardware, precision and tensor parallelism."
        )
    layer = (plain_step_seconds - least) / target.model.layers
    return replace(machine, runtime=replace(machine.runtime, layer_overhead_seconds=layer))
