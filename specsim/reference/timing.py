"""How long the engine's own passes take, over batch, new tokens and context, and how long plain products take.

What is compared is timed in turn, again and again in a new order, so that a machine that slows down for a while slows
all of it down; medians are told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.reference.cache import ContiguousCache
from specsim.reference.transformer import Transformer, attention, chain_block, forward

Array = NDArray[np.float64]
Task = Callable[[], Any]


@dataclass(frozen=True)
class Point:
    """A pass: sequences, new tokens of each, and tokens in the cache of each."""

    batch: int
    tokens: int
    context: int


def filled_cache(model: Transformer, context: int) -> ContiguousCache:
    """A cache that holds so many entries of noise, which take as long to read as any."""
    cache = model.cache()
    cache.reserve(context + 64)
    noise = np.random.default_rng(0).standard_normal(cache.keys.shape, dtype=np.float32)
    cache.keys[:], cache.values[:] = noise, noise
    cache.advance(context)
    return cache


def pass_task(model: Transformer, point: Point) -> Task:
    """A pass that can be repeated: its cache is rolled back each time."""
    caches = [filled_cache(model, point.context) for _ in range(point.batch)]
    tokens = np.arange(point.tokens) % model.vocabulary

    def run() -> None:
        forward(model, [chain_block(cache, tokens.tolist()) for cache in caches])
        for cache in caches:
            cache.truncate(point.context)

    return run


def products_task(model: Transformer, rows: int = 1) -> Task:
    """``numpy.dot`` of some rows with every matrix of a model, and nothing else."""
    pairs = [(np.ones((rows, len(matrix)), dtype=matrix.dtype), matrix) for matrix in model.matrices]
    if rows == 1:
        pairs = [(row[0], matrix) for row, matrix in pairs]

    def run() -> None:
        for row, matrix in pairs:
            np.dot(row, matrix)

    return run


def attention_task(model: Transformer, context: int) -> Task:
    """Attention of one token over a cache of every layer, and nothing else."""
    cache = filled_cache(model, context)
    queries = np.ones((1, model.heads, model.head_size), dtype=model.head.dtype)

    def run() -> None:
        for keys, values in zip(cache.keys, cache.values, strict=True):
            attention(queries, keys[:, :context], values[:, :context], None)

    return run


SQUARE = 1024
"""Side of the square product that tells the rate of arithmetic."""


def square_task(dtype: Any) -> Task:
    """A product of two square matrices."""
    one = np.ones((SQUARE, SQUARE), dtype=dtype)
    other = one.copy()
    return lambda: np.dot(one, other)


def time_in_turn(
    tasks: Sequence[Task],
    repeats: int,
    clock: Callable[[], float],
    generator: np.random.Generator,
    progress: Callable[[int], None] | None = None,
) -> Array:
    """Seconds of every task, shape (tasks, repeats); each is run once before, to be warm.

    Args:
        tasks: What is timed.
        repeats: How often.
        clock: Seconds.
        generator: Of the order in each turn.
        progress: Is told of every run.
    """
    for task in tasks:
        task()
    found = np.empty((len(tasks), repeats))
    for turn in range(repeats):
        for number in generator.permutation(len(tasks)):
            began = clock()
            tasks[number]()
            found[number, turn] = clock() - began
            if progress is not None:
                progress(1)
    return found
