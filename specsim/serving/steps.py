"""Step times of a replica as tables over batch, context and choice, read linearly between their entries.

A step that decodes a batch and reads prompts beside it is one pass: matrix products see the tokens of both, and
attention is paid for each. With V the round of the batch alone, L(n) the pass of n tokens without a cache and A(p, c)
that of p tokens of one prompt behind c cached ones,

    step = V + [L(d + p) - L(d)] + sum over prompts of [A(p_i, c_i) - L(p_i)] + what the drafter takes to read them

for d verified and p prompt tokens in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from specsim.cost.machine import Machine
from specsim.cost.passes import Pass
from specsim.cost.roofline import pass_time
from specsim.drafting import drafting_of
from specsim.drafting.plan import NOTHING
from specsim.planning.costs import round_costs, round_of
from specsim.planning.lengths import lengths_of
from specsim.planning.question import Axes, Question
from specsim.serving.choices import Choices
from specsim.serving.requests import Array, IntArray
from specsim.specs.acceptance import Independent, typical_of
from specsim.specs.served import ServedModel

PARTS = ("drafting", "verification", "overhead")
"""Parts of a round, in the order of the last axis of ``StepTimes.seconds``."""

CONTEXTS = 33
"""Entries of the tables along the context."""


@dataclass(frozen=True, eq=False)
class StepTimes:
    """Times of the steps of one replica.

    Attributes:
        seconds: Parts of a round by choice, batch (from 1) and context, shape (K, B, S, 3) [s].
        context: Contexts of the entries, evenly spaced from 0, shape (S,).
        verified_tokens: Tokens of a request that a round looks at, by choice, shape (K,).
        tokens: Numbers of tokens of ``token_seconds``, rising from 0.
        token_seconds: A pass of so many tokens without a cache; 0 for none [s].
        chunk: Prompt tokens of the entries of ``prompt_seconds``, rising from 0.
        cached: Tokens before them, rising from 0.
        prompt_seconds: What attention to a prompt adds, shape (chunks, cached) [s].
        reading_seconds: What the drafter takes to read so many prompt tokens, shape (chunks,) [s].
    """

    seconds: Array
    context: Array
    verified_tokens: IntArray
    tokens: Array
    token_seconds: Array
    chunk: Array
    cached: Array
    prompt_seconds: Array
    reading_seconds: Array

    @property
    def max_batch_size(self) -> int:
        """Largest batch of the tables."""
        return int(self.seconds.shape[1])

    @cached_property
    def round_seconds(self) -> Array:
        """A round, shape (K, B, S) [s]."""
        return np.asarray(self.seconds.sum(-1))

    def at_context(self, context: float) -> Array:
        """A round at one context, shape (K, B) [s]."""
        place = min(max(context / self.context[1], 0.0), len(self.context) - 1.0)
        before = min(int(place), len(self.context) - 2)
        part = place - before
        return (1 - part) * self.round_seconds[..., before] + part * self.round_seconds[..., before + 1]

    def prompt_step(self, decoding: Array, prompt: Array, cached: Array) -> Array:
        """What a chunk of one prompt adds to a step that looks at so many tokens besides, broadcast [s]."""
        together = np.interp(decoding + prompt, self.tokens, self.token_seconds)
        alone = np.interp(decoding, self.tokens, self.token_seconds)
        return together - alone + self._of_prompt(prompt, cached)

    def _of_prompt(self, prompt: Array, cached: Array) -> Array:
        """Attention to a prompt, and the drafter's reading of it [s]."""
        p = np.interp(prompt, self.chunk, np.arange(len(self.chunk)))
        c = np.interp(cached, self.cached, np.arange(len(self.cached)))
        i, j = np.minimum(p.astype(int), len(self.chunk) - 2), np.minimum(c.astype(int), len(self.cached) - 2)
        u, v, table = p - i, c - j, self.prompt_seconds
        low = (1 - v) * table[i, j] + v * table[i, j + 1]
        high = (1 - v) * table[i + 1, j] + v * table[i + 1, j + 1]
        return np.asarray((1 - u) * low + u * high + np.interp(prompt, self.chunk, self.reading_seconds))

    @cached_property
    def lookup(self) -> StepLookup:
        """The same for one step after another."""
        return StepLookup(self)


