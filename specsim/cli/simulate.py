"""``specsim simulate``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from specsim.cli.options import ACCEPTANCE_ALONE_HELP, output_options

if TYPE_CHECKING:
    from specsim.report.table import Table


@click.command("simulate", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--acceptance", required=True, metavar="FORM", help=ACCEPTANCE_ALONE_HELP)
@click.option("--gamma", metavar="LIST", help="Draft lengths; default 4.")
@click.option("--rounds", metavar="N", help="Rounds to simulate at each, 1000 or more; default 100000.")
@click.option("--seed", metavar="N", help="Of the random numbers; default 0.")
@click.option("--output-length", metavar="N", help="Tokens of a request: how many rounds it takes, as a distribution.")
@click.option("--batch", "batch_size", metavar="LIST", help="Static batches of such requests: when the last is done.")
@click.option(
    "--policy",
    multiple=True,
    metavar="NAME",
    help=(
        "Choose draft lengths round by round: fixed, fixed:4, heuristic (+2 / -1), confidence:0.4 (the last token), "
        "cumulative:0.2 (their product), belief, goodput, oracle, or all. Repeat it for several."
    ),
)
@click.option(
    "--draft-cost-ratio", metavar="C", help="One draft step / one plain target step, for the speedup of policies."
)
@output_options
def command(
    acceptance: str,
    gamma: str | None,
    rounds: str | None,
    seed: str | None,
    output_length: str | None,
    batch_size: str | None,
    policy: tuple[str, ...],
    draft_cost_ratio: str | None,
    output_format: str | None,
    output: str | None,
    quiet: bool,
) -> None:
    """Acceptance by simulation beside what is exact, requests and batches, and policies.

    errors_apart is the difference in standard errors; independent_error is how far the formula for independent drafts
    is off, fed with accepted / examined. accepted_k is the share of rounds that accept exactly k drafts.

    \b
    Examples:
      specsim simulate --acceptance rate=0.8 --gamma 1..6
      specsim simulate --acceptance bursty.yaml --gamma 4 --output-length 256 --batch 8,32
      specsim simulate --acceptance rate=0.8 --policy all --draft-cost-ratio 0.1
    """
    from specsim.api import acceptances
    from specsim.catalog.simulation import ask_simulation
    from specsim.cli import render

    form = render.chosen_format(output_format, output)
    question = ask_simulation(
        acceptance=acceptance,
        gamma=gamma,
        rounds=rounds,
        seed=seed,
        output_length=output_length,
        batch_size=batch_size,
        policy=list(policy) or None,
        draft_cost_ratio=draft_cost_ratio,
    )
    render.remarks(question.remarks, quiet)
    runs = len(question.policies or question.gamma)
    with render.progress(runs * question.rounds, "simulate", quiet) as told:
        table = acceptances.simulated(question, told)
    if form == "csv":
        render.deliver_with(table.to_csv(), output, acceptances.simulation_document(question), question.seed)
    elif form == "json":
        render.deliver([table.to_json()], output)
    else:
        text = render.table_text(*_for_the_eye(table), screen=output is None)
        title = f"acceptance {next(iter(table.cells('acceptance')))}\n"
        render.deliver([title, text, render.closing(table)], output)


_MOST_OUTCOMES = 9
"""Columns of the distribution that a screen shows."""

_FOR_FILES = ("acceptance", "asymptotic_variance", "best_fixed_gamma")

_OF_ROUNDS = ("acceptance_rate", "independent_tokens_per_round", "independent_error", "standard_deviation",
              "lag_1_autocorrelation")  # fmt: skip
"""Columns that leave the screen to those of requests, if they are asked about."""


def _for_the_eye(table: Table) -> tuple[Table, list[str]]:
    """The table without the dust of rounding, and the columns that the eye needs; CSV and JSON have all."""
    import numpy as np

    rounded = {n: np.round(c, 12) if c.dtype.kind == "f" else c for n, c in ((n, table[n]) for n in table.columns)}
    outcomes = [name for name in table.columns if name.startswith("accepted_")]
    hidden = {name for name in table.columns if name.startswith("simulated_") and name[10:].isdigit()}
    if "output_length" in table.columns:
        hidden.update(_OF_ROUNDS, (name for name in table.columns if name.startswith("rounds_in_")))
    if len(outcomes) > _MOST_OUTCOMES or "output_length" in table.columns:
        hidden.update(outcomes)
    shown = [name for name in table.columns if name not in hidden and name not in _FOR_FILES]
    return replace(table, columns=rounded), shown
