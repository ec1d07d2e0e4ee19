"""Runtime cards from measurements: the published ones, or those of a user."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from specsim import units
from specsim.accuracy.fit import OF_STEPS, Constants, Evidence, fit_rounds, fit_steps
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
    return Evidence(cases_of(shipped(), Names()))


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
            lines = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(Fault(f"cannot be read as CSV: {error}.", Place(str(path)))) from None
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


def fit_results(rows: Sequence[Measurement], base: Runtime, aliases: dict[str, str]) -> Constants:
    """Constants that benchmark results of one runtime tell; a single plain row tells the cost per layer.

    Raises:
        InputError: If no row tells any.
    """
    cases = [replace(case, set_up=_under(case.set_up, base)) for case in cases_of(rows, Names(aliases))]
    steps = fit_steps(cases)
    known: Constants = {name: getattr(base, name) for name in OF_STEPS} | steps
    rounds = fit_rounds(cases, known)
    found = {**steps, **rounds}
    if not found:
        wanted = "hardware, target, batch and ms_per_token or tokens_per_s, under names that are known"
        raise InputError(Fault(f"no row tells a constant: expected {wanted}. See: specsim validate --data."))
    return found


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
