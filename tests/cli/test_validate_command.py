"""``specsim validate`` and ``specsim calibrate``: what they print and write, and files of rows that are wrong."""

from __future__ import annotations

import csv
import io
import json

import pytest

import specsim
from specsim.catalog.strict_yaml import parse_yaml
from specsim.cli import main
from specsim.report.accuracy import COLUMNS

CONTRACT = (
    "id", "source", "hardware", "target", "draft", "method", "batch_size", "context_length", "gamma", "tree",
    "quantity", "measured", "predicted", "relative_error", "set_up", "assumed",
)  # fmt: skip
"""The columns of a comparison, in their order."""
PLAIN = (
    "- {id: a-1, kind: baseline, source: mine, hardware: h100, accelerators: 1, target: Llama-3.1-8B-Instruct, "
    "engine: vllm, dtype: bf16, batch: 1, context: 1024, ms_per_token: 7.1}\n"
)
ROUND = (
    "- {id: a-2, kind: speculative, source: mine, hardware: h100, accelerators: 1, target: meta_llama-3.1 8b, "
    "method: eagle3, engine: sglang 0.5, batch: 1, context: 1024, gamma: 3, tau: 2.4, speedup: 1.7}\n"
)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a command in a folder of its own and returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        try:
            main(list(arguments))
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        return (code, *capsys.readouterr())

    return call


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_rows_of_the_shipped_measurements(run):
    code, out, _ = run("validate", "--format", "csv")
    rows = rows_of(out)
    assert code == 0
    assert tuple(rows[0])[: len(CONTRACT)] == CONTRACT == COLUMNS[: len(CONTRACT)]
    assert len(rows) > 1500
    assert {row["quantity"] for row in rows} >= {
        "plain_step_ms", "tokens_per_second", "draft_step_ms", "verification_ms", "round_cost_ratio", "speedup",
    }  # fmt: skip
    refused = [row for row in rows if row["missing"]]
    assert len({row["id"] for row in refused}) == len(refused) > 500
    assert {row["predicted"] for row in refused} == {""}
    for row in (row for row in rows if not row["missing"]):
        expected = float(row["predicted"]) / float(row["measured"]) - 1
        assert float(row["relative_error"]) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_a_table_sums_up_by_set_up_and_tells_what_it_could_not_map(run):
    code, out, _ = run("validate")
    assert code == 0
    assert "Side of 1: " in out
    assert "Best gamma: " in out
    assert "No prediction for " in out
    assert "hardware (" in out
    assert "Assumed: where a source is silent: " in out


@pytest.mark.parametrize("by", ["source", "hardware", "method", "batch", "runtime"])
def test_a_summary_split(run, by):
    code, out, _ = run("validate", "--by", by)
    assert code == 0
    assert "group" in out
    assert len(specsim.validate(by=by)) > len(specsim.validate())


def test_a_file_of_ones_own(run, tmp_path):
    (tmp_path / "mine.yaml").write_text(PLAIN + ROUND, encoding="utf-8")
    code, out, err = run("validate", "--data", "mine.yaml", "--format", "json")
    assert (code, err) == (0, "")
    rows = json.loads(out)["rows"]
    assert [(row["id"], row["quantity"]) for row in rows] == [
        ("a-1", "plain_step_ms"), ("a-2", "round_cost_ratio"), ("a-2", "speedup"),
    ]  # fmt: skip
    assert [row["runtime"] for row in rows] == ["vllm", "sglang", "sglang"]
    assert rows[0]["measured"] == pytest.approx(7.1)
    assert "draft" not in rows[0]["assumed"]


def test_names_of_ones_own(run, tmp_path):
    (tmp_path / "mine.yaml").write_text(PLAIN.replace("Llama-3.1-8B-Instruct", "prod-model"), encoding="utf-8")
    _, out, _ = run("validate", "--data", "mine.yaml")
    assert "No prediction for a-1. Missing or impossible: no model is known as 'prod-model'" in out
    (tmp_path / "names.yaml").write_text("prod-model: llama-3.1-8b\n", encoding="utf-8")
    _, out, _ = run("validate", "--data", "mine.yaml", "--aliases", "names.yaml", "--format", "csv")
    assert len(rows_of(out)) == 1


