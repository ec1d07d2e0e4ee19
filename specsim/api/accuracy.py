"""How wrong predictions are, and the constants that make them right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from specsim import units
from specsim.accuracy.comparison import Compared
from specsim.accuracy.fit import TYPICAL, Evidence
from specsim.accuracy.summary import GROUPS
from specsim.catalog import calibration, library, measurements
from specsim.catalog.compared import compare
from specsim.catalog.measured import Names, unknown_engines
from specsim.errors import Fault, InputError, Place, nearest
from specsim.report import accuracy
from specsim.report.table import Table


def validate(
    data: str | Path | None = None,
    *,
    aliases: str | Path | None = None,
    left_out: bool = False,
    by: str = "quantity",
) -> Table:
    """How wrong predictions are, by set-up: a summary of what ``comparisons`` gives row by row.

    Args:
        data: A file in the layout of ``evidence/measurements``; the shipped measurements if None.
        aliases: A YAML mapping of names in the data to names of cards or files.
        left_out: Predict each row by constants fitted without its source.
        by: ``quantity``, ``source``, ``hardware``, ``method``, ``batch`` or ``runtime``.

    Raises:
        InputError: If a file is wrong, or ``by`` is none of these.

    >>> table = validate()
    >>> table["quantity"].tolist()[0]
    'plain_step_ms'
    """
    found, _ = compare_measurements(data, aliases, left_out=left_out, by=by)
    return accuracy.summary_table(found, by)


def compare_measurements(
    data: str | Path | None, aliases: str | Path | None, *, left_out: bool, by: str = "quantity"
) -> tuple[Compared, tuple[str, ...]]:
    """Measurements held against predictions, with remarks about the file.

    Raises:
        InputError: As ``validate``.
    """
    if by not in GROUPS:
        raise InputError(
            Fault(f"unknown {by!r}. {nearest(by, list(GROUPS), list_all_up_to=12)}", Place(parameter="by"))
        )
    rows, remarks = measurements.shipped(), tuple[str, ...]()
    if data is not None:
        rows, remarks = measurements.read_measurements(_file(data, "data"))
    names = Names(measurements.read_aliases(_file(aliases, "aliases")) if aliases is not None else None)
    if data is not None:
        remarks += tuple(unknown_engines(rows, names))
    return compare(rows, names, left_out=left_out), remarks


def comparisons(found: Compared) -> Table:
    """One row for every compared quantity, and one for every row without a prediction."""
    return accuracy.comparison_table(found)


def calibrate(
    *results: str | Path,
    runtime: str | None = None,
    without: str | None = None,
    aliases: str | Path | None = None,
) -> Table:
    """Constants of a runtime from benchmark results, or of all runtimes from the published measurements.

    Args:
        results: Files of rows, YAML or CSV, as in ``evidence/measurements``.
        runtime: Only this one; with results, the card that what is not fitted comes from.
        without: A source of the published measurements that is left out.
        aliases: A YAML mapping of names in the results to names of cards or files.

    Raises:
        InputError: If a file is wrong, no row of it tells a constant, or a name is unknown.
    """
    if results:
        return calibrate_results(results, runtime=runtime, aliases=aliases)[0]
    return calibrate_evidence(runtime=runtime, without=without)[0]


def calibrate_evidence(
    *, runtime: str | None = None, without: str | None = None, name: str | None = None
) -> tuple[Table, str]:
    """Constants of runtimes from the published measurements, and the card of the one that is asked for."""
    evidence = calibration.published_evidence()
    calibration.check_source(evidence, without)
    known = [calibration.known_runtime(runtime)] if runtime is not None else [TYPICAL, *_fitted_runtimes(evidence)]
    table = accuracy.constants_table(evidence, known, without)
    if runtime is None:
        return table, ""
    told, assumed = accuracy.origins(evidence, known[0], without)
    found = evidence.constants(known[0], without)
    base = calibration.runtime_of(known[0])
    return table, calibration.runtime_card(base, found, name or known[0], told, assumed)


def _fitted_runtimes(evidence: Evidence) -> list[str]:
    return [name for name in library.names("runtime") if name != TYPICAL and evidence.sources(name)]


def calibrate_results(
    results: Sequence[str | Path],
    *,
    runtime: str | None = None,
    aliases: str | Path | None = None,
    name: str | None = None,
) -> tuple[Table, str, tuple[str, ...]]:
    """Constants that results tell, the runtime card with them, and remarks about the files."""
    read = [calibration.read_results(_file(result, "result")) for result in results]
    rows = [row for found, _ in read for row in found]
    names = measurements.read_aliases(_file(aliases, "aliases")) if aliases is not None else {}
    base = calibration.runtime_of(runtime or TYPICAL)
    found = calibration.fit_results(rows, base, names)
    told = {units.written_name(field): f"fitted to {found.rows} rows of benchmark results" for field in found.constants}
    card = calibration.runtime_card(base, found.constants, name or "my-runtime", told, {})
    remarks = tuple(note for _, notes in read for note in notes) + found.remarks
    return accuracy.fitted_table(found.constants, found.rows, found.misfits), card, remarks


def _file(path: str | Path, parameter: str) -> Path:
    """An existing file.

    Raises:
        InputError: If there is none.
    """
    found = Path(path)
    if not found.is_file():
        raise InputError(Fault(f"no such file: {str(path)!r}.", Place(parameter=parameter)))
    return found
