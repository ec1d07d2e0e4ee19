"""Texts continued by every drafter and shape, and plainly beside it: what happened in each."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specsim.reference.decoding import Decoded, Examined, Request, Round, decode, top_gap
from specsim.reference.recipes import Maker
from specsim.reference.replay import output_logits
from specsim.reference.sampling import RandomChance, Sampling
from specsim.reference.transformer import Transformer
from specsim.reference.trees import IntArray, chain
from specsim.reference.verification import Rule, standard

NEAR_TIE = 1e-3
"""A lead of the largest logit below which an argmax may flip where tokens are computed in blocks."""

PLAIN = ("", "0")
"""Drafter and shape of plain decoding."""


@dataclass(frozen=True)
class Text:
    """A prompt in tokens; those of one group share a passage."""

    name: str
    kind: str
    group: str
    prompt: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Plan:
    """A drafter with the shapes that it is measured at.

    Attributes:
        label: Of the drafter.
        maker: Makes it for each text.
        shapes: Parents by label.
    """

    label: str
    maker: Maker
    shapes: Mapping[str, IntArray]


@dataclass(frozen=True)
class TextRun:
    """One text, continued once.

    Attributes:
        text: Name of the text.
        drafter: Label, "" for plain decoding.
        shape: Label.
        output: Tokens.
        rounds: In their order.
        prefill_seconds: Time of reading the prompt [s].
    """

    text: str
    drafter: str
    shape: str
    output: tuple[int, ...]
    rounds: tuple[Round, ...]
    prefill_seconds: float

    @property
    def key(self) -> tuple[str, str, str]:
        """Text, drafter and shape."""
        return self.text, self.drafter, self.shape

    @property
    def seconds(self) -> float:
        """Time of all rounds, the prompt left out [s]."""
        return sum(r.proposal_seconds + r.verification_seconds + r.repair_seconds for r in self.rounds)


def measure(
    model: Transformer,
    texts: Sequence[Text],
    plans: Sequence[Plan],
    sampling: Sampling,
    rule: Rule,
    tokens: int,
    end: frozenset[int],
    seed: int,
    clock: Callable[[], float],
    progress: Callable[[int], None] | None = None,
    done: Mapping[tuple[str, str, str], TextRun] | None = None,
    examine: Callable[[str, str, str, Examined], None] | None = None,
) -> Iterator[TextRun]:
    """Continue every text plainly, then with every drafter and shape.

    Drafters that learn from other texts are given the plain output of earlier texts of other groups. What is random
    depends on the seed, the text, the drafter and the shape alone, so a part that was done before can be left out.

    Args:
        model: The target.
        texts: What is continued.
        plans: Drafters and shapes.
        sampling: How target and drafts choose tokens.
        rule: Which drafts are accepted.
        tokens: Most tokens of each output.
        end: Tokens that end a text.
        seed: Of everything random.
        clock: Seconds.
        progress: Is told how many tokens were committed, those of texts that were done before at once.
        done: Runs of an earlier call, which are given and not repeated.
        examine: Is told text, drafter, shape and node wherever drafts were tried.
    """
    earlier = done or {}
    plain: dict[str, tuple[int, ...]] = {}
    for text in texts:
        history = [[*t.prompt, *plain[t.name]] for t in texts if t.name in plain and t.group != text.group]
        for plan in (None, *plans):
            shapes = {PLAIN[1]: chain(0)} if plan is None else plan.shapes
            for label, parents in shapes.items():
                key = (text.name, PLAIN[0] if plan is None else plan.label, label)
                run = earlier.get(key)
                if run is None:
                    request = Request(
                        prompt=text.prompt,
                        limit=tokens,
                        chance=RandomChance(np.random.default_rng([seed, *(zlib.crc32(k.encode()) for k in key)])),
                        drafter=None if plan is None else plan.maker(history),
                        shape=parents,
                        examine=None if examine is None else _bound(examine, key),
                    )
                    of_plain = plan is None
                    found = decode(model, [request], sampling, standard if of_plain else rule, end, clock, progress)
                    run = _run(key, found[0])
                elif progress is not None:
                    progress(len(run.output))
                if plan is None:
                    plain[text.name] = run.output
                yield run


def _bound(examine: Callable[[str, str, str, Examined], None], key: tuple[str, str, str]) -> Callable[[Examined], None]:
    return lambda node: examine(*key, node)


def _run(key: tuple[str, str, str], found: Decoded) -> TextRun:
    return TextRun(*key, found.output, tuple(found.rounds), found.prefill_seconds)


def lead_where_they_part(
    model: Transformer, prompt: Sequence[int], plain: Sequence[int], other: Sequence[int]
) -> float | None:
    """By how much the target's largest logit leads at the first token in which two outputs differ; None if in none."""
    shared = next((place for place, (a, b) in enumerate(zip(plain, other, strict=False)) if a != b), None)
    if shared is None:
        return None if len(plain) == len(other) else float("inf")
    return top_gap(output_logits(model, prompt, plain[: shared + 1])[-1])
