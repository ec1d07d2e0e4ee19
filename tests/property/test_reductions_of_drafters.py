"""Drafters that reduce to something plainer give its rows, bit by bit; and what holds for each of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from conftest import columns_differ, served
from hypothesis import given, settings
from hypothesis import strategies as st

from specsim.catalog.cards import card
from specsim.cost.machine import Machine
from specsim.cost.roofline import pass_time
from specsim.drafting import drafting_of
from specsim.planning.costs import round_of
from specsim.planning.lengths import lengths_of
from specsim.planning.question import Axes, Question, plain_step
from specsim.planning.rounds import plan
from specsim.planning.sweep import Block
from specsim.report.columns import Answer, rows
from specsim.specs.acceptance import Independent
from specsim.specs.drafter import (
    CascadeDraft,
    DraftModel,
    Eagle3Draft,
    EagleDraft,
    LayersDraft,
    Leg,
    LookaheadDraft,
    LookupDraft,
    MeasuredDraft,
    MedusaDraft,
    MergedDraft,
    MtpDraft,
    RelayDraft,
    WindowDraft,
    models_of,
)
from specsim.specs.precision import PRECISIONS
from specsim.specs.scenario import Grid, MeasuredCosts, Scenario

many = pytest.mark.parametrize
GRID = Grid(batch_size=(1, 4, 33, 256), context_length=(0, 100, 1024, 5000), gamma=(0, 1, 4, 8))
AXES = Axes.of(GRID.batch_size, GRID.context_length, GRID.gamma)
ABOUT_THE_DRAFT = ("draft", "method", "draft_precision", "draft_tensor_parallel")
WORK = ("operations_factor", "bytes_factor")
LLAMA = served("llama-3-8b")
RATE = {"acceptance": Independent(rate=0.7)}


def question_of(draft, target=LLAMA, runtime="typical", costs=None, output_length=0, hardware="h200"):
    machine = Machine(card("hardware", hardware), card("runtime", runtime))
    return Question(machine, target, draft, costs, output_length=output_length)


def table(draft, target=LLAMA, **more):
    """All rows for one drafter."""
    question = question_of(draft, target, **more)
    machine = question.machine
    scenario = Scenario(
        hardware=machine.hardware, runtime=machine.runtime, target=target, drafts=(draft,), costs=question.costs,
        output_length=question.output_length, grid=GRID,
    )  # fmt: skip
    return rows(Answer(Block(scenario, question, AXES), plan(question, AXES)))


def small(name="llama-3.2-1b", **more):
    return served(name, kind=DraftModel, **{**RATE, **more})


def head(kind, name, **more):
    return kind(head=card("head", name), precision=PRECISIONS["bf16"], kv_precision="bf16", **{**RATE, **more})


B1 = served("llama-3.2-1b")
B3 = served("llama-3.2-3b")
MODULE = {"target": served("deepseek-v3", 8, precision="fp8-w8a8"), "tensor_parallel": 8}
EVERY = {
    "model": lambda **more: (small(**more), LLAMA),
    "one pass": lambda **more: (small(passes="one", **more), LLAMA),
    "short window": lambda **more: (small(window=64, **more), LLAMA),
    "own device": lambda **more: (small(own_device=True, **more), LLAMA),
    "prepared": lambda **more: (small(schedule="prepared", prepared_share=0.5, **more), LLAMA),
    "pearl": lambda **more: (small(schedule="pearl", own_device=True, **more), LLAMA),
    "eagle": lambda **more: (head(EagleDraft, "eagle-llama3-instruct-8b", **more), LLAMA),
    "eagle3": lambda **more: (head(Eagle3Draft, "eagle3-llama3.1-8b", **more), served("llama-3.1-8b")),
    "p-eagle": lambda **more: (head(Eagle3Draft, "eagle3-llama3.1-8b", passes="one", **more), served("llama-3.1-8b")),
    "mtp": lambda **more: (head(MtpDraft, "deepseek-v3-mtp", tensor_parallel=8, **more), MODULE["target"]),
    "medusa": lambda **more: (head(MedusaDraft, "medusa-vicuna-7b", **more), served("vicuna-7b")),
    "medusa apart": lambda **more: (head(MedusaDraft, "medusa-vicuna-7b", merged=False, **more), served("vicuna-7b")),
    "lookup": lambda **more: (LookupDraft(**{**RATE, **more}, hit_rate=0.5, host_time_seconds=1e-4), LLAMA),
    "layers": lambda **more: (LayersDraft(**{**RATE, **more}, layers=8), LLAMA),
    "window": lambda **more: (WindowDraft(**{**RATE, **more}, window=64), LLAMA),
    "lookahead": lambda **more: (LookaheadDraft(**{**RATE, **more}, window=5, guesses=5), LLAMA),
    "merged": lambda **more: (MergedDraft(**{**RATE, **more}, models=(B1, B3)), LLAMA),
    "cascade": lambda **more: (
        served("llama-3.2-3b", kind=CascadeDraft, **{**RATE, **more}, inner=B1, inner_gamma=3, inner_rate=0.8), LLAMA
    ),
    "relay": lambda **more: (
        RelayDraft(**{**RATE, **more}, legs=(Leg(model=B3, tokens=2), Leg(model=B1, tokens=9))), LLAMA
    ),
}  # fmt: skip
every = many("name", EVERY)


# --- reductions


@many("window", [6000, 131_072])
@many("runtime", ["typical", "lecture"])
def test_a_window_that_reaches_everything_is_the_whole_cache(window, runtime):
    assert columns_differ(table(small(), runtime=runtime), table(small(window=window), runtime=runtime)) == []
    own, own_again = (table(WindowDraft(window=w, **RATE), runtime=runtime) for w in (window, 100_000))
    assert columns_differ(own, own_again) == []


def test_the_target_over_a_window_that_reaches_everything_costs_plain_steps():
    """Its cache is kept a second time."""
    found = table(WindowDraft(window=6000, **RATE), runtime="ideal")
    fits = found.where(found["feasible"] & (found["gamma"] > 0))
    assert set(fits["draft_cost_ratio"].tolist()) == {1.0}


def test_all_layers_of_the_target_are_a_plain_step():
    """Under a runtime without a cost of draft steps."""
    whole = table(LayersDraft(layers=32, **RATE), runtime="ideal")
    one = table(MeasuredDraft(**RATE), costs=MeasuredCosts(draft_cost_ratio=1.0), runtime="ideal")
    fits = whole.where(whole["feasible"] & (whole["gamma"] > 0))
    assert set(fits["draft_cost_ratio"].tolist()) == {1.0}
    assert columns_differ(whole, one, but=(*ABOUT_THE_DRAFT, *WORK)) == []


@many("make", [
    lambda: MergedDraft(models=(B1,), **RATE),
    lambda: RelayDraft(legs=(Leg(model=B1, tokens=1),), **RATE),
    lambda: RelayDraft(legs=(Leg(model=B1, tokens=2), Leg(model=B1, tokens=3)), **RATE),
], ids=["merged", "relay", "relay of the same twice"])  # fmt: skip
def test_one_model_of_several_is_that_model(make):
    draft, alone, but = make(), table(small()), ABOUT_THE_DRAFT
    found = table(draft)
    if len(models_of(draft)) > 1:
        # The same model is held twice.
        but = (*but, "memory_bytes", "draft_memory_bytes", "max_batch_size", "feasible", "limit", "limit_excess_bytes")
        for name in ("drafting_ms", "speedup"):
            both = alone["feasible"] & found["feasible"]
            np.testing.assert_allclose(found[name][both], alone[name][both], rtol=1e-14, err_msg=name)
        return
    assert columns_differ(alone, found, but=but) == []


MEMORY = ("memory_bytes", "draft_memory_bytes", "max_batch_size", "limit_excess_bytes")


@many("name", ["llama-3.2-1b", "llama-68m"])
def test_a_device_of_its_own_changes_memory_and_accelerators_alone(name):
    """Also where the draft has fewer positions than the target: llama-68m has 2048, and GRID asks for 5000."""
    beside, apart = table(small(name)), table(small(name, own_device=True))
    assert columns_differ(beside, apart, but=(*MEMORY, "accelerators")) == []
    assert set(apart["accelerators"].tolist()) == {2}
    assert set(apart["draft_memory_bytes"].tolist()) == {0}
    assert np.all(apart["max_batch_size"] >= beside["max_batch_size"])


def test_nothing_prepared_is_serial():
    assert columns_differ(table(small()), table(small(schedule="prepared", prepared_share=0.0))) == []


def test_a_drafter_that_takes_no_time_is_free_in_every_schedule():
    free = MeasuredCosts(draft_cost_ratio=0.0)
    serial = table(small(), costs=free)
    prepared = table(small(schedule="prepared", prepared_share=1.0), costs=free)
    assert columns_differ(serial, prepared) == []
    pearl = table(small(schedule="pearl"), costs=free)
    np.testing.assert_array_equal(serial["round_ms"], pearl["round_ms"])


def test_what_verification_hides_costs_nothing():
    """A draft of half a plain step for all its tokens is shorter than any verification."""
    quick = MeasuredCosts(draft_cost_ratio=0.5 / 8)
    hidden = table(small(schedule="prepared", prepared_share=1.0), costs=quick)
    free = table(small(), costs=MeasuredCosts(draft_cost_ratio=0.0))
    for name in ("drafting_ms", "round_ms", "speedup"):
        np.testing.assert_array_equal(hidden[name], free[name], err_msg=name)


@many("batch", [1, 64])
def test_a_lookup_that_always_finds_at_once_is_free(batch):
    found = table(LookupDraft(**RATE))
    free = table(MeasuredDraft(**RATE), costs=MeasuredCosts(draft_cost_ratio=0.0))
    assert columns_differ(found, free, but=ABOUT_THE_DRAFT) == []


def test_a_lookup_that_never_finds_is_plain_decoding():
    found = table(LookupDraft(**RATE, hit_rate=0.0), runtime="ideal")
    fits = found.where(found["feasible"])
    np.testing.assert_allclose(fits["speedup"], 1.0, rtol=1e-14)
    assert set(fits["drafting_ms"].tolist()) == {0.0}


@many("draft", [
    LookupDraft(acceptance=Independent(rate=1)), MeasuredDraft(acceptance=Independent(rate=1)),
], ids=["lookup", "measured"])  # fmt: skip
def test_a_free_drafter_that_is_always_right_gives_gamma_plus_1_over_the_verify_ratio(draft):
    costs = MeasuredCosts(draft_cost_ratio=0.0) if isinstance(draft, MeasuredDraft) else None
    found = table(draft, runtime="ideal", costs=costs)
    fits = found.where(found["feasible"])
    np.testing.assert_allclose(fits["speedup"], (fits["gamma"] + 1) / fits["verify_cost_ratio"], rtol=1e-14)


def test_one_pass_of_one_token_is_a_step():
    chain, one = (table(small(passes=passes)) for passes in ("chain", "one"))
    at_most_1 = chain["gamma"] <= 1
    rest = ("best", "near_best")
    assert columns_differ(chain.where(at_most_1), one.where(at_most_1), but=rest) == []


@many("context", [0, 1024])
def test_a_cascade_whose_inner_model_is_never_right_verifies_every_token(context):
    """Rounds of one token: g passes of the larger one over 1 + inner_gamma tokens."""
    never = served("llama-3.2-3b", kind=CascadeDraft, **RATE, inner=B1, inner_gamma=3, inner_rate=0.0)
    axes = Axes.of([1], [context], [4])
    found = drafting_of(never, LLAMA, round_of(axes, lengths_of(never, never.acceptance, np.array([4]))))
    assert [float(np.ravel(part.times)[0]) for part in found.lanes[0]] == [12, 4]


def test_medusa_drafts_no_more_than_it_has_heads():
    draft = head(MedusaDraft, "medusa-vicuna-7b")
    axes = Axes.of([1, 8], [1024], [5, 6, 9])
    found = plan(question_of(draft, served("vicuna-7b")), axes)
    for values in (found.round_seconds, found.speedup, found.lengths.drafted_per_round, found.fit.needed_bytes):
        whole = np.broadcast_to(values, (3, *values.shape[1:]))
        assert np.array_equal(whole[0], whole[1])
        assert np.array_equal(whole[0], whole[2])


# --- outputs with an end


@every
def test_a_long_output_is_one_without_an_end(name):
    draft, target = EVERY[name]()
    endless, long = (table(draft, target, output_length=n) for n in (0, 10**9))
    fits = endless["feasible"]
    assert np.array_equal(fits, long["feasible"])
    np.testing.assert_allclose(long["speedup"][fits], endless["speedup"][fits], rtol=1e-6)
    np.testing.assert_allclose(long["round_ms"][fits], endless["round_ms"][fits], rtol=1e-6)


@every
def test_shorter_outputs_gain_less(name):
    draft, target = EVERY[name]()
    found = [plan(question_of(draft, target, output_length=n), AXES).speedup for n in (8, 64, 1024, 0)]
    for shorter, longer in pairwise(found):
        assert np.all(shorter <= longer * (1 + 1e-12))
    assert np.all(found[0][0] == 1)


@many("name", ["layers", "window", "lookup", "lookahead", "medusa", "medusa apart"])
def test_what_uses_the_cache_of_the_target_has_nothing_to_read(name):
    """The target has read the context for itself; only models and heads with layers read it once more."""
    draft, target = EVERY[name]()
    endless, short = (plan(question_of(draft, target, output_length=n), AXES) for n in (0, 64))
    np.testing.assert_array_equal(
        np.broadcast_to(short.costs.overhead_seconds, (4, 4, 4)),
        np.broadcast_to(endless.costs.overhead_seconds, (4, 4, 4)),
    )


@many("length", [16, 256])
def test_reading_the_context_is_paid_once_an_output(length):
    """Rounds of an output x what a round pays for reading is the same for every draft length."""
    found, endless = (plan(question_of(small(), output_length=n), AXES) for n in (length, 0))
    rounds = length / found.lengths.per_output(length)
    reading = (found.costs.overhead_seconds - endless.costs.overhead_seconds)[1:] * rounds[1:]
    np.testing.assert_allclose(reading / reading[:1], 1, rtol=1e-9)


@many("context", [1024, 4096])
def test_reading_the_context_makes_logits_of_its_last_token_only(context):
    """One product of context tokens with all layers, 2 P each, and one token with the head; compute-bound here."""
    machine = Machine(card("hardware", "h200"), card("runtime", "ideal"))
    axes, length = Axes.of([1], [context], [4]), 256
    question = Question(machine, LLAMA, small(), output_length=length)
    paid = np.ravel(plan(question, axes).costs.overhead_seconds)[0]
    reading = paid * length / np.ravel(plan(question, axes).lengths.tokens_per_round)[0]
    layers = 1_235_814_400 - 128_256 * 2048
    attention = 4 * 16 * 2048 * context * (context + 1) / 2
    by_hand = (2 * layers * context + attention) / machine.hardware.dense_rate.of("bf16")
    assert reading == pytest.approx(by_hand, rel=0.1)


# --- what holds for every drafter


@every
def test_times_are_finite_and_memory_is_no_less_than_nothing(name):
    draft, target = EVERY[name]()
    question = question_of(draft, target)
    found = plan(question, AXES)
    lengths = lengths_of(draft, draft.acceptance, AXES.gamma.reshape(-1))
    for lane in drafting_of(draft, target, round_of(AXES, lengths)).lanes:
        for part in lane:
            seconds = pass_time(part.of, question.machine).seconds
            assert np.all(np.isfinite(seconds))
            assert np.all(seconds > 0)
            assert np.all(part.times >= 0)
            assert np.all(np.ravel(part.times)[0] == 0)
    for seconds in (found.round_seconds, found.costs.verification_seconds, found.speedup):
        assert np.all(np.isfinite(seconds))
        assert np.all(seconds > 0)
    assert np.all(found.costs.drafting_seconds >= 0)
    assert np.all(found.fit.draft_bytes >= 0)
    assert np.all(found.fit.needed_bytes >= found.fit.draft_bytes)
    assert np.all(found.speedup[0] == 1)
    plain = pass_time(plain_step(target, AXES.batch_size, AXES.context_length), question.machine).seconds
    np.testing.assert_array_equal(np.broadcast_to(found.round_seconds, AXES.shape)[0], plain)


@every
def test_longer_drafts_never_make_a_cheaper_round(name):
    draft, target = EVERY[name]()
    axes = Axes.of(GRID.batch_size, GRID.context_length, range(17))
    found = plan(question_of(draft, target), axes)
    for values in (found.round_seconds, found.fit.needed_bytes, found.costs.operations_ratio):
        whole = np.broadcast_to(values, axes.shape)
        assert np.all(np.diff(whole, axis=0) >= -1e-12 * whole.max())


@every
@settings(max_examples=15, deadline=None)
@given(low=st.floats(0, 1), high=st.floats(0, 1), length=st.sampled_from([0, 40, 4000]))
def test_speedup_rises_with_acceptance(name, low, high, length):
    found = []
    for rate in sorted((low, high)):
        draft, target = EVERY[name](acceptance=Independent(rate=rate))
        found.append(plan(question_of(draft, target, output_length=length), AXES).speedup)
    assert np.all(found[1] >= found[0] * (1 - 1e-12))


@settings(max_examples=40, deadline=None)
@given(
    low=st.floats(0, 1), high=st.floats(0, 1), rate=st.floats(0, 1), batch=st.sampled_from([1, 2, 16, 200]),
    host=st.sampled_from([0.0, 1e-4]),
)  # fmt: skip
def test_a_higher_hit_rate_pays_where_drafting_pays(low, high, rate, batch, host):
    """At batch 1 a round is a mixture of plain steps and of rounds that draft; more of the faster ones is faster."""
    axes = Axes.of([batch], [1024], [1, 4, 8])

    def at(hit_rate):
        draft = LookupDraft(acceptance=Independent(rate=rate), hit_rate=hit_rate, host_time_seconds=host)
        return plan(question_of(draft, runtime="ideal"), axes).speedup

    less, more, always = (at(h) for h in (*sorted((low, high)), 1.0))
    if batch == 1:
        pays = always > 1
        assert np.all(more[pays] >= less[pays] * (1 - 1e-12))
    assert np.all(at(0.0) <= 1 + 1e-12)


@given(rate=st.floats(0, 1), gamma=st.integers(1, 40))
def test_pearl_emits_from_1_to_gamma_tokens(rate, gamma):
    """No bonus token: gamma, and not gamma + 1, where every draft is right; never more than serial rounds emit."""
    pearl, serial = small(schedule="pearl"), small()
    found, most = (
        float(lengths_of(draft, Independent(rate=rate), np.array([gamma])).tokens_per_round[0, 0, 0])
        for draft in (pearl, serial)
    )
    assert found * (1 + 1e-12) >= 1
    assert found <= min(gamma, most) * (1 + 1e-12)
    if rate == 1:
        assert found == gamma
    if rate == 0:
        assert found == 1


def test_a_draft_device_that_is_too_small_is_told():
    """An 8B draft on a device of 141 GB: 256 sequences of 7005 tokens are 235 GB of its cache, 128 are 118 GB.

    The largest batch that fits is no batch that does not.
    """
    machine = Machine(card("hardware", "h200"), card("runtime", "ideal"))
    batches = [1, 128, 256]
    axes = Axes.of(batches, [7000], [4])
    found = plan(Question(machine, B1, small("llama-3-8b", own_device=True)), axes).fit
    limit, most = (np.broadcast_to(x, (1, 3, 1)).ravel() for x in (found.limit, found.max_batch_size))
    assert (limit == 0).tolist() == [True, True, False]
    assert np.array_equal(limit == 0, np.array(batches) <= most)
