"""``specsim catalog``."""

from __future__ import annotations

from pathlib import Path

import click

from specsim.cli.options import KINDS

_SETTINGS = {"help_option_names": ["-h", "--help"]}


@click.group("catalog", context_settings=_SETTINGS)
def command() -> None:
    """What is known: accelerators, nodes, models, draft heads, runtimes, scenarios.

    \b
    Examples:
      specsim catalog list
      specsim catalog show hardware h100
      specsim catalog template model > my-model.yaml
    """


@command.command("list", context_settings=_SETTINGS)
@click.argument("kind", type=KINDS, required=False)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="Form of the listing.",
)
def list_(kind: str | None, output_format: str) -> None:
    """Names of the cards of one kind, or of every kind.

    \b
    Example:
      specsim catalog list model
    """
    from specsim.api import cards
    from specsim.cli import render

    table = cards.catalog_list(kind)
    if output_format == "table":
        render.deliver([render.table_text(table, list(table.columns))], None)
    else:
        render.deliver([table.to_csv() if output_format == "csv" else table.to_json()], None)


@command.command("show", context_settings=_SETTINGS)
@click.argument("kind", type=KINDS)
@click.argument("name")
def show(kind: str, name: str) -> None:
    """A card with its sources, and the figures that follow from it.

    \b
    Examples:
      specsim catalog show hardware a10
      specsim catalog show model meta-llama/Meta-Llama-3-8B
    """
    from specsim.catalog import cards, library
    from specsim.catalog.resolve import read_scenario
    from specsim.cli import render
    from specsim.errors import Place

    path = library.find(kind, name, Place(parameter="name"))
    figures = {}
    if kind == "scenario":
        read_scenario(path)
    else:
        figures = cards.derived_figures(cards.card(kind, str(path)))
    text = path.read_text(encoding="utf-8")
    lines = [f"# {name}: {value}\n" for name, value in figures.items()]
    render.deliver([text, *(["\n# What follows from it:\n", *lines] if lines else [])], None)


@command.command("template", context_settings=_SETTINGS)
@click.argument("kind", type=KINDS)
@click.option("-o", "--output", metavar="FILE", help="Write to a file, whole or not at all.")
def template(kind: str, output: str | None) -> None:
    """A card to fill in, with every field that its kind may have.

    \b
    Examples:
      specsim catalog template hardware -o my-accelerator.yaml
      specsim catalog template model
    """
    from specsim.catalog import library
    from specsim.cli import render
    from specsim.errors import Fault, InputError, Place

    if output is not None and Path(output).exists():
        raise InputError(Fault(f"{output} exists; a template does not replace it.", Place(parameter="output")))
    render.deliver([library.template(kind)], output)
