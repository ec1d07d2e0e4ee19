"""``specsim validate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from specsim.cli.options import output_options

if TYPE_CHECKING:
    from specsim.accuracy.comparison import Compared


@click.command("validate", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--data", metavar="FILE", help="Measurements of your own, in the layout of evidence/measurements.")
@click.option("--aliases", metavar="FILE", help="YAML mapping of names in the data to names of cards or files.")
@click.option(
    "--by",
    metavar="WHAT",
    default="quantity",
    help="Split the summary by source, hardware, method, batch or runtime; default one line per quantity.",
)
@click.option(
    "--left-out",
    is_flag=True,
    help="Predict each row by constants fitted without its source, and not by those of the shipped cards.",
)
@click.option("--picture", metavar="FILE", help="Predicted against measured speedups and steps, as .svg or .png.")
@output_options
def command(
    data: str | None,
    aliases: str | None,
    by: str,
    left_out: bool,
    picture: str | None,
    output_format: str | None,
    output: str | None,
    quiet: bool,
) -> None:
    """Predictions against published measurements.

    A table sums errors up, by set-up and not by row: the error of a set-up is the median of its rows. CSV and JSON
    have one row for every compared quantity, and one for every row that has no prediction, with what is missing.
    Errors are predicted / measured - 1.

    \b
    Examples:
      specsim validate
      specsim validate --left-out --by source
      specsim validate --data mine.yaml --aliases names.yaml -o compared.csv
    """
    from specsim.api import accuracy
    from specsim.cli import render

    form = render.chosen_format(output_format, output)
    render.check_apart(output=output, picture=picture)
    found, remarks = accuracy.compare_measurements(data, aliases, left_out=left_out, by=by)
    render.remarks(remarks, quiet)
    if picture is not None:
        from specsim.report.picture import draw_comparisons

        draw_comparisons(found.comparisons, picture)
    if form == "table":
        render.deliver(list(_for_the_eye(found, by, screen=output is None)), output)
        return
    table = accuracy.comparisons(found)
    if form == "json":
        render.deliver([table.to_json()], output)
    else:
        render.deliver([table.to_csv()], output, {"data": data or "shipped", "aliases": aliases, "left_out": left_out})


def _for_the_eye(found: Compared, by: str, *, screen: bool) -> list[str]:
    from specsim.cli import render
    from specsim.report.accuracy import SUMMARY, summary_table, told

    table = summary_table(found, by)
    columns = [name for name in SUMMARY if by != "quantity" or name != "group"]
    if not found.comparisons:
        return ["0 comparisons\n", *(f"{line}\n" for line in told(found))]
    return [
        f"{len(found.comparisons)} comparisons; errors by set-up, as fractions\n\n",
        render.table_text(table, columns, screen=screen),
        "\n",
        *(f"{line}\n" for line in told(found)),
        render.closing(table),
    ]