def test_keys_that_nothing_reads_are_told(run, tmp_path):
    (tmp_path / "mine.yaml").write_text(PLAIN.replace("batch: 1", "batch: 1, tier: A, speedupp: 2"), encoding="utf-8")
    _, _, err = run("validate", "--data", "mine.yaml")
    assert err == "mine.yaml: keys that nothing reads: speedupp, tier.\n"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("batch: 1", "batch: 0"), "line 1, batch: expected a whole number of at least 1, found 0."),
        (("batch: 1", "batch: 1.5"), "line 1, batch: expected a whole number"),
        (("ms_per_token: 7.1", "ms_per_token: -7"), "line 1, ms_per_token: expected a number above 0"),
        (("ms_per_token: 7.1", "ms_per_token: .nan"), "line 1, ms_per_token: expected a number above 0"),
        (("ms_per_token: 7.1", "ms_per_token: 7.1 ms"), "line 1, ms_per_token: expected a number above 0"),
        (("kind: baseline", "kind: bench"), "line 1, kind: expected one of baseline"),
        (("id: a-1, ", ""), "line 1, id: this field is missing."),
        (("source: mine, ", ""), "line 1, source: this field is missing."),
        (("- {id: a-1", "- {id: a-1, id: b"), "repeated key"),
    ],
)
def test_a_wrong_row_is_named(run, tmp_path, change, words):
    (tmp_path / "mine.yaml").write_text(PLAIN.replace(*change), encoding="utf-8")
    code, out, err = run("validate", "--data", "mine.yaml", "-o", "rows.csv")
    assert (code, out) == (2, "")
    assert words in err
    assert "mine.yaml" in err
    assert not (tmp_path / "rows.csv").exists()


def test_two_rows_of_one_id(run, tmp_path):
    (tmp_path / "mine.yaml").write_text(PLAIN + PLAIN, encoding="utf-8")
    code, _, err = run("validate", "--data", "mine.yaml")
    assert code == 2
    assert "mine.yaml, line 2, id: the id 'a-1' stands on line 1 already." in err


def test_a_picture(run, tmp_path):
    assert run("validate", "--picture", "errors.svg", "--format", "csv")[0] == 0
    assert (tmp_path / "errors.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_left_out_constants_are_others(run):
    shown = {row["id"]: row["predicted"] for row in rows_of(run("validate", "--format", "csv")[1])}
    left = {row["id"]: row["predicted"] for row in rows_of(run("validate", "--left-out", "--format", "csv")[1])}
    assert shown.keys() == left.keys()
    assert sum(shown[name] != left[name] for name in shown) > 100


# --- calibrate


def test_constants_of_the_shipped_measurements(run):
    code, out, _ = run("calibrate", "--format", "csv")
    rows = rows_of(out)
    assert code == 0
    assert {row["runtime"] for row in rows} >= {"typical", "vllm", "sglang", "gpt-fast", "huggingface"}
    for row in rows:
        assert float(row["low"]) <= float(row["value"]) * (1 + 1e-9)
        assert float(row["value"]) <= float(row["high"]) * (1 + 1e-9)


def test_constants_without_a_source(run):
    source = "github vllm-project/vllm issue 20780"
    whole, without = (
        {row["constant"]: float(row["value"]) for row in rows_of(run("calibrate", "--runtime", "vllm", *more)[1])}
        for more in (("--format", "csv"), ("--format", "csv", "--without", source))
    )
    assert whole != without


def test_one_plain_row_fixes_the_cost_per_layer(run, tmp_path):
    (tmp_path / "mine.yaml").write_text(PLAIN.replace("id: a-1, kind: baseline, source: mine, ", ""), encoding="utf-8")
    code, _, err = run("calibrate", "mine.yaml", "--runtime", "vllm", "--name", "here", "-o", "here.yaml")
    assert (code, err) == (0, "")
    card = parse_yaml((tmp_path / "here.yaml").read_text(encoding="utf-8"), "here.yaml")
    assert card["name"] == "here"
    assert card["sources"]["layer_overhead"] == "fitted to 1 rows of benchmark results"
    table = specsim.optimal_gamma(
        hardware="h100", target="llama-3.1-8b", draft="llama-3.2-1b", acceptance="rate=0.8", batch_size=1,
        context_length=1024, runtime=str(tmp_path / "here.yaml"),
    )  # fmt: skip
    assert float(table["plain_step_ms"][0]) == pytest.approx(7.1, rel=2e-3)


def test_results_in_csv(run, tmp_path):
    header = "hardware,target,batch,context,dtype,tokens_per_s\n"
    (tmp_path / "mine.csv").write_text(header + "h100,llama-3.1-8b,1,1024,bf16,140.8\n", encoding="utf-8")
    code, out, _ = run("calibrate", "mine.csv", "--format", "json")
    assert code == 0
    assert [row["constant"] for row in json.loads(out)["rows"]] == ["layer_overhead"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("mine.yaml", "- {hardware: h100}\n", "no row tells a constant"),
        ("mine.csv", "hardware,batch\nh100,0\n", "mine.csv, line 2, batch: expected a whole number"),
        ("mine.csv", "", "no row tells a constant"),
        ("mine.csv", "hardware;batch\nh100;1\n", "columns are separated by semicolons"),
        ("mine.csv", "hardware,batch\nh100\n", "mine.csv, line 2: expected 2 values, as in the first line, found 1"),
        ("mine.csv", "hardware,hardware\nh100,a100\n", "the column 'hardware' stands there more than once"),
        ("mine.yaml", "rows: []\n", "expected a YAML list of rows"),
        ("mine.yaml", PLAIN.replace("llama", "lama").replace("Llama", "lama"), "Nearest: llama-3.1-8b"),
        ("mine.yaml", PLAIN.replace("7.1", "0.0071"), "0.0071 ms, of which kernels need 5.99"),
        ("mine.yaml", PLAIN.replace("7.1", "7100"), "is it in milliseconds, and of one step?"),
        ("mine.yaml", ROUND.replace("tau: 2.4", "tau: 9"), "9, where 1 to 4 are possible"),
        ("mine.yaml", PLAIN.replace("batch: 1", "batch: 100000"), "memory: batch 100000 at context 1024 needs"),
        ("mine.yaml", PLAIN.replace("7.1", "7.1, tokens_per_s: 10"), "ms_per_token and tokens_per_s differ by 14.1"),
        ("mine.yaml", ROUND.replace("gamma: 3", "gamma: 3, tree: 60 nodes"), "the shape of the tree '60 nodes'"),
    ],
)
def test_results_that_tell_nothing(run, tmp_path, name, text, words):
    (tmp_path / name).write_text(text, encoding="utf-8")
    code, out, err = run("calibrate", name, "-o", "card.yaml")
    assert (code, out) == (2, "")
    assert words in err
    assert not (tmp_path / "card.yaml").exists()


