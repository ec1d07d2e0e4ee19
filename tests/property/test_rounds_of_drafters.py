"""What rows and explanations say of the rounds of each drafter agrees with what they cost and emit."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from conftest import served
from test_reductions_of_drafters import B1, B3, EVERY, LLAMA, every, head, question_of, small, table

import specsim
from specsim.acceptance import process_of
from specsim.planning.break_even import break_even_acceptance, perfect_stop
from specsim.planning.lengths import lengths_of
from specsim.planning.question import Axes
from specsim.planning.rounds import plan
from specsim.specs.acceptance import Independent
from specsim.specs.drafter import LookaheadDraft, LookupDraft, MedusaDraft, MergedDraft
from specsim.specs.scenario import MeasuredCosts

many = pytest.mark.parametrize
RATE = {"acceptance": Independent(rate=0.7)}


def explained(**options):
    asked = {"hardware": "h100", "target": "llama-3-8b", "acceptance": "rate=0.8", **options}
    return specsim.explain(**asked)


def number(text, before, after=""):
    """The number between two texts of an explanation."""
    return float(re.search(f"{before}([0-9.]+){after}", text)[1])


# --- verified tokens


@many(("name", "nodes"), [
    ("model", lambda g: g + 1), ("merged", lambda g: 2 * g + 1), ("medusa", lambda g: min(g, 5) + 1),
    ("lookahead", lambda g: 10 * g if g else 1), ("lookup", lambda g: g + 1), ("pearl", lambda g: g + 1),
])  # fmt: skip
def test_nodes_are_what_is_verified(name, nodes):
    draft, target = EVERY[name]()
    found = table(draft, target)
    assert [int(n) for n in found["nodes"]] == [nodes(g) for g in found["gamma"].tolist()]
    assert found["nodes"].dtype.kind == "i"


def test_every_drafter_of_these_is_verified_as_its_rows_say():
    for draft, nodes in (
        (LookaheadDraft(**RATE, window=3, guesses=4), 28), (MergedDraft(**RATE, models=(B1, B3, B1)), 13)
    ):  # fmt: skip
        costs = plan(question_of(draft, runtime="ideal"), Axes.of([1], [1024], [4])).costs
        assert np.ravel(costs.verified_tokens).tolist() == [nodes]


# --- schedules


@many("rate", [0.0, 0.3, 0.8, 1.0])
@many("gamma", [1, 2, 5])
def test_tokens_of_overlapped_drafting_are_accepted_drafts_and_rejections(rate, gamma):
    """No step has a bonus, and each drafts gamma tokens."""
    draft = small(schedule="pearl")
    found = lengths_of(draft, Independent(rate=rate), np.array([0, gamma]))
    tokens, per_drafted, rejected = (
        float(values[1, 0, 0])
        for values in (found.tokens_per_round, found.accepted_per_drafted, found.rejection_probability)
    )
    whole = rate / (rate + 1 - rate**gamma)
    assert rejected == pytest.approx((1 - whole) * (1 - rate) + whole * (1 - rate**gamma), abs=1e-12)
    assert tokens == pytest.approx(gamma * per_drafted + rejected, rel=1e-12)
    assert np.isnan(found.accepted_per_drafted[0, 0, 0])
    assert float(found.rejection_probability[0, 0, 0]) == 0


@many("gamma", [1, 4])
def test_repairs_of_overlapped_drafting(gamma):
    draft, axes = small(schedule="pearl"), Axes.of([1], [1024], [gamma])
    without, repaired = (
        plan(question_of(draft, runtime="ideal", costs=MeasuredCosts(draft_cost_ratio=0.1, repair=repair)), axes)
        for repair in (0.0, 2.0)
    )
    rejected = float(without.lengths.rejection_probability.item())
    paid = (repaired.round_seconds - without.round_seconds) / without.costs.plain_seconds
    assert paid.item() == pytest.approx(2 * rejected, rel=1e-9)


@many("draft", [
    small(schedule="pearl"), small(), LookupDraft(**RATE, hit_rate=0.5), head(MedusaDraft, "medusa-vicuna-7b"),
], ids=["pearl", "serial", "lookup", "medusa"])  # fmt: skip
def test_at_the_break_even_acceptance_a_round_with_repairs_gains_nothing(draft):
    target = served("vicuna-7b") if isinstance(draft, MedusaDraft) else LLAMA
    question = question_of(draft, target, "ideal", MeasuredCosts(draft_cost_ratio=0.02, repair=0.3))
    axes = Axes.of([1], [1024], [2, 8])
    rates = break_even_acceptance(question, axes).ravel()
    assert np.isfinite(rates).all()
    for index, rate in enumerate(rates):
        at = replace(question, draft=replace(draft, acceptance=Independent(rate=float(rate))))
        assert float(plan(at, axes).speedup[index, 0, 0]) == pytest.approx(1, abs=1e-9)


def write(tmp_path, text):
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


SCHEDULES = {
    "pearl": "{method: draft_model, model: llama-3.2-1b, schedule: pearl, own_device: true}",
    "prepared": "{method: draft_model, model: llama-3.2-1b, schedule: prepared, prepared_share: 0.7}",
    "serial": "{method: draft_model, model: llama-3.2-1b}",
}


@many("schedule", SCHEDULES)
def test_an_explanation_agrees_with_its_headline_in_every_schedule(schedule, tmp_path):
    file = write(tmp_path, f"format: 1\nkind: drafter\nname: mine\ndraft: {SCHEDULES[schedule]}\n")
    found = explained(draft=file, gamma=5)
    text, row = found.to_text(), next(iter(found.row.rows()))
    assert number(text, "drafts are accepted\\?\n  ", " tokens a round") == round(row["tokens_per_round"], 3)
    assert number(text, "would reach ", "x") >= round(row["speedup"], 2)
    # A step takes what it takes, whatever of it verification hides.
    serial = next(iter(explained(draft="llama-3.2-1b", gamma=5).row.rows()))
    share = number(text, "One step takes ", "% of a plain step")
    assert share == pytest.approx(100 * serial["draft_cost_ratio"], abs=0.06)


def test_an_explanation_of_heads_stops_at_the_heads():
    found = explained(target="vicuna-7b", draft="medusa-vicuna-7b", gamma=8)
    tokens = float(process_of(Independent(rate=0.8)).lengths(np.array([5])).tokens_per_round[0])
    assert number(found.to_text(), "drafts are accepted\\?\n  ", " tokens a round") == round(tokens, 3)
    assert ", 5 in 32.8%." in found.to_text()
    assert number(found.to_text(), "would reach .* at ", " tokens a round") == round(tokens, 2)


def test_an_explanation_of_a_lookup_tells_the_tokens_of_all_rounds():
    found = explained(draft="ngram", gamma=4)
    row = next(iter(found.row.rows()))
    assert number(found.to_text(), "drafts are accepted\\?\n  ", " tokens a round") == round(row["tokens_per_round"], 3)
    assert "Something is found in 40% of the rounds, which emit 3.362 tokens." in found.to_text()


# --- a drafter that knew where it will be rejected


@every
@many("batch", [1, 8])
@many("length", [0, 50])
def test_a_perfect_stop_is_never_beaten(name, batch, length):
    for rate in (0.1, 0.7, 0.95):
        draft, target = EVERY[name](acceptance=Independent(rate=rate))
        costs = MeasuredCosts(overhead=0.1, repair=0.3)
        question = question_of(draft, target, costs=costs, output_length=length)
        axes = Axes.of([batch], [1024], range(9))
        rounds = plan(question, axes)
        most = np.broadcast_to(rounds.speedup, axes.shape).max()
        assert perfect_stop(question, axes, rounds, 0).speedup >= most * (1 - 1e-12)


def test_a_perfect_stop_of_a_lookup_finds_no_more_than_the_lookup():
    """h .5, a .7, no time to draft: 1 + .5 (E - 1) tokens, and nothing but verification and the fixed cost."""
    question = question_of(LookupDraft(**RATE, hit_rate=0.5), runtime="ideal", costs=MeasuredCosts(overhead=0.2))
    axes = Axes.of([1], [1024], range(9))
    found = perfect_stop(question, axes, plan(question, axes), 0)
    assert found.tokens == pytest.approx(1 + 0.5 * ((1 - 0.7**9) / 0.3 - 1), rel=1e-12)
    assert found.speedup <= found.tokens / 1.2


# --- costs


@many("hit_rate", [0.0, 0.3, 1.0])
@many("batch", [1, 16])
def test_a_measured_search_is_made_in_every_round(hit_rate, batch):
    draft = LookupDraft(**RATE, hit_rate=hit_rate)
    found = plan(
        question_of(draft, costs=MeasuredCosts(draft_cost_ratio=0.1)), Axes.of([batch], [1024], [0, 1, 6])
    ).costs
    drafting = np.ravel(found.drafting_seconds / found.plain_seconds)
    assert drafting == pytest.approx([0, 0.1, 0.6], rel=1e-12)
    assert np.ravel(found.draft_cost_ratio)[1:].tolist() == [0.1, 0.1]


def test_measured_drafting_that_verification_hides_is_no_cost():
    """0.1 x 4 plain steps are shorter than any verification."""
    found = plan(
        question_of(small(schedule="pearl"), costs=MeasuredCosts(draft_cost_ratio=0.1)), Axes.of([1], [0], [4])
    )
    assert found.costs.draft_cost_ratio.item() == 0
    assert found.costs.whole_drafting_seconds.item() == pytest.approx(0.4 * found.costs.plain_seconds.item())


def test_where_nothing_is_ever_found_nothing_is_fixed():
    found = table(LookupDraft(**RATE, hit_rate=0.0))
    assert set(found.where(found["feasible"])["overhead_ms"].tolist()) == {0.0}


def test_models_that_draft_at_the_same_time_read_at_the_same_time():
    """The slower one counts, in front of an output as in a round."""
    both, slow = MergedDraft(models=(B1, B3), **RATE), MergedDraft(models=(B3,), **RATE)
    axes = Axes.of([1], [4096], [1])
    paid = [
        plan(question_of(draft, runtime="ideal", output_length=100), axes).costs.overhead_seconds.item()
        for draft in (both, slow)
    ]
    assert paid[0] == paid[1] > 0


# --- memory of a device of its own


def test_by_how_much_a_draft_exceeds_its_own_device():
    """256 sequences of 7005 tokens of an 8B draft: 131,072 bytes a token, beside its weights, on 141 GB."""
    question = question_of(small("llama-3-8b", own_device=True), B1, "ideal")
    found = plan(question, Axes.of([128, 256], [7000], [0, 4])).fit
    needed = 256 * 7005 * 131_072 + question.draft.device_weight_bytes
    excess = np.broadcast_to(found.excess_bytes, (2, 2, 1))
    assert excess[:, 0].ravel().tolist() == [0, 0]
    assert excess[:, 1].ravel() == pytest.approx(
        [0, needed - question.machine.hardware.memory.capacity_bytes], rel=1e-12
    )


def test_that_it_is_the_device_of_the_draft_is_said(tmp_path):
    draft = "{method: draft_model, model: llama-3-8b, own_device: true}"
    file = write(tmp_path, f"format: 1\nkind: drafter\nname: mine\ndraft: {draft}\n")
    options = {"target": "llama-3.2-1b", "draft": file, "batch_size": 256, "context_length": 7000}
    text = explained(**options, gamma=4).to_text()
    assert re.search(r"it exceeds memory by [0-9.]+ GB a device of the draft's own\.", text)
    rows = specsim.optimal_gamma(hardware="h100", acceptance="rate=0.8", **options)
    assert "the draft at some points, by kv_cache of the draft's own device" in rows.infeasible[0]
