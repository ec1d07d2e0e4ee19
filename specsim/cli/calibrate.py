"""``specsim calibrate``."""

from __future__ import annotations

import click

from specsim.cli.options import output_options
from specsim.errors import Fault, InputError, Place


@click.command("calibrate", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("results", nargs=-1, metavar="[RESULT]...")
@click.option(
    "--runtime", metavar="NAME", help="Fit only this one; with RESULT, the card that what is not fitted comes from."
)
@click.option("--without", metavar="SOURCE", help="Leave a source of the shipped measurements out.")
@click.option("--aliases", metavar="FILE", help="YAML mapping of names in RESULT to names of cards or files.")
@click.option("--name", metavar="NAME", help="What the fitted card is called; default my-runtime.")
@output_options
def command(
    results: tuple[str, ...],
    runtime: str | None,
    without: str | None,
    aliases: str | None,
    name: str | None,
    output_format: str | None,
    output: str | None,
    quiet: bool,
) -> None:
    """Constants of a runtime from benchmark results, or of all runtimes from the published measurements.

    RESULT is a YAML list or a CSV file of rows as in evidence/measurements: hardware, target and batch with a time
    per token (ms_per_token) or a throughput (tokens_per_s), and for rounds tau with speedup, method and gamma. One
    plain row fixes the cost per layer, which helps more than anything else. With -o FILE.yaml a runtime card is
    written.

    \b
    Examples:
      specsim calibrate
      specsim calibrate --runtime vllm --without "github vllm-project/vllm issue 20780"
      specsim calibrate bench.yaml --runtime vllm --name vllm-here -o vllm-here.yaml
    """
    from specsim.api import accuracy
    from specsim.cli import render

    writes_card = output is not None and output_format is None and output.endswith((".yaml", ".yml"))
    form = "yaml" if writes_card else render.chosen_format(output_format, output)
    if results and without is not None:
        raise InputError(Fault("results are fitted alone: no source to leave out.", Place(parameter="without")))
    if form == "yaml" and not results and runtime is None:
        raise InputError(Fault("a card is of one runtime: give its name, or results.", Place(parameter="runtime")))
    if results:
        table, card, remarks = accuracy.calibrate_results(results, runtime=runtime, aliases=aliases, name=name)
        render.remarks(remarks, quiet)
    else:
        table, card = accuracy.calibrate_evidence(runtime=runtime, without=without, name=name)
    if form == "yaml":
        render.deliver([card], output)
    elif form == "json":
        render.deliver([table.to_json()], output)
    elif form == "csv":
        asked = {"results": list(results) or "shipped", "runtime": runtime, "without": without, "aliases": aliases}
        render.deliver([table.to_csv()], output, asked)
    else:
        render.deliver(
            [render.table_text(table, list(table.columns), screen=output is None), render.closing(table)], output
        )
