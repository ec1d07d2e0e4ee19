"""What rounds will emit, drawn before a run: for each token of each output, the tokens of a round that begins there.

Acceptance belongs to the text and not to the moment, so a run only looks up how far each request gets. All choices see
the same random numbers, which makes policies comparable with few requests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specsim.serving.choices import Choices, Text, accepted_drafts
from specsim.serving.requests import IntArray, Requests

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
    end = np.cumsum(requests.output_tokens)
    start = end - requests.output_tokens
    drawn, emitted = dict[int, NDArray[np.uint8]](), []
    for choice in choices.each:
        texts = choices.texts_of(choice)
        if choice.longest and id(texts) not in drawn:
            # Choices with one law share one draw, of the longest among them.
            longest = max(other.longest for other in choices.each if choices.texts_of(other) is texts)
            drawn[id(texts)] = _drawn(texts, longest, requests, generator)
        table = np.ones(int(end[-1]) + 1 if len(end) else 1, dtype=np.int32)
        if choice.longest:
            table[:-1] += np.minimum(drawn[id(texts)], choice.longest)
        emitted.append(_cut(table, start, end, choice.longest))
    return Texts(start, end, tuple(emitted))


def _cut(table: NDArray[np.int32], start: IntArray, end: IntArray, longest: int) -> NDArray[np.int32]:
    """Rounds that reach the end of their output emit what is left of it."""
    for left in range(1, longest + 2):
        at = end - left
        at = at[at >= start]
        tokens = table[at]
        table[at] = np.where(tokens >= left, left + LAST, tokens)
    return table


def _drawn(
    texts: tuple[Text, ...], longest: int, requests: Requests, generator: np.random.Generator
) -> NDArray[np.uint8]:
    if len(texts) == 1:
        return accepted_drafts(texts[0], longest, requests.prompt_tokens, requests.output_tokens, generator)
    owner = np.repeat(requests.kind, requests.output_tokens)
    found = np.zeros(len(owner), dtype=np.uint8)
    for index, text in enumerate(texts):
        some = requests.where(requests.kind == index)
        found[owner == index] = accepted_drafts(text, longest, some.prompt_tokens, some.output_tokens, generator)
    return found
