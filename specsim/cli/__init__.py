"""The command line: one module per command, imported when it is called."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import Any

import click

from specsim import __version__
from specsim.errors import InputError

COMMANDS = {
    "optimal-gamma": (
        "specsim.cli.optimal_gamma",
        "Best draft length per batch and context (0: do not speculate).",
    ),
    "optimal-tree": (
        "specsim.cli.optimal_tree",
        "Best token tree per batch and context, beside the best chain.",
    ),
    "sweep": ("specsim.cli.sweep", "A scenario's whole grid to rows."),
    "explain": (
        "specsim.cli.explain",
        "Where the time of one operating point goes, and where speculation stops paying.",
    ),
    "rules": ("specsim.cli.rules", "What verification rules accept and emit, and which of them are wrong."),
    "simulate": ("specsim.cli.simulate", "Acceptance by simulation beside what is exact; requests, batches, policies."),
    "fit": ("specsim.cli.fit", "Acceptance from engine logs or recorded counts."),
    "capacity": (
        "specsim.cli.capacity",
        "Accelerators, latency and cost for a load, with and without speculation.",
    ),
    "measure": ("specsim.cli.measure", "Speculative decoding that really runs, on a small engine: what it accepts."),
    "validate": ("specsim.cli.validate", "Predictions against published measurements."),
    "calibrate": ("specsim.cli.calibrate", "Constants of a runtime from benchmark results."),
    "catalog": ("specsim.cli.catalog", "What is known: accelerators, models, runtimes, scenarios."),
    "resolve": ("specsim.cli.resolve", "A scenario with every default and card filled in."),
    "schema": ("specsim.cli.schema", "JSON Schema of a kind of YAML file, for editors."),
}


class _LateGroup(click.Group):
    """A group that imports a command when it is called: help stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from specsim.errors import nearest

            ctx.fail(f"no such command {args[0]!r}. {nearest(args[0], list(COMMANDS), list_all_up_to=len(COMMANDS))}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except InputError as error:
            raise click.ClickException(error_text(error, ctx.invoked_subcommand)) from None
        except click.UsageError as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            if error.ctx is None and command is not None:
                error.ctx = click.Context(command, parent=ctx, info_name=ctx.invoked_subcommand)
            raise
        except BrokenPipeError:
            # The reader has enough; what is still buffered must not complain when the program ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (_, help_text) in COMMANDS.items()])


@click.group(cls=_LateGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="specsim")
def group() -> None:
    """Does speculative decoding pay off here, with which draft length or token tree?

    \b
    Example:
      specsim optimal-gamma --hardware h100 --target llama-3-8b --draft llama-3.2-1b --acceptance rate=0.8
    """


def main(args: list[str] | None = None) -> Any:
    """Run the command line; a user's mistake is one short paragraph on stderr and exit code 2."""
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            # Ends like Ctrl-C does, so that no half-written file stays behind.
            signal.signal(getattr(signal, name), lambda number, _: sys.exit(128 + number))
    try:
        group.main(args=args, prog_name="specsim", standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.Abort:
        sys.exit(130)
    except getattr(click.exceptions, "NoArgsIsHelpError", ()) as no_command:
        click.echo(no_command.format_message(), err=True)
        sys.exit(2)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "specsim"
        _stop(f"{error.format_message()}\nSee: {command} --help")
    except click.ClickException as error:
        _stop(error.format_message())
    except OSError as error:
        # A full disk, a folder in place of a file: the machine's state, and not our bug.
        _stop(f"{error.filename2 or error.filename or 'output'}: {error.strerror}.")
    sys.exit(0)


_OPTIONS = {"batch_size": "--batch", "context_length": "--context", "name": "NAME"}
_OPTIONS_OF = {"resolve": {"config": "FILE"}, "fit": {"logs": "LOG"}}
"""Options and arguments, of all commands and of one, that are not called like the parameter of the API."""


def error_text(error: InputError, command: str | None = None) -> str:
    """Faults as paragraphs; a parameter of the API is called by its option of the command."""
    options = _OPTIONS | _OPTIONS_OF.get(command or "", {})
    lines = []
    for fault in error.faults:
        name = fault.place.parameter
        text = str(fault)
        if name is not None:
            text = options.get(name, "--" + name.replace("_", "-")) + text.removeprefix(name)
        lines.append(text)
    return "\n".join(dict.fromkeys(lines))


def _stop(text: str) -> None:
    click.echo("Error: " + text, err=True)
    sys.exit(2)
