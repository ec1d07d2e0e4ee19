"""The commands as a user meets them: what they print, where, and with which exit code."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest

import specsim
from specsim.catalog.strict_yaml import parse_yaml
from specsim.cli import COMMANDS, main
from specsim.report.columns import COLUMNS

CONTRACT = [
    "hardware", "accelerators", "target", "precision", "kv_precision", "tensor_parallel", "draft", "method",
    "draft_precision", "draft_tensor_parallel", "runtime", "acceptance", "batch_size", "context_length", "gamma",
    "tree", "nodes", "feasible", "limit", "limit_excess_bytes", "best", "near_best", "tokens_per_round",
    "accepted_per_drafted", "plain_step_ms", "drafting_ms", "verification_ms", "overhead_ms", "round_ms",
    "draft_cost_ratio", "verify_cost_ratio", "round_cost_ratio", "speedup", "speedup_low", "speedup_high", "decision",
    "tokens_per_second", "plain_tokens_per_second", "time_per_output_token_ms", "operations_factor", "bytes_factor",
    "memory_bytes", "max_batch_size", "bound", "extrapolated",
]  # fmt: skip
LLAMA = ["--hardware", "h100", "--target", "llama-3-8b", "--draft", "llama-3.2-1b"]


@pytest.fixture
def run(capsys):
    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return call


def test_version(run):
    assert run("--version") == (0, f"specsim, version {specsim.__version__}\n", "")


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_an_example(run, command, flag):
    code, out, _ = run(command, flag)
    assert code == 0
    assert f"specsim {command} " in out
    assert "Example" in out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_says_what_it_does(command):
    import importlib

    def options(of):
        for parameter in of.params:
            if parameter.param_type_name == "option":
                assert parameter.help, f"{command} {parameter.opts[0]}"
        for child in getattr(of, "commands", {}).values():
            options(child)

    options(importlib.import_module(COMMANDS[command][0]).command)


def test_help_imports_nothing_heavy():
    code = (
        "import sys; sys.argv = ['specsim', '--help']\n"
        "from specsim.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'pandas', 'pydantic', 'yaml', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_question_to_a_pipe_imports_neither_pandas_nor_scipy_nor_rich():
    code = (
        "import sys\nfrom specsim.cli import main\n"
        f"try: main({['optimal-gamma', *LLAMA, '--acceptance', 'rate=0.8']!r})\n"
        "except SystemExit: pass\n"
        "print(sorted({'pandas', 'scipy', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert done.stderr == ""


def test_csv_has_the_columns_of_the_contract(run):
    code, out, _ = run("optimal-gamma", *LLAMA, "--acceptance", "rate=0.8", "--batch", "1", "--format", "csv")
    assert code == 0
    header = out.splitlines()[0].split(",")
    assert header == [column.name for column in COLUMNS]
    assert header[: len(CONTRACT)] == CONTRACT


def test_table_ends_with_what_was_assumed(run):
    _, out, _ = run("optimal-gamma", *LLAMA, "--acceptance", "survival=0.75,0.45,0.30")
    assert out.splitlines()[-2].startswith("Assumed: runtime typical (step_overhead, ")
    assert out.splitlines()[-1] == (
        "Extrapolated: gamma 4 and above lies beyond the recorded survival=0.75,0.45,0.3, "
        "which is never called best unless asked for."
    )


def test_json_says_what_was_assumed_and_has_no_nan(run):
    _, out, _ = run(
        "optimal-gamma", *LLAMA, "--acceptance", "rate=0.8", "--batch", "1,512", "--context", "8k", "--format", "json"
    )
    found = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert found["assumed"]
    assert found["extrapolated"] == []
    assert [row["feasible"] for row in found["rows"]] == [False, False]
    assert [row["limit"] for row in found["rows"]] == ["position", "position"]
    assert {row["round_ms"] for row in found["rows"]} == {None}


def test_all_gives_every_draft_length(run):
    _, out, _ = run(
        "optimal-gamma",
        *LLAMA,
        "--acceptance",
        "rate=0.8",
        "--batch",
        "1",
        "--max-gamma",
        "3",
        "--all",
        "--format",
        "csv",
    )
    assert [row["gamma"] for row in csv.DictReader(io.StringIO(out))] == ["0", "1", "2", "3"]


def test_a_bare_number_is_echoed_with_its_definition(run):
    code, _, err = run("optimal-gamma", "--acceptance", "0.8", "--draft-cost-ratio", "0.1")
    assert code == 0
    assert err == "acceptance 0.8 is read as rate=0.8: accepted drafts / examined drafts\n"
    assert run("optimal-gamma", "--acceptance", "0.8", "--draft-cost-ratio", "0.1", "--quiet")[2] == ""


def test_published_acceptance_gives_a_range_and_says_so(run):
    _, out, _ = run("optimal-gamma", *LLAMA, "--batch", "1", "--format", "json")
    found = json.loads(out)
    row = found["rows"][0]
    assert row["speedup_low"] < row["speedup"] < row["speedup_high"]
    assert any("published values" in note for note in found["assumed"])


def test_a_range_around_1_is_unclear(run):
    _, out, _ = run(
        "optimal-gamma",
        *LLAMA,
        "--batch",
        "64",
        "--max-gamma",
        "4",
        "--all",
        "--acceptance",
        "task=any",
        "--format",
        "json",
    )
    row = json.loads(out)["rows"][4]
    assert row["speedup_low"] <= 1 < row["speedup_high"]
    assert row["decision"] == "unclear"


def test_a_file_appears_whole_with_its_provenance(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("sweep", "--config", "quickstart", "-o", "rows.csv")
    assert (code, out, err) == (0, "", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.csv", "rows.csv.json"]
    record = json.loads((tmp_path / "rows.csv.json").read_text())
    assert record["specsim"] == specsim.__version__
    assert len(record["inputs_sha256"]) == 64
    assert record["inputs"]["hardware"]["name"] == "h100-sxm5"
    assert record["seed"] is None
    rows = list(csv.DictReader(io.StringIO((tmp_path / "rows.csv").read_text())))
    assert len(rows) == 5 * 3 * 9


def test_several_processes_write_the_same_rows(run, tmp_path, monkeypatch):
    monkeypatch.setattr("specsim.planning.sweep.BLOCK_POINTS", 64)
    one, several = tmp_path / "one.csv", tmp_path / "several.csv"
    run("sweep", "--config", "quickstart", "-o", str(one))
    run("sweep", "--config", "quickstart", "-o", str(several), "--workers", "2")
    assert one.read_text() == several.read_text()


@pytest.fixture
def long_sweep(tmp_path):
    """Starts a sweep of a minute by two processes, and returns once it writes."""
    scenario = tmp_path / "long.yaml"
    scenario.write_text(
        "hardware: h100\ntarget: llama-3-8b\ndraft: llama-3.2-1b\nacceptance: rate=0.8\n"
        "grid: {batch_size: 1..256, context_length: 1..2000, gamma: 0..8}\n"
    )
    arguments = ["sweep", "--config", str(scenario), "--workers", "2", "-o", str(tmp_path / "rows.csv")]
    started = []

    def start():
        process = subprocess.Popen(
            [sys.executable, "-m", "specsim", *arguments], stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        while process.poll() is None and not any(p.stat().st_size for p in tmp_path.glob(".rows.csv.*")):
            time.sleep(0.05)
        return process

    yield start
    for process in started:
        process.stderr.close()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["terminated", "interrupted"]
)
def test_a_sweep_that_is_stopped_leaves_no_file(long_sweep, tmp_path, number, code):
    process = long_sweep()
    os.killpg(process.pid, number)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == code
    assert "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["long.yaml"]


def test_blocks_do_not_show_in_the_rows(run, monkeypatch):
    whole = run("sweep", "--config", "quickstart", "--format", "csv")[1]
    monkeypatch.setattr("specsim.planning.sweep.BLOCK_POINTS", 20)
    assert sorted(run("sweep", "--config", "quickstart", "--format", "csv")[1].splitlines()) == sorted(
        whole.splitlines()
    )


def test_a_failed_write_leaves_what_was_there(run, tmp_path):
    target = tmp_path / "rows.csv"
    target.write_text("kept")
    assert run("sweep", "--config", "no-such-scenario", "-o", str(target))[0] == 2
    assert target.read_text() == "kept"
    assert list(tmp_path.iterdir()) == [target]


def test_resolved_scenarios_read_back(run, tmp_path):
    _, out, _ = run("resolve", "quickstart")
    document = parse_yaml(out, "resolved")
    assert document["target"]["model"]["attention"] == {
        "kind": "grouped",
        "heads": 32, "kv_heads": 8, "head_dim": 128, "qkv_bias": False, "output_bias": False,
        "query_key_norm": False, "sinks": False, "output_gate": False,
    }  # fmt: skip
    again = tmp_path / "again.yaml"
    again.write_text(out)
    assert run("resolve", str(again))[1] == out


@pytest.mark.parametrize("kind", ["hardware", "kernels", "model", "runtime", "scenario"])
def test_schemas_name_the_written_fields(run, kind):
    schema = json.loads(run("schema", kind)[1])
    text = json.dumps(schema)
    assert '"additionalProperties": false' in text
    assert "_bytes" not in json.dumps(list(schema["properties"]))


def test_catalogue_lists_and_shows(run):
    code, out, _ = run("catalog", "list", "hardware", "--format", "csv")
    assert code == 0
    names = [row["name"] for row in csv.DictReader(io.StringIO(out))]
    assert len(names) == 39
    assert {"a10", "a100-80-sxm", "h100-sxm5", "h200-sxm", "l4", "rtx-4090", "tpu-v4"} < set(names)
    _, shown, _ = run("catalog", "show", "model", "meta-llama/Meta-Llama-3-8B")
    assert "# parameters: 8,030,261,248" in shown
    assert "# cache per token at bf16: 131,072 bytes" in shown


def test_explain_answers_the_questions(run):
    code, out, _ = run("explain", *LLAMA, "--acceptance", "rate=0.8", "--batch", "64")
    assert code == 0
    for question in (
        "What does the plain step wait for?",
        "How cheap is the drafter, in time?",
        "Where does it stop paying?",
    ):
        assert question in out
    _, rows, _ = run("explain", *LLAMA, "--acceptance", "rate=0.8", "--batch", "64", "--format", "csv")
    operators = list(csv.DictReader(io.StringIO(rows)))
    assert {row["pass"] for row in operators} == {"plain", "draft_step", "verification"}
    _, text, _ = run("explain", *LLAMA, "--acceptance", "rate=0.8", "--batch", "64", "--format", "json")
    found = json.loads(text)
    # Operators and what the runtime adds per layer make up the plain step of the row.
    plain = sum(float(row["ms"]) for row in operators if row["pass"] == "plain")
    assert plain == pytest.approx(found["row"]["plain_step_ms"], rel=1e-12)


def test_explain_shows_times_where_nothing_fits(run):
    _, out, _ = run(
        "explain",
        *LLAMA,
        "--acceptance",
        "rate=0.8",
        "--batch",
        "256",
        "--context",
        "8192",
        "--gamma",
        "0",
        "--runtime",
        "ideal",
    )
    assert "This point does not fit: it exceeds memory by 211.0 GB a device." in out
    assert "plain step 86.965 ms" in out


def test_explain_weighs_a_given_draft_length_against_the_best(run):
    _, out, _ = run("explain", *LLAMA, "--acceptance", "rate=0.8", "--batch", "64", "--gamma", "0")
    assert "1.000x: 1.000 tokens per round" in out
    assert "Best gamma up to 8: 3 (" in out


def test_what_follows_from_a_field_follows_its_axis(run, tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text(
        "hardware: h100\ntarget: llama-3-8b\ndraft: llama-3.2-1b\nacceptance: rate=0.8\n"
        "grid: {target.tensor_parallel: [1, 2], target.precision: [bf16, fp16], batch_size: 1, context_length: 1k,"
        " gamma: 4}\n"
    )
    rows = list(csv.DictReader(io.StringIO(run("sweep", "--config", str(path), "--format", "csv")[1])))
    assert [(row["tensor_parallel"], row["draft_tensor_parallel"]) for row in rows] == [
        (n, n) for n in ("1", "1", "2", "2")
    ]
    assert [(row["precision"], row["kv_precision"]) for row in rows] == [("bf16", "bf16"), ("fp16", "fp16")] * 2


def test_a_name_may_look_like_a_number(run):
    code, out, _ = run("optimal-gamma", "--hardware", "4090", *LLAMA[2:], "--acceptance", "rate=0.8", "--format", "csv")
    assert (code, {row["hardware"] for row in csv.DictReader(io.StringIO(out))}) == (0, {"rtx-4090"})


def test_a_link_is_followed_and_permissions_stay(run, tmp_path):
    (tmp_path / "real.csv").write_text("older")
    (tmp_path / "real.csv").chmod(0o600)
    (tmp_path / "link.csv").symlink_to("real.csv")
    assert run("sweep", "--config", "quickstart", "-o", str(tmp_path / "link.csv"))[0] == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("hardware,")
    assert (tmp_path / "real.csv").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("form", ["csv", "table"])
def test_a_reader_that_has_enough_is_no_error(form):
    command = [sys.executable, "-m", "specsim", "optimal-gamma", *LLAMA, "--acceptance", "rate=0.8"]
    command += ["--batch", "1..256", "--context", "1..8", "--format", form]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_plain_text_in_a_pipe(run):
    _, out, _ = run("optimal-gamma", *LLAMA, "--acceptance", "rate=0.8")
    assert "\x1b" not in out


def test_python_mirrors_the_commands(run):
    _, out, _ = run("optimal-gamma", *LLAMA, "--acceptance", "rate=0.8", "--batch", "1,64", "--format", "csv")
    table = specsim.optimal_gamma(
        hardware="h100", target="llama-3-8b", draft="llama-3.2-1b", acceptance="rate=0.8", batch_size=[1, 64]
    )
    assert table.to_csv() == out
    frame = table.to_frame()
    assert frame["gamma"].tolist() == [3, 3]
    assert "<table" in table._repr_html_()
    assert "Assumed: " in table._repr_html_()


def test_python_takes_records_and_paths(tmp_path):
    from specsim.catalog.cards import card

    by_name = specsim.optimal_gamma(hardware="h100", target="llama-3-8b", draft="llama-3.2-1b", acceptance="rate=0.8")
    by_record = specsim.optimal_gamma(
        hardware=card("hardware", "h100"),
        target=card("model", "llama-3-8b"),
        draft="llama-3.2-1b",
        acceptance="rate=0.8",
    )
    assert by_name.to_csv() == by_record.to_csv()
    path = tmp_path / "mine.yaml"
    path.write_text("memory: {capacity: 80 GB, bandwidth: 3.35 TB/s}\ndense_rate: {bf16: 989.5 TFLOP/s}\n")
    mine = specsim.optimal_gamma(hardware=str(path), target="llama-3-8b", draft="llama-3.2-1b", acceptance="rate=0.8")
    assert set(mine["hardware"]) == {"unnamed"}
    assert any("kernels generic" in note for note in mine.assumed)


def test_a_grid_may_vary_any_field(run, tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text(
        "target: llama-3-8b\ndraft: {model: llama-3.2-1b, acceptance: rate=0.8}\n"
        "grid:\n  hardware: [h100-sxm5, a10]\n  drafts.acceptance.rate: [0.6, 0.8]\n"
        "  batch_size: 1\n  context_length: 1k\n  gamma: [0, 4]\n"
    )
    rows = list(csv.DictReader(io.StringIO(run("sweep", "--config", str(path), "--format", "csv")[1])))
    assert [(row["hardware"], row["acceptance"], row["gamma"]) for row in rows] == [
        (hardware, f"rate={rate}", gamma)
        for hardware in ("h100-sxm5", "a10")
        for rate in (0.6, 0.8)
        for gamma in ("0", "4")
    ]


def test_a_write_that_fails_half_way_leaves_no_trace(tmp_path, monkeypatch):
    from specsim.errors import InputError
    from specsim.report.output import whole_file

    target = tmp_path / "rows.csv"
    target.write_text("kept")

    def write(error):
        with whole_file(target) as file:
            file.write("half")
            raise error

    with pytest.raises(RuntimeError, match="half way"):
        write(RuntimeError("half way"))
    with pytest.raises(InputError, match=r"cannot write .*: No space left on device"):
        write(OSError(28, "No space left on device"))
    assert target.read_text() == "kept"
    assert list(tmp_path.iterdir()) == [target]
