"""Whether speculation pays: the best draft length, and whole grids.

``hardware``, ``target``, ``draft`` and ``runtime`` take a catalogue name, an alias, the path of a YAML file, or a
record of ``specsim.specs``; ``acceptance`` takes the forms of the command line, a path, or a record.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from specsim.catalog import library
from specsim.catalog.options import DEFAULT_MAX_GAMMA, Options, ask, draft_length
from specsim.catalog.resolve import Resolution, read_scenario, resolved_document
from specsim.catalog.strict_yaml import write_yaml
from specsim.errors import InputError, Place
from specsim.planning.rounds import plan
from specsim.planning.sweep import Block, blocks, grid_points
from specsim.report.columns import Answer, rows
from specsim.report.notes import notes_of, without_effect
from specsim.report.table import Table, joined
from specsim.specs.scenario import Scenario


def optimal_gamma(
    *,
    batch_size: Any = None,
    context_length: Any = None,
    max_gamma: Any = DEFAULT_MAX_GAMMA,
    all_gammas: bool = False,
    **options: Unpack[Options],
) -> Table:
    """The best draft length for each batch and context; gamma 0 means: do not speculate.

    Args:
        batch_size: Numbers, a list, or text such as ``"1..256*2"``.
        context_length: The same.
        max_gamma: The longest draft that is tried.
        all_gammas: Give every draft length and not only the best.
        options: See ``Options``.

    Raises:
        InputError: With one fault for everything that is wrong.

    >>> table = optimal_gamma(acceptance="rate=0.8", draft_cost_ratio=0.1)
    >>> int(table["gamma"][0]), round(float(table["speedup"][0]), 2)
    (6, 2.47)
    """
    resolution = gamma_question(batch_size, context_length, max_gamma, **options)
    return all_rows(resolution) if all_gammas else best_rows(resolution)


def gamma_question(batch_size: Any, context_length: Any, max_gamma: Any, **options: Unpack[Options]) -> Resolution:
    """The question of ``optimal_gamma``, resolved."""
    return ask(batch_size, context_length, range(draft_length(max_gamma, "max_gamma") + 1), **options)


def best_rows(resolution: Resolution) -> Table:
    """The best draft length of each batch and context; where nothing fits, the row of the shortest one."""
    return joined([best_of(block_table(block)) for block in sweep_blocks(resolution)])


def best_of(table: Table) -> Table:
    nothing_fits = np.array([near is None for near in table.cells("near_best")])
    return table.where(table["best"] | (nothing_fits & (table["gamma"] == table["gamma"].min())))


MOST_ROWS = 2_000_000
"""More rows than this are not held in memory at once; a sweep to CSV has no such limit."""


def all_rows(resolution: Resolution) -> Table:
    """Every row of a resolved scenario, in the order of its grid.

    Raises:
        InputError: If there are more than ``MOST_ROWS``.
    """
    count = sum(grid_points(scenario) for scenario in resolution.scenarios)
    if count > MOST_ROWS:
        raise InputError(
            f"The grid has {count:,} points and at most {MOST_ROWS:,} are held at once: sweep it to a CSV file, or "
            "make the grid coarser."
        )
    return joined([block_table(block) for block in sweep_blocks(resolution)])


def sweep(config: str | Path) -> Table:
    """All rows of the grid of a scenario file.

    Raises:
        InputError: With one fault for everything that is wrong.
    """
    return all_rows(scenario_question(config))


def scenario_question(config: str | Path) -> Resolution:
    """The question of a scenario file or of a shipped scenario, resolved."""
    return read_scenario(library.find("scenario", str(config), Place(parameter="config")))


def sweep_blocks(resolution: Resolution) -> Iterator[Block]:
    """The blocks of a resolved scenario.

    Raises:
        InputError: If a measured plain step contradicts the hardware card.
    """
    for scenario, varied, idle in with_idle_fields(resolution):
        yield from blocks(scenario, varied, idle)


def with_idle_fields(
    resolution: Resolution,
) -> Iterator[tuple[Scenario, tuple[tuple[str, object], ...], list[frozenset[str]]]]:
    """Scenarios with their values along the axes, and for each drafter the fields of cards that never count."""
    of_each = [[without_effect(one, draft) for draft in one.drafts] for one in resolution.scenarios]
    # What counts at some value of the axes counts for the sweep.
    idle = [frozenset.intersection(*found) for found in zip(*of_each, strict=True)]
    for scenario, varied in zip(resolution.scenarios, resolution.varied, strict=True):
        yield scenario, varied, idle


def block_table(block: Block) -> Table:
    """The rows of one block of a grid."""
    answer = Answer(block, plan(block.question, block.axes))
    return rows(answer, **notes_of(answer))


def resolve(config: str | Path) -> str:
    """A scenario file with every default and card filled in, as YAML that reads back as the same scenario.

    Raises:
        InputError: With one fault for everything that is wrong.
    """
    return write_yaml(resolved_document(scenario_question(config)))
