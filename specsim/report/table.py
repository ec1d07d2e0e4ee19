"""A table of named columns, and every form in which it leaves the program."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

Cell = str | int | float | bool | None


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of one length, with what was assumed and extrapolated to get them.

    Attributes:
        columns: Name to array; all broadcast to ``shape`` and are read in C order.
        shape: Shape of the grid whose points are the rows.
        assumed: What was assumed, one sentence each.
        extrapolated: What was extrapolated, one sentence each.
    """

    columns: Mapping[str, np.ndarray]
    shape: tuple[int, ...]
    assumed: tuple[str, ...] = field(default=())
    extrapolated: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return int(np.prod(self.shape))

    def __getitem__(self, name: str) -> np.ndarray:
        """One column as a flat array."""
        return np.broadcast_to(self.columns[name], self.shape).reshape(-1)

    def where(self, mask: np.ndarray) -> Table:
        """The rows at which a flat mask holds."""
        chosen = {name: self[name][mask] for name in self.columns}
        return Table(chosen, (int(mask.sum()),), self.assumed, self.extrapolated)

    def cells(self, name: str) -> Iterable[Cell]:
        """One column as plain Python values; None where there is none (NaN, or no text)."""
        column = self.columns[name]
        if column.ndim == 0 or column.size == 1:
            return itertools.repeat(_cell(column.reshape(-1)[0].item() if column.dtype != object else column.reshape(-1)[0]), len(self))
        values = self[name]
        if values.dtype.kind == "f" and np.isnan(values).any():
            return (None if value != value else value for value in values.tolist())
        return values.tolist() if values.dtype.kind != "O" else [_cell(value) for value in values.tolist()]

    def rows(self) -> Iterator[dict[str, Cell]]:
        """Rows as dictionaries."""
        for values in zip(*(self.cells(name) for name in self.columns), strict=False):
            yield dict(zip(self.columns, values, strict=True))

    def to_frame(self) -> pd.DataFrame:
        """The table as a pandas frame."""
        import pandas as pd

        return pd.DataFrame({name: self[name] for name in self.columns})

    def _repr_html_(self) -> str:
        """The table in a notebook, with what was assumed below it."""
        notes = "".join(f"<br>{note}" for note in closing_lines(self))
        return f"{self.to_frame().to_html(index=False, na_rep='')}<small>{notes.removeprefix('<br>')}</small>"

    def to_csv(self, *, header: bool = True) -> str:
        """The table as CSV text: shortest exact numbers, true and false, nothing where there is no value."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        if header:
            writer.writerow(self.columns)
        writer.writerows(zip(*(map(_csv_cell, self.cells(name)) if self._has_flags(name) else self.cells(name) for name in self.columns), strict=False))
        return buffer.getvalue()

    def _has_flags(self, name: str) -> bool:
        return self.columns[name].dtype.kind == "b"

    def to_json(self) -> str:
        """The table as JSON: rows, what was assumed, what was extrapolated."""
        content = {"rows": list(self.rows()), "assumed": list(self.assumed), "extrapolated": list(self.extrapolated)}
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def joined(tables: Sequence[Table]) -> Table:
    """Tables with the same columns, one below the other; their notes without repetition."""
    columns = {name: np.concatenate([table[name] for table in tables]) for name in tables[0].columns}
    notes = {
        kind: tuple(dict.fromkeys(note for table in tables for note in getattr(table, kind)))
        for kind in ("assumed", "extrapolated")
    }
    return Table(columns, (sum(map(len, tables)),), **notes)


def closing_lines(table: Table) -> list[str]:
    """What every table ends with: what was assumed and what was extrapolated."""
    lines = []
    for word, notes in (("Assumed", table.assumed), ("Extrapolated", table.extrapolated)):
        lines.append(f"{word}: {'; '.join(notes) if notes else 'nothing'}.")
    return lines


def _cell(value: Any) -> Cell:
    return None if value is None or value != value or value == "" else value


def _csv_cell(value: Cell) -> Cell:
    return {True: "true", False: "false"}.get(value, value) if isinstance(value, bool) else value
