"""``specsim optimal-tree``."""

from __future__ import annotations

from typing import Any

import click

from specsim.cli.options import output_options, question, question_options, tree_options


@click.command("optimal-tree", context_settings={"help_option_names": ["-h", "--help"]})
@question_options
@tree_options
@click.option(
    "--batch",
    "batch_size",
    metavar="LIST",
    help="Batch sizes: 1,8,32 or 1..16 or 1..256*2; default 1..256*2.",
)
@click.option("--context", "context_length", metavar="LIST", help="Tokens in the cache: 1024 or 1k,8k; default 1024.")
@click.option(
    "--max-nodes",
    default="64",
    show_default=True,
    metavar="N",
    help="Most verified tokens of a sequence, with the root.",
)
@click.option("--max-depth", default="8", show_default=True, metavar="N", help="Most levels, and the longest chain.")
@click.option("--max-branches", default="8", show_default=True, metavar="N", help="Most children of a node.")
@click.option("--all", "every_size", is_flag=True, help="Print every chain, and the best trees of every size.")
@click.option("--picture", metavar="FILE", help="Draw the trees of the rows that name one, as .svg.")
@output_options
def command(
    batch_size: str | None,
    context_length: str | None,
    max_nodes: str,
    max_depth: str,
    max_branches: str,
    every_size: bool,
    picture: str | None,
    output_format: str | None,
    output: str | None,
    quiet: bool,
    **given: Any,
) -> None:
    """Best token tree for each batch and context, beside the best chain; gamma 0 means: do not speculate.

    gamma is the number of levels, nodes what verification looks at. speedup_bound is what no tree within the limits
    exceeds; where speedup_gap is 0 the tree is certain to be the best.

    \b
    Examples:
      specsim optimal-tree --hardware h100 --target llama-3-8b --draft llama-3.2-1b --ranks 0.6,0.2,0.1
      specsim optimal-tree --hardware a10 --target llama-7b --draft llama-68m --ranks 0.66,0.1,0.05 --batch 1..16
      specsim optimal-tree --ranks 0.6,0.2,0.1 --draft-cost-ratio 0.1 --max-nodes 16 --all
    """
    from specsim.api import trees
    from specsim.cli import render

    form = render.chosen_format(output_format, output)
    render.check_apart(output=output, picture=picture)
    asked = trees.tree_question(batch_size, context_length, max_nodes, max_depth, max_branches, **question(given))
    render.remarks(asked.resolution.remarks, quiet)
    with render.progress(asked.points, "optimal-tree", quiet) as told:
        table = trees.tree_rows(asked, every_size=every_size, progress=told)
    if picture is not None:
        from specsim.report.drawing import draw_trees

        draw_trees(table, picture)
    render.rows(table, form, output, asked.resolution)
