"""``specsim calibrate``."""

from __future__ import annotations

from pathlib import Path

import click

from specsim.cli.measure import refuse
from specsim.cli.numerics import prepare_numpy
from specsim.cli.options import output_options
from specsim.errors import Fault, InputError, Place


@click.command("calibrate", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("results", nargs=-1, metavar="[RESULT]...")
@click.option(
    "--runtime", metavar="NAME", help="Fit only this one; with RESULT, the card that what is not fitted comes from."
)
@click.option("--without", metavar="SOURCE", help="Leave a source of the shipped measurements out.")
@click.option("--aliases", metavar="FILE", help="YAML mapping of names in RESULT to names of cards or files.")
@click.option("--name", metavar="NAME", help="What the fitted card is called; default my-runtime or this-machine.")
@click.option(
    "--this-machine",
    is_flag=True,
    help="Time the reference engine here and write hardware, runtime and model cards into the folder --cards.",
)
@click.option("--model", metavar="NAME", help="With --this-machine: what runs, as in measure; default smollm2.")
@click.option("--cards", metavar="FOLDER", help="With --this-machine: where the cards go; not written if left out.")
@click.option("--threads", metavar="N", help="With --this-machine: threads of the matrix products; default 1.")
@output_options
def command(
    results: tuple[str, ...],
    runtime: str | None,
    without: str | None,
    aliases: str | None,
    name: str | None,
    this_machine: bool,
    model: str | None,
    cards: str | None,
    threads: str | None,
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
      specsim calibrate --this-machine --model toy --cards .
    """
    given = {"model": model, "cards": cards, "threads": threads}
    if this_machine:
        others = {"results": results or None, "runtime": runtime, "without": without, "aliases": aliases}
        refuse(others, "this machine is timed")
        _this_machine(model, name, cards, threads or "1", output_format, output, quiet)
        return
    refuse(given, "no machine is timed; add --this-machine")
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


def _this_machine(
    model: str | None,
    name: str | None,
    cards: str | None,
    threads: str,
    output_format: str | None,
    output: str | None,
    quiet: bool,
) -> None:
    prepare_numpy(threads)
    from specsim.api import measuring
    from specsim.cli import render
    from specsim.engine.timing import machine_steps

    form = render.chosen_format(output_format, output)
    if cards is not None and not Path(cards).is_dir():
        raise InputError(Fault(f"expected a folder that exists, found {cards!r}.", Place(parameter="cards")))
    with render.progress(machine_steps(), "measure", quiet) as told:
        found = measuring.calibrate_this_machine(model, name, told)
    written = []
    if cards is not None:
        for kind, text in (("hardware", found.hardware), ("runtime", found.runtime), ("model", found.model)):
            file = Path(cards) / f"{name or 'this-machine'}-{kind}.yaml"
            render.deliver([text], str(file))
            written.append(str(file))
    if form == "csv":
        render.deliver([found.table.to_csv()], output, {"model": model or "smollm2", "this_machine": True})
    elif form == "json":
        render.deliver([found.table.to_json()], output)
    else:
        text = render.table_text(found.table, list(found.table.columns), screen=output is None)
        told_of = [f"Cards: {', '.join(written)}\n"] if written else []
        render.deliver([text, *told_of, render.closing(found.table)], output)