class StepLookup:
    """Step times one by one, as plain numbers: many times faster than arrays of one entry."""

    def __init__(self, times: StepTimes) -> None:
        self.rounds = times.seconds.tolist()
        self.last = len(times.context) - 2
        self.per_token = 1.0 / float(times.context[1])
        self.verified = times.verified_tokens.tolist()
        # One entry for each number of tokens: indexing is several times faster than searching.
        every = np.arange(times.tokens[-1] + 1)
        self._token_seconds = np.interp(every, times.tokens, times.token_seconds).tolist()
        every = np.arange(times.chunk[-1] + 1)
        self._reading = np.interp(every, times.chunk, times.reading_seconds).tolist()
        self._chunk, self._chunk_part = _places(every, times.chunk)
        self._cached, self._cached_part = _places(np.arange(times.cached[-1] + 1), times.cached)
        self._prompt = times.prompt_seconds.tolist()

    def round(self, choice: int, batch: int, context: float) -> tuple[float, float, float]:
        """Drafting, verification and overhead of a round [s]."""
        place = context * self.per_token
        before = min(int(place), self.last)
        part = place - before
        row = self.rounds[choice][batch - 1]
        a, b = row[before], row[before + 1]
        return a[0] + part * (b[0] - a[0]), a[1] + part * (b[1] - a[1]), a[2] + part * (b[2] - a[2])

    def prompts(self, decoding: int, chunks: list[tuple[int, int]]) -> float:
        """What chunks of prompts, each with the tokens before it, add to a step [s]."""
        known, total, found = self._token_seconds, decoding, 0.0
        for tokens, cached in chunks:
            total += tokens
            i, u, j, v = self._chunk[tokens], self._chunk_part[tokens], self._cached[cached], self._cached_part[cached]
            low, high = self._prompt[i], self._prompt[i + 1]
            found += (1 - u) * ((1 - v) * low[j] + v * low[j + 1]) + u * ((1 - v) * high[j] + v * high[j + 1])
            found += self._reading[tokens]
        return found + known[total] - known[decoding]


def _places(wanted: Array, known: Array) -> tuple[list[int], list[float]]:
    """The entry before each number, and how far it is on the way to the next one."""
    place = np.interp(wanted, known, np.arange(len(known)))
    before = np.minimum(place.astype(np.int64), len(known) - 2)
    return before.tolist(), (place - before).tolist()


def step_times(
    question: Question, choices: Choices, max_batch_size: int, longest: int, max_batch_tokens: int
) -> StepTimes:
    """The tables of one option.

    Args:
        question: Machine, target and drafter.
        choices: The rounds that may be chosen.
        max_batch_size: The largest batch.
        longest: The longest context.
        max_batch_tokens: New tokens of a step at most.

    Raises:
        ValueError: If the question has no machine or no target.
    """
    machine, target = question.machine, question.target
    if machine is None or target is None:
        raise ValueError("step times need a machine and a target")
    context = np.linspace(0.0, max(longest, CONTEXTS - 1), CONTEXTS)
    batches = _spread(max_batch_size)
    known, verified = _rounds(question, choices, batches, context)
    widest = max(max_batch_tokens, longest) + int(np.ceil(verified.max()) * max_batch_size)
    tokens, chunk = _doubling(widest), _doubling(max(max_batch_tokens, longest))
    cached = _doubling(longest)
    return StepTimes(
        seconds=_all_batches(known, batches, max_batch_size),
        context=context,
        verified_tokens=np.ceil(verified).astype(np.int64),
        tokens=tokens,
        token_seconds=np.concatenate([[0.0], _pass_of_tokens(target, machine, tokens[1:])]),
        chunk=chunk,
        cached=cached,
        prompt_seconds=_attention_to_prompts(target, machine, chunk, cached),
        reading_seconds=_reading(question, target, machine, chunk) * choices.drafts,
    )


