"""The reference engine from questions to answers and files: what the API and the command line share."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from specsim.catalog.given import of_kind
from specsim.catalog.journal import Journal, journal
from specsim.catalog.measuring import MeasureQuestion, Shape
from specsim.engine.clock import chosen_clock
from specsim.errors import Fault, InputError, Place
from specsim.reference.decoding import Examined
from specsim.reference.measuring import Plan, Text, TextRun, lead_where_they_part, measure
from specsim.reference.verification import LOSSLESS
from specsim.report.measured import Measured, RowShape, measured
from specsim.report.output import whole_file
from specsim.specs.fields import whole

Progress = Callable[[int], None] | None

DEFAULT_PAIRS_TOP = 32


def texts_of(question: MeasureQuestion) -> tuple[Text, ...]:
    """The prompts of a question in tokens."""
    of_prompt = question.model.tokens.of_prompt
    return tuple(Text(p.name, p.kind, p.group, tuple(of_prompt(p.text))) for p in question.prompts)


def most_tokens(question: MeasureQuestion) -> int:
    """Most tokens that a question makes the engine decode."""
    return len(question.prompts) * question.tokens * (1 + len(question.drafters) * len(question.shapes))


def run(
    question: MeasureQuestion,
    progress: Progress,
    *,
    record: str | Path | None,
    pairs: str | Path | None,
    pairs_top: Any,
    journal_file: str | Path | None,
) -> Measured:
    """Measure, and write what was asked for beside the table.

    Raises:
        InputError: If a file cannot be written, or does not fit what is measured.
    """
    one = len(question.drafters) == len(question.shapes) == 1
    for name, path in (("record", record), ("pairs", pairs)):
        if path is not None and not one:
            message = "a file takes the rounds of one drafter and one draft length or tree; run the others apart."
            raise InputError(Fault(message, Place(parameter=name)))
    top = _pairs_top(question, pairs, pairs_top, resumes=journal_file is not None)
    texts = texts_of(question)
    model, seed = question.model.transformer, question.seed
    shapes = {shape.label: shape.parents for shape in question.shapes}
    plans = [
        Plan(one.label, one.prepared(model, question.sampling, question.candidates, seed), shapes)
        for one in question.drafters
    ]
    runs: list[TextRun] = []
    with ExitStack() as stack:
        kept: Journal | None = None
        if journal_file is not None:
            written = [prompt.text for prompt in question.prompts]
            kept = stack.enter_context(journal(str(journal_file), question.settings, written))
        # Files are opened before anything is decoded, so that a mistake in their names shows at once.
        of_pairs = None if pairs is None else stack.enter_context(whole_file(Path(pairs), "pairs"))
        as_yaml = pairs is not None and Path(pairs).suffix in (".yaml", ".yml")
        known_pairs = _Pairs(None if as_yaml else of_pairs, top, [])
        of_rounds = None if record is None else stack.enter_context(whole_file(Path(record), "record"))
        for found in measure(
            model,
            texts,
            plans,
            question.sampling,
            question.rule,
            question.tokens,
            question.model.end,
            seed,
            chosen_clock()[0],
            progress,
            None if kept is None else kept.done,
            None if of_pairs is None else known_pairs.add,
        ):
            runs.append(found)
            if kept is not None:
                kept.add(found)
        if of_pairs is not None and as_yaml:
            of_pairs.writelines(known_pairs.yaml())
        if of_rounds is not None:
            of_rounds.writelines(_recorded(runs, question.shapes[0]))
    rows = [RowShape(s.label, s.gamma, "" if s.is_chain else s.label, len(s.parents)) for s in question.shapes]
    exact = question.sampling.greedy and question.rule_name in LOSSLESS
    return measured(
        runs,
        texts,
        [drafter.label for drafter in question.drafters],
        rows,
        question.by,
        seed,
        (lambda text, plain, other: lead_where_they_part(model, text.prompt, plain.output, other.output))
        if exact
        else None,
        _assumed(question, texts),
    )


def _pairs_top(question: MeasureQuestion, pairs: Any, pairs_top: Any, *, resumes: bool) -> int:
    if pairs is None:
        if pairs_top is not None:
            raise InputError(Fault("it says nothing without a file of pairs.", Place(parameter="pairs_top")))
        return DEFAULT_PAIRS_TOP
    if question.sampling.greedy:
        message = "at temperature 0 there are no probabilities to compare; give a temperature."
        raise InputError(Fault(message, Place(parameter="pairs")))
    if resumes:
        message = "pairs are not kept in a journal; leave one of the two out."
        raise InputError(Fault(message, Place(parameter="pairs")))
    if pairs_top is None:
        return DEFAULT_PAIRS_TOP
    try:
        return int(of_kind(whole(1, 100_000))(pairs_top))
    except ValueError as error:
        raise InputError(Fault(str(error), Place(parameter="pairs_top"))) from None


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Both laws at every node at which drafts were tried, on the tokens that either thinks likely.

    Attributes:
        file: Where lines go: one JSON object for each node. None for YAML, which is written at the end.
        top: How many of the most probable tokens of each law.
        rows: Laws of the target and of the draft with what is left of each, as the acceptance of kind paired has them.
    """

    file: IO[str] | None
    top: int
    rows: list[tuple[list[float], list[float]]]

    def add(self, text: str, drafter: str, shape: str, node: Examined) -> None:
        """Take in one node."""
        del drafter, shape
        draws = node.proposal.draws[node.node]
        law = draws[0].law
        likely = np.argsort(-node.target, kind="stable")[: self.top]
        if law is not None:
            likely = np.union1d(likely, np.argsort(-law, kind="stable")[: self.top])
            likely = likely[np.argsort(-node.target[likely], kind="stable")]
        target = [_short(p) for p in node.target[likely]]
        draft = None if law is None else [_short(q) for q in law[likely]]
        if self.file is None:
            if draft is not None:
                self.rows.append((self._whole(target, last=False), self._whole(draft, last=True)))
            return
        line = {
            "text": text,
            "tokens": likely.tolist(),
            "target_probs": target,
            "draft_probs": draft,
            "candidates": [node.proposal.tokens[draw.child] for draw in draws],
            "accepted": None if node.accepted is None else node.proposal.tokens[node.accepted],
        }
        self.file.write(json.dumps(line) + "\n")

    def _whole(self, law: list[float], *, last: bool) -> list[float]:
        """A law of equally many tokens in all rows; what is left of target and draft stands at places of their own."""
        left = max(1.0 - math.fsum(law), 0.0)
        return [*law, *[0.0] * (2 * self.top - len(law)), *((0.0, left) if last else (left, 0.0))]

    def yaml(self) -> Iterator[str]:
        """The rows as an acceptance of kind paired.

        Raises:
            InputError: If no draft had probabilities.
        """
        if not self.rows:
            message = "no draft that was tried has probabilities; write .jsonl, or measure a draft that is a model."
            raise InputError(Fault(message, Place(parameter="pairs")))
        yield f"# The {self.top} most probable tokens of each law; what is left of it is never accepted.\n"
        yield "format: 1\nkind: paired\n"
        for side, name in enumerate(("target_probs", "draft_probs")):
            yield f"{name}:\n"
            yield from (f"  - {json.dumps(row[side])}\n" for row in self.rows)


