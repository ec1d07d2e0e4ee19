"""``specsim measure`` and ``specsim.measure`` as a user meets them, on the toy."""

from __future__ import annotations

import json

import numpy as np
import pytest

import specsim
from specsim.catalog.draft_forms import FORMS, recipe
from specsim.catalog.strict_yaml import parse_yaml
from specsim.cli import main
from specsim.reference import measuring

FAST = ["--prompts", "code", "--limit", "3", "--tokens", "40"]


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(["measure", *arguments])
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return call


def measured(**options):
    return specsim.measure(**{"prompts": "code", "limit": 3, "tokens": 40, **options})


def test_a_table_says_what_was_accepted_and_ends_with_what_was_assumed(run):
    code, out, err = run("--draft", "noise:0.1", "--draft", "uniform", "--gamma", "1,3", *FAST)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "a toy with seeded weights, temperature 0, rule standard"
    assert {"draft", "gamma", "tokens_per_round", "tokens_low", "speedup", "same_output", "accepted_3"} <= set(
        lines[1].split()
    )
    assert [line.split()[:2] for line in lines[2:6]] == [
        ["noise:0.1", "1"], ["noise:0.1", "3"], ["uniform", "1"], ["uniform", "3"],
    ]  # fmt: skip
    assert lines[-2].startswith("Assumed: seed 0; outputs of at most 40 tokens;")
    assert lines[-1] == "Extrapolated: nothing."


def test_columns_agree_with_each_other():
    table = measured(draft=["noise:0.1", "lookup", "counts", "suffix"], gamma=[1, 4], tree="<2,1>", limit=4)
    assert set(table["texts"].tolist()) == {4}
    assert table["same_output"].tolist() == [4] * len(table)
    for row in table.rows():
        depth = row["gamma"]
        shares = [row[f"accepted_{k}"] for k in range(depth + 1)]
        assert sum(shares) == pytest.approx(1)
        assert row["tokens_per_round"] == pytest.approx(1 + sum(k * share for k, share in enumerate(shares)))
        assert row["tokens_per_round"] == pytest.approx(1 + sum(row[f"survival_{j}"] for j in range(1, depth + 1)))
        assert row["tokens_low"] <= row["tokens_per_round"] <= row["tokens_high"]
        assert row["tokens"] == 4 * 40
        assert row["rounds"] <= row["tokens"]
        assert row["drafted_per_round"] <= depth
        assert row["accepted_per_drafted"] <= (row["acceptance_rate"] or 0) + 1e-12
        assert min(row[name] for name in ("proposal_ms", "verification_ms", "repair_ms", "plain_step_ms")) > 0
    assert table["tree"].tolist()[0] == "<2,1>"
    assert table["nodes"].tolist()[:3] == [5, 2, 5]


def test_the_same_weights_are_accepted_whole():
    table = measured(draft="same", gamma=4, tokens=41)
    assert table["tokens_per_round"].tolist() == [5.0]
    assert table["accepted_4"].tolist() == [1.0]


def test_the_same_seed_gives_the_same_counts_and_another_one_other_counts():
    def counts(seed):
        table = measured(draft="noise:0.3", temperature=1, seed=seed)
        return [table[f"accepted_{k}"].tolist() for k in range(5)]

    assert counts(1) == counts(1) != counts(2)


@pytest.mark.parametrize("rule", ["standard", "naive", "block", "typical", "lenience"])
@pytest.mark.parametrize("candidates", ["sampled", "without-replacement", "most-probable"])
def test_every_rule_runs_with_every_sort_of_candidates(rule, candidates):
    shapes = {"gamma": 2} if rule == "block" else {"tree": "<2,1>"}
    table = measured(draft="noise:0.1", temperature=0.7, rule=rule, candidates=candidates, limit=1, **shapes)
    assert table["tokens_per_round"][0] >= 1


