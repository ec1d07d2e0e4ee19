"""``specsim measure``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from specsim.cli.numerics import prepare_numpy
from specsim.cli.options import output_options

if TYPE_CHECKING:
    from specsim.report.table import Table


@click.command("measure", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--model", metavar="NAME", help="toy (default), smollm2, the path of a GGUF file, or a local folder.")
@click.option(
    "--draft",
    multiple=True,
    metavar="FORM",
    help=(
        "same, noise:0.1, layers:20, skip:11..20, bits:3, lookup:3..1, suffix:2, counts:3, uniform, or several merged "
        "into a tree, as in lookup+layers:25. Repeat it to compare drafters. [required]"
    ),
)
@click.option("--gamma", metavar="LIST", help="Draft lengths; default 4.")
@click.option("--tree", multiple=True, metavar="TREE", help="Token trees: <2,2,1>, or parents as in -1,0,0,1.")
@click.option("--temperature", metavar="T", help="0, greedy, is the default.")
@click.option("--top-k", metavar="K", help="Keep so many tokens, on both sides.")
@click.option("--top-p", metavar="P", help="Keep the most probable tokens up to this probability, on both sides.")
@click.option("--rule", metavar="NAME", help="standard (default), naive, block, typical, lenience.")
@click.option("--lenience", metavar="L", help="Of the rule lenience; default 0.5.")
@click.option("--candidates", metavar="HOW", help="sampled (default), without-replacement, most-probable.")
@click.option("--prompts", metavar="FILE", help="A file, or kinds of the built-in ones: code,prose,dialogue,copying.")
@click.option("--limit", metavar="N", help="Only the first N prompts.")
@click.option("--tokens", metavar="N", help="Most tokens of each output; default 100.")
@click.option("--seed", metavar="N", help="Of everything random; default 0.")
@click.option("--by", metavar="WHAT", help="A row for each draft (default), kind, sort (by measured repetition), text.")
@click.option("--record", metavar="FILE", help="Write ordered counts as JSON lines, which specsim fit reads.")
@click.option(
    "--pairs",
    metavar="FILE",
    help="Write target's and draft's probabilities where drafts were tried: .yaml as an acceptance of kind paired, "
    "which trees and rules read, .jsonl with all that happened.",
)
@click.option("--pairs-top", metavar="K", help="So many of the most probable tokens of each; default 32.")
@click.option("--journal", metavar="FILE", help="Keep every finished text there, and go on from it if it exists.")
@click.option("--timing", is_flag=True, help="Time the engine's own passes instead, over --batch, --width, --context.")
@click.option("--batch", "batch_size", metavar="LIST", help="With --timing: sequences of a pass; default 1.")
@click.option("--width", metavar="LIST", help="With --timing: new tokens of each; default 1,2,4,8,16,32.")
@click.option("--context", "context_length", metavar="LIST", help="With --timing: tokens in the cache; default 64,512.")
@click.option("--repeats", metavar="N", help="With --timing: how often each pass is timed; default 9.")
@click.option("--threads", metavar="N", default="1", help="Threads of the matrix products; default 1.")
@output_options
def command(
    model: str | None,
    draft: tuple[str, ...],
    gamma: str | None,
    tree: tuple[str, ...],
    temperature: str | None,
    top_k: str | None,
    top_p: str | None,
    rule: str | None,
    lenience: str | None,
    candidates: str | None,
    prompts: str | None,
    limit: str | None,
    tokens: str | None,
    seed: str | None,
    by: str | None,
    record: str | None,
    pairs: str | None,
    pairs_top: str | None,
    journal: str | None,
    timing: bool,
    batch_size: str | None,
    width: str | None,
    context_length: str | None,
    repeats: str | None,
    threads: str,
    output_format: str | None,
    output: str | None,
    quiet: bool,
) -> None:
    """Speculative decoding that really runs: tokens per round, what was accepted, what it took.

    Texts are continued plainly and with every drafter, by a small engine in numpy. same_output counts texts whose
    greedy output is the target's own; one that parts from it at a near tie, where rounding decides, is counted apart.
    accepted_k is the share of rounds that accept exactly k drafts, survival_j of those that accept the j-th; rounds
    that the end of a text cuts are left out of both.

    \b
    Examples:
      specsim measure --draft noise:0.1 --draft uniform --gamma 1..4
      specsim measure --model smollm2 --draft lookup --prompts copying --gamma 4,8 --by text
      specsim measure --draft layers:1 --tree "<3,1,1>" --temperature 0.7 --candidates without-replacement
      specsim measure --draft lookup --tokens 300 --record rounds.jsonl
      specsim measure --timing --width 1,4,8 --context 512
    """
    prepare_numpy(threads)
    from specsim.api import measuring
    from specsim.catalog.measuring import ask_measure
    from specsim.catalog.timing import ask_timing
    from specsim.cli import render
    from specsim.engine.measuring import document, most_tokens
    from specsim.engine.timing import timing_runs, timing_table

    form = render.chosen_format(output_format, output)
    of_texts: dict[str, object] = {
        "draft": list(draft) or None, "gamma": gamma, "tree": list(tree) or None, "temperature": temperature,
        "top_k": top_k, "top_p": top_p, "rule": rule, "lenience": lenience, "candidates": candidates,
        "prompts": prompts, "limit": limit, "tokens": tokens, "by": by,
    }  # fmt: skip
    of_files: dict[str, object] = {"record": record, "pairs": pairs, "pairs_top": pairs_top, "journal": journal}
    of_passes = {"batch_size": batch_size, "width": width, "context_length": context_length, "repeats": repeats}
    refuse(of_texts | of_files if timing else of_passes, "passes are timed" if timing else "no passes are timed")
    if timing:
        asked = {"model": model, "seed": seed, **of_passes}
        timing_question = ask_timing(**asked)
        with render.progress(timing_runs(timing_question), "measure", quiet) as told:
            table = timing_table(timing_question, told)
        if form == "csv":
            render.deliver_with(table.to_csv(), output, asked, timing_question.seed)
        elif form == "json":
            render.deliver([table.to_json()], output)
        else:
            text = render.table_text(table, list(table.columns), screen=output is None)
            render.deliver([f"{timing_question.model.title}\n", text, render.closing(table)], output)
        return
    question = ask_measure(model=model, seed=seed, **of_texts)
    with render.progress(most_tokens(question), "measure", quiet) as told:
        found = measuring.measured(question, told, record=record, pairs=pairs, pairs_top=pairs_top, journal=journal)
    if form == "csv":
        render.deliver_with(found.table.to_csv(), output, document(question), question.seed)
    elif form == "json":
        render.deliver([found.table.to_json()], output)
    else:
        text = render.table_text(*_for_the_eye(found.table), screen=output is None)
        title = f"{question.model.title}, temperature {question.sampling.temperature:g}, rule {question.rule_name}\n"
        render.deliver([title, text, render.closing(found.table)], output)


def refuse(options: Mapping[str, object], why: str) -> None:
    """Refuse options that say nothing here.

    Raises:
        InputError: With one fault for each that is given.
    """
    from specsim.errors import Fault, InputError, Place

    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InputError([Fault(f"it says nothing where {why}.", Place(parameter=name)) for name in given])


_SHOWN = (
    "draft", "gamma", "tree", "nodes", "kind", "sort", "text", "copied", "looped", "texts", "tokens", "rounds",
    "tokens_per_round", "tokens_low", "tokens_high", "acceptance_rate", "accepted_per_drafted", "empty_rounds",
    "proposal_ms", "verification_ms", "repair_ms", "plain_step_ms", "speedup", "same_output", "near_ties", "differing",
)  # fmt: skip
"""Columns of the table on the screen, with the distribution where it is short; CSV and JSON have all."""

_MOST_OUTCOMES = 6


def _for_the_eye(table: Table) -> tuple[Table, list[str]]:
    outcomes = [name for name in table.columns if name.startswith("accepted_") and name[9:].isdigit()]
    shown = [name for name in _SHOWN if name in table.columns]
    if not any(table.cells("tree")):
        shown = [name for name in shown if name not in ("tree", "nodes")]
    for name in ("near_ties", "differing"):
        if not any(table.cells(name)):
            shown.remove(name)
    return table, shown + (outcomes if len(outcomes) <= _MOST_OUTCOMES else [])
