"""``specsim capacity`` as it is typed: rows, files, and answers to mistakes."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest

from specsim.cli import main
from specsim.report.capacity import PLAN_COLUMNS

TRACE = Path(__file__).resolve().parents[1] / "traces" / "azure-sample.csv"
LLAMA = ["--hardware", "h100", "--target", "llama-3-8b"]
DRAFT = ["--draft", "llama-3.2-1b", "--acceptance", "rate=0.8"]
LOAD = ["--rate", "12", "--prompt", "700", "--output-length", "150", "--tpot", "15ms", "--ttft", "1s"]
ASKED = [*LLAMA, "--rate", "1", "--prompt", "9", "--output-length", "9"]
SMALL = ["--requests", "300", "--replications", "2"]
CONTRACT = [
    "hardware", "tensor_parallel", "draft", "policy", "gamma", "replicas", "accelerators", "feasible", "limit",
    "requests_per_second", "tokens_per_second", "tokens_per_second_per_accelerator", "mean_batch_size",
    "utilization", "ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p99_ms", "e2e_p50_ms", "e2e_p99_ms",
    "goodput", "draft_memory_bytes", "kv_tokens", "usd_per_hour", "usd_per_million_tokens", "best", "seed", "method",
]  # fmt: skip


@pytest.fixture
def run(capsys):
    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(["capacity", *map(str, arguments)])
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return call


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_columns_are_those_of_the_contract_first():
    assert [column.name for column in PLAN_COLUMNS][: len(CONTRACT)] == CONTRACT
    assert len({column.name for column in PLAN_COLUMNS}) == len(PLAN_COLUMNS)


def test_one_command_plans_with_and_without_speculation(run):
    code, out, err = run(*LLAMA, *DRAFT, *LOAD, *SMALL, "--format", "csv")
    assert (code, err) == (0, "")
    found = rows(out)
    assert [(row["draft"], row["policy"]) for row in found] == [
        ("none", "off"), ("llama-3.2-1b", "fixed"), ("llama-3.2-1b", "table"),
    ]  # fmt: skip
    assert {row["method"] for row in found} == {"simulation"}
    assert [row["best"] for row in found].count("true") == 1
    for row in found:
        assert row["feasible"] == "true"
        assert float(row["tpot_p99_ms"]) <= 15
        assert float(row["ttft_p99_ms"]) <= 1000
        assert float(row["goodput"]) <= float(row["requests_per_second"]) * (1 + 1e-9)
        assert float(row["usd_per_hour"]) == int(row["accelerators"]) * 3.85
        tokens = float(row["tokens_per_second"])
        assert float(row["usd_per_million_tokens"]) == pytest.approx(float(row["usd_per_hour"]) / tokens / 3600 * 1e6)
        shares = ("drafting_share", "verification_share", "overhead_share", "prefill_share")
        assert sum(float(row[name]) for name in shares) == pytest.approx(1)


def test_rows_are_the_same_again_and_in_several_processes(run):
    arguments = (*LLAMA, *DRAFT, *LOAD, *SMALL, "--policy", "fixed:3", "--format", "csv")
    one, again, several = run(*arguments), run(*arguments), run(*arguments, "--workers", "2")
    assert one == again == several
    other = run(*arguments, "--seed", "7")
    assert other[1] != one[1]


def test_a_trace_is_planned_and_stands_in_the_provenance(run, tmp_path):
    path = tmp_path / "plan.csv"
    code, out, err = run(*LLAMA, *DRAFT, "--trace", TRACE, "--speed", 4, "--tpot", "p50=12ms,p99=60ms", "-o", path,
                         "--policy-table", tmp_path / "table.csv")  # fmt: skip
    assert (code, out, err) == (0, "", "")
    found = rows(path.read_text())
    assert len(found) == 3
    assert all(row["excluded_requests"] == "0" for row in found)
    provenance = json.loads(path.with_name("plan.csv.json").read_text())
    assert provenance["seed"] == 0
    assert len(provenance["inputs"]["traces_sha256"][str(TRACE)]) == 64
    assert len(provenance["inputs"]["options"]) == 3
    table = rows((tmp_path / "table.csv").read_text())
    assert table[0]["batch_from"] == "1"
    assert sum(float(row["time_share"]) for row in table) == pytest.approx(1)


def test_events_are_written_on_request(run, tmp_path):
    path = tmp_path / "events.csv"
    code, _, err = run(*LLAMA, *LOAD, *SMALL, "--policy", "off", "--event-log", path, "--quiet")
    assert (code, err) == (0, "")
    events = rows(path.read_text())
    assert {row["event"] for row in events} == {"arrived", "admitted", "first_token", "finished"}
    times = [float(row["time_s"]) for row in events]
    assert times == sorted(times)
    assert sum(row["event"] == "finished" for row in events) == 300


@pytest.mark.parametrize("option", ["--policy-table", "--event-log"])
def test_files_that_cannot_be_written_are_named_by_their_option(run, tmp_path, option):
    asked = (*ASKED, *DRAFT, "--policy", "table", "--quick", option)
    code, out, err = run(*asked, tmp_path / "no" / "file.csv")
    assert (code, out) == (2, "")
    assert err.startswith(f"Error: {option}: cannot write ")
    code, out, err = run(*asked, tmp_path)
    assert err.startswith(f"Error: {option}: expected the name of a file, found ")


@pytest.mark.parametrize("other", ["same.csv", "./same.csv", "same.csv.json"])
def test_outputs_do_not_overwrite_each_other(run, tmp_path, monkeypatch, other):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*ASKED, *DRAFT, "--quick", "-o", "same.csv", "--policy-table", other)
    assert (code, out) == (2, "")
    assert err.startswith("Error: --policy-table: --output writes '")
    assert not list(tmp_path.iterdir())


def test_a_shipped_question_has_every_option(run):
    code, out, err = run("--config", "coding-assistant", "--quick", "--format", "json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert len(answer["rows"]) == 12
    assert {row["method"] for row in answer["rows"]} == {"steady_state"}
    assert any("offers of" in note for note in answer["assumed"])


def test_the_table_says_which_is_best_and_what_it_assumes(run):
    code, out, _ = run(*LLAMA, *DRAFT, *LOAD, *SMALL, "--policy", "off")
    assert code == 0
    assert "h100-sxm5 at 3.85 USD/h, the middle of 5 offers" in out
    assert "replications with seed 0" in out
    assert out.startswith("hardware h100-sxm5, tensor_parallel 1, method simulation\n\ndraft")


def test_the_table_says_where_acceptance_and_constants_come_from(run):
    _, out, _ = run(*ASKED, *DRAFT[:2], "--quick")
    assert "acceptance of llama-3.2-1b: 61 published values (29 of them lower bounds) of other pairs" in out
    assert "rate=0.54 to rate=0.72; planned with the middle, rate=0.61, alone" in out
    assert "runtime typical (" in out
    _, out, _ = run(*ASKED, *DRAFT, "--quick")
    assert "published" not in out


@pytest.mark.parametrize("share", [0.9, 0])
def test_a_warm_up_leaves_requests_to_count(run, tmp_path, share):
    path = tmp_path / "question.yaml"
    path.write_text(f"simulation: {{requests: 10, replications: 2, warm_up_share: {share}}}\n{QUESTION}")
    code, out, err = run("--config", path, "--format", "csv")
    assert (code, err) == (0, "")
    assert float(rows(out)[0]["ttft_p99_ms"]) > 0


def test_targets_that_cannot_be_met_say_by_which_limit(run):
    code, out, _ = run(*LLAMA, *LOAD[:6], "--tpot", "2ms", "--policy", "off", *SMALL)
    assert code == 0
    assert "time_per_output_token" in out
    assert "the target 2 ms; more replicas do not help" in out
    code, out, _ = run("--hardware", "h100", "--target", "llama-3-70b", *LOAD, "--policy", "off", "--format", "csv")
    row = rows(out)[0]
    assert (row["feasible"], row["limit"], row["replicas"], row["tpot_p99_ms"]) == ("false", "memory", "", "")
    code, out, _ = run("--hardware", "h100", "--target", "llama-3-70b", *LOAD, "--policy", "off")
    assert "weights exceed a device by" in out


def test_all_targets_that_cannot_be_met_are_named_and_nothing_is_paid_for(run):
    asked = (*LLAMA, *LOAD[:6], "--tpot", "2ms", "--ttft", "1ms", "--policy", "off", "--quick")
    _, out, _ = run(*asked)
    told = out.partition("Does not fit: ")[2]
    assert "time_to_first_token p99 is" in told
    assert "time_per_output_token p99 is" in told
    row = rows(run(*asked, "--format", "csv")[1])[0]
    assert (row["feasible"], row["usd_per_hour"], row["usd_per_million_tokens"]) == ("false", "", "")


def test_failed_requests_of_a_trace_are_named_in_every_form(run, tmp_path):
    path = tmp_path / "failed.csv"
    lines = [f"{i},a,500,{0 if i % 7 == 0 else 40},540,x" for i in range(70)]
    path.write_text("\n".join(["Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type", *lines]))
    said = "10 of 70 requests of failed.csv without output left out, the first in line 2"
    _, out, err = run(*LLAMA, "--trace", path, "--quick", "--format", "csv")
    assert said in err
    assert said not in out
    for form in ("table", "json"):
        _, out, err = run(*LLAMA, "--trace", path, "--quick", "--format", form)
        assert (said in out, err) == (True, "")


def test_a_packed_trace_is_told_to_be_unpacked(run, tmp_path):
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress(TRACE.read_bytes()))
    code, out, err = run(*LLAMA, "--trace", path)
    assert (code, out) == (2, "")
    assert "is no text in UTF-8; unpack it first." in err


def long_trace(path, requests=60):
    """Every fifth prompt is longer than the 8192 positions of Llama-3-8B."""
    lines = ["Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"]
    lines += [f"{i},a,{9000 if i % 5 == 0 else 500},40,540,x" for i in range(requests)]
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("how", [["--quick"], ["--replications", 1], ["--replications", 3]])
def test_requests_longer_than_the_model_are_left_out_and_counted_once(run, tmp_path, how):
    arguments = (*LLAMA, "--trace", long_trace(tmp_path / "long.csv"), "--policy", "off", *how)
    _, out, _ = run(*arguments, "--format", "csv")
    row = rows(out)[0]
    assert row["excluded_requests"] == "12"
    assert float(row["tokens_per_second"]) == pytest.approx(48 * 40 / 59, rel=0.02)
    _, out, _ = run(*arguments)
    assert "20% of the requests do not fit in the 8,192 positions of its models and are left out" in out


@pytest.mark.parametrize("how", [["--quick"], SMALL])
def test_an_option_that_answers_no_request_is_no_plan(run, how):
    for prompt, output in ((1000, 30000), (9000, 300)):
        arguments = (*LLAMA, "--rate", 20, "--prompt", prompt, "--output-length", output, *how)
        _, out, _ = run(*arguments, "--format", "csv")
        row = rows(out)[0]
        assert (row["feasible"], row["limit"], row["best"], row["replicas"]) == ("false", "position", "false", "")
        assert row["tokens_per_second"] == row["usd_per_hour"] == ""
        _, out, _ = run(*arguments)
        assert "100% of the requests do not fit in the 8,192 positions of its models" in out


def test_requests_that_a_cache_cannot_hold_are_no_plan(run):
    """Llama-3.1-8B leaves an L4 of 24 GB a cache of some 40,000 tokens."""
    _, out, _ = run("--hardware", "l4", "--target", "llama-3.1-8b", "--rate", 1, "--prompt", 100_000,
                    "--output-length", 100, "--quick", "--format", "csv")  # fmt: skip
    row = rows(out)[0]
    assert (row["feasible"], row["limit"]) == ("false", "kv_cache")


def test_the_best_plan_is_one_that_serves_every_request(run, tmp_path):
    """A draft of fewer positions than the target turns requests away that plain decoding answers."""
    lines = ["Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"]
    lines += [f"{i / 10},a,{3000 if i % 4 == 0 else 500},400,900,x" for i in range(600)]
    path = tmp_path / "long.csv"
    path.write_text("\n".join(lines))
    _, out, _ = run(*LLAMA, "--draft", "llama-68m:rate=0.8", "--trace", path, "--policy", "off", "--policy", "fixed:4",
                    "--tpot", "p50=7ms", "--price", "1", "--quick", "--format", "csv")  # fmt: skip
    off, drafted = rows(out)
    assert (off["excluded_requests"], drafted["excluded_requests"]) == ("0", "150")
    assert off["feasible"] == drafted["feasible"] == "true"
    assert int(drafted["replicas"]) < int(off["replicas"])
    assert (off["best"], drafted["best"]) == ("true", "false")


def test_users_who_wait_make_their_own_rate(run):
    _, out, _ = run(*LLAMA, "--users", 16, "--prompt", 500, "--output-length", 100, "--policy", "off", *SMALL,
                    "--format", "csv")  # fmt: skip
    row = rows(out)[0]
    assert row["replicas"] == "1"
    assert float(row["mean_batch_size"]) == pytest.approx(16, rel=0.1)
    assert float(row["quick_throughput_error"]) == pytest.approx(0, abs=0.1)


def test_users_do_not_stay_in_step(run):
    """Prompts that all came in one step for ever took 13 times as long as those that come one by one."""
    asked = (*LLAMA, "--users", 16, "--prompt", 500, "--output-length", 200, *SMALL, "--format", "csv")
    row = rows(run(*asked)[1])[0]
    assert float(row["ttft_mean_ms"]) < 30
    slow = rows(run(*asked, "--think-time", "10s")[1])[0]
    # Users = rate x (think time + answer).
    assert float(slow["requests_per_second"]) == pytest.approx(16 / (10 + float(slow["e2e_mean_ms"]) / 1e3), rel=0.1)


def test_throughput_is_what_the_load_offers_and_a_short_run_says_that_it_is_short(run):
    asked = (*LLAMA, "--rate", 20, "--prompt", 1000, "--output-length", 300, "--replications", 2)
    for requests in (300, 3000):
        row = rows(run(*asked, "--requests", requests, "--format", "csv")[1])[0]
        assert float(row["tokens_per_second"]) == pytest.approx(6000)
        assert float(row["usd_per_million_tokens"]) == pytest.approx(3.85 / (6000 * 3600) * 1e6)
    _, out, _ = run(*asked, "--requests", 300)
    assert "the batch is still filling, which makes latencies too short; 2,000 requests would tell" in out
    assert "off by" not in out
    _, out, _ = run(*asked, "--requests", 3000)
    assert "still filling" not in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--hardware: expected an accelerator."),
        (LLAMA, "--rate: expected requests per second, or a trace, or users."),
        ([*LLAMA, "--rate", "0", "--prompt", "1", "--output-length", "1"],
         "--rate: expected a number above 0, found 0."),
        ([*LLAMA, "--rate", "nan", "--prompt", "1", "--output-length", "1"],
         "--rate: expected a number above 0, found 'nan'."),
        ([*LLAMA, "--rate", "1", "--output-length", "9"],
         "--prompt: expected a number of tokens, such as 1000, or mean and p99 as in 1000,6000."),
        ([*LLAMA, "--rate", "1", "--prompt", "10,20000", "--output-length", "9"],
         "--prompt: Beside a mean of 10 it is above that and at most 149.685: no lognormal law has a 99 % quantile of "
         "more than 14.97 times its mean."),
        ([*LLAMA, "--rate", "1", "--prompt", "9", "--output-length", "9", "--tpot", "40"],
         '--tpot: expected a duration with its unit, such as "0.5 ms"; known units are s, ms, us, ns, found \'40\'.'),
        ([*LLAMA, "--rate", "1", "--prompt", "9", "--output-length", "9", "--tpot", "p98=4ms"],
         "--tpot: expected a time such as 40 ms for the p99, or one of mean, p50, p90, p95, p99 with its time, as in "
         "p50=30 ms; found 'p98=4ms'."),
        ([*LLAMA, "--rate", "1", "--prompt", "9", "--output-length", "9", "--price", "nan"],
         '--price: expected a price with its unit, such as "3.29 USD/h", found \'nan USD/h\'.'),
        ([*LLAMA, "--rate", "1", "--prompt", "9", "--output-length", "9", "--policy", "tabel"],
         "--policy: unknown policy 'tabel'. Nearest: table. Known: off, fixed, table, adaptive."),
        ([*LLAMA, "--rate", "1", "--prompt", "9", "--output-length", "9", "--policy", "table:3"],
         "--policy: only fixed takes a draft length, as in fixed:4; found 'table:3'."),
        ([*LLAMA, "--trace", "no.csv"], "--trace: no such file: 'no.csv'."),
        ([*LLAMA, "--trace", str(TRACE), "--prompt", "9"],
         "--prompt: a trace says itself how long its requests are; leave this out."),
        ([*LLAMA, "--users", "4", "--rate", "2"],
         "--users: users wait for their answers, and no rate or trace says when they come; leave one of the two out."),
        ([*LLAMA, "--rate", "1", "--prompt", "9", "--output-length", "9", "--acceptance", "rate=0.5"],
         "--acceptance: it says nothing without a drafter."),
        (["--hardware", "h1000", *LLAMA[2:], "--rate", "1", "--prompt", "9", "--output-length", "9"],
         "--hardware: no accelerator is called 'h1000'. "),
        ([*LLAMA, "--rate", "1", "--prompt", "9", "--output-length", "9", "--max-batch-tokens", "100"],
         "--max-batch-tokens: Every request in flight takes one: more than max_batch_size, 256, are needed if prompts "
         "are to be read."),
        ([*ASKED, "--plain-step-ms", "5"],
         "--plain-step-ms: a load has no batch and context of its own; say at which it was measured, as in 7.1@1,512."),
        ([*LLAMA, "--trace", "."], "--trace: expected a file, found the folder '.'."),
        ([*ASKED, "--think-time", "2s"], "--think-time: it says nothing without users."),
        ([*ASKED, "--price", "a100=2"],
         "--price: no option runs on 'a100-80-sxm', so that its price says nothing. "),
        ([*ASKED, "--price", "h100=2", "--price", "h100-sxm5=3"],
         "--price: two prices of h100-sxm5; leave one of them out."),
        ([*ASKED, "--price", "1", "--price", "2"],
         "--price: two prices of every accelerator, 1 and 2; name the accelerator, as in h100=2."),
        ([*ASKED, "--price", "2.5 EUR/h"],
         '--price: expected a price with its unit, such as "3.29 USD/h"; known units are USD/h, found \'2.5 EUR/h\'.'),
        ([*ASKED, "--policy", "fixed:99"], "--policy: 'fixed:99' says nothing without a drafter."),
        ([*ASKED, "--policy", "off", "--policy", "table"], "--policy: 'table' says nothing without a drafter."),
        ([*ASKED, *DRAFT, "--policy", "fixed:4", "--max-gamma", "2"],
         "--policy: fixed:4 is longer than the longest draft, max_gamma 2."),
        ([*ASKED, "--draft", "llama-9", "--policy", "off"],
         "--draft: no model, draft head or drafter is called 'llama-9'. "),
        ([*ASKED, "--draft", "llama-3.2-1b:rate=8", "--policy", "off"],
         "--draft: expected a number from 0 to 1, found 8.0."),
        (["--config", "coding-assistant", "--rate", "3"], "--rate: the file says what is asked; leave this out."),
        (["--config", "no-such-thing"],
         "--config: no question about capacity is called 'no-such-thing'. Known: coding-assistant."),
        ([*LLAMA, "--rate", "1", "--prompt", "9", "--output-length", "9", "--policy", "off", "--quick",
          "--policy-table", "t.csv"], "--policy-table: no option that fits has the policy table."),
        (["--hardware", "tpu-v4", "--target", "t5-xxl", "--rate", "1", "--prompt", "9", "--output-length", "9"],
         "--target: t5-v1_1-xxl has an encoder: how it is served under a load is not modelled."),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_that_names_the_option(run, arguments, said):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"Error: {said}")
    assert err.count("\n") == 1


QUESTION = """\
format: 1
kind: capacity
load: {kind: poisson, requests_per_second: 2}
lengths: {prompt_tokens: 500, output_tokens: {kind: exponential, mean: 100}}
targets: {time_per_output_token: {p99: 40 ms}}
options: {hardware: h100, draft: [none, {model: llama-3.2-1b, acceptance: rate=0.8}]}
target: llama-3-8b
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("requests_per_second: 2", "requests_per_second: -2", "question.yaml, line 3, load.requests_per_second: "
         "expected a number above 0, found -2."),
        ("kind: poisson", "kind: poison", "question.yaml, line 3, load.kind: unknown kind 'poison'. Nearest: "
         "poisson. "),
        ("mean: 100", "mean: 0.5", "question.yaml, line 4, lengths.output_tokens.mean: A length has at least one "
         "token."),
        ("p99: 40 ms", "p98: 40 ms", "question.yaml, line 5, targets.time_per_output_token.p98: unknown field. "),
        ("{p99: 40 ms}", "{}", "question.yaml, line 5, targets.time_per_output_token: A target names mean, p50, p90, "
         "p95 or p99, as in p99: 40 ms."),
        ("target: llama-3-8b\n", "", "question.yaml, line 1, target: this field is missing."),
        ("targets:", "goals:", "question.yaml, line 5, goals: unknown field. "),
        ("hardware: h100, ", "", "question.yaml, line 6, options.hardware: this field is missing."),
        ("hardware: h100", "hardwares: h100", "question.yaml, line 6, options.hardwares: unknown field. "
         "Nearest: hardware. "),
        ("rate=0.8", "rate=1.8", "question.yaml, line 6, options.draft[1].acceptance.rate: "),
        ("load:", "prices: {h100: .nan}\nload:", "question.yaml, line 3, prices.h100: expected a price with its "
         "unit, such as \"3.29 USD/h\", found .nan."),
        ("load:", "engine: {prefill: both}\nload:", "question.yaml, line 3, engine.prefill: expected one of chunked, "
         "separate, found 'both'."),
        ("load:", "classes: {chat: {request_share: 0.5}}\nload:", "question.yaml, line 3, classes.chat.request_share: "
         "Shares of all classes sum to 1, found 0.5."),
        ("load:", "simulation: {warm_up_share: 1}\nload:", "question.yaml, line 3, simulation.warm_up_share: expected "
         "a number from 0 to 0.9, found 1."),
        ("load:", "prices: {a100: 2 USD/h}\nload:", "question.yaml, line 3, prices.a100: no option runs on 'a100'"),
        ("draft: [none", "policy: off, draft: [none, {model: llama-9}",
         "question.yaml, line 6, options.draft[1]: no model, draft "
         "head or drafter is called 'llama-9'. "),
        ("kind: capacity", "kind: sweep", "question.yaml, line 2, kind: expected kind capacity, found 'sweep'."),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_is_named_with_its_line(run, tmp_path, monkeypatch, old, new, said):
    monkeypatch.chdir(tmp_path)
    assert old in QUESTION
    Path("question.yaml").write_text(QUESTION.replace(old, new))
    code, out, err = run("--config", "question.yaml", "--quick", "-o", "plan.csv")
    assert (code, out) == (2, "")
    assert err.startswith(f"Error: {said}")
    assert not Path("plan.csv").exists()