@pytest.mark.parametrize("form", ["same", "noise:0.1", "layers:1", "skip:1", "bits:3", "lookup:2", "suffix:1",
                                  "counts:2", "uniform", "lookup+layers:1+uniform"])  # fmt: skip
@pytest.mark.parametrize("shape", [{"gamma": 3}, {"tree": "<2,2>"}])
def test_every_drafter_keeps_greedy_output(form, shape):
    table = measured(draft=form, limit=3, **shape)
    assert table["same_output"].tolist() == [3]
    assert table["draft"].tolist() == [recipe(form).label]


def test_rows_by_sort_and_by_text():
    by_text = measured(draft="lookup", by="text", limit=3, tokens=20, prompts="copying")
    assert by_text["text"].tolist()[:2] == ["copy-river", "copy-ferry"]
    by_sort = measured(draft="lookup", by="sort", limit=3, tokens=20, prompts="copying")
    assert by_sort["texts"].sum() == len(by_text)
    assert set(by_sort["sort"].tolist()) == set(by_text["sort"].tolist())


def test_recorded_counts_are_read_by_fit(run, tmp_path):
    code, _, _ = run("--draft", "noise:0.1", "--tokens", "120", "--limit", "4", "--record", "rounds.jsonl")
    assert code == 0
    lines = [json.loads(line) for line in (tmp_path / "rounds.jsonl").read_text().splitlines()]
    assert len(lines) == 4
    assert set(lines[0]) == {"request", "accepted", "drafted", "gamma"}
    found = specsim.fit(tmp_path / "rounds.jsonl", replicates=20, regimes=1)
    table = specsim.measure(draft="noise:0.1", tokens=120, limit=4)
    assert float(found.table["tokens_per_round"][3]) == pytest.approx(float(table["tokens_per_round"][0]), rel=0.01)


def test_pairs_as_an_acceptance_are_read_by_trees_and_rules(run, tmp_path):
    code, _, _ = run("--draft", "layers:1", "--temperature", "1", *FAST, "--pairs", "pairs.yaml")
    assert code == 0
    document = parse_yaml((tmp_path / "pairs.yaml").read_text(encoding="utf-8"), "pairs.yaml")
    assert document["kind"] == "paired"
    rows = list(zip(document["target_probs"], document["draft_probs"], strict=True))
    for target, draft in rows:
        assert sum(target) == pytest.approx(1, abs=1e-6)
        assert sum(draft) == pytest.approx(1, abs=1e-6)
    # What is left of one law stands where the other has nothing.
    overlap = np.mean([np.minimum(target, draft).sum() for target, draft in rows])
    ranks = specsim.rules(pairs=str(tmp_path / "pairs.yaml"), candidates=2, rule="multi-step")
    assert float(ranks["rank_1"][0]) == pytest.approx(overlap, abs=1e-9)
    table = specsim.optimal_tree(acceptance=str(tmp_path / "pairs.yaml"), draft_cost_ratio=0.1, max_nodes=8)
    assert float(table["tokens_per_round"][0]) > 1


def test_rounds_of_a_tree_are_not_fitted_as_a_chain(run, tmp_path, capsys):
    code, _, _ = run("--draft", "noise:0.1", "--tree", "<2,1>", *FAST, "--record", "tree.jsonl")
    assert code == 0
    with pytest.raises(SystemExit) as stop:
        main(["fit", "tree.jsonl"])
    assert stop.value.code == 2
    assert "tree.jsonl, line 1, tree: rounds of the tree '<2,1>' do not tell how a chain" in capsys.readouterr().err


def test_a_prompt_that_no_memory_holds_is_refused(run, tmp_path):
    (tmp_path / "long.txt").write_text("word " * 20000, encoding="utf-8")
    code, _, err = run("--draft", "lookup", "--prompts", "long.txt")
    assert code == 2
    assert "has more than 4,096 tokens" in err


def test_a_tree_that_is_a_chain_is_its_draft_length(run):
    code, out, _ = run("--draft", "same", "--tree", "<1,1>", "--gamma", "2", *FAST, "--format", "json")
    assert code == 0
    assert len(json.loads(out)["rows"]) == 1


