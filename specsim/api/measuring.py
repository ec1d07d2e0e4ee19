"""``specsim.measure`` and what its command needs: questions, answers, how long they take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specsim.catalog.language_models import language_model
from specsim.catalog.measuring import MeasureQuestion, ask_measure
from specsim.engine import measuring, timing
from specsim.engine.measuring import Progress
from specsim.report.measured import Measured
from specsim.report.table import Table


def measure(
    *,
    draft: Any,
    model: Any = None,
    gamma: Any = None,
    tree: Any = None,
    temperature: Any = None,
    top_k: Any = None,
    top_p: Any = None,
    rule: Any = None,
    lenience: Any = None,
    candidates: Any = None,
    prompts: Any = None,
    limit: Any = None,
    tokens: Any = None,
    seed: Any = None,
    by: Any = None,
    record: str | Path | None = None,
    pairs: str | Path | None = None,
    pairs_top: Any = None,
    journal: str | Path | None = None,
) -> Table:
    """Speculative decoding that really runs, on a small engine in numpy: what was accepted, and what it took.

    One row for each drafter and shape. ``tokens_per_round`` with the ends of its interval of 90 %; ``acceptance_rate``,
    accepted / examined; ``accepted_k``, the share of rounds that accept exactly k drafts; ``survival_j``, of those that
    accept the j-th; times of proposal, verification and repair per round; ``speedup`` over plain decoding of the same
    texts; ``same_output``, how many greedy outputs are the target's own.

    Args:
        draft: One drafter or several, such as ``"noise:0.1"``, ``"lookup:3..1"`` or ``"lookup+layers:25"``.
        model: ``"toy"``, ``"smollm2"``, the path of a GGUF file, or that of a local Hugging Face folder.
        gamma: Draft lengths; 4, unless trees are given.
        tree: Trees such as ``"<2,2,1>"`` or a list of parents.
        temperature: Of target and draft; 0.
        top_k: Keep so many tokens, on both sides.
        top_p: Keep the most probable tokens up to this probability, on both sides.
        rule: ``standard``, ``naive``, ``block``, ``typical`` or ``lenience``.
        lenience: Of the rule ``lenience``; 0.5.
        candidates: How a model's candidates are chosen: ``sampled``, ``without-replacement``, ``most-probable``.
        prompts: A file, or kinds of the built-in prompts; all of these.
        limit: Only so many prompts.
        tokens: Most tokens of each output; 100.
        seed: Of everything random; 0.
        by: A row for each ``draft``, ``kind``, ``sort`` or ``text``.
        record: Path for ordered counts as JSON lines, which ``fit`` reads.
        pairs: Path for target's and draft's probabilities where drafts were tried: .yaml as an acceptance of kind
            ``paired``, which trees and rules read, or JSON lines with all that happened.
        pairs_top: So many of the most probable tokens of each; 32.
        journal: Path of a file from which a measurement that was stopped goes on.

    Raises:
        InputError: With one fault for everything that is wrong.

    >>> table = measure(draft="same", gamma=3, prompts="code", limit=1, tokens=21)
    >>> float(table["tokens_per_round"][0]), int(table["same_output"][0])
    (4.0, 1)
    """
    question = ask_measure(
        draft=draft,
        model=model,
        gamma=gamma,
        tree=tree,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        rule=rule,
        lenience=lenience,
        candidates=candidates,
        prompts=prompts,
        limit=limit,
        tokens=tokens,
        seed=seed,
        by=by,
    )
    return measured(question, record=record, pairs=pairs, pairs_top=pairs_top, journal=journal).table


def measured(
    question: MeasureQuestion,
    progress: Progress = None,
    *,
    record: str | Path | None = None,
    pairs: str | Path | None = None,
    pairs_top: Any = None,
    journal: str | Path | None = None,
) -> Measured:
    """The answer to a question of ``measure``; ``progress`` is told how many tokens were decoded.

    Raises:
        InputError: If a file cannot be written, or belongs to another measurement.
    """
    return measuring.run(question, progress, record=record, pairs=pairs, pairs_top=pairs_top, journal_file=journal)


def calibrate_this_machine(
    model: str | Path | None = None, name: str | None = None, progress: Progress = None
) -> timing.ThisMachine:
    """Cards of the machine that this runs on, from passes of 1, 4 and 16 tokens at context 64.

    The table holds what these cards predict of wider passes at context 512, of a draft step and of two speedups, beside
    what the same process measured.

    Args:
        model: What runs: ``"smollm2"``, ``"toy"``, or the path of a model.
        name: What the cards are called; ``this-machine``.
        progress: Is told of every pass and text.

    Raises:
        InputError: If there is no such model.
    """
    return timing.this_machine(language_model(str(model or "smollm2")), name or "this-machine", progress=progress)