def test_classes_have_their_own_lengths_and_acceptance(run, tmp_path):
    path = tmp_path / "classes.yaml"
    path.write_text(
        QUESTION.replace(
            "targets:",
            "classes:\n"
            "  chat: {request_share: 0.8, acceptance: rate=0.5}\n"
            "  code: {request_share: 0.2, acceptance: rate=0.9, "
            "lengths: {prompt_tokens: 2000, output_tokens: 400}}\n"
            "simulation: {requests: 400, replications: 2}\ntargets:",
        )
    )
    code, out, err = run("--config", path, "--format", "csv")
    assert code == 0, err
    row = rows(out)[1]
    assert float(row["tokens_per_second"]) == pytest.approx(2 * (0.8 * 100 + 0.2 * 400), rel=0.2)
    assert abs(float(row["quick_tpot_error"])) < 0.1


def test_lengths_are_drawn_from_a_trace(run, tmp_path):
    path = tmp_path / "drawn.yaml"
    path.write_text(QUESTION.replace("{prompt_tokens: 500, output_tokens: {kind: exponential, mean: 100}}",
                                     f"{{kind: trace, file: {TRACE}}}"))  # fmt: skip
    code, out, err = run("--config", path, "--quick", "--format", "csv")
    assert code == 0, err
    outputs = [int(line.split(",")[2]) for line in TRACE.read_text().splitlines()[1:]]
    assert float(rows(out)[0]["tokens_per_second"]) == pytest.approx(2 * sum(outputs) / len(outputs))
