"""Every shipped scenario, run as a user runs it, gives the CSV that is kept here in full precision.

After a change that is meant to move figures: ``make golden``, and read the difference before committing it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from specsim.catalog import library
from specsim.cli import main

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", library.names("scenario"))
def test_rows_of_a_shipped_scenario(name, capsys, request):
    with pytest.raises(SystemExit) as stop:
        main(["sweep", "--config", name, "--format", "csv"])
    assert stop.value.code == 0
    printed = capsys.readouterr().out
    kept = HERE / f"{name}.csv"
    if request.config.getoption("--regenerate"):
        kept.write_text(printed, encoding="utf-8")
    assert printed.splitlines() == kept.read_text(encoding="utf-8").splitlines()


def test_every_kept_file_belongs_to_a_scenario():
    assert {path.stem for path in HERE.glob("*.csv")} == set(library.names("scenario"))
