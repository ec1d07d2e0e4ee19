"""``specsim explain``."""

from __future__ import annotations

import json
from typing import Any

import click

from specsim.cli.options import output_options, question, question_options, tree_options

COLUMNS = ("pass", "operator", "runs", "ms", "operations", "moved_bytes", "bound")


@click.command("explain", context_settings={"help_option_names": ["-h", "--help"]})
@question_options
@tree_options
@click.option("--batch", "batch_size", default="1", show_default=True, metavar="N", help="One batch size.")
@click.option("--context", "context_length", default=None, metavar="N", help="One context length; default 1024.")
@click.option("--gamma", default=None, metavar="N", help="The draft length; default the best one up to 8.")
@click.option("--tree", metavar="SHAPE", help="A token tree in its place: <2,2,1>, 8/8/64, [-1,0,0,1] or a name.")
@output_options
def command(
    batch_size: str,
    context_length: str | None,
    gamma: str | None,
    tree: str | None,
    output_format: str | None,
    output: str | None,
    quiet: bool,
    **given: Any,
) -> None:
    """Where the time of one operating point goes, what the draft costs, and where speculation stops paying.

    As CSV: the operators of each pass.

    \b
    Examples:
      specsim explain --hardware h100 --target llama-3-8b --draft llama-3.2-1b --acceptance rate=0.8 --batch 64
      specsim explain --hardware h100 --target llama-3-8b --draft llama-3.2-1b --ranks 0.6,0.2 --tree "<2,2,1>"
      specsim explain --acceptance rate=0.6 --draft-cost-ratio 0.1
    """
    from specsim.api import explaining
    from specsim.cli import render

    form = render.chosen_format(output_format, output)
    gamma, tree = explaining.chain_or_tree(gamma, tree)
    resolution = explaining.point_question(batch_size, context_length, gamma, tree, **question(given))
    render.remarks(resolution.remarks, quiet)
    explanation = explaining.explain_resolved(resolution, gamma)
    if form == "csv":
        render.deliver([explanation.operators.to_csv()], output, resolution)
    elif form == "json":
        render.deliver([json.dumps(explanation.to_document(), indent=2, ensure_ascii=False) + "\n"], output)
    else:
        operators = (
            render.table_text(explanation.operators, COLUMNS, screen=output is None)
            if len(explanation.operators)
            else ""
        )
        render.deliver([explanation.to_text(), "\n", operators, render.closing(explanation.row)], output)
