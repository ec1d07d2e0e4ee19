"""``specsim sweep``."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from specsim.cli.options import output_options

if TYPE_CHECKING:
    from specsim.planning.sweep import Block


@click.command("sweep", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", required=True, metavar="FILE", help="Scenario: a YAML file, or the name of a shipped one.")
@click.option(
    "--workers",
    default=1,
    show_default=True,
    type=click.IntRange(1, 256),
    help="Processes that share the work.",
)
@output_options
def command(config: str, workers: int, output_format: str | None, output: str | None, quiet: bool) -> None:
    """Every point of a scenario's grid as a row.

    A table on the screen shows the best draft length of each batch and context; CSV and JSON have every row.

    \b
    Examples:
      specsim sweep --config quickstart
      specsim sweep --config my-scenario.yaml -o rows.csv
    """
    from specsim.api import planning
    from specsim.cli import render

    form = render.chosen_format(output_format, output)
    resolution = planning.scenario_question(config)
    render.remarks(resolution.remarks, quiet)
    if form == "csv":
        blocks = list(planning.sweep_blocks(resolution))
        parts = render.counted(_csv_parts(blocks, workers), len(blocks), "sweep", quiet)
        render.deliver(parts, output, resolution)
    else:
        table = planning.all_rows(resolution) if form == "json" else planning.best_rows(resolution)
        render.rows(table, form, output, resolution)


def _csv_parts(blocks: list[Block], workers: int) -> Iterator[str]:
    """The CSV text of each block, in order, computed in this process or in several."""
    wanted = [(block, index == 0) for index, block in enumerate(blocks)]
    if workers == 1:
        yield from map(_csv_text, wanted)
        return
    from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
    from itertools import islice
    from multiprocessing import active_children

    pool = ProcessPoolExecutor(workers, initializer=_leave_signals)
    try:
        rest = iter(wanted)
        # A few blocks ahead are enough to keep the workers busy, and bound the memory.
        pending = deque(pool.submit(_csv_text, one) for one in islice(rest, 2 * workers))
        while pending:
            yield pending.popleft().result()
            pending.extend(pool.submit(_csv_text, one) for one in islice(rest, 1))
    except BrokenExecutor:
        for child in active_children():
            child.kill()
        message = "a process that computed a part was killed, most often for want of memory; try fewer --workers."
        raise click.ClickException(message) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_signals() -> None:
    """A worker ends when the process that writes the file says so: killed inside a queue, it would block the others."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def _csv_text(wanted: tuple[Block, bool]) -> str:
    from specsim.api.planning import block_table

    block, header = wanted
    return block_table(block).to_csv(header=header)
