"""``specsim simulate`` and ``specsim.simulate`` as a user meets them."""

from __future__ import annotations

import csv
import io
import json

import pytest

import specsim
from specsim.cli import main
from specsim.specs.acceptance import Independent, Regime, Regimes

BURSTY = """\
format: 1
kind: regimes
regimes:
  easy: {acceptance_probability: 0.95, mean_run_tokens: 30}
  hard: {acceptance_probability: 0.3, mean_run_tokens: 30}
"""

APART = """\
format: 1
kind: regimes
regimes:
  easy: {acceptance_probability: 0.9, mean_run_tokens: 10, token_share: 0.9}
  hard: {acceptance_probability: 0.2, mean_run_tokens: 10, token_share: 0.1}
"""

TABLE = """\
format: 1
kind: context
table:
  - {context_length: 1k, acceptance: rate=0.8}
  - {context_length: 8k, acceptance: rate=0.6}
"""


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("bursty", BURSTY), ("apart", APART), ("table", TABLE)):
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(["simulate", *arguments])
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return call


def test_the_lectures_case(run):
    code, out, err = run("--acceptance", "bursty.yaml", "--format", "json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    row = answer["rows"][0]
    assert row["tokens_per_round"] == pytest.approx(2.184379, abs=5e-7)
    assert row["independent_tokens_per_round"] == pytest.approx(2.293005, abs=5e-7)
    assert row["independent_error"] == pytest.approx(0.04973, abs=5e-6)
    assert row["rounds_in_hard"] == pytest.approx(0.751, abs=5e-4)
    assert abs(row["errors_apart"]) < 4
    assert sum(row[f"accepted_{k}"] for k in range(5)) == pytest.approx(1)
    assert sum(row[f"simulated_{k}"] for k in range(5)) == pytest.approx(1)
    assert answer["assumed"] == ["simulation with seed 0"]


def test_the_table_ends_with_what_was_assumed(run):
    code, out, _ = run("--acceptance", "rate=0.8", "--gamma", "1..3", "--rounds", "2000", "--seed", "7")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "acceptance rate=0.8"
    assert lines[1].split()[:5] == ["gamma", "tokens_per_round", "simulated", "standard_error", "errors_apart"]
    assert lines[-2:] == ["Assumed: simulation with seed 7.", "Extrapolated: nothing."]


def test_requests_and_batches(run):
    _, out, _ = run("--acceptance", "bursty.yaml", "--output-length", "256", "--batch", "8,32", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["batch_size"] for row in rows] == ["8", "32"]
    assert [int(rows[0][f"rounds_p{q}"]) for q in (50, 95, 99)] == [117, 152, 165]
    assert float(rows[1]["makespan_rounds"]) == pytest.approx(160.1674, abs=5e-7)
    assert float(rows[1]["mean_active_sequences"]) == pytest.approx(23.48692, abs=5e-7)
    apart = float(rows[0]["simulated_rounds_mean"]) - float(rows[0]["rounds_mean"])
    assert abs(apart) < 4 * float(rows[0]["simulated_rounds_error"])


def test_policies(run):
    code, out, err = run("--acceptance", "bursty.yaml", "--policy", "all", "--draft-cost-ratio", "0.1",
                         "--rounds", "20000", "--format", "json")  # fmt: skip
    assert (code, err) == (0, "")
    rows = {row["policy"]: row for row in json.loads(out)["rows"]}
    assert list(rows) == [
        "fixed:3", "heuristic", "confidence:0.4", "cumulative:0.2", "belief", "goodput", "oracle",
    ]  # fmt: skip
    assert rows["heuristic"]["regret_to_fixed"] == pytest.approx(-0.047, abs=5e-4)
    assert rows["fixed:3"]["regret_to_fixed"] == pytest.approx(0, abs=1e-12)
    assert rows["oracle"]["regret_to_oracle"] == 0
    assert {name for name, row in rows.items() if row["method"] == "simulation"} == {"belief", "goodput"}
    assert all((row["standard_error"] > 0) == (row["method"] == "simulation") for row in rows.values())


def test_rows_in_a_file_have_their_provenance_with_the_seed(run, tmp_path):
    assert run("--acceptance", "bursty.yaml", "--rounds", "2000", "--seed", "3", "-o", "out.csv")[0] == 0
    provenance = json.loads((tmp_path / "out.csv.json").read_text(encoding="utf-8"))
    assert provenance["seed"] == 3
    assert provenance["inputs"]["acceptance"]["regimes"]["hard"]["acceptance_probability"] == 0.3
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").startswith("acceptance,gamma,tokens_per_round,")


def test_python_takes_records_numbers_and_arrays():
    spec = Regimes(regimes={"only": Regime(acceptance_probability=(0.8,))})
    for acceptance in (Independent(rate=0.8), spec, 0.8, "rate=0.8", {"kind": "independent", "rate": 0.8}):
        table = specsim.simulate(acceptance=acceptance, gamma=[2, 4], rounds=1000)
        assert table["tokens_per_round"] == pytest.approx([2.44, 3.3616])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--acceptance", "rate=1.2"], "--acceptance: expected a number from 0 to 1, found 1.2."),
        (["--acceptance", "0.8,0.7"], "--acceptance: a bare list has two readings: conditional=0.8,0.7 (each given "
         "that all before were accepted) or survival=0.8,0.7 (unconditional, what vLLM prints per position). Write "
         "the one that is meant."),
        (["--acceptance", "task=chat"], "--acceptance: published values belong to a draft; give an acceptance of your "
         "own, such as rate=0.7, or a file."),
        (["--acceptance", "none.yaml"], "--acceptance: no such file: 'none.yaml'."),
        (["--acceptance", "rate=0.8", "--gamma", "-1"], "--gamma: expected whole numbers of at least 0: a number, a "
         "list such as 1,8,32, a range such as 1..16 or a doubling such as 1..256*2; k stands for 1024, found -1."),
        (["--acceptance", "rate=0.8", "--rounds", "10"],
         "--rounds: expected a whole number of at least 1000, found 10."),
        (["--acceptance", "rate=0.8", "--seed", "x"], "--seed: expected a whole number of at least 0, found 'x'."),
        (["--acceptance", "rate=0.8", "--batch", "8"],
         "--batch: batches of requests need the tokens of a request in --output-length."),
        (["--acceptance", "rate=0.8", "--draft-cost-ratio", "0.1"],
         "--draft-cost-ratio: it says nothing without a policy."),
        (["--acceptance", "rate=0.8", "--policy", "fixed"], "--policy: a policy needs what a draft costs: expected "
         "--draft-cost-ratio, one draft step / one plain target step."),
        (["--acceptance", "rate=0.8", "--policy", "oracel", "--draft-cost-ratio", "0.1"], "--policy: unknown policy "
         "'oracel'. Nearest: oracle. Known: fixed, heuristic, confidence, cumulative, belief, goodput, oracle, all."),
        (["--acceptance", "rate=0.8", "--policy", "fixed:-2", "--draft-cost-ratio", "0.1"],
         "--policy: expected a draft length, as in fixed:4, found 'fixed:-2'."),
        (["--acceptance", "rate=0.8", "--policy", "confidence:40%", "--draft-cost-ratio", "0.1"],
         "--policy: expected a threshold from 0 to 1, as in confidence:0.4, found 'confidence:40%'."),
        (["--acceptance", "rate=0.8", "--policy", "belief:1", "--draft-cost-ratio", "0.1"],
         "--policy: belief takes no number, found 'belief:1'."),
        (["--acceptance", "rate=0.8", "--policy", "fixed", "--policy", "fixed", "--draft-cost-ratio", "0.1"],
         "--policy: a policy is given twice."),
        (["--acceptance", "rate=0.8", "--policy", "fixed", "--gamma", "3", "--draft-cost-ratio", "0.1"],
         "--gamma: a policy chooses draft lengths itself; leave one of the two out, as in fixed:4."),
        (["--acceptance", "table.yaml"], "--acceptance: acceptance along the context is simulated one context at a "
         "time: give that of an entry of its table, such as context 1024, rate=0.8."),
        (["--acceptance", "conditional=0.9,0.8", "--policy", "confidence", "--draft-cost-ratio", "0.1"], "--policy: "
         "confidence is exact only where acceptance does not depend on the position in the round."),
    ],
)  # fmt: skip
def test_mistakes(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err == f"Error: {message}\n"


SHARES = (
    "the token shares given (easy 90.0%, hard 10.0%), though such text settles at easy 50.0%, hard 50.0% and does not "
    "keep them"
)


def test_shares_that_text_does_not_keep_are_spoken_of_everywhere(run):
    """Runs of 10 tokens each, and nine tenths of the tokens easy: 3.63 tokens a round, where text settles at 1.95."""
    found = json.loads(run("--acceptance", "apart.yaml", "--rounds", "5000", "--format", "json")[1])
    assert found["assumed"][0] == SHARES
    assert found["assumed"][1].startswith("simulated text settles, so errors_apart also holds")
    assert found["rows"][0]["errors_apart"] < -20
    planned = specsim.optimal_gamma(acceptance="apart.yaml", draft_cost_ratio=0.1)
    assert any(SHARES in what for what in planned.assumed)
    assert not any("token shares" in what for what in specsim.simulate(acceptance="bursty.yaml", rounds=1000).assumed)


def test_policies_are_compared_in_text_that_has_settled(run):
    """None of them is better than the oracle, whatever shares are given."""
    table = specsim.simulate(acceptance="apart.yaml", policy="all", draft_cost_ratio=0.1, rounds=2000)
    settled = specsim.simulate(acceptance="bursty.yaml", policy="fixed", draft_cost_ratio=0.1)
    assert (table["regret_to_oracle"] > -1e-9).all()
    assert "policies are compared in text that has settled" in table.assumed
    assert "policies are compared in text that has settled" not in settled.assumed


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["survival=0.7,0.5", "--gamma", "2,6"], "gamma 6 and above lies beyond the recorded survival=0.7,0.5"),
        (["length=2.5@3", "--gamma", "4"], "gamma 4 and above lies beyond the recorded length=2.5@3"),
        (["length=2.5@3", "--policy", "all", "--draft-cost-ratio", "0.05"], "drafts of more than 3 tokens lie beyond "
         "the recorded length=2.5@3: heuristic, confidence:0.4, cumulative:0.2, belief, goodput, oracle may make them"),
        (["survival=0.7,0.5", "--policy", "fixed:4", "--draft-cost-ratio", "0.05"],
         "drafts of more than 2 tokens lie beyond the recorded survival=0.7,0.5: fixed:4 may make them"),
    ],
)  # fmt: skip
def test_what_lies_beyond_the_record_is_said(run, arguments, told):
    found = json.loads(run("--acceptance", *arguments, "--rounds", "1000", "--format", "json")[1])
    assert found["extrapolated"] == [told]
    on_the_screen = run("--acceptance", *arguments, "--rounds", "1000")[1]
    assert on_the_screen.endswith(f"Extrapolated: {told}.\n")


