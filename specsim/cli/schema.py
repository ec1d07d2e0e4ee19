"""``specsim schema``."""

from __future__ import annotations

import json

import click

from specsim.cli.options import KINDS


@click.command("schema", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("kind", type=KINDS)
@click.option("-o", "--output", metavar="FILE", help="Write to a file, whole or not at all.")
def command(kind: str, output: str | None) -> None:
    """JSON Schema of a kind of YAML file: editors complete and check with it.

    \b
    Example:
      specsim schema hardware -o hardware.schema.json
    """
    from specsim.catalog.cards import RECORDS
    from specsim.catalog.schema import json_schema
    from specsim.cli import render

    render.deliver([json.dumps(json_schema(RECORDS[kind]), indent=2) + "\n"], output)
