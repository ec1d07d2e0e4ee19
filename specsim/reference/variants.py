"""Drafters made of a target's own weights: noise, fewer layers, fewer bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.reference.transformer import MATRICES, Transformer

Array = NDArray[Any]

GROUP = 32
"""Weights that share a scale and an offset in a quantised copy."""


def noisy(model: Transformer, sigma: float, generator: np.random.Generator) -> Transformer:
    """A copy with Gaussian noise on every matrix, head and embedding included.

    Args:
        model: The weights.
        sigma: Standard deviation of the noise, in standard deviations of each matrix.
        generator: Of the noise.
    """

    def shaken(matrix: Array) -> Array:
        noise = generator.standard_normal(matrix.shape, dtype=np.float32)
        return matrix + noise.astype(matrix.dtype) * matrix.dtype.type(sigma * matrix.std())

    return _changed(model, shaken)


def quantised(model: Transformer, bits: int) -> Transformer:
    """A copy whose matrices are rounded: ``GROUP`` weights along the inputs share a least and a largest value.

    Where the inputs are no multiple of that, a column is one group.
    """
    steps = 2**bits - 1

    def rounded(matrix: Array) -> Array:
        group = GROUP if len(matrix) % GROUP == 0 else len(matrix)
        grouped = matrix.reshape(-1, group, matrix.shape[1])
        low, high = grouped.min(1, keepdims=True), grouped.max(1, keepdims=True)
        step = np.where(high > low, (high - low) / steps, 1)
        return (low + np.rint((grouped - low) / step) * step).reshape(matrix.shape).astype(matrix.dtype)

    return _changed(model, rounded)


def first_layers(model: Transformer, layers: int) -> Transformer:
    """The first layers, with the target's last norm and head; weights are shared and not copied."""
    return replace(model, layers=model.layers[:layers])


def skipped_layers(model: Transformer, skipped: Sequence[int]) -> Transformer:
    """The target without some layers, counted from 1; weights are shared and not copied."""
    left_out = {number - 1 for number in skipped}
    return replace(model, layers=tuple(layer for index, layer in enumerate(model.layers) if index not in left_out))


def _changed(model: Transformer, change: Callable[[Array], Array]) -> Transformer:
    layers = tuple(
        replace(layer, **{name: change(getattr(layer, name)) for name in MATRICES}) for layer in model.layers
    )
    head = change(model.head)
    embedding = head.T if model.tied else change(model.embedding)
    return replace(model, layers=layers, head=head, embedding=embedding)
