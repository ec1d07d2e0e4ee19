"""Drafters by a name and a number: what is prepared once for a target, and made anew for every text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from specsim.reference.drafters import Drafter, Merged, Uniform
from specsim.reference.lookup import NgramCounts, PromptLookup, SuffixLookup
from specsim.reference.model_drafter import Candidates, ModelDrafter
from specsim.reference.sampling import Sampling
from specsim.reference.transformer import Transformer
from specsim.reference.variants import first_layers, noisy, quantised, skipped_layers

Method = Literal["same", "noise", "layers", "skip", "bits", "lookup", "suffix", "counts", "uniform", "merged"]
Maker = Callable[[Sequence[Sequence[int]]], Drafter]
"""Makes the drafter of one text from texts that came before."""


@dataclass(frozen=True)
class Recipe:
    """A way of drafting.

    Attributes:
        label: As it is written.
        method: ``same`` (the target's own weights), ``noise``, ``layers`` (the first ones), ``skip`` (layers),
            ``bits``, ``lookup``, ``suffix``, ``counts``, ``uniform`` or ``merged``.
        values: Its numbers: sigma, layers, first and last skipped layer, bits, longest and shortest match, shortest
            suffix, order of the n-grams.
        parts: The recipes that are merged.
    """

    label: str
    method: Method
    values: tuple[float, ...] = ()
    parts: tuple[Recipe, ...] = ()

    @property
    def learns(self) -> bool:
        """Whether it guesses from texts that came before."""
        return self.method in ("suffix", "counts") or any(part.learns for part in self.parts)

    @property
    def is_model(self) -> bool:
        """Whether a transformer drafts."""
        return self.method in ("same", "noise", "layers", "skip", "bits")

    def transformer(self, target: Transformer, seed: int) -> Transformer:
        """The weights that draft, where a transformer does.

        Raises:
            ValueError: If the recipe does not fit the target, or is of another kind.
        """
        count = [int(value) for value in self.values]
        match self.method:
            case "same":
                return target
            case "noise":
                return noisy(target, self.values[0], np.random.default_rng([seed, 1]))
            case "layers" if count[0] <= len(target.layers):
                return first_layers(target, count[0])
            case "skip" if count[1] <= len(target.layers):
                return skipped_layers(target, range(count[0], count[1] + 1))
            case "bits":
                return quantised(target, count[0])
        raise ValueError(f"the target has {len(target.layers)} layers")

    def prepared(self, target: Transformer, sampling: Sampling, candidates: Candidates, seed: int) -> Maker:
        """What makes the drafter of each text.

        Args:
            target: The target's weights.
            sampling: How target and draft choose tokens.
            candidates: How a model's candidates are chosen.
            seed: Of noise.

        Raises:
            ValueError: If the recipe does not fit the target.
        """
        if self.is_model:
            model = self.transformer(target, seed)
            return lambda _: ModelDrafter(model, sampling, candidates)
        count = [int(value) for value in self.values]
        match self.method:
            case "lookup":
                return lambda _: PromptLookup(*count)
            case "suffix":
                return lambda history: SuffixLookup(history, *count)
            case "counts":
                return lambda history: NgramCounts(history, target.vocabulary, sampling, *count)
            case "uniform":
                return lambda _: Uniform(target.vocabulary)
        makers = [part.prepared(target, sampling, candidates, seed) for part in self.parts]
        return lambda history: Merged([make(history) for make in makers])
