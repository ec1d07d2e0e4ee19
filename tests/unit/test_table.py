"""Tables: flat columns, gaps, words, and the forms in which they leave the program."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

import specsim
from specsim.report.table import Table, Words, joined


@pytest.fixture
def table():
    return Table(
        {
            "batch": np.array([[1], [2]]),
            "time": np.array([[1.5, 2.5], [3.5, 0.1 + 0.2]]),
            "bound": Words(
                np.array([[1, 2], [0, 1]], dtype=np.int8), np.array(["", "memory", "compute"], dtype=object)
            ),
            "best": np.array([[True, False], [False, True]]),
            "constant": np.full((), "x", dtype=object),
        },
        (2, 2),
        assumed=("a",),
        empty_where=np.array([[False, False], [True, False]]),
        may_be_empty=frozenset({"time"}),
    )


def test_columns_are_flat_and_have_gaps(table):
    assert table["batch"].tolist() == [1, 1, 2, 2]
    np.testing.assert_array_equal(table["time"], [1.5, 2.5, np.nan, 0.1 + 0.2])
    assert table["bound"].tolist() == ["memory", "compute", "", "memory"]
    assert table["constant"].tolist() == ["x"] * 4


def test_csv_has_shortest_exact_numbers_and_nothing_for_nothing(table):
    assert table.to_csv() == (
        "batch,time,bound,best,constant\n1,1.5,memory,true,x\n1,2.5,compute,false,x\n2,,,false,x\n"
        "2,0.30000000000000004,memory,true,x\n"
    )


def test_json_has_null_for_nothing(table):
    assert json.loads(table.to_json())["rows"][2] == {
        "batch": 2, "time": None, "bound": None, "best": False, "constant": "x",
    }  # fmt: skip


def test_selected_and_joined_rows_keep_their_gaps(table):
    some = table.where(np.array([False, True, True, False]))
    assert some.to_csv().splitlines()[1:] == ["1,2.5,compute,false,x", "2,,,false,x"]
    twice = joined([table, some])
    assert len(twice) == 6
    assert twice.assumed == ("a",)
    assert twice.to_csv().splitlines()[5:] == ["1,2.5,compute,false,x", "2,,,false,x"]


def test_rows_may_run_along_other_axes_than_memory():
    values = np.arange(6).reshape(2, 3)
    turned = Table({"v": values}, (2, 3), row_order=(1, 0))
    assert turned["v"].tolist() == [0, 3, 1, 4, 2, 5]


def test_times_are_empty_exactly_where_a_point_does_not_fit():
    table = specsim.optimal_gamma(
        hardware="a10", target="llama-3-8b", draft="llama-3.2-1b", acceptance="rate=0.8", all_gammas=True,
        batch_size="1..64*2", context_length="128,4096,8192",
    )  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert {row["feasible"] for row in rows} == {"true", "false"}
    times = [name for name in rows[0] if name.endswith("_ms") or name in ("speedup", "bound", "tokens_per_second")]
    for row in rows:
        assert {row[name] == "" for name in times} == {row["feasible"] == "false"}
        assert (row["limit"] == "") == (row["feasible"] == "true")
        assert (row["decision"] == "") == (row["feasible"] == "false")
        # Positions may stand against a point that would fit in memory.
        assert (int(row["limit_excess_bytes"]) > 0) >= (row["limit"] in ("memory", "kv_cache"))
