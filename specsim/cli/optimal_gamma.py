"""``specsim optimal-gamma``."""

from __future__ import annotations

from typing import Any

import click

from specsim.cli.options import output_options, question, question_options


@click.command("optimal-gamma", context_settings={"help_option_names": ["-h", "--help"]})
@question_options
@click.option(
    "--batch",
    "batch_size",
    metavar="LIST",
    help="Batch sizes: 1,8,32 or 1..16 or 1..256*2; default 1..256*2.",
)
@click.option("--context", "context_length", metavar="LIST", help="Tokens in the cache: 1024 or 1k,8k; default 1024.")
@click.option("--max-gamma", default="8", show_default=True, metavar="N", help="The longest draft that is tried.")
@click.option("--all", "all_gammas", is_flag=True, help="Print every draft length and not only the best.")
@output_options
def command(
    batch_size: str | None,
    context_length: str | None,
    max_gamma: str,
    all_gammas: bool,
    output_format: str | None,
    output: str | None,
    quiet: bool,
    **given: Any,
) -> None:
    """Best draft length for each batch and context; gamma 0 means: do not speculate.

    \b
    Examples:
      specsim optimal-gamma --hardware h100 --target llama-3-8b --draft llama-3.2-1b --acceptance rate=0.8
      specsim optimal-gamma --hardware h100 --target llama-3-8b --draft llama-3.2-1b --batch 1..64 -o best.csv
      specsim optimal-gamma --acceptance rate=0.8 --draft-cost-ratio 0.1 --all
    """
    from specsim.api import planning
    from specsim.cli import render

    form = render.chosen_format(output_format, output)
    resolution = planning.gamma_question(batch_size, context_length, max_gamma, **question(given))
    render.remarks(resolution.remarks, quiet)
    table = planning.all_rows(resolution) if all_gammas else planning.best_rows(resolution)
    render.rows(table, form, output, resolution)