def _short(probability: float) -> float:
    return float(f"{probability:.8g}")


def _recorded(runs: Sequence[TextRun], shape: Shape) -> Iterator[str]:
    """Ordered counts, a line for each text, and what was asked for; rounds that an end cut are left out."""
    asked: dict[str, object] = {"gamma": shape.gamma} | ({} if shape.is_chain else {"tree": shape.label})
    for one in runs:
        rounds = [r for r in one.rounds if not r.cut]
        if one.drafter and rounds:
            entry = {
                "request": one.text,
                "accepted": [r.accepted for r in rounds],
                "drafted": [r.drafted for r in rounds],
                **asked,
            }
            yield json.dumps(entry) + "\n"


def _assumed(question: MeasureQuestion, texts: Sequence[Text]) -> list[str]:
    told = [f"seed {question.seed}", f"outputs of at most {question.tokens} tokens"]
    if len(texts) > 1:
        told.append("intervals of 90 % by bootstrap over texts")
    else:
        told.append("intervals of 90 % by bootstrap over rounds")
    told.append("rounds that the end of a text cuts are left out of acceptance and tokens per round")
    told.append(f"{chosen_clock()[1]}, the prompt's reading left out")
    if any(drafter.learns for drafter in question.drafters):
        told.append("drafters that learn were given the plain output of earlier texts with other passages")
    if question.rule_name not in LOSSLESS:
        told.append(f"the rule {question.rule_name} changes the output's law")
    return told


def document(question: MeasureQuestion) -> dict[str, Any]:
    """A question of ``measure`` as a document, for the provenance beside its rows."""
    return question.settings | {
        "title": question.model.title,
        "drafters": [drafter.label for drafter in question.drafters],
        "shapes": [shape.label for shape in question.shapes],
        "prompts": [prompt.name for prompt in question.prompts],
        "by": question.by,
    }
