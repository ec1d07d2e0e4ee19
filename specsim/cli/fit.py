"""``specsim fit``."""

from __future__ import annotations

from pathlib import Path

import click

_SUFFIXES = (".yaml", ".yml")


@click.command("fit", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("logs", nargs=-1, metavar="[LOG]...")
@click.option("--before", metavar="FILE", help="Dump of vLLM's counters at the start of what is looked at.")
@click.option("--after", metavar="FILE", help="Dump at its end; counts are the differences.")
@click.option(
    "--source",
    metavar="NAME",
    help="auto (default: by what stands in the file), counts (JSON), csv, vllm.",
)
@click.option(
    "--gamma", metavar="N", help="Draft length, where the log does not say; refused where it says another one."
)
@click.option("--regimes", metavar="K", help="How many regimes; default: the smallest BIC.")
@click.option("--replicates", metavar="N", help="Bootstrap replicates behind intervals; default 400.")
@click.option("--seed", metavar="N", help="Of these; default 0.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "yaml", "csv", "json"]),
    help="Default table, or the suffix of --output; yaml is the acceptance itself.",
)
@click.option("-o", "--output", metavar="FILE", help="Write to a file, whole or not at all; .yaml for the acceptance.")
@click.option("-q", "--quiet", is_flag=True, help="No remarks on stderr.")
def command(
    logs: tuple[str, ...],
    before: str | None,
    after: str | None,
    source: str | None,
    gamma: str | None,
    regimes: str | None,
    replicates: str | None,
    seed: str | None,
    output_format: str | None,
    output: str | None,
    quiet: bool,
) -> None:
    """The acceptance that logs or recorded counts speak for, with intervals.

    Reads JSON lines of accepted counts ({"accepted": [4, 0, 2], "drafted": 4} for each request), CSV (accepted, drafted
    and request; accepted and rounds; or position and rate), vLLM's log lines, counters and metrics of requests, and the
    forms survival=..., conditional=..., length=...@..., drafted=...@...; a LOG of - is standard input. Rounds are
    grouped by the request that they name.

    Counts in their order tell easy and hard stretches and how long they are; rates by position tell tokens per round at
    any draft length, and not how long stretches are; a mean length tells one rate.

    \b
    Examples:
      specsim fit rounds.jsonl -o acceptance.yaml
      specsim fit --before before.txt --after after.txt --format yaml
      specsim fit survival=0.75,0.60,0.50,0.41
    """
    from specsim.api import acceptances
    from specsim.catalog.fitting import ask_fit
    from specsim.cli import render

    form = output_format
    if form is None and output is not None and Path(output).suffix.lower() in _SUFFIXES:
        form = "yaml"
    if form is None:
        form = render.chosen_format(None, output)
    question = ask_fit(
        logs=logs,
        before=before,
        after=after,
        source=source,
        gamma=gamma,
        regimes=regimes,
        replicates=replicates,
        seed=seed,
    )
    render.remarks(question.recorded.remarks, quiet)
    found = acceptances.fitted_acceptance(question)
    if form == "yaml":
        render.deliver([acceptances.fit_yaml(found)], output)
    elif form == "csv":
        inputs = {"sources": list(question.recorded.sources), "acceptance": found.document}
        render.deliver_with(found.table.to_csv(), output, inputs, question.seed)
    elif form == "json":
        render.deliver([found.table.to_json()], output)
    else:
        text = render.table_text(found.table, list(found.table.columns), screen=output is None)
        render.deliver([str(found), text, render.closing(found.table)], output)
