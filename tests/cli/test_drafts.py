"""Drafts by name, by file and by option: what they are called, what applies to them, and what is told of them."""

from __future__ import annotations

import json

import pytest

import specsim
from specsim.catalog.strict_yaml import read_yaml
from specsim.cli import main
from specsim.errors import InputError

QUESTION = {"hardware": "h100", "target": "llama-3-8b", "acceptance": "rate=0.7", "batch_size": 1, "max_gamma": 4}


def write(tmp_path, text, name="mine.yaml"):
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return str(file)


def asked(**options):
    return specsim.optimal_gamma(**{**QUESTION, **options})


def refused(**options):
    with pytest.raises(InputError) as caught:
        asked(**options)
    return str(caught.value)


def swept(tmp_path, drafts, grid="{batch_size: 1, context_length: 1k}", **more):
    lines = {
        "hardware": "h100",
        "target": "llama-3-8b",
        "acceptance": "rate=0.7",
        **more,
        "drafts": drafts,
        "grid": grid,
    }
    text = "format: 1\nkind: sweep\n" + "".join(f"{name}: {value}\n" for name, value in lines.items())
    return specsim.sweep(write(tmp_path, text, "scenario.yaml"))


# --- names


def test_rows_have_the_names_of_cards_and_those_that_drafts_are_given(tmp_path):
    lookup = write(tmp_path, "kind: drafter\nname: our lookup\ndraft: {method: lookup}\n", "a.yaml")
    model = write(tmp_path, "name: our model\ndraft: {method: draft_model, model: llama-3.2-1b}\n", "b.yaml")
    named = write(tmp_path, "name: not this\ndraft: {method: lookup, name: but this}\n", "c.yaml")
    drafts = f"[{lookup}, {model}, {named}, {{model: eagle-llama3-instruct-8b, name: a head}}, prompt-lookup]"
    found = swept(tmp_path, drafts)
    assert list(dict.fromkeys(found["draft"].tolist())) == ["our lookup", "our model", "but this", "a head", "ngram"]


def test_a_drafter_of_measured_cost_may_have_a_name(tmp_path):
    costs = "{draft_cost_ratio: 0.1}"
    assert set(swept(tmp_path, "[{name: our engine}]", costs=costs)["draft"].tolist()) == {"our engine"}
    assert set(swept(tmp_path, "[{method: measured}]", costs=costs)["draft"].tolist()) == {""}


def test_two_drafts_of_one_name_and_acceptance_are_refused_however_they_are_written():
    assert "Two drafts are called ngram; give one of them" in refused(draft=["ngram", "prompt-lookup"])
    assert "Two drafts are called llama-3.2-1b" in refused(draft=["llama-3.2-1b:rate=0.7", "llama-3.2-1b"])
    apart = asked(draft=["llama-3.2-1b:rate=0.7", "llama-3.2-1b:rate=0.8"], acceptance=None)
    assert len(apart) == 2


# --- cards


def test_a_head_may_be_made_for_a_target_of_the_user_alone(tmp_path):
    """And for no model that is neither in the catalogue nor the target."""
    model = read_yaml(specsim.catalog.library.root() / "models" / "llama-3-8b.yaml")
    text = (specsim.catalog.library.root() / "models" / "llama-3-8b.yaml").read_text(encoding="utf-8")
    target = write(tmp_path, text.replace(f"name: {model['name']}\n", "name: our-8b\n"), "target.yaml")
    head = "kind: head\nmethod: medusa\nname: ours\ntarget: {}\nhidden_size: 4096\nvocab_size: 128256\nheads: 3\n"
    ours = write(tmp_path, head.format("our-8b"), "head.yaml")
    assert set(asked(target=target, draft=ours)["draft"].tolist()) <= {"ours"}
    assert "head.yaml, line 4, target: no model is called 'our-8b'" in refused(draft=ours)


def test_paths_in_the_card_of_a_drafter_start_at_the_card(tmp_path, monkeypatch):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    small = (specsim.catalog.library.root() / "models" / "llama-68m.yaml").read_text(encoding="utf-8")
    write(folder, small.replace("vocab_size: 32000", "vocab_size: 128256"), "small.yaml")
    card = "draft: {method: relay, legs: [{model: small.yaml, tokens: 2}, {model: llama-3.2-1b, tokens: 2}]}\n"
    write(folder, card, "card.yaml")
    monkeypatch.chdir(tmp_path)
    assert asked(draft="elsewhere/card.yaml")["draft"].tolist() == ["relay"]


def test_assumptions_of_a_whole_card_are_told(tmp_path):
    file = write(tmp_path, "name: guess\ndraft: {method: lookup, hit_rate: 0.5}\nassumptions: {all: a guess}\n")
    assert "drafter guess" in asked(draft=file).assumed


