"""Results to stdout or to a file, as table, CSV or JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from specsim import __version__
from specsim.catalog.resolve import Resolution, resolved_document
from specsim.errors import Fault, InputError, Place, shown
from specsim.report.table import Cell, Table, closing_lines

_Part = TypeVar("_Part")

_SUFFIXES = {".csv": "csv", ".json": "json", ".txt": "table"}

_DESCRIPTION = (
    "hardware", "node", "target", "precision", "kv_precision", "tensor_parallel", "pipeline_parallel",
    "expert_parallel", "attention_data_parallel", "offloaded", "source_tokens", "draft", "draft_precision",
    "draft_tensor_parallel", "runtime", "acceptance",
)  # fmt: skip
"""Columns that describe the question: above the table where they are the same in every row."""

_UNREMARKABLE = {
    "kv_precision": "bf16", "pipeline_parallel": 1, "expert_parallel": 1, "attention_data_parallel": 1,
    "offloaded": 0.0, "source_tokens": 0,
}  # fmt: skip
"""What a description leaves out, since it says that nothing is done."""

_SHOWN = (
    "batch_size", "context_length", "gamma", "tree", "nodes", "speedup", "draft_memory_bytes", "speedup_low",
    "speedup_high", "chain_gamma", "chain_speedup", "speedup_gap", "near_best", "tokens_per_round", "plain_step_ms",
    "round_ms", "draft_cost_ratio", "tokens_per_second", "bound", "decision", "limit",
)  # fmt: skip
"""Columns of the table on the screen; CSV and JSON have all."""

_SHOWN_WITHOUT_TIMES = (
    "batch_size", "context_length", "gamma", "tree", "nodes", "speedup", "speedup_low", "speedup_high",
    "chain_gamma", "chain_speedup", "speedup_gap", "near_best",
    "tokens_per_round", "draft_cost_ratio", "round_cost_ratio", "operations_factor", "bytes_factor",
    "decision",
)  # fmt: skip
"""The same where only ratios are known."""

_LEFT = frozenset({
    *_DESCRIPTION, "bound", "decision", "limit", "kind", "name", "title", "aliases", "operator", "pass", "rule",
    "verdict", "policy", "method", "tree",
})  # fmt: skip


def chosen_format(output_format: str | None, output: str | None) -> str:
    """The format that the options ask for.

    Raises:
        InputError: If the suffix of the file says none and no format is given.
    """
    if output is not None:
        _checked(output)
    if output_format is not None:
        return output_format
    if output is None:
        return "table"
    suffix = Path(output).suffix.lower()
    if suffix not in _SUFFIXES:
        known = ", ".join(_SUFFIXES)
        raise InputError(
            Fault(
                f"no format is known for {output!r}; name it {known}, or give --format.",
                Place(parameter="output"),
            )
        )
    return _SUFFIXES[suffix]


def remarks(lines: Iterable[str], quiet: bool) -> None:
    """How ambiguous input was read, on stderr."""
    if not quiet:
        for line in lines:
            click.echo(line, err=True)


def rows(table: Table, form: str, output: str | None, resolution: Resolution) -> None:
    """Rows in the chosen format; on the screen only the columns that the eye needs."""
    if form == "csv":
        deliver([table.to_csv()], output, resolution)
    elif form == "json":
        deliver([table.to_json()], output)
    else:
        same = [name for name in _DESCRIPTION if len(set(islice(table.cells(name), len(table)))) <= 1]
        described = ((name, next(iter(table.cells(name)))) for name in same)
        remarkable = ((name, short(value)) for name, value in described if value != _UNREMARKABLE.get(name))
        title = ", ".join(f"{name} {value}" for name, value in remarkable if value)
        with_cards = next(iter(table.cells("hardware")), None) is not None
        told = [list(islice(table.cells(name), len(table))) for name in _DESCRIPTION]
        # A field that is varied by its path shows once, in its own column if it has one.
        varied = [n for n in table.columns if "." in n and list(islice(table.cells(n), len(table))) not in told]
        shown = (*_DESCRIPTION, *varied, *(_SHOWN if with_cards else _SHOWN_WITHOUT_TIMES))
        if not with_cards:
            same += [name for name in ("batch_size", "context_length") if len(set(table[name].tolist())) <= 1]
        if "draft" in same:
            # What a drafter takes of the memory is a reason to choose one of several.
            same.append("draft_memory_bytes")
        if not any(islice(table.cells("tree"), len(table))):
            same.append("nodes")
        columns = [name for name in shown if name in table.columns and name not in same]
        deliver([title and title + "\n", table_text(table, columns, screen=output is None), closing(table)], output)


def deliver(parts: Iterable[str], output: str | None, inputs: Resolution | Mapping[str, object] | None = None) -> None:
    """Text to stdout, or to a file; with its inputs, its provenance goes beside the file."""
    if output is None:
        for part in parts:
            click.echo(part, nl=False)
        return
    from specsim.report.output import whole_file, with_provenance

    path = Path(_checked(output))
    if inputs is None:
        opened = whole_file(path)
    else:
        told = resolved_document(inputs) if isinstance(inputs, Resolution) else dict(inputs)
        opened = with_provenance(path, __version__, ["specsim", *sys.argv[1:]], told)
    with opened as file:
        file.writelines(parts)


def check_apart(**outputs: str | None) -> None:
    """That the files of several options, by their names, do not overwrite each other or what stands beside them.

    Raises:
        InputError: If they do.
    """
    taken = dict[str, str]()
    for option, output in outputs.items():
        for name in (output, f"{output}.json") if output else ():
            # Unlike Path.resolve, this bears links that lead in a circle; writing names them.
            path = os.path.realpath(name)
            if taken.setdefault(path, option) != option:
                other = f"--{taken[path].replace('_', '-')}"
                raise InputError(Fault(f"{other} writes {shown(name, 200)} as well.", Place(parameter=option)))


def deliver_with(
    text: str, output: str | None, inputs: dict[str, Any], seed: int | None = None, parameter: str = "output"
) -> None:
    """Text to stdout, or to a file with its provenance beside it: what it was made from, and the seed."""
    if output is None:
        deliver([text], None)
        return
    from specsim.report.output import with_provenance

    command = ["specsim", *sys.argv[1:]]
    with with_provenance(Path(_checked(output, parameter)), __version__, command, inputs, seed, parameter) as file:
        file.write(text)


def _checked(output: str, parameter: str = "output") -> str:
    if not output or Path(output).is_dir():
        found = f"{shown(output)}, which is a folder" if output else "nothing"
        raise InputError(Fault(f"expected the name of a file, found {found}.", Place(parameter=parameter)))
    return output


def table_text(table: Table, columns: Sequence[str], *, screen: bool = True) -> str:
    """The columns that hold anything, as text: drawn by rich in a terminal, aligned elsewhere."""
    cells = {name: [short(value) for value in islice(table.cells(name), len(table))] for name in columns}
    if "tree" in cells:
        cells["tree"] = list(map(levels_of, cells["tree"]))
    headers = [name for name, values in cells.items() if any(values)]
    body = list(zip(*(cells[name] for name in headers), strict=True))
    if screen and sys.stdout is not None and sys.stdout.isatty():
        return _drawn(headers, body)
    widths = [max(map(len, column)) for column in zip(headers, *body, strict=True)]
    lines = []
    for row in (headers, *body):
        padded = (c.ljust(w) if h in _LEFT else c.rjust(w) for c, w, h in zip(row, widths, headers, strict=True))
        lines.append("  ".join(padded).rstrip() + "\n")
    return "".join(lines)


_EXPENDABLE = (
    "draft_cost_ratio",
    "near_best",
    "bytes_factor",
    "plain_step_ms",
    "tokens_per_second",
    "bound",
    "round_ms",
)
"""Columns that a narrow terminal has no room for, the first ones first."""


def _width(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + 3 * len(widths)


_PROSE = frozenset({"title", "aliases"})
"""Columns whose text may go on in the next line."""


def _drawn(headers: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable

    console = Console()
    # Headers break at underscores and dots, so that a column is as wide as its longest word or value.
    words = {header: header.replace("_", "\n").replace(".", ".\n") for header in headers}
    widths = {
        header: max(len(part) for part in (*words[header].split("\n"), *values))
        for header, values in zip(headers, zip(*body, strict=True), strict=True)
    }
    left_out = []
    for header in _EXPENDABLE:
        if header in widths and _width(widths) > console.width:
            del widths[header]
            left_out.append(header)
    if not _PROSE & widths.keys():
        # What is still too wide goes on in the terminal's next line: no number is ever broken or cut.
        console.width = max(console.width, _width(widths))
    drawn = RichTable(box=box.SIMPLE_HEAD, header_style="bold", padding=(0, 1), show_edge=False)
    for header in widths:
        justify: Literal["left", "right"] = "left" if header in _LEFT else "right"
        drawn.add_column(words[header], justify=justify, no_wrap=header not in _PROSE, overflow="fold")
    for row in body:
        drawn.add_row(*(cell for header, cell in zip(headers, row, strict=True) if header in widths))
    with console.capture() as captured:
        console.print(drawn)
    note = f"Left out for want of room: {', '.join(left_out)}.\n" if left_out else ""
    return captured.get() + note


_MANY = 10_000_000
"""Whole numbers from here on are counts of bytes, of which four digits are enough for the eye."""


def short(value: Cell) -> str:
    """A value for the eye: four digits are enough there; CSV and JSON have all of them."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and value >= _MANY:
        return f"{value:.4g}"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def levels_of(tree: str) -> str:
    """A tree for the eye: one that is written as a list of parents by the number of its nodes at each level."""
    if not tree.startswith("["):
        return tree
    from specsim.specs.tree import Tree, read_shape

    shape = read_shape(tree)
    return "+".join(map(str, shape.level_counts)) if isinstance(shape, Tree) else tree


def closing(table: Table) -> str:
    """The lines that every table ends with."""
    return "\n".join(closing_lines(table)) + "\n"


@contextmanager
def progress(steps: int, label: str, quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """A bar on a terminal's stderr that is told how many steps were done; None where there is none."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=steps, label=label, file=sys.stderr) as bar:
        yield bar.update


def counted(parts: Iterable[_Part], number: int, label: str, quiet: bool) -> Iterator[_Part]:
    """The same parts, with a bar on a terminal's stderr that moves as they are taken."""
    if quiet or not sys.stderr.isatty():
        yield from parts
        return
    with click.progressbar(parts, length=number, label=label, file=sys.stderr) as bar:
        yield from bar
