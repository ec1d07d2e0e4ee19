"""Toy models with seeded weights and small vocabularies, on which laws can be enumerated."""

from __future__ import annotations

from typing import Any

import numpy as np

from specsim.reference.transformer import Layer, Transformer, rotary_frequencies

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789 .,:;()\n"
"""The 44 characters of the toy's vocabulary."""


def toy(
    seed: int = 0,
    vocabulary: int = len(ALPHABET),
    layers: int = 2,
    hidden_size: int = 32,
    heads: int = 4,
    kv_heads: int = 2,
    dtype: Any = np.float32,
    spread: float = 2.0,
    tied: bool = True,
) -> Transformer:
    """A transformer with random weights; the same seed gives the same weights.

    Args:
        seed: Of the weights.
        vocabulary: Tokens.
        layers: Layers.
        hidden_size: Width of the residual stream; the feed-forward is twice as wide.
        heads: Query heads.
        kv_heads: Key and value heads.
        dtype: Of weights and arithmetic.
        spread: Standard deviation of logits, about: the larger, the surer is the model.
        tied: Whether embedding and head are one matrix.
    """
    generator = np.random.default_rng(seed)
    size = hidden_size // heads

    def matrix(inputs: int, outputs: int, gain: float = 1.0) -> Any:
        return (generator.standard_normal((inputs, outputs)) * gain / inputs**0.5).astype(dtype)

    def layer() -> Layer:
        ones = np.ones(hidden_size, dtype=dtype)
        return Layer(
            attention_norm=ones,
            qkv=matrix(hidden_size, (heads + 2 * kv_heads) * size, 1.5),
            out=matrix(hidden_size, hidden_size, 2.0),
            feed_forward_norm=ones,
            gate_up=matrix(hidden_size, 4 * hidden_size, 2.0),
            down=matrix(2 * hidden_size, hidden_size),
        )

    head = matrix(hidden_size, vocabulary)
    embedding = head.T if tied else matrix(hidden_size, vocabulary).T
    return Transformer(
        embedding=embedding,
        layers=tuple(layer() for _ in range(layers)),
        norm=np.full(hidden_size, spread, dtype=dtype),
        head=head,
        heads=heads,
        kv_heads=kv_heads,
        frequencies=rotary_frequencies(size, 10000.0),
        tied=tied,
    )
