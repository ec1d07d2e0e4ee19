"""Grids of any size: a scenario as a stream of blocks of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from specsim.cost.machine import Machine
from specsim.planning.question import Axes, Question, anchored
from specsim.specs.scenario import Scenario

BLOCK_POINTS = 131_072
"""Points of one block: enough that the fixed cost of a block hardly counts, few enough for a small memory."""


@dataclass(frozen=True, eq=False)
class Block:
    """A part of a grid for one drafter, with the question it belongs to.

    Attributes:
        varied: Fields of the scenario that are axes of its grid, by their paths, with their values here.
        without_effect: Fields of cards that change no figure at any value of these axes.
    """

    scenario: Scenario
    question: Question
    axes: Axes
    varied: tuple[tuple[str, object], ...] = ()
    without_effect: frozenset[str] = frozenset()


def questions(scenario: Scenario) -> list[Question]:
    """One question for each drafter of a scenario; a measured plain step anchors the runtime.

    Raises:
        InputError: If the measured plain step is faster than the hardware allows.
    """
    machine = None
    if scenario.hardware is not None and scenario.runtime is not None and scenario.target is not None:
        machine = Machine(scenario.hardware, scenario.runtime, scenario.node)
        measured = scenario.costs.plain_step_seconds if scenario.costs is not None else None
        if measured is not None:
            batch, context = anchor_point(scenario)
            machine = anchored(machine, scenario.target, measured, batch, context)
    return [
        Question(machine, scenario.target, draft, scenario.costs, scenario.extrapolate, scenario.output_length)
        for draft in scenario.drafts
    ]


def anchor_point(scenario: Scenario) -> tuple[int, int]:
    """Batch and context at which the plain step was measured: those of the grid that come first, unless said."""
    at = scenario.costs.plain_step_at if scenario.costs is not None else None
    grid = scenario.grid
    return (grid.batch_size[0], grid.context_length[0]) if at is None else (at.batch_size, at.context_length)


def grid_points(scenario: Scenario) -> int:
    """Rows that a scenario gives: drafters times batches times contexts times draft lengths and trees."""
    grid = scenario.grid
    return len(scenario.drafts) * len(grid.batch_size) * len(grid.context_length) * grid.drafts


def blocks(
    scenario: Scenario,
    varied: tuple[tuple[str, object], ...] = (),
    without_effect: Sequence[frozenset[str]] | None = None,
    drafts: int | None = None,
) -> Iterator[Block]:
    """The grid of a scenario in blocks, drafter by drafter, then by batch and by context.

    Draft lengths are never split, so that each block knows its own best ones.

    Args:
        scenario: The scenario.
        varied: Fields of it that are axes, with their values here.
        without_effect: For each drafter the fields of cards that change no figure at any value of these axes.
        drafts: Draft lengths and trees that are looked at at each batch and context; those of the grid if None.
    """
    _keep_freed_memory()
    grid = scenario.grid
    drafts = drafts or grid.drafts
    contexts = max(1, min(len(grid.context_length), BLOCK_POINTS // drafts))
    batches = max(1, BLOCK_POINTS // (contexts * drafts))
    for index, question in enumerate(questions(scenario)):
        idle = without_effect[index] if without_effect is not None else frozenset()
        for b in range(0, len(grid.batch_size), batches):
            for s in range(0, len(grid.context_length), contexts):
                points = grid.batch_size[b : b + batches], grid.context_length[s : s + contexts]
                axes = Axes.of(*points, grid.gamma, grid.trees)
                yield Block(scenario, question, axes, varied, idle)


def _keep_freed_memory() -> None:
    """Make the allocator keep what a block frees for the next block.

    glibc gives large arrays back to the system and faults them in again page by page, which costs as much as the
    arithmetic on them. Once one large allocation has been freed, it keeps them; elsewhere this does nothing.
    """
    np.empty(2**21)
