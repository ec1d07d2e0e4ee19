"""A pass: one forward call of one model, the unit of which every round is made."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from specsim.specs.precision import Module
from specsim.specs.served import ServedModel

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Projection:
    """A matrix product beside the layers of a pass.

    Attributes:
        inputs: Values of one token that go in.
        outputs: Values that come out.
        module: The part of a model that it counts as.
        count: How many of them there are.
        small_parameters: Biases and norms that are read beside each.
        summed: Whether its products are summed into those of another one, which alone writes them.
    """

    name: str
    inputs: int
    outputs: int
    module: Module = "mlp"
    count: int = 1
    small_parameters: int = 0
    summed: bool = False


@dataclass(frozen=True, eq=False)
class Pass:
    """One forward call, over arrays of operating points that broadcast against each other.

    Attributes:
        served: The model, its number formats and its layout over devices.
        sequences: Sequences in the batch.
        tokens_per_sequence: New tokens of each sequence: 1 in plain decoding, gamma + 1 in verification.
        context_length: Tokens of each sequence that the cache already holds.
        projections: Products beside the layers.
        bare: Whether there are only these, and no layers.
        outputs_per_sequence: New tokens of each sequence whose logits are wanted, all of them if None.
    """

    served: ServedModel
    sequences: Array
    tokens_per_sequence: Array
    context_length: Array
    projections: tuple[Projection, ...] = ()
    bare: bool = False
    outputs_per_sequence: Array | None = None

    @property
    def layers(self) -> int:
        """Layers that run."""
        return 0 if self.bare else self.served.model.layers

    @property
    def stage_sequences(self) -> Array:
        """Sequences that a stage of the pipeline works on at a time.

        The batch goes through the stages in as many parts as there are stages, or as there are sequences; while one
        part is in one stage, the others are in the other stages, and the largest part sets the beat.
        """
        stages = self.served.pipeline_parallel
        return self.sequences if stages == 1 else np.ceil(self.sequences / np.minimum(stages, self.sequences))

    @property
    def attention_sequences(self) -> Array:
        """Sequences whose attention one device works on at a time."""
        groups = self.served.attention_data_parallel
        return self.stage_sequences if groups == 1 else np.ceil(self.stage_sequences / groups)

    @cached_property
    def tokens(self) -> Array:
        """New tokens that a stage works on at a time."""
        return self.stage_sequences * self.tokens_per_sequence

    @property
    def outputs(self) -> Array:
        """New tokens that a stage makes logits of at a time."""
        return self.tokens if self.outputs_per_sequence is None else self.stage_sequences * self.outputs_per_sequence

    @property
    def attention_tokens(self) -> Array:
        """New tokens whose attention one device works on at a time."""
        if self.served.attention_data_parallel == 1:
            return self.tokens
        return self.attention_sequences * self.tokens_per_sequence
