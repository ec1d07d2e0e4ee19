"""Drafters that copy from text that was there before: prompt lookup, suffixes over a history, n-gram counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from specsim.reference.drafters import Drafter, Independent, continuations
from specsim.reference.proposals import Proposal
from specsim.reference.sampling import Array, Chance, Sampling
from specsim.reference.trees import IntArray, depths


class PromptLookup(Drafter):
    """What followed the last n tokens where they stood before in the same text, the latest place first.

    The longest n of a range that was seen before is taken (Saxena 2023, prompt lookup decoding).
    """

    def __init__(self, longest: int = 3, shortest: int = 1) -> None:
        self.longest = longest
        self.shortest = shortest

    def propose(self, tokens: Sequence[int], shape: IntArray, chance: Chance) -> Proposal:
        """Copies of what came after; nothing where the last tokens are new."""
        text = np.asarray(tokens)
        for length in range(min(self.longest, len(text) - 1), self.shortest - 1, -1):
            ends = _ends(text, text[-length:])
            if len(ends):
                depth = int(depths(shape).max())
                return continuations(tokens, shape, _different([text[end : end + depth] for end in ends[::-1]]))
        return Proposal([tokens[-1]])


class SuffixLookup(Drafter):
    """What followed the longest suffix that stood before, in the same text or in other ones.

    The draft is no longer than ``factor`` times the match, since short matches are seldom followed for long (suffix
    decoding, Oliaro et al. 2024).
    """

    def __init__(
        self, history: Iterable[Sequence[int]] = (), shortest: int = 2, longest: int = 64, factor: float = 1.0
    ) -> None:
        self.history = [np.asarray(text) for text in history]
        self.shortest = shortest
        self.longest = longest
        self.factor = factor

    def propose(self, tokens: Sequence[int], shape: IntArray, chance: Chance) -> Proposal:
        """Copies after the longest match, of equal ones the same text and its latest place first."""
        text = np.asarray(tokens)
        matches = []
        for number, source in enumerate([text, *self.history]):
            for end in _ends(source, text[-self.shortest :]):
                length = _common_suffix(source[:end], text, self.longest)
                matches.append((-length, number, -int(end)))
        if len(text) <= self.shortest or not matches:
            return Proposal([tokens[-1]])
        depth = int(depths(shape).max())
        found = []
        for length, number, end in sorted(matches):
            source = text if number == 0 else self.history[number - 1]
            reach = min(depth, max(int(-length * self.factor), 1))
            found.append(source[-end : -end + reach])
        return continuations(tokens, shape, _different(found))


class NgramCounts(Independent):
    """A count-based n-gram model: the law of what followed the longest context that was counted."""

    def __init__(self, texts: Iterable[Sequence[int]], vocabulary: int, sampling: Sampling, order: int = 3) -> None:
        self.vocabulary = vocabulary
        self.sampling = sampling
        self.order = order
        counts: dict[tuple[int, ...], dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for text in texts:
            for place in range(1, len(text)):
                for length in range(1, min(order - 1, place) + 1):
                    counts[tuple(text[place - length : place])][int(text[place])] += 1
        self._counts = {context: dict(following) for context, following in counts.items()}

    def law(self, tokens: Sequence[int]) -> Array | None:
        """Counts to the power 1 / temperature; None after a context that was never counted."""
        for length in range(min(self.order - 1, len(tokens)), 0, -1):
            following = self._counts.get(tuple(tokens[-length:]))
            if following:
                logits = np.full(self.vocabulary, -np.inf)
                logits[list(following)] = np.log(list(following.values()))
                return self.sampling.law(logits)
        return None


def _ends(source: NDArray[np.int64], pattern: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where a pattern ends in a text with something after it, in rising order."""
    places = len(source) - len(pattern)
    if places <= 0:
        return np.empty(0, dtype=np.int64)
    same = np.ones(places, dtype=bool)
    for offset, token in enumerate(pattern.tolist()):
        same &= source[offset : offset + places] == token
    return np.flatnonzero(same) + len(pattern)


def _common_suffix(first: NDArray[np.int64], second: NDArray[np.int64], most: int) -> int:
    length = min(len(first), len(second), most)
    same = first[::-1][:length] == second[::-1][:length]
    return length if same.all() else int(same.argmin())


def _different(sequences: Sequence[NDArray[np.int64]]) -> list[list[int]]:
    """Sequences by their first appearance, each first token once."""
    found: dict[int, list[int]] = {}
    for sequence in sequences:
        found.setdefault(int(sequence[0]), sequence.tolist())
    return list(found.values())