# --- options


@pytest.mark.parametrize("option", ["draft_precision", "draft_kv_precision", "draft_tensor_parallel"])
def test_options_of_drafts_that_no_draft_has_are_refused(option):
    value = 1 if option == "draft_tensor_parallel" else "bf16"
    told = refused(draft="ngram", **{option: value})
    assert told == f"{option}: it says nothing: the draft does not have the field {option.removeprefix('draft_')}."
    assert "no draft has the field" in refused(draft=["ngram", "lookahead"], **{option: value})
    assert option in refused(draft_cost_ratio=0.1, **{option: value})
    asked(draft=["ngram", "llama-3.2-1b"], **{option: value})


# --- axes


def test_a_field_of_one_draft_is_an_axis(tmp_path):
    grid = "{batch_size: 1, context_length: 1k, gamma: 4, 'drafts[0].hit_rate': [0.1, 0.9]}"
    found = swept(tmp_path, "[ngram, llama-3.2-1b]", grid)
    tokens = {
        (draft, rate): tokens
        for draft, rate, tokens in zip(
            found["draft"].tolist(),
            found["drafts[0].hit_rate"].tolist(),
            found["tokens_per_round"].tolist(),
            strict=True,
        )
    }
    assert tokens["ngram", 0.9] > tokens["ngram", 0.1]
    assert tokens["llama-3.2-1b", 0.9] == tokens["llama-3.2-1b", 0.1]


def test_one_draft_may_be_an_axis(tmp_path):
    grid = "{batch_size: 1, context_length: 1k, gamma: 4, 'drafts[1]': [llama-3.2-1b, llama-3.2-3b]}"
    assert swept(tmp_path, "[ngram, {model: llama-3.2-1b}]", grid)["draft"].tolist() == [
        "ngram", "llama-3.2-1b", "ngram", "llama-3.2-3b",
    ]  # fmt: skip


def test_a_field_is_varied_once(tmp_path):
    grid = "{batch_size: 1, context_length: 1k, 'drafts[0].hit_rate': [0.1], drafts.hit_rate: [0.2]}"
    with pytest.raises(InputError, match=r"this is the field of drafts\.hit_rate too"):
        swept(tmp_path, "[ngram, suffix]", grid)
    grid = "{batch_size: 1, context_length: 1k, gamma: 4, 'drafts[0].hit_rate': [0.1], 'drafts[1].hit_rate': [0.2]}"
    assert len(swept(tmp_path, "[ngram, suffix]", grid)) == 2


def test_what_a_sweep_by_path_assumes_has_an_effect_at_one_of_its_values(tmp_path):
    plain = swept(tmp_path, "[llama-3.2-1b]").assumed
    grid = "{{batch_size: 1, context_length: 1k, gamma: 0..8, {}: [{}]}}"
    by_path = swept(tmp_path, "[llama-3.2-1b]", grid.format("drafts.acceptance.rate", "0.7, 0.71")).assumed
    assert plain[0] == by_path[0] == "runtime typical (" + by_path[0].partition("(")[2]
    assert "all_reduce_latency" not in by_path[0]
    parallel = swept(tmp_path, "[llama-3.2-1b]", grid.format("target.tensor_parallel", "1, 2")).assumed
    assert "all_reduce_latency" in parallel[0]
    assert "quantization_overhead" not in parallel[0]


# --- provenance


RULES = ["rules", "--target-probs", "0.6,0.4", "--draft-probs", "0.9,0.1"]
EXPLAIN = ["explain", "--acceptance", "rate=0.8", "--draft-cost-ratio", "0.1"]


@pytest.mark.parametrize("arguments", [RULES, EXPLAIN], ids=lambda arguments: arguments[0])
def test_csv_files_have_their_provenance_beside_them(arguments, tmp_path, monkeypatch):
    file = str(tmp_path / "x.csv")
    monkeypatch.setattr("sys.argv", ["specsim", *arguments, "-o", file])
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "-o", file])
    assert not stop.value.code
    told = json.loads((tmp_path / "x.csv.json").read_text(encoding="utf-8"))
    assert told["command"] == ["specsim", *arguments, "-o", file]
    assert told["specsim"] == specsim.__version__
    if arguments[0] == "rules":
        asked = {"target_probs": "0.6,0.4", "draft_probs": "0.9,0.1"}
        assert told["inputs"] == {**asked, "pairs": None, "rule": None, "candidates": None, "lenience": None}
    else:
        assert told["inputs"]["costs"]["draft_cost_ratio"] == 0.1
