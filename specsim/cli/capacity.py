"""``specsim capacity``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from specsim.cli.options import SERVED, output_options

if TYPE_CHECKING:
    from specsim.serving.capacity import Job, Mapped
    from specsim.serving.figures import Sample

_DEMAND = (
    click.option("--config", metavar="FILE", help="The question as a YAML file; other options of it are left out."),
    click.option("--hardware", metavar="CARDS", help="Accelerators to choose among, with commas."),
    click.option("--target", metavar="CARD", help="Target model: catalogue name, alias or YAML file."),
    click.option(
        "--draft",
        metavar="CARD[:ACCEPTANCE]",
        multiple=True,
        help="Draft model, draft head or drafter; repeat it to choose among several.",
    ),
    *SERVED,
    click.option("--tensor-parallel", metavar="LIST", help="Devices that split each layer, to choose among: 1,2,4."),
    click.option("--plain-step-ms", metavar="MS[@B,S]", help="Measured: one plain target step; anchors the runtime."),
    click.option(
        "--policy",
        multiple=True,
        metavar="NAME",
        help="How draft lengths are chosen: off, fixed (the best one), fixed:4, table (by batch and context), adaptive "
        "(by what requests have shown); repeat it; default off, fixed, table.",
    ),
    click.option("--max-gamma", metavar="N", help="The longest draft that is tried; default 8."),
    click.option("--rate", metavar="R", help="Requests per second, Poisson; a trace is scaled to it."),
    click.option("--users", metavar="N", help="Users who wait for each answer, in place of a rate."),
    click.option("--think-time", metavar="TIME", help="Mean pause of users before they ask again; default 0 s."),
    click.option("--trace", metavar="FILE", help="Request trace: Azure, BurstGPT or Mooncake, in place of a rate."),
    click.option("--speed", metavar="X", help="By how much a trace runs faster than it was recorded."),
    click.option("--duration", metavar="TIME", help="How much of a trace is taken, such as 600s; default all."),
    click.option("--prompt", metavar="N[,P99]", help="Prompt tokens: a number, or mean and p99 of a lognormal law."),
    click.option("--output-length", metavar="N[,P99]", help="Output tokens, likewise."),
    click.option("--ttft", metavar="TIME", help="Target of the time to first token: 2s for its p99, or p50=200ms."),
    click.option("--tpot", metavar="TIME", help="Target of the time per output token, likewise."),
    click.option("--e2e", metavar="TIME", help="Target of the time from arrival to the last token, likewise."),
    click.option("--max-batch-size", metavar="N", help="Requests in flight on a replica at most; default 256."),
    click.option("--max-batch-tokens", metavar="N", help="New tokens of a step at most; default 8192."),
    click.option(
        "--prefill", metavar="NAME", help="chunked: prompts beside decoding; separate: in steps of their own."
    ),
    click.option(
        "--price",
        metavar="[NAME=]USD",
        multiple=True,
        help="USD an hour of one accelerator; default the middle of the offers on its card.",
    ),
    click.option("--requests", metavar="N", help="Requests of a replica in each replication; default 2000."),
    click.option("--replications", metavar="N", help="How often each plan is simulated; default 4."),
    click.option("--seed", metavar="N", help="Of the random numbers; default 0."),
    click.option(
        "--extrapolate", is_flag=True, default=None, help="Let drafts beyond the recorded acceptance be used."
    ),
)


def _demand(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_DEMAND):
        function = option(function)
    return function


@click.command("capacity", context_settings={"help_option_names": ["-h", "--help"]})
@_demand
@click.option("--quick", is_flag=True, help="The quick answer alone: a steady state, without simulation.")
@click.option("--policy-table", metavar="FILE", help="Write the best draft length by batch and context as CSV.")
@click.option("--event-log", metavar="FILE", help="Write every event of one replication of the best plan as CSV.")
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1, 256), help="Processes that simulate.")
@output_options
def command(
    quick: bool,
    policy_table: str | None,
    event_log: str | None,
    workers: int,
    output_format: str | None,
    output: str | None,
    quiet: bool,
    **given: Any,
) -> None:
    """How many accelerators a load needs, at which latencies and costs, with and without speculation.

    For each hardware, layout, drafter and policy the least number of replicas that meets all targets: found by a quick
    answer, confirmed by simulation. What cannot meet them says by which limit.

    \b
    Examples:
      specsim capacity --hardware h100 --target llama-3-8b --draft llama-3.2-1b --acceptance rate=0.8
        --rate 20 --prompt 1000 --output-length 300 --tpot 20ms --ttft 2s
      specsim capacity --config coding-assistant -o plan.csv
    """
    from specsim.api import loads
    from specsim.catalog.capacity import without_simulation
    from specsim.cli import render

    form = render.chosen_format(output_format, output)
    render.check_apart(output=output, policy_table=policy_table, event_log=event_log)
    config = given.pop("config")
    options = {name: list(value) or None if isinstance(value, tuple) else value for name, value in given.items()}
    question = loads.capacity_question(config, **options)
    if quick:
        question = without_simulation(question)
    render.remarks(question.remarks, quiet)
    with _side_by_side(workers, quiet) as mapped:
        rows = loads.priced_plans(question, mapped)
    table = loads.capacity_rows(question, rows)
    seed = question.demand.simulation.seed
    if policy_table is not None:
        render.deliver_with(loads.policy_table(rows).to_csv(), policy_table, question.document, seed, "policy_table")
    if event_log is not None:
        render.deliver_with(loads.event_log(question, rows).to_csv(), event_log, question.document, seed, "event_log")
    if form == "csv":
        # The other forms have a place for what a trace had to leave out.
        render.remarks(question.notes, quiet)
        render.deliver_with(table.to_csv(), output, question.document, seed)
    elif form == "json":
        render.deliver([table.to_json()], output)
    else:
        same = [name for name in _DESCRIPTION if len(set(table.cells(name))) == 1]
        told = ", ".join(f"{name} {render.short(next(iter(table.cells(name))))}" for name in same)
        title = "\n".join(line for line in (question.name, told) if line)
        text = render.table_text(table, [name for name in _SHOWN if name not in same], screen=output is None)
        title += "\n\n" if title else ""
        render.deliver([title, text, render.closing(table)], output)


_DESCRIPTION = ("hardware", "tensor_parallel", "method")
"""Columns that stand above the table where they are the same in every row."""

_SHOWN = (
    "hardware", "tensor_parallel", "draft", "policy", "gamma", "replicas", "accelerators", "feasible", "limit",
    "binding", "tokens_per_second", "mean_batch_size", "ttft_p99_ms", "tpot_p50_ms", "tpot_p99_ms",
    "off_above_requests_per_second", "usd_per_hour", "usd_per_million_tokens", "best", "method",
)  # fmt: skip
"""Columns of the table on the screen; CSV and JSON have all."""


@contextmanager
def _side_by_side(workers: int, quiet: bool) -> Iterator[Mapped]:
    """A way to run replications: here or in several processes, with what was done on stderr."""
    from specsim.cli import render

    if workers == 1:

        def one_by_one(run: Callable[[Job], Sample], jobs: Iterable[Job]) -> Iterator[Sample]:
            listed = list(jobs)
            return render.counted(map(run, listed), len(listed), "simulate", quiet)

        yield one_by_one
        return
    from concurrent.futures import BrokenExecutor, ProcessPoolExecutor

    with ProcessPoolExecutor(workers) as pool:

        def pooled(run: Callable[[Job], Sample], jobs: Iterable[Job]) -> Iterator[Sample]:
            listed = list(jobs)
            return render.counted(pool.map(run, listed), len(listed), "simulate", quiet)

        try:
            yield pooled
        except BrokenExecutor:
            message = "a process that simulated was killed, most often for want of memory; try fewer --workers."
            raise click.ClickException(message) from None