def test_nothing_within_the_record_is_called_extrapolated(run):
    assert specsim.simulate(acceptance="length=2.5@3", gamma=[2, 3], rounds=1000).extrapolated == ()
    best = specsim.simulate(acceptance="length=2.5@3", policy="fixed", draft_cost_ratio=0.05)
    assert best["policy"].tolist() == ["fixed:3"]
    assert best.extrapolated == ()


def test_all_policies_leave_out_those_that_cannot_be(run):
    code, out, err = run(
        "--acceptance", "survival=0.7,0.5", "--policy", "all", "--draft-cost-ratio", "0.1", "--rounds", "1e3",
        "--format", "csv",
    )  # fmt: skip
    assert code == 0
    assert err == (
        "confidence and cumulative are left out: they are exact only where acceptance does not depend on the position "
        "in the round\n"
    )
    assert [row["policy"] for row in csv.DictReader(io.StringIO(out))] == [
        "fixed:2", "heuristic", "belief", "goodput", "oracle",
    ]  # fmt: skip


@pytest.mark.parametrize("cost", [1.0, 2.0])
def test_an_oracle_makes_no_drafts_that_lose(cost):
    table = specsim.simulate(acceptance="rate=0.8", policy=["fixed", "fixed:3", "oracle"], draft_cost_ratio=cost)
    assert table["speedup"][2] == 1
    assert (table["regret_to_oracle"] >= 0).all()


def test_what_is_left_of_0_by_rounding_is_0(run):
    _, out, _ = run("--acceptance", "rate=0.8", "--rounds", "1000", "--format", "csv")
    row = next(csv.DictReader(io.StringIO(out)))
    assert (row["lag_1_autocorrelation"], row["independent_error"]) == ("0.0", "0.0")


def test_all_faults_are_told_at_once(run):
    _, _, err = run("--acceptance", "rate=80", "--gamma", "x", "--rounds", "1")
    assert [line.removeprefix("Error: ").partition(":")[0] for line in err.splitlines()] == [
        "--acceptance", "--gamma", "--rounds",
    ]  # fmt: skip


def test_nothing_is_written_where_something_is_wrong(run, tmp_path):
    assert run("--acceptance", "rate=80", "-o", "out.csv")[0] == 2
    assert not (tmp_path / "out.csv").exists()
