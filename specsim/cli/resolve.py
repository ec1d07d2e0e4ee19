"""``specsim resolve``."""

from __future__ import annotations

import click


@click.command("resolve", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file")
@click.option("-o", "--output", metavar="FILE", help="Write to a file, whole or not at all.")
def command(file: str, output: str | None) -> None:
    """A scenario with every default and card filled in, as YAML that reads back as the same scenario.

    \b
    Examples:
      specsim resolve quickstart
      specsim resolve my-scenario.yaml -o resolved.yaml
    """
    from specsim.api import planning
    from specsim.cli import render

    render.deliver([planning.resolve(file)], output)
