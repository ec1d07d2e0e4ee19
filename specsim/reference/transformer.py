"""A Llama-type transformer in numpy: RMSNorm, rotary positions, grouped-query attention, gated feed-forward.

Matrices are stored (in, out) and multiplied as ``x @ W``, which for a single row is the faster of the two layouts.
Rotary pairs are the two halves of a head (i, i + d / 2); files with adjacent pairs are permuted when they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from specsim.reference.cache import Cache, ContiguousCache
from specsim.reference.trees import BoolArray, IntArray, ancestors, depths

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Layer:
    """Weights of one layer; H hidden size, D head size, F feed-forward size.

    Attributes:
        attention_norm: Shape (H,).
        qkv: Queries, keys and values side by side, shape (H, (heads + 2 kv_heads) D).
        out: Shape (heads D, H).
        feed_forward_norm: Shape (H,).
        gate_up: Gate and up projection side by side, shape (H, 2 F).
        down: Shape (F, H).
    """

    attention_norm: Array
    qkv: Array
    out: Array
    feed_forward_norm: Array
    gate_up: Array
    down: Array


MATRICES = ("qkv", "out", "gate_up", "down")
"""The matrices of a layer."""


@dataclass(frozen=True, eq=False)
class Transformer:
    """A model by its weights.

    Attributes:
        embedding: Shape (vocabulary, H); a view of the head where the two are tied.
        layers: The layers.
        norm: Gain of the last norm, shape (H,).
        head: Shape (H, vocabulary).
        heads: Query heads.
        kv_heads: Key and value heads.
        frequencies: Angle of each rotary pair for one position, shape (D / 2,).
        epsilon: Of the norms.
        tied: Whether embedding and head are one matrix.
    """

    embedding: Array
    layers: tuple[Layer, ...]
    norm: Array
    head: Array
    heads: int
    kv_heads: int
    frequencies: Array
    epsilon: float = 1e-5
    tied: bool = True

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""
        return int(self.head.shape[1])

    @property
    def hidden_size(self) -> int:
        """Width of the residual stream."""
        return int(self.head.shape[0])

    @property
    def head_size(self) -> int:
        """Width of a head."""
        return 2 * len(self.frequencies)

    @property
    def matrices(self) -> Iterator[Array]:
        """Every matrix that a pass multiplies with."""
        for layer in self.layers:
            yield from (getattr(layer, name) for name in MATRICES)
        yield self.head

    @property
    def weight_bytes(self) -> int:
        """Bytes of these matrices."""
        return sum(matrix.nbytes for matrix in self.matrices)

    def cache(self) -> ContiguousCache:
        """An empty cache that fits."""
        return ContiguousCache(len(self.layers), self.kv_heads, self.head_size, self.head.dtype)


def rotary_frequencies(head_size: int, base: float) -> Array:
    """base^(-2 i / D) for pair i (Su et al. 2021), shape (D / 2,)."""
    return base ** (-np.arange(0, head_size, 2) / head_size)


@dataclass(frozen=True, eq=False)
class Block:
    """New tokens of one sequence.

    Attributes:
        cache: What was before them.
        tokens: Shape (n,).
        positions: Shape (n,).
        visible: What each new token may attend to among the last entries of cache and block, shape (n, t) with
            n <= t; everything before these is visible.
    """

    cache: Cache
    tokens: IntArray
    positions: IntArray
    visible: BoolArray


def chain_block(cache: Cache, tokens: Sequence[int]) -> Block:
    """Tokens in a row after what the cache holds."""
    count = len(tokens)
    return Block(
        cache, np.asarray(tokens), cache.length + np.arange(count), np.tril(np.ones((count, count), dtype=bool))
    )


def tree_block(cache: Cache, tokens: Sequence[int], parents: IntArray) -> Block:
    """A tree whose node 0 comes after what the cache holds; nodes attend to ancestors and stand at their depth."""
    return Block(cache, np.asarray(tokens), cache.length + depths(parents), ancestors(parents))


def forward(model: Transformer, blocks: Sequence[Block], wanted: Literal["all", "last", "none"] = "all") -> list[Array]:
    """One pass over new tokens of several sequences; their caches grow by them.

    Products run over the tokens of all blocks at once, attention over each block with its own cache.

    Args:
        model: The weights.
        blocks: New tokens, of as many lengths as there are blocks.
        wanted: Logits of all new tokens, of the last one of each block, or none.

    Returns:
        For each block its logits, shape (n, vocabulary), (1, vocabulary) or (0, vocabulary).
    """
    ends = np.cumsum([len(block.tokens) for block in blocks])
    rows = [slice(end - len(block.tokens), end) for end, block in zip(ends.tolist(), blocks, strict=True)]
    for block in blocks:
        block.cache.reserve(len(block.tokens))
    tokens, positions = (_filled_up([getattr(b, name) for b in blocks]) for name in ("tokens", "positions"))
    x = model.embedding[tokens]
    rotation = _rotation(model, positions)
    hidden = [_hidden(block.visible, x.dtype) for block in blocks]
    for index, layer in enumerate(model.layers):
        qkv = _norm(x, layer.attention_norm, model.epsilon) @ layer.qkv
        heads = qkv.reshape(len(x), model.heads + 2 * model.kv_heads, model.head_size)
        rotated = _rotated(heads[:, : model.heads + model.kv_heads], *rotation)
        mixed = np.zeros((len(x), model.heads * model.head_size), dtype=x.dtype)
        for block, part, bias in zip(blocks, rows, hidden, strict=True):
            keys = rotated[part, model.heads :].transpose(1, 0, 2)
            values = heads[part, model.heads + model.kv_heads :].transpose(1, 0, 2)
            mixed[part] = attention(rotated[part, : model.heads], *block.cache.write(index, keys, values), bias)
        x = x + mixed @ layer.out
        gate_up = _norm(x, layer.feed_forward_norm, model.epsilon) @ layer.gate_up
        gate, up = gate_up[:, : len(layer.down)], gate_up[:, len(layer.down) :]
        x = x + (gate / (1 + np.exp(-gate)) * up) @ layer.down
    for block in blocks:
        block.cache.advance(len(block.tokens))
    if wanted == "none":
        return [np.empty((0, model.vocabulary), dtype=x.dtype) for _ in blocks]
    if wanted == "last":
        x, rows = x[ends - 1], [slice(number, number + 1) for number in range(len(blocks))]
    logits = _norm(x, model.norm, model.epsilon) @ model.head
    return [logits[part] for part in rows]


ROWS = 4
"""Products of several rows are filled up to a multiple of this: kernels take so many together, others one by one."""


def _filled_up(parts: list[IntArray]) -> IntArray:
    """Parts in a row, with zeros behind them that nobody looks at."""
    whole = np.concatenate(parts)
    return whole if len(whole) == 1 else np.concatenate([whole, np.zeros(-len(whole) % ROWS, dtype=np.int64)])


def _norm(x: Array, gain: Array, epsilon: float) -> Array:
    return x * (1 / np.sqrt(np.square(x).mean(-1, keepdims=True) + epsilon)) * gain


def _rotation(model: Transformer, positions: IntArray) -> tuple[Array, Array]:
    angles = np.multiply.outer(positions, model.frequencies)[:, None]
    return np.cos(angles).astype(model.head.dtype), np.sin(angles).astype(model.head.dtype)


def _rotated(heads: Array, cosine: Array, sine: Array) -> Array:
    half = heads.shape[-1] // 2
    first, second = heads[..., :half], heads[..., half:]
    return np.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


def _hidden(visible: BoolArray, dtype: Any) -> Array | None:
    """What is added to scores: 0 where a token may look, minus infinity elsewhere; None if nothing is hidden."""
    return None if visible.all() else np.where(visible, 0.0, -np.inf).astype(dtype)


def attention(queries: Array, keys: Array, values: Array, hidden: Array | None) -> Array:
    """Softmax attention; queries (n, heads, D), keys and values (kv_heads, S, D), result (n, heads D)."""
    count, heads, size = queries.shape
    kv_heads, span, _ = keys.shape
    # The query heads that share a key head, and the new tokens, are the rows of one product.
    stacked = queries.transpose(1, 0, 2).reshape(kv_heads, heads // kv_heads * count, size)
    scores = (stacked * (1 / size**0.5)) @ keys.transpose(0, 2, 1)
    if hidden is not None:
        scores.reshape(heads, count, span)[:, :, span - hidden.shape[1] :] += hidden
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = (weights @ values) / weights.sum(-1, keepdims=True)
    return mixed.reshape(heads, count, size).transpose(1, 0, 2).reshape(count, heads * size)
