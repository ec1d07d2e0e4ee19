"""What rounds will emit, drawn before a run: for each token of each output, the tokens of a round that begins there.

Acceptance belongs to the text and not to the moment, so a run only looks up how far each request gets. All choices see
the same random numbers, which makes policies comparable with few requests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specsim.serving.choices import Choices, Text, marks
from specsim.serving.requests import Array, IntArray, Requests

LAST = 1 << 20
"""Added to the tokens of a round that ends its output: one sum tells tokens and ends."""


@dataclass(frozen=True, eq=False)
class Texts:
    """Outputs of requests, one behind the other.

    Attributes:
        start: Where each output begins, shape (N,).
        end: Where it ends, shape (N,).
        emitted: For each choice, the tokens that a round emits that begins at each place, with ``LAST`` added where
            it ends the output, each of shape (T + 1,).
    """

    start: IntArray
    end: IntArray
    emitted: tuple[NDArray[np.int32], ...]


def draw_texts(choices: Choices, requests: Requests, generator: np.random.Generator) -> Texts:
    """Outputs with what rounds of each choice make of them."""
    lengths = requests.output_tokens
    end = np.cumsum(lengths)
    start = end - lengths
    total = int(end[-1]) if len(end) else 0
    left = np.repeat(end, lengths) - np.arange(total)
    context = np.repeat(requests.prompt_tokens - start, lengths) + np.arange(float(total))
    first = np.zeros(total, dtype=bool)
    first[start] = True
    owner = np.repeat(requests.kind, lengths)
    drawn = dict[int, IntArray]()
    emitted = []
    for choice in choices.each:
        texts = choice.texts if choice.texts is not None else choices.texts
        # Choices with one law share one draw, of the longest among them.
        longest = max(c.longest for c in choices.each if (c.texts if c.texts is not None else choices.texts) is texts)
        if choice.longest and id(texts) not in drawn:
            drawn[id(texts)] = _accepted(texts, longest, context, first, owner, generator)
        accepted = np.minimum(drawn[id(texts)], choice.longest) if choice.longest else np.zeros(total, dtype=np.int64)
        tokens = np.minimum(accepted + 1, left)
        table = np.zeros(total + 1, dtype=np.int32)
        table[:-1] = tokens + LAST * (tokens == left)
        emitted.append(table)
    return Texts(start, end, tuple(emitted))


def _accepted(
    texts: tuple[Text, ...],
    longest: int,
    context: Array,
    first: NDArray[np.bool_],
    owner: IntArray,
    generator: np.random.Generator,
) -> IntArray:
    if len(texts) == 1:
        return marks(texts[0], longest, context, first, generator)
    found = np.zeros(len(context), dtype=np.int64)
    for index, text in enumerate(texts):
        chosen = owner == index
        found[chosen] = marks(text, longest, context[chosen], first[chosen], generator)
    return found
