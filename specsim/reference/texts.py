"""What kind of text an output is, by measured repetition and not by what the prompt asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

WINDOW = 12
"""Tokens that must have stood before in this order for the next one to count as repeated."""

_COPYING, _LOOPING = 0.5, 0.15

Sort = Literal["copying", "looping", "ordinary"]


@dataclass(frozen=True)
class Repetition:
    """Shares of an output's tokens.

    Attributes:
        copied: They go on as the prompt did after the same ``WINDOW`` tokens.
        looped: They go on as the output itself did.
    """

    copied: float
    looped: float

    @property
    def sort(self) -> Sort:
        """Half of it copied from the prompt, more than 15 % repeated from itself, or neither."""
        if self.copied > _COPYING:
            return "copying"
        return "looping" if self.looped > _LOOPING else "ordinary"


def repetition(prompt: Sequence[int], output: Sequence[int], window: int = WINDOW) -> Repetition:
    """How much of an output only repeats: ``window`` tokens that stood before, and the token after them."""
    if not output:
        return Repetition(0.0, 0.0)
    given, seen = set[tuple[int, ...]](), set[tuple[int, ...]]()
    text, start = [*prompt, *output], len(prompt)
    copied = looped = 0
    for end in range(window + 1, len(text) + 1):
        piece = tuple(text[end - window - 1 : end])
        if end <= start:
            given.add(piece)
        else:
            looped += piece in seen
            copied += piece in given and piece not in seen
            if end - window - 1 >= start:
                seen.add(piece)
    return Repetition(copied / len(output), looped / len(output))
