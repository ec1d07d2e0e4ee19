"""Runtime cards from measurements: the published ones, or those of a user."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim import units
from specsim.accuracy.fit import (
    OF_ROUNDS,
    OF_STEPS,
    TYPICAL,
    Constants,
    Evidence,
    fit_rounds,
    fit_steps,
    misfits,
)
from specsim.catalog import library
from specsim.catalog.cards import card
from specsim.catalog.compared import cases_of
from specsim.catalog.dump import document_of
from specsim.catalog.located import LocatedDict, LocatedList
from specsim.catalog.measured import Names
from specsim.catalog.measurements import measurements_of, read_measurements, shipped
from specsim.catalog.strict_yaml import plain_value, write_yaml
from specsim.errors import Fault, InputError, Place, nearest, shown
from specsim.specs.measurement import Measurement
from specsim.specs.runtime import Runtime


def published_evidence() -> Evidence:
    """What the shipped measurements tell."""
    return Evidence(cases_of(shipped(), Names())[0])


def known_runtime(name: str) -> str:
    """The catalogue name of a runtime.

    Raises:
        InputError: If there is none.
    """
    known = library.known_name("runtime", name)
    if known is None:
        raise library.no_such_name(("runtime",), name, Place(parameter="runtime"), "")
    return known


def check_source(evidence: Evidence, without: str | None) -> None:
    """Refuse a source that no measurement has.

    Raises:
        InputError: With the nearest known names.
    """
    known = {case.row.source for case in evidence.cases}
    if without is not None and without not in known:
        message = f"no measurement has the source {shown(without, 80)}. {nearest(without, sorted(known))}"
        raise InputError(Fault(message.strip(), Place(parameter="without")))


def read_results(path: Path) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """Rows of benchmark results, from YAML or CSV, and remarks about keys that nothing reads.

    A row may leave out ``id``, ``kind`` and ``source``.

    Raises:
        InputError: With one fault for everything that is wrong.
    """
    if path.suffix.lower() != ".csv":
        return read_measurements(path, filled_in=_fill_in)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            lines, header = [(reader.line_num, row) for row in reader], list(reader.fieldnames or ())
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(Fault(f"cannot be read as CSV: {error}.", Place(str(path)))) from None
    if len(header) == 1 and ";" in header[0]:
        raise InputError(Fault("columns are separated by semicolons; expected commas.", Place(str(path), 1)))
    faults = []
    for name in sorted({name for name in header if header.count(name) > 1}):
        faults.append(Fault(f"the column {shown(name)} stands there more than once.", Place(str(path), 1)))
    for number, row in lines:
        if None in row or None in row.values():
            found = len(header) + len(row.get(None, ())) - sum(value is None for value in row.values())
            faults.append(
                Fault(f"expected {len(header)} values, as in the first line, found {found}.", Place(str(path), number))
            )
    if faults:
        raise InputError(faults)
    rows, places = [], []
    for number, row in lines:
        place = Place(str(path), number)
        cells = {key: plain_value(text) for key, text in row.items() if key and text not in (None, "")}
        rows.append(LocatedDict(cells, place, dict.fromkeys(cells, place)))
        places.append(place)
    return measurements_of(LocatedList(rows, Place(str(path), 1), places), path, filled_in=_fill_in)


def _fill_in(row: LocatedDict, number: int) -> None:
    row.setdefault("id", f"row-{number}")
    row.setdefault("source", "own")
    row.setdefault("kind", "speculative" if "method" in row else "baseline")


@dataclass(frozen=True, eq=False)
class Calibrated:
    """What benchmark results tell of a runtime.

    Attributes:
        constants: Those that were fitted.
        rows: How many rows they follow from.
        misfits: |predicted / measured - 1| of every step and speedup under them.
        remarks: What was left out, and what looks wrong.
    """

    constants: Constants
    rows: int
    misfits: NDArray[np.float64]
    remarks: tuple[str, ...]


def fit_results(rows: Sequence[Measurement], base: Runtime, aliases: dict[str, str]) -> Calibrated:
    """Constants that benchmark results of one runtime tell; a single plain row tells the cost per layer.

    Raises:
        InputError: If no row tells any.
    """
    names = Names(aliases)
    mapped, refused = cases_of(rows, names)
    cases = [replace(case, set_up=_under(case.set_up, base)) for case in mapped]
    telling = [case for case in cases if case.tells]
    remarks = [f"{one.row.id} is left out. Missing or impossible: {one.missing}" for one in refused]
    remarks += [f"{case.row.id} is left out: {_WANTED}." for case in cases if not case.tells]
    remarks += [
        f"{case.row.id} ran under {case.runtime} by its own account, and is taken as {base.name}."
        for case in mapped
        if "engine" not in case.assumed and base.name != TYPICAL and case.runtime not in (base.name, *base.aliases)
    ]
    steps = fit_steps(telling)
    known: Constants = {name: getattr(base, name) for name in OF_STEPS} | steps
    found = {**steps, **fit_rounds(telling, known)}
    if not found:
        raise InputError(
            [Fault(f"no row tells a constant: {_WANTED}. See: specsim validate --data."), *map(Fault, remarks)]
        )
    at_floor = [units.written_name(name) for name in (*OF_STEPS[:1], *OF_ROUNDS) if found.get(name) == 0]
    if at_floor:
        remarks.append(
            f"{' and '.join(at_floor)} came out as 0: what was measured is as fast as the kernels alone, or faster; "
            "check hardware, number format, tensor parallelism and units."
        )
    whole = {name: getattr(base, name) for name in (*OF_STEPS, *OF_ROUNDS, "tree_factor")} | found
    return Calibrated(found, len(telling), misfits(telling, whole), tuple(remarks))


_WANTED = (
    "expected a time per token (ms_per_token) or a throughput (tokens_per_s), or tau with speedup, "
    "beside hardware, target and batch"
)


def _under(set_up: Any, runtime: Runtime) -> Any:
    return replace(set_up, machine=replace(set_up.machine, runtime=runtime))


def runtime_card(base: Runtime, found: Constants, name: str, told: dict[str, str], assumed: dict[str, str]) -> str:
    """The text of a runtime card with other constants, rounded to three digits.

    Args:
        base: The card that the rest comes from.
        found: Constants by field.
        name: What the card is called.
        told: Where constants come from, by their written name.
        assumed: Why others have the value they have.
    """
    fitted = {units.written_name(field) for field in found}
    kept = {path: text for path, text in base.sources.items() if path not in fitted}
    still = {path: text for path, text in base.assumptions.items() if path not in fitted}
    rounded = {field: _rounded(field, value) for field, value in found.items()}
    runtime = replace(base, name=name, sources=kept | told, assumptions=still | assumed, **rounded)  # type: ignore[arg-type]
    document, plain = document_of(runtime), document_of(Runtime())
    head = {"format": 1, "kind": "runtime", "name": name, "title": runtime.title, "aliases": document["aliases"]}
    origins = {part: document.pop(part) for part in ("sources", "assumptions")}
    figures = {key: value for key, value in document.items() if key not in head and value != plain.get(key)}
    parts = [{key: value for key, value in part.items() if value not in ("", [], {})} for part in (figures, origins)]
    aliases = head.pop("aliases")
    # On one line, where the list of all names is read from.
    names = f"aliases: [{', '.join(aliases)}]\n" if aliases else ""
    return write_yaml(head) + names + write_yaml(parts[0]) + write_yaml(parts[1])


def _rounded(field: str, value: float) -> float:
    """Three digits, of microseconds where it is a time."""
    if not field.endswith("_seconds"):
        return float(f"{value:.3g}")
    return float(f"{value * 1e6:.3g}") * 1e-6


def runtime_of(name: str) -> Runtime:
    """A runtime of the catalogue, or one of a file."""
    found = card("runtime", name, Place(parameter="runtime"))
    if not isinstance(found, Runtime):
        raise AssertionError
    return found
