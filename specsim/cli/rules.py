"""``specsim rules``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from specsim.cli.options import output_options

if TYPE_CHECKING:
    from specsim.report.table import Table


@click.command("rules", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--target-probs",
    metavar="LIST",
    help="The target's probability of each token, as in 0.6,0.3,0.1; positions of a draft apart by ; and independent.",
)
@click.option("--draft-probs", metavar="LIST", help="The draft's, for the same positions and tokens.")
@click.option(
    "--pairs",
    metavar="FILE",
    help="In place of both, a YAML file of paired probabilities: means over its positions, for several candidates.",
)
@click.option(
    "--rule",
    multiple=True,
    metavar="NAME",
    help=(
        "Lossless: standard, greedy, deterministic (the draft's most probable token), block, naive, "
        "one-round-rejection. Lossy: lenience, typical. Wrong: resample-from-target, ratio-on-deterministic. Repeat "
        "it for several; default all."
    ),
)
@click.option(
    "--candidates",
    metavar="K",
    help=(
        "Candidates for one position, and the rules that verify several. Lossless: multi-step, without-replacement, "
        "k-seq, top-k, greedy, naive, naive-without-replacement. Bounds: transport-bound and "
        "transport-bound-without-replacement. Wrong: multi-step-without-residual, ratio-on-top-k."
    ),
)
@click.option(
    "--lenience",
    metavar="L",
    help="What the rule lenience multiplies draft probabilities with, above 0 and at most 1; default 0.5.",
)
@output_options
def command(
    target_probs: str | None,
    draft_probs: str | None,
    pairs: str | None,
    rule: tuple[str, ...],
    candidates: str | None,
    lenience: str | None,
    output_format: str | None,
    output: str | None,
    quiet: bool,
) -> None:
    """What verification rules accept, what they emit, and how far that is from the target.

    Exact, by enumeration. output_1 is the probability that the first token is emitted; of two positions, output_1_2
    that the first token is emitted and then the second. With several candidates rank_2 is the probability that the
    second one is accepted.

    \b
    Examples:
      specsim rules --target-probs 0.6,0.3,0.1 --draft-probs 0.2,0.5,0.3
      specsim rules --target-probs 0.6,0.4 --draft-probs 0.9,0.1 --rule standard --rule resample-from-target
      specsim rules --target-probs 0.6,0.4 --draft-probs 0.9,0.1 --rule lenience --lenience 0.8 --format json
      specsim rules --target-probs 0.5,0.3,0.15,0.05 --draft-probs 0.2,0.5,0.1,0.2 --candidates 2
      specsim rules --target-probs "0.6,0.4;0.5,0.5" --draft-probs "0.9,0.1;0.8,0.2" --rule standard --rule block
    """
    from specsim.api import acceptances
    from specsim.cli import render

    form = render.chosen_format(output_format, output)
    asked = {
        "target_probs": target_probs, "draft_probs": draft_probs, "pairs": pairs, "rule": list(rule) or None,
        "candidates": candidates, "lenience": lenience,
    }  # fmt: skip
    for name in ("target_probs", "draft_probs"):
        if pairs is None and asked[name] is None:
            raise click.UsageError(f"Missing option '--{name.replace('_', '-')}'.")
    table = acceptances.rules(**asked)
    if form == "csv":
        render.deliver([table.to_csv()], output, asked)
    elif form == "json":
        render.deliver([table.to_json()], output)
    else:
        text = render.table_text(*_for_the_eye(table), screen=output is None)
        render.deliver([text, _note(table), render.closing(table)], output)


_MOST_OUTPUTS = 16
"""Columns of the law that a screen shows."""


def _outputs(table: Table) -> list[str]:
    return [name for name in table.columns if name.startswith("output_")]


def _for_the_eye(table: Table) -> tuple[Table, list[str]]:
    """The table without the dust of rounding, and its columns but for a law too long for a screen."""
    import numpy as np

    from specsim.report.table import Table

    rounded = {n: np.round(c, 12) if c.dtype.kind == "f" else c for n, c in ((n, table[n]) for n in table.columns)}
    left_out = _outputs(table) if len(_outputs(table)) > _MOST_OUTPUTS else []
    if "accepted_length" in rounded and (rounded["acceptance"] == rounded["accepted_length"]).all():
        left_out.append("accepted_length")
    return Table(rounded, table.shape), [name for name in table.columns if name not in left_out]


def _note(table: Table) -> str:
    count = len(_outputs(table))
    return f"Left out: the {count} columns of the law; CSV and JSON have them.\n" if count > _MOST_OUTPUTS else ""
