"""``specsim optimal-tree``, trees in ``sweep`` and ``explain``, and ``rules --candidates``, as users run them."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET

import pytest
from conftest import columns_differ

import specsim
from specsim.cli import main
from specsim.report.columns import COLUMNS, TREE_COLUMNS
from specsim.report.drawing import tree_text, trees_svg
from specsim.specs.tree import read_shape

CARDS = ("--hardware", "a10", "--target", "llama-7b", "--draft", "llama-68m")
RANKS = ("--ranks", "0.6,0.2,0.1")


@pytest.fixture
def run(capsys):
    """Runs a command line; gives what it printed."""

    def call(*arguments, code=0):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert stop.value.code == code, err
        return out if code == 0 else err

    return call


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_one_row_for_each_batch_and_context_with_all_columns(run):
    out = run("optimal-tree", *CARDS, *RANKS, "--batch", "1,4", "--context", "256,1k", "--format", "csv")
    rows = rows_of(out)
    assert [(row["batch_size"], row["context_length"]) for row in rows] == [
        ("1", "256"), ("1", "1024"), ("4", "256"), ("4", "1024")
    ]  # fmt: skip
    assert list(rows[0]) == [*(column.name for column in COLUMNS), *(name for name, *_ in TREE_COLUMNS)]
    for row in rows:
        tree = read_shape(row["tree"])
        assert (str(tree.nodes), str(tree.depth)) == (row["nodes"], row["gamma"])
        assert row["best"] == "true"
        assert float(row["speedup"]) > float(row["chain_speedup"]) > 1
        assert float(row["speedup_bound"]) / float(row["speedup"]) - 1 == pytest.approx(float(row["speedup_gap"]))
        assert 0 <= float(row["speedup_gap"]) < 0.01


def test_the_chain_beside_the_tree_is_that_of_optimal_gamma(run):
    tree = rows_of(run("optimal-tree", *CARDS, *RANKS, "--batch", "1..64*2", "--format", "csv"))
    chain = rows_of(run("optimal-gamma", *CARDS, "--acceptance", "ranks=0.6,0.2,0.1", "--batch", "1..64*2",
                        "--format", "csv"))  # fmt: skip
    assert [(row["chain_gamma"], row["chain_speedup"]) for row in tree] == [
        (row["gamma"], row["speedup"]) for row in chain
    ]


def test_where_no_tree_may_branch_the_rows_are_those_of_chains():
    cards = {"hardware": "a10", "target": "llama-7b", "draft": "llama-68m", "batch_size": [1, 16, 64]}
    trees = specsim.optimal_tree(ranks="0.6", **cards)
    chains = specsim.optimal_gamma(acceptance="ranks=0.6", **cards)
    assert columns_differ(trees, chains) == []


def test_python_and_the_command_line_agree(run):
    out = run(
        "optimal-tree", *CARDS, *RANKS, "--batch", "2", "--max-nodes", "12", "--max-depth", "3", "--format", "json"
    )
    table = specsim.optimal_tree(
        hardware="a10", target="llama-7b", draft="llama-68m", ranks=[0.6, 0.2, 0.1], batch_size=2, max_nodes=12,
        max_depth=3,
    )  # fmt: skip
    assert json.loads(out)["rows"] == list(table.rows())
    assert int(table["nodes"][0]) <= 12
    assert int(table["gamma"][0]) <= 3


def test_all_prints_the_best_tree_of_every_number_of_nodes(run):
    rows = rows_of(run("optimal-tree", *CARDS, *RANKS, "--batch", "1", "--max-nodes", "12", "--all", "--format", "csv"))
    assert {int(row["nodes"]) for row in rows} == set(range(1, 13))
    assert sum(row["best"] == "true" for row in rows) == 1


def test_more_room_never_makes_the_answer_worse(run):
    found = []
    for limits in ((8, 4, 2), (16, 4, 2), (16, 6, 2), (16, 6, 3)):
        given = (
            word for pair in zip(("--max-nodes", "--max-depth", "--max-branches"), limits, strict=True) for word in pair
        )
        row = rows_of(run("optimal-tree", *CARDS, *RANKS, "--batch", "1", *given, "--format", "csv"))[0]
        found.append(float(row["speedup"]))
        assert (int(row["nodes"]), int(row["gamma"])) <= limits[:2]
    assert found == sorted(found)


def test_ranks_by_level_end_where_the_record_ends(run):
    out = run("optimal-tree", *CARDS, "--ranks", "0.7,0.1;0.6,0.1", "--batch", "1", "--format", "csv")
    assert rows_of(out)[0]["gamma"] == "2"
    further = run(
        "optimal-tree", *CARDS, "--ranks", "0.7,0.1;0.6,0.1", "--batch", "1", "--extrapolate", "--format", "csv"
    )
    assert int(rows_of(further)[0]["gamma"]) > 2


def test_medusa_is_searched_no_deeper_than_its_heads(run):
    arguments = ("optimal-tree", "--hardware", "a10", "--target", "vicuna-7b", "--draft", "medusa-vicuna-7b", *RANKS)
    row = rows_of(run(*arguments, "--batch", "1", "--format", "csv"))[0]
    assert int(row["gamma"]) <= 5
    err = run("explain", *arguments[1:], "--tree", "<2,1,1,1,1,1>", code=2)
    assert "reaches 5 levels, one for each of its heads, and <2,1,1,1,1,1> has 6" in err


def test_what_does_not_fit_is_a_row_with_its_limit(run):
    row = rows_of(run("optimal-tree", *CARDS, *RANKS, "--batch", "4096", "--format", "csv"))[0]
    assert (row["feasible"], row["limit"], row["speedup"]) == ("false", "kv_cache", "")
    assert row["speedup_bound"] == row["speedup_gap"] == ""


def test_path_by_path_costs_more_and_never_less_than_its_bound(run):
    sweep = [rows_of(run("optimal-tree", *CARDS, *RANKS, "--batch", "1,8", *more, "--format", "csv"))
             for more in ((), ("--path-by-path",))]  # fmt: skip
    for one_pass, paths in zip(*sweep, strict=True):
        assert float(paths["speedup"]) < float(one_pass["speedup"])
        assert float(paths["speedup_gap"]) >= 0


def test_regimes_are_searched_and_the_gap_is_told(run, tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(
        "kind: regimes\nregimes:\n"
        "  easy: {acceptance_probability: 0.85, further_ranks: [0.08], mean_run_tokens: 12}\n"
        "  hard: {acceptance_probability: 0.35, further_ranks: [0.25], mean_run_tokens: 20}\n",
        encoding="utf-8",
    )
    out = run("optimal-tree", *CARDS, "--ranks", path, "--batch", "1", "--max-nodes", "16")
    assert "another tree within these limits may be better, by no more than" in out
    row = rows_of(run("optimal-tree", *CARDS, "--acceptance", path, "--batch", "1", "--format", "csv"))[0]
    assert float(row["speedup"]) > float(row["chain_speedup"])


def test_ranks_along_the_context_are_searched_without_a_bound(run, tmp_path):
    path = tmp_path / "x.yaml"
    entry = "  - {{context_length: {}, acceptance: 'ranks={}'}}\n"
    path.write_text("kind: context\ntable:\n" + entry.format(256, "0.7,0.1") + entry.format(1024, "0.4,0.3"), "utf-8")
    arguments = ("optimal-tree", *CARDS, "--acceptance", path, "--batch", "1", "--context", "256,640,1024")
    rows = rows_of(run(*arguments, "--format", "csv"))
    assert [row["speedup_bound"] for row in rows] == ["", "", ""]
    tokens = [float(row["tokens_per_round"]) for row in rows]
    # At the ends of the table the answer is that of the entry by itself.
    for row, ranks in ((rows[0], "0.7,0.1"), (rows[2], "0.4,0.3")):
        alone = rows_of(run("optimal-tree", *CARDS, "--ranks", ranks, "--batch", "1", "--context",
                            row["context_length"], "--format", "csv"))[0]  # fmt: skip
        assert (row["tree"], float(row["speedup"])) == (alone["tree"], pytest.approx(float(alone["speedup"])))
    assert min(tokens) > 2
    assert "no bound is known" in run(*arguments)


@pytest.mark.parametrize("rule", ["multi-step", "without-replacement", "naive", "top-k", "greedy"])
def test_ranks_from_paired_probabilities(run, tmp_path, rule):
    path = tmp_path / "pairs.yaml"
    path.write_text(
        "kind: paired\ntarget_probs: [[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]]\n"
        "draft_probs: [[0.2, 0.5, 0.3], [0.2, 0.7, 0.1]]\n",
        encoding="utf-8",
    )
    out = run("optimal-tree", *CARDS, "--acceptance", path, "--verification", rule, "--batch", "1", "--format", "csv")
    assert rows_of(out)[0]["acceptance"] == f"2 paired positions, {rule}"
    told = run("explain", *CARDS, "--acceptance", path, "--verification", rule, "--tree", "3/2/6")
    assert "at positions that are independent" in told


def test_on_the_screen_a_tree_is_short(run):
    out = run("optimal-tree", *CARDS, *RANKS, "--batch", "1", "--context", "256")
    line = out.splitlines()[2]
    assert "+" in line
    assert "[-1" not in line
    assert out.splitlines()[-2].startswith("Assumed: ")


def test_a_picture_of_what_was_found(run, tmp_path):
    picture = tmp_path / "x.svg"
    run("optimal-tree", *CARDS, *RANKS, "--batch", "1,4", "--max-nodes", "12", "--picture", picture)
    drawn = ET.fromstring(picture.read_text(encoding="utf-8"))
    assert drawn.tag.endswith("svg")
    assert sum(1 for part in drawn if part.tag.endswith("circle")) >= 12
    for wrong in ("x.png", "x"):
        assert ".svg" in run("optimal-tree", *CARDS, *RANKS, "--batch", "1", "--picture", tmp_path / wrong, code=2)
    err = run("optimal-tree", *CARDS, "--ranks", "0.6", "--batch", "1", "--picture", picture, code=2)
    assert "no row names a tree" in err


def test_drawings():
    assert tree_text(read_shape("<2,1>")) == "root ─ 1 ─ 1\n     └ 2 ─ 1"
    assert tree_text(read_shape("<1>")) == "root ─ 1"
    once = trees_svg([("a < b", read_shape("<2,2>"))])
    assert once == trees_svg([("a < b", read_shape("<2,2>"))])
    assert "a &lt; b" in once


def test_explain_draws_the_tree_and_prices_its_passes(run):
    out = run("explain", *CARDS, *RANKS, "--tree", "<2,2,1>", "--batch", "2")
    assert "4 candidates; verified one by one they would be 16 tokens." in out
    assert "draft_step_of_4" in out
    assert "root ─ 1 ─ 1 ─ 1" in out
    document = json.loads(run("explain", *CARDS, *RANKS, "--tree", "<2,2,1>", "--batch", "2", "--format", "json"))
    assert (document["row"]["tree"], document["row"]["nodes"], document["row"]["gamma"]) == ("<2,2,1>", 11, 3)


def test_explain_takes_a_chain_of_ones_as_a_draft_length(run):
    assert run("explain", *CARDS, *RANKS, "--tree", "<1,1,1>") == run("explain", *CARDS, *RANKS, "--gamma", "3")
    assert "give gamma or a tree, not both" in run("explain", *CARDS, *RANKS, "--tree", "<2>", "--gamma", "3", code=2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--acceptance", "rate=0.8"), "rate=0.8 says how often drafts of rank 1 are accepted"),
        ((), "What is published says how often drafts of rank 1 are accepted"),
        (("--ranks", "0.5", "--acceptance", "rate=0.5"), "leave one of the two out"),
        (("--ranks", "0.6,0.5"), "sum to at most 1"),
        (("--ranks", "0.6,0.2", "--max-nodes", "0"), "from 2 to 1024, found 0"),
    ],
)
def test_what_a_search_needs(run, arguments, words):
    assert words in run("optimal-tree", *CARDS, *arguments, code=2)


@pytest.mark.parametrize("draft", ["{method: lookahead, window: 5, guesses: 5}", "{model: llama-68m, schedule: pearl}"])
def test_drafters_that_draft_no_trees_say_so(run, tmp_path, draft):
    path = tmp_path / "x.yaml"
    path.write_text(
        f"format: 1\nkind: sweep\nhardware: a10\ntarget: llama-7b\ndraft: {draft[:-1]}, acceptance: 'ranks=0.6,0.2'}}\n"
        "grid: {batch_size: 1, context_length: 256, tree: '<2,1>'}\n",
        encoding="utf-8",
    )
    err = run("sweep", "--config", path, code=2)
    assert "Token trees are not modelled for the drafter" in err
    assert "line 6" in err


def test_every_method_that_drafts_trees_has_rows(run, tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(
        "format: 1\nkind: sweep\nhardware: h100\ntarget: vicuna-7b\nacceptance: 'ranks=0.6,0.2'\ndrafts:\n"
        "  - {method: layers, layers: 8}\n  - {method: window, window: 128}\n  - ngram\n  - eagle-vicuna-7b\n"
        "  - medusa-vicuna-7b\n  - {model: llama-160m, passes: one}\n  - {model: llama-68m, own_device: true}\n"
        "grid: {batch_size: [1, 8], context_length: 512, gamma: [0, 3], tree: ['<1,1,1>', '<2,2,1>']}\n".replace(
            "gamma: [0, 3], tree: ['<1,1,1>', ", "gamma: [0, 3], tree: ["
        ),
        encoding="utf-8",
    )
    rows = rows_of(run("sweep", "--config", path, "--format", "csv"))
    assert len(rows) == 7 * 2 * 3
    for chain, tree in ((rows[i + 1], rows[i + 2]) for i in range(0, len(rows), 3)):
        assert (chain["tree"], tree["tree"]) == ("", "<2,2,1>")
        assert float(tree["tokens_per_round"]) > float(chain["tokens_per_round"])
        assert float(tree["verification_ms"]) > float(chain["verification_ms"])
        assert float(tree["drafting_ms"]) >= float(chain["drafting_ms"])


def test_rules_of_several_candidates(run):
    out = run(
        "rules", "--target-probs", "0.6,0.3,0.1", "--draft-probs", "0.2,0.5,0.3", "--candidates", "2", "--format", "csv"
    )
    rows = {row["rule"]: row for row in rows_of(out)}
    assert float(rows["multi-step"]["acceptance"]) == pytest.approx(0.68)
    assert (rows["multi-step"]["exact"], rows["ratio-on-top-k"]["exact"], rows["transport-bound"]["exact"]) == (
        "true", "false", ""
    )  # fmt: skip
    assert rows["transport-bound"]["output_1"] == ""
    err = run("rules", "--target-probs", "0.5,0.5", "--draft-probs", "0.5,0.5", "--rule", "k-seq", code=2)
    assert "k-seq verifies several; give candidates" in err
    err = run(
        "rules", "--target-probs", "0.5,0.5;0.5,0.5", "--draft-probs", "0.5,0.5;0.5,0.5", "--candidates", "2", code=2
    )
    assert "several candidates are judged at one position" in err


PAIRS = """\
kind: paired
target_probs: [[0.5, 0.3, 0.15, 0.05], [0.25, 0.25, 0.25, 0.25]]
draft_probs: [[0.2, 0.5, 0.1, 0.2], [0.25, 0.25, 0.25, 0.25]]
"""


def test_rules_over_paired_positions_are_means(run, tmp_path):
    path = tmp_path / "pairs.yaml"
    path.write_text(PAIRS, encoding="utf-8")
    rows = {row["rule"]: row for row in rows_of(run("rules", "--pairs", path, "--candidates", "2", "--format", "csv"))}
    # The first pair accepts .65 and .105 by multi-step, the second, where both are alike, everything at once.
    assert float(rows["multi-step"]["rank_1"]) == pytest.approx((0.65 + 1) / 2)
    assert float(rows["multi-step"]["rank_2"]) == pytest.approx(0.105 / 2)
    assert float(rows["multi-step"]["standard_error"]) == pytest.approx((1 - 0.755) / 2)
    assert float(rows["transport-bound"]["acceptance"]) == pytest.approx((0.86 + 1) / 2)
    assert rows["transport-bound"]["rank_1"] == ""
    for arguments, words in (
        (("--pairs", path), "it needs candidates"),
        (("--pairs", "missing.yaml", "--candidates", "2"), "no such file"),
        (("--pairs", path, "--candidates", "2", "--draft-probs", "1"), "leave draft_probs out"),
        (("--pairs", path, "--candidates", "2", "--rule", "block"), "block verifies one candidate"),
        (("--pairs", path, "--candidates", "40", "--rule", "naive-without-replacement"), "is enumerated for at most 7"),
        (("--draft-probs", "1"), "Missing option '--target-probs'"),
    ):
        assert words in run("rules", *arguments, code=2)


def test_ranks_that_cannot_be_enumerated_are_estimated(run, tmp_path):
    path = tmp_path / "pairs.yaml"
    row = ", ".join(["0.1"] * 10)
    path.write_text(
        f"kind: paired\ntarget_probs: [[{row}]]\ndraft_probs: [[0.19, 0.01, {row[10:]}]]\n", encoding="utf-8"
    )
    out = run("rules", "--pairs", path, "--candidates", "6", "--rule", "without-replacement", "--rule", "multi-step")
    assert "without-replacement from 64 sequences of rejected candidates" in out
    row = json.loads(run("rules", "--pairs", path, "--candidates", "6", "--rule", "without-replacement",
                         "--format", "json"))["rows"][0]  # fmt: skip
    assert row["rank_1"] == pytest.approx(0.91)
    assert row["standard_error"] is None


def test_the_catalogue_shows_a_tree(run):
    out = run("catalog", "show", "tree", "specinfer-width-3")
    assert "# verified tokens: 21" in out
    assert "# tokens if verified path by path: 27" in out


def test_a_picture_that_cannot_be_written_names_its_option(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    err = run("optimal-tree", *RANKS, "--draft-cost-ratio", "0.1", "--picture", "missing/a.svg", code=2)
    assert err.startswith("Error: --picture: cannot write missing/a.svg")


def test_a_misspelt_field_of_a_tree_is_named(run, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("format: 1\nkind: tree\nname: mine\ntre: <2,2>\n", encoding="utf-8")
    err = run("explain", *RANKS, "--draft-cost-ratio", "0.1", "--tree", file, code=2)
    assert "mine.yaml, line 4, tre: unknown field. Nearest: tree" in err


def test_parents_need_no_brackets(run):
    texts = [run("explain", *RANKS, "--draft-cost-ratio", "0.1", f"--tree={t}") for t in ("[-1,0,0,1]", "-1,0,0,1")]
    assert texts[0] == texts[1]
    assert "tree [-1,0,0,1]" in texts[0]
