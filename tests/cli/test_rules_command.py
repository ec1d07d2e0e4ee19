"""``specsim rules`` and ``specsim.rules`` as a user meets them: forms, columns, and what is said about mistakes."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pandas as pd
import pytest

import specsim
from specsim.acceptance.rules import VERDICTS
from specsim.cli import main

PAIR = ["--target-probs", "0.6,0.3,0.1", "--draft-probs", "0.2,0.5,0.3"]
TWO_POSITIONS = ["--target-probs", "0.6,0.4; 0.5,0.5", "--draft-probs", "0.9,0.1; 0.8,0.2"]
COLUMNS = ["rule", "verdict", "exact", "acceptance", "accepted_length", "total_variation", "largest_deviation"]


@pytest.fixture
def run(capsys):
    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(["rules", *arguments])
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return call


def test_every_rule_is_shown_if_none_is_named(run):
    code, out, err = run(*PAIR)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == [*(c for c in COLUMNS if c != "accepted_length"), "output_1", "output_2", "output_3"]
    assert [line.split()[0] for line in lines[1 : len(VERDICTS) + 1]] == list(VERDICTS)
    assert lines[1].split() == ["standard", "lossless", "yes", "0.6", "0", "0", "0.6", "0.3", "0.1"]
    assert lines[-2].startswith("Assumed: of equally probable tokens the first one counts as the most probable; ")
    assert "typical with epsilon 0.09 and delta 0.3, after a rejection the target's most probable token" in lines[-2]
    assert "lenience 0.5, after a rejection norm(max(0, target - 0.5 draft))" in lines[-2]
    assert lines[-1] == "Extrapolated: nothing."


def test_rules_come_in_the_order_in_which_they_are_named(run):
    _, out, _ = run(*PAIR, "--rule", "naive", "--rule", "standard", "--format", "csv")
    assert [line.split(",")[0] for line in out.splitlines()] == ["rule", "naive", "standard"]


def test_csv_has_every_digit(run):
    code, out, _ = run(*PAIR, "--format", "csv")
    assert code == 0
    found = list(csv.DictReader(io.StringIO(out)))
    assert list(found[0]) == [*COLUMNS, "output_1", "output_2", "output_3"]
    table = specsim.rules(target_probs=[0.6, 0.3, 0.1], draft_probs=[0.2, 0.5, 0.3])
    assert [float(row["output_2"]) for row in found] == table["output_2"].tolist()
    assert {row["rule"]: row["exact"] for row in found}["resample-from-target"] == "false"
    assert {row["exact"] for row in found} == {"true", "false"}


def test_json_has_rows_and_what_was_assumed(run):
    code, out, _ = run(*TWO_POSITIONS, "--rule", "block", "--format", "json")
    found = json.loads(out)
    assert code == 0
    assert list(found) == ["rows", "assumed", "extrapolated", "infeasible"]
    (row,) = found["rows"]
    assert list(row) == [*COLUMNS, "output_1_1", "output_1_2", "output_2_1", "output_2_2"]
    assert [row[name] for name in list(row)[7:]] == pytest.approx([0.3, 0.3, 0.2, 0.2], abs=1e-12)
    assert found["assumed"] == [
        "positions do not depend on the tokens before them",
        "where a round of block ends early the target itself goes on",
    ]


def test_the_order_of_positions_is_that_of_the_columns():
    table = specsim.rules(target_probs=[[1, 0], [0.25, 0.75]], draft_probs=[[0.5, 0.5], [0.5, 0.5]], rule="standard")
    assert [float(table[name][0]) for name in list(table.columns)[7:]] == pytest.approx([0.25, 0.75, 0, 0], abs=1e-12)


def test_several_positions_show_the_accepted_length(run):
    _, out, _ = run(*TWO_POSITIONS, "--rule", "standard", "--rule", "block")
    lines = out.splitlines()
    assert lines[0].split()[:5] == COLUMNS[:5]
    assert lines[1].split()[3:5] == ["0.7", "1.19"]  # .7 + .7 x .7


def test_a_law_too_long_for_a_screen_is_left_to_csv(run):
    tokens = ",".join(["0.05"] * 20)
    _, out, _ = run("--target-probs", tokens, "--draft-probs", tokens, "--rule", "standard")
    assert "output_" not in out
    assert "Left out: the 20 columns of the law; CSV and JSON have them." in out.splitlines()
    _, out, _ = run("--target-probs", tokens, "--draft-probs", tokens, "--rule", "standard", "--format", "csv")
    assert "output_20" in out


@pytest.mark.parametrize("suffix", ["csv", "json", "txt"])
def test_a_file_holds_what_would_be_printed(run, tmp_path, suffix):
    form = {"txt": "table"}.get(suffix, suffix)
    _, printed, _ = run(*PAIR, "--format", form)
    assert run(*PAIR, "-q", "-o", str(tmp_path / f"rules.{suffix}")) == (0, "", "")
    assert (tmp_path / f"rules.{suffix}").read_text(encoding="utf-8") == printed


def test_small_errors_of_the_sum_are_taken_out_and_told(run):
    code, out, _ = run("--target-probs", "0.3333333,0.6666666", "--draft-probs", "0.5,0.5", "--rule", "standard")
    assert code == 0
    assert "Assumed: target_probs divided by their sum, 0.9999999." in out.splitlines()
    table = specsim.rules(target_probs="0.3333333,0.6666666", draft_probs="0.5,0.5", rule="naive")
    assert table["output_1"][0] == pytest.approx(1 / 3, abs=1e-15)


def test_probabilities_that_sum_to_one_are_used_as_written(run):
    # Written as decimals these sum to 1; as floating-point numbers to one digit less.
    _, out, _ = run("--target-probs", "0.08,0.35,0.57", "--draft-probs", "1,0,0", "--rule", "standard")
    assert "Assumed: nothing." in out.splitlines()


@pytest.mark.parametrize(
    "target",
    [
        "0.6,0.4", " 0.6 , 0.4 ", "6e-1,.4", [0.6, 0.4], (0.6, 0.4), [[0.6, 0.4]], np.array([0.6, 0.4]),
        np.array([[0.6, 0.4]]), [np.array([0.6, 0.4])], [np.float64(0.6), 0.4], ["0.6", "0.4"], pd.Series([0.6, 0.4]),
    ],
    ids=str,
)  # fmt: skip
def test_forms_of_probabilities(target):
    table = specsim.rules(target_probs=target, draft_probs=[1, 0], rule="standard")
    assert [table["acceptance"][0], table["output_2"][0]] == pytest.approx([0.6, 0.4], abs=1e-15)


@pytest.mark.parametrize(
    "target",
    [None, True, 0.6, {}, [], [[]], [None], [True, False], [[[0.6, 0.4]]], [[0.6, 0.4], 1], float("nan"), b"1"],
    ids=str,
)  # fmt: skip
def test_what_is_no_probabilities(target):
    with pytest.raises(specsim.InputError, match=r"^target_probs: expected probabilities of tokens, as in 0.6,0.3,0.1"):
        specsim.rules(target_probs=target, draft_probs="1,0")


@pytest.mark.parametrize("rule", [5, None, [None], [], ["standard", 5], {"standard"}])
def test_names_of_rules_from_python(rule):
    if rule is None:
        assert len(specsim.rules(target_probs="1,0", draft_probs="1,0", rule=rule)) == len(VERDICTS)
    else:
        with pytest.raises(specsim.InputError, match=r"^rule: "):
            specsim.rules(target_probs="1,0", draft_probs="1,0", rule=rule)


def test_lenience_is_refused_where_no_rule_uses_it(run):
    code, out, err = run(*PAIR, "--rule", "standard", "--lenience", "0.5")
    assert (code, out) == (2, "")
    assert err == "Error: --lenience: it says nothing without the rule lenience.\n"


def test_a_rule_named_twice(run):
    code, _, err = run(*PAIR, "--rule", "block", "--rule", "block")
    assert (code, err) == (2, "Error: --rule: block is given twice.\n")


def test_several_mistakes_are_told_at_once(run):
    code, out, err = run(
        "--target-probs", "0.5,0.4", "--draft-probs", "x", "--rule", "blok", "--lenience", "2"
    )  # fmt: skip
    assert (code, out) == (2, "")
    assert [line.removeprefix("Error: ").split(":")[0] for line in err.splitlines()] == [
        "--target-probs", "--draft-probs", "--rule", "--lenience",
    ]  # fmt: skip
    assert "Nearest: block" in err


def test_the_most_that_is_enumerated():
    wide = [1e-4] * 10_000
    assert len(specsim.rules(target_probs=wide, draft_probs=wide, rule="standard").columns) == 10_007
    with pytest.raises(specsim.InputError, match=r"^target_probs: 10,001 tokens at 1 position have more than 10,000"):
        specsim.rules(target_probs=[1, *[0] * 10_000], draft_probs=[1, *[0] * 10_000])
    one = ";".join(["1"] * 13)
    assert specsim.rules(target_probs=one, draft_probs=one, rule="block")["accepted_length"][0] == 13
    with pytest.raises(specsim.InputError, match="joint outcomes"):
        specsim.rules(target_probs=one + ";1", draft_probs=one + ";1")