def _rounds(question: Question, choices: Choices, batches: IntArray, context: Array) -> tuple[Array, Array]:
    """Parts of the rounds of all choices, shape (K, B, S, 3) [s], and the tokens that they look at, shape (K,)."""
    axes = Axes.of(batches, context, choices.gamma)
    lengths = lengths_of(question.draft, typical_of(question.draft.acceptance), choices.gamma, axes.context_length)
    costs = round_costs(question, axes, lengths)
    parts = (costs.drafting_seconds, costs.verification_seconds, costs.overhead_seconds)
    known = np.stack([np.broadcast_to(part, axes.shape) for part in parts], axis=-1)
    return known, np.broadcast_to(costs.verified_tokens, (len(choices.each), 1, 1))[:, 0, 0]


def _spread(most: int) -> IntArray:
    """Batches whose times are computed: each of the first ones, then ever fewer."""
    dense = np.arange(1, min(most, 48) + 1)
    sparse = np.rint(48 * 1.06 ** np.arange(1, 200)).astype(np.int64)
    return np.unique(np.concatenate([dense, sparse[sparse < most], [most]]))


def _all_batches(known: Array, batches: IntArray, most: int) -> Array:
    wanted = np.arange(1, most + 1)
    place = np.interp(wanted, batches, np.arange(len(batches)))
    before = np.minimum(place.astype(np.int64), max(len(batches) - 2, 0))
    after = np.minimum(before + 1, len(batches) - 1)
    part = (place - before)[:, None, None]
    return (1 - part) * known[:, before] + part * known[:, after]


def _doubling(most: int) -> Array:
    """Numbers of tokens from 0 to at least so many: every one of the first, then eight to each doubling."""
    steps = int(np.ceil(8 * np.log2(max(most, 16) / 8))) + 1
    return np.unique(np.concatenate([np.arange(9.0), np.rint(8 * 2 ** (np.arange(steps + 1) / 8))]))


def _pass_of_tokens(target: ServedModel, machine: Machine, tokens: Array) -> Array:
    """A pass of so many tokens, without a cache and with logits of one [s]."""
    of = Pass(target, tokens, np.ones(()), np.zeros(()), outputs_per_sequence=1 / tokens)
    return np.broadcast_to(pass_time(of, machine).seconds, tokens.shape)


def _attention_to_prompts(target: ServedModel, machine: Machine, chunk: Array, cached: Array) -> Array:
    prompt = chunk[1:, None]
    of = Pass(target, np.ones(()), prompt, cached, outputs_per_sequence=np.ones(()))
    alone = _pass_of_tokens(target, machine, chunk[1:])[:, None]
    found = np.maximum(pass_time(of, machine).seconds - alone, 0.0)
    return np.concatenate([np.zeros((1, len(cached))), np.broadcast_to(found, (len(prompt), len(cached)))])


def _reading(question: Question, target: ServedModel, machine: Machine, chunk: Array) -> Array:
    """What the drafter's models take to read prompts of such lengths, one at a time [s]."""
    axes, acceptance = Axes.of([1], chunk, [1]), Independent(rate=1.0)
    drafting = drafting_of(
        question.draft, target, round_of(axes, lengths_of(question.draft, acceptance, axes.gamma[:, 0, 0]))
    )
    lanes = drafting.readings if drafting is not None else ()
    of_each = [sum((pass_time(of, machine.of_drafts).seconds for of in lane), NOTHING) for lane in lanes]
    slowest = np.max([np.broadcast_to(one, (1, 1, len(chunk))) for one in of_each], axis=0) if of_each else NOTHING
    return np.broadcast_to(slowest, (1, 1, len(chunk)))[0, 0] * (chunk > 0)
