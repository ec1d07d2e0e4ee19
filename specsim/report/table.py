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
class Words:
    """A column of few different words: an array of indexes, and the words."""

    codes: np.ndarray
    words: np.ndarray


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of one length, with what was assumed and extrapolated to get them.

    Attributes:
        columns: Name to array or words; all broadcast to ``shape``.
        shape: Shape of the grid whose points are the rows.
        row_order: Axes of the grid from the slowest to the fastest along the rows; C order if empty.
        empty_where: Points at which some columns have no value, None if there are none.
        may_be_empty: The columns in question, all of numbers.
        assumed: What was assumed, one sentence each.
        extrapolated: What was extrapolated, one sentence each.
        infeasible: What did not fit, one sentence each.
    """

    columns: Mapping[str, np.ndarray | Words]
    shape: tuple[int, ...]
    assumed: tuple[str, ...] = field(default=())
    extrapolated: tuple[str, ...] = field(default=())
    infeasible: tuple[str, ...] = field(default=())
    row_order: tuple[int, ...] = field(default=())
    empty_where: np.ndarray | None = None
    may_be_empty: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return int(np.prod(self.shape))

    def __getitem__(self, name: str) -> np.ndarray:
        """One column as a flat array."""
        column = self.columns[name]
        if isinstance(column, Words):
            return column.words[self._flat(column.codes)]
        if self._has_gaps(name):
            return np.where(self._flat(np.asarray(self.empty_where)), np.nan, self._flat(column))
        return self._flat(column)

    def _has_gaps(self, name: str) -> bool:
        return self.empty_where is not None and name in self.may_be_empty

    def _flat(self, values: np.ndarray) -> np.ndarray:
        whole = np.broadcast_to(values, self.shape)
        return (whole.transpose(self.row_order) if self.row_order else whole).reshape(-1)

    def where(self, mask: np.ndarray) -> Table:
        """The rows at which a flat mask holds."""
        chosen = {name: self[name][mask] for name in self.columns}
        return Table(chosen, (int(mask.sum()),), self.assumed, self.extrapolated, self.infeasible)

    def cells(self, name: str) -> Iterable[Cell]:
        """One column as plain Python values; None where there is none (NaN, or no text)."""
        column = self.columns[name]
        if isinstance(column, np.ndarray) and column.size == 1 and not self._has_gaps(name):
            return itertools.repeat(_cell(column.reshape(-1).tolist()[0]), len(self))
        values = self[name]
        if values.dtype.kind == "O" or (values.dtype.kind == "f" and np.isnan(values).any()):
            return map(_cell, values.tolist())
        return values.tolist()

    def rows(self) -> Iterator[dict[str, Cell]]:
        """Rows as dictionaries."""
        for values in zip(*map(self.cells, self.columns), strict=True):
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
        writer.writerows(zip(*map(self._csv_cells, self.columns), strict=True))
        return buffer.getvalue()

    def _csv_cells(self, name: str) -> Iterable[Cell]:
        cells = self.cells(name)
        column = self.columns[name]
        may_be_flags = isinstance(column, np.ndarray) and column.dtype.kind in "bO"
        return (_FLAGS[cell] if isinstance(cell, bool) else cell for cell in cells) if may_be_flags else cells

    def to_json(self) -> str:
        """The table as JSON: rows, what was assumed, what was extrapolated, what did not fit."""
        notes = {kind: list(getattr(self, kind)) for kind in _NOTES}
        return json.dumps({"rows": list(self.rows()), **notes}, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


_FLAGS = {True: "true", False: "false"}

_NOTES = {"assumed": "Assumed", "extrapolated": "Extrapolated", "infeasible": "Does not fit"}


def joined(tables: Sequence[Table]) -> Table:
    """Tables with the same columns, one below the other; their notes without repetition."""
    if len(tables) == 1:
        return tables[0]
    columns = {name: np.concatenate([table[name] for table in tables]) for name in tables[0].columns}
    notes: dict[str, Any] = {
        kind: tuple(dict.fromkeys(n for table in tables for n in getattr(table, kind))) for kind in _NOTES
    }
    return Table(columns, (sum(map(len, tables)),), **notes)


def closing_lines(table: Table) -> list[str]:
    """What every table ends with: what was assumed and extrapolated, and what did not fit if something did not."""
    lines = []
    for kind, title in _NOTES.items():
        notes = getattr(table, kind)
        if notes or kind != "infeasible":
            lines.append(f"{title}: {'; '.join(notes) if notes else 'nothing'}.")
    return lines


def _cell(value: Any) -> Cell:
    # NaN is the one value that differs from itself.
    return None if value is None or value != value or value == "" else value