def test_pairs_as_an_acceptance_need_a_draft_with_probabilities(run, tmp_path):
    code, _, err = run("--draft", "lookup", "--temperature", "1", *FAST, "--pairs", "pairs.yaml")
    assert code == 2
    assert "--pairs: no draft that was tried has probabilities" in err
    assert not (tmp_path / "pairs.yaml").exists()


def test_pairs_hold_both_laws_and_what_happened(run, tmp_path):
    code, _, _ = run("--draft", "noise:0.1", "--temperature", "1", "--tree", "<2,1>", *FAST, "--pairs", "pairs.jsonl")
    assert code == 0
    lines = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    assert len(lines) > 50
    for line in lines:
        assert len(line["tokens"]) == len(line["target_probs"]) == len(line["draft_probs"]) >= 8
        assert sum(line["target_probs"]) <= 1 + 1e-6
        assert line["accepted"] is None or line["accepted"] in line["candidates"]
    overlap = np.mean([np.minimum(line["target_probs"], line["draft_probs"]).sum() for line in lines])
    assert 0.2 < overlap < 1


def test_a_journal_goes_on_where_it_ended(run, tmp_path, monkeypatch):
    asked = ["--draft", "noise:0.1", "--draft", "suffix", *FAST, "--format", "csv", "--journal", "journal.jsonl"]
    _, whole, _ = run(*asked)
    kept = (tmp_path / "journal.jsonl").read_text().splitlines(keepends=True)
    assert len(kept) == 1 + 3 * 3
    (tmp_path / "journal.jsonl").write_text("".join(kept[:5]) + kept[5][:20])
    decoded = []
    decode = measuring.decode
    monkeypatch.setattr(measuring, "decode", lambda *of, **more: decoded.append(1) or decode(*of, **more))
    code, again, _ = run(*asked)
    assert (code, len(decoded)) == (0, 5)
    columns = whole.splitlines()[0].split(",")
    counts = [i for i, name in enumerate(columns) if not name.endswith("_ms") and not name.startswith("speedup")]
    for one, other in zip(whole.splitlines(), again.splitlines(), strict=True):
        assert [one.split(",")[i] for i in counts] == [other.split(",")[i] for i in counts]
    run(*asked)
    assert len(decoded) == 5
    code, _, err = run(*asked, "--seed", "3")
    assert code == 2
    assert err == "Error: journal.jsonl: belongs to another measurement: seed 0 and not 3.\n"


def test_prompts_of_a_user(run, tmp_path):
    (tmp_path / "lines.txt").write_text("one prompt\n\nanother one\n")
    (tmp_path / "lines.jsonl").write_text('{"prompt": "one", "kind": "mine"}\n"two"\n')
    assert measured(draft="lookup", prompts=str(tmp_path / "lines.txt"), by="text")["text"].tolist() == ["1", "2"]
    table = measured(draft="lookup", prompts=str(tmp_path / "lines.jsonl"), by="kind")
    assert table["kind"].tolist() == ["mine", "unnamed"]


