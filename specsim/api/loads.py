"""How many accelerators a load needs, at which latencies and costs.

``hardware``, ``target``, ``draft`` and ``runtime`` take a catalogue name, an alias, the path of a YAML file, or a
record of ``specsim.specs``; ``acceptance`` takes the forms of the command line, a path, or a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from specsim.catalog import library
from specsim.catalog.capacity import CapacityQuestion, read_capacity, without_simulation
from specsim.catalog.capacity_options import CapacityOptions, ask_capacity
from specsim.errors import Fault, InputError, Place
from specsim.report.capacity import PricedPlan, plans_table, priced
from specsim.report.capacity_files import events_table, policy_rows
from specsim.report.table import Table
from specsim.serving.capacity import Mapped, first_run, plans


def capacity(
    config: str | Path | None = None, *, quick_only: bool = False, **options: Unpack[CapacityOptions]
) -> Table:
    """How many replicas and accelerators a load needs, at which latencies and costs: one row for each option.

    Args:
        config: A question in a YAML file, or a shipped one by its name; ``options`` are then left out.
        quick_only: Give the quick answer, without simulation.
        options: See ``CapacityOptions``.

    Raises:
        InputError: With one fault for everything that is wrong.

    >>> table = capacity(hardware="h100", target="llama-3-8b", rate=5, prompt=1000, output_length=200, tpot="20 ms",
    ...                  policy="off", quick_only=True)
    >>> table["replicas"].tolist(), table["method"].tolist()
    ([1], ['steady_state'])
    """
    question = capacity_question(config, **options)
    return planned(without_simulation(question) if quick_only else question)


def capacity_question(config: str | Path | None = None, **options: Unpack[CapacityOptions]) -> CapacityQuestion:
    """The question of ``capacity``, resolved."""
    if config is None:
        return ask_capacity(**options)
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InputError(Fault("the file says what is asked; leave this out.", Place(parameter=given[0])))
    return read_capacity(library.find("capacity", str(config), Place(parameter="config")))


def priced_plans(question: CapacityQuestion, mapped: Mapped = map) -> list[PricedPlan]:
    """The plans of all options with what they cost."""
    return priced(plans(question.options, question.task, mapped), question.scenarios, question.demand.prices)


def planned(question: CapacityQuestion, mapped: Mapped = map) -> Table:
    """The answer to a question of ``capacity``; ``mapped`` runs replications, one after another or side by side."""
    return capacity_rows(question, priced_plans(question, mapped))


def capacity_rows(question: CapacityQuestion, rows: Sequence[PricedPlan]) -> Table:
    """Plans as rows."""
    return plans_table(rows, question.task, question.notes, ())


def event_log(question: CapacityQuestion, rows: Sequence[PricedPlan]) -> Table:
    """Every event of the first replication of the best plan, or of the first one that fits if none is.

    Raises:
        InputError: If nothing fits.
    """
    fitting = [row for row in rows if row.plan.replica is not None]
    if not fitting:
        raise InputError(Fault("nothing fits that could be simulated.", Place(parameter="event_log")))
    chosen = next((row for row in fitting if row.best), fitting[0])
    return events_table(first_run(chosen.plan, question.task))


def policy_table(rows: Sequence[PricedPlan]) -> Table:
    """The best draft length by batch and context, of the options whose policy is a table.

    Raises:
        InputError: If none is.
    """
    found = policy_rows(rows)
    if not len(found):
        raise InputError(Fault("no option that fits has the policy table.", Place(parameter="policy_table")))
    return found