def test_what_is_left_out_is_said_and_not_counted(run, tmp_path):
    other = PLAIN.replace("a-1", "a-2").replace("Llama-3.1-8B-Instruct", "lama-3.1-8b")
    silent = PLAIN.replace("a-1", "a-3").replace("ms_per_token", "ms_per_tokn")
    (tmp_path / "mine.yaml").write_text(PLAIN + other + silent, encoding="utf-8")
    code, out, err = run("calibrate", "mine.yaml", "--runtime", "vllm")
    assert code == 0
    assert "fitted to 1 row, which is off by 0.0%" in out
    assert "a-2 is left out. Missing or impossible: no model is known as 'lama-3.1-8b'; Nearest: llama-3.1-8b" in err
    assert "a-3 is left out: expected a time per token" in err


def test_results_that_disagree_show_it(run, tmp_path):
    (tmp_path / "mine.yaml").write_text(PLAIN + PLAIN.replace("a-1", "a-2").replace("7.1", "14.2"), encoding="utf-8")
    _, out, _ = run("calibrate", "mine.yaml", "--runtime", "vllm")
    assert "fitted to 2 rows, which are off by 25.1% at the median, 49.8% at most" in out


def test_results_of_another_engine_and_faster_than_kernels_are_remarked(run, tmp_path):
    text = PLAIN.replace("engine: vllm", "engine: sglang").replace("7.1", "4")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    _, _, err = run("calibrate", "mine.yaml", "--runtime", "vllm")
    assert "a-1 ran under sglang by its own account, and is taken as vllm." in err
    assert "layer_overhead came out as 0" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-o", "card.yaml"), "--runtime: a card is of one runtime"),
        (("mine.yaml", "--without", "x"), "--without: results are fitted alone"),
    ],
)
def test_options_that_go_with_nothing(run, tmp_path, arguments, words):
    (tmp_path / "mine.yaml").write_text(PLAIN, encoding="utf-8")
    code, out, err = run("calibrate", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert not (tmp_path / "card.yaml").exists()


def test_a_runtime_that_nobody_measured_says_so(run):
    assert "no published measurement tells a constant of ideal" in run("calibrate", "--runtime", "ideal")[1]


def test_an_engine_that_is_not_known_is_told(run, tmp_path):
    (tmp_path / "mine.yaml").write_text(PLAIN.replace("engine: vllm", "engine: vlm"), encoding="utf-8")
    _, _, err = run("validate", "--data", "mine.yaml")
    assert "no runtime is known as 'vlm', so typical stands for it. Nearest: vllm." in err


def test_rows_with_nothing_to_predict_are_named(run, tmp_path):
    (tmp_path / "mine.yaml").write_text(PLAIN.replace("ms_per_token", "ms_per_tokn"), encoding="utf-8")
    _, out, _ = run("validate", "--data", "mine.yaml")
    assert "No time, ratio or speedup that is predicted stands in 1 rows: a-1." in out


@pytest.mark.parametrize("name", ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "H100 PCIe", "Tesla T4"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_names_as_tools_print_them(run, tmp_path, name, dtype):
    text = PLAIN.replace("hardware: h100", f"hardware: {name}").replace("dtype: bf16", f"dtype: {dtype}")
    (tmp_path / "mine.yaml").write_text(text.replace("Llama-3.1-8B-Instruct", "llama-3.2-1b"), encoding="utf-8")
    _, out, _ = run("validate", "--data", "mine.yaml")
    assert out.startswith("1 comparisons")


def test_a_result_that_is_not_there(run):
    code, _, err = run("calibrate", "missing.yaml")
    assert code == 2
    assert "no such file: 'missing.yaml'" in err