def test_csv_has_its_provenance_beside_it(run, tmp_path):
    code, out, _ = run("--draft", "lookup", *FAST, "-o", "out.csv")
    assert (code, out) == (0, "")
    beside = json.loads((tmp_path / "out.csv.json").read_text())
    assert beside["inputs"]["drafters"] == ["lookup:3..1"]
    assert beside["seed"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--draft: expected a drafter, such as lookup or noise:0.1."),
        (["--draft", "nois:0.1"], "--draft: unknown drafter 'nois:0.1'. Nearest: noise"),
        (["--draft", "noise"], f"--draft: expected {FORMS['noise']}; found 'noise'."),
        (["--draft", "lookup:1..3"], f"--draft: expected {FORMS['lookup']}; found 'lookup:1..3'."),
        (["--draft", "skip:3..1"], f"--draft: expected {FORMS['skip']}; found 'skip:3..1'."),
        (["--draft", "bits:9"], f"--draft: expected {FORMS['bits']}; found 'bits:9'."),
        (["--draft", "uniform:2"], f"--draft: expected {FORMS['uniform']}; found 'uniform:2'."),
        (["--draft", "lookup+"], "--draft: unknown drafter ''."),
        (["--draft", "layers:20"], "--draft: layers:20 asks for layer 20, and toy has 2."),
        (["--draft", "lookup", "--draft", "lookup:3..1"], "--draft: lookup:3..1 is given twice."),
        (["--draft", "lookup", "--gamma", "0"], "--gamma: expected"),
        (["--draft", "lookup", "--tree", "<2,x>"], "--tree: expected a tree such as <2,2,1>, or a list of parents"),
        (["--draft", "lookup", "--tree", "<9,9,9>"], "--tree: expected 2 to 256 nodes, found 820."),
        (["--draft", "lookup", "--tree", "-1,2,1"], "--tree: expected a tree without cycles"),
        (["--draft", "lookup", "--tree", "8/8/64"], "--tree: '8/8/64' leaves nodes to probabilities"),
        (["--draft", "lookup", "--tree", "[-1]"], "--tree: expected 2 to 256 nodes, found 1."),
        (["--draft", "lookup", "--rule", "greedy"], "--rule: unknown 'greedy'. Known: standard, naive, block"),
        (["--draft", "lookup", "--rule", "block", "--tree", "<2>"], "--rule: block verification judges chains"),
        (["--draft", "lookup", "--lenience", "0.3"], "--lenience: it says nothing without the rule lenience."),
        (["--draft", "lookup", "--top-p", "0.3"], "--top-p: it says nothing at temperature 0."),
        (["--draft", "lookup", "--candidates", "sampled"], "--candidates: at temperature 0 candidates are the most"),
        (["--draft", "lookup", "--temperature", "-1"], "--temperature: expected a number from 0 to 100, found -1."),
        (["--draft", "lookup", "--prompts", "cod"], "--prompts: no such file or kind of prompts: 'cod'. Nearest: code"),
        (["--draft", "lookup", "--model", "toys"], "--model: no such model: 'toys'. Nearest: toy."),
        (["--draft", "lookup", "--by", "day"], "--by: unknown 'day'. Nearest: draft. Known: draft, kind, sort, text."),
        (["--draft", "lookup", "--threads", "two"], "--threads: expected a whole number from 1 to 1024, found 'two'."),
        (["--draft", "lookup", "--gamma", "1,2", "--record", "x"], "--record: a file takes the rounds of one drafter"),
        (["--draft", "lookup", "--pairs", "x"], "--pairs: at temperature 0 there are no probabilities to compare"),
        (["--draft", "lookup", "--pairs-top", "3"], "--pairs-top: it says nothing without a file of pairs."),
        (["--draft", "lookup", "--journal", "broken.txt"], "broken.txt: is no journal of measure"),
        (["--draft", "lookup", "--prompts", "wrong.yaml"], "wrong.yaml, line 4, passage: no such passage."),
        (["--draft", "lookup", "--prompts", "wrong.jsonl"], "wrong.jsonl, line 2: not valid JSON"),
        (["--draft", "lookup", "--model", "broken.txt"], "--model: expected a GGUF file or a folder with safetensors"),
    ],
)
def test_mistakes_are_answered_in_a_paragraph(run, tmp_path, arguments, message):
    (tmp_path / "broken.txt").write_text("no JSON\n")
    (tmp_path / "wrong.yaml").write_text("format: 1\nkind: prompts\nprompts:\n- {text: x, passage: y}\n")
    (tmp_path / "wrong.jsonl").write_text('"x"\n{\n')
    before = sorted(path.name for path in tmp_path.iterdir())
    code, out, err = run(*FAST, *arguments) if "--prompts" not in arguments else run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("Error: " + message), err
    assert len(err.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before
