"""Schedules, cascades, lookups and short outputs: figures of shared/research/algorithms.md, section 6, and coins."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import served

import specsim
from specsim.acceptance import independent_tokens_per_round, process_of
from specsim.catalog.cards import card
from specsim.cost.machine import Machine
from specsim.cost.passes import Pass
from specsim.cost.roofline import pass_time
from specsim.drafting import Round, drafting_of
from specsim.planning.lengths import lengths_of
from specsim.planning.question import Axes, Question
from specsim.planning.rounds import plan
from specsim.planning.schedules import exposed_seconds, pearl_steps
from specsim.specs.acceptance import Independent, Positional
from specsim.specs.drafter import CascadeDraft, DraftModel, Leg, LookupDraft, MeasuredDraft, RelayDraft
from specsim.specs.scenario import MeasuredCosts

many = pytest.mark.parametrize
digits = {"abs": 5.1e-7}


def model(rate=0.8, **more):
    return served("llama-3.2-1b", kind=DraftModel, acceptance=Independent(rate=rate), **more)


def tokens(draft, acceptance, gamma):
    return float(lengths_of(draft, acceptance, np.array([gamma])).tokens_per_round[0, 0, 0])


def measured(gamma, acceptance, **costs):
    """Speedup at one draft length, by the command."""
    table = specsim.optimal_gamma(acceptance=acceptance, max_gamma=gamma, all_gammas=True, **costs)
    return float(table["speedup"][gamma])


# --- one formula after another


def test_general_round_cost():
    """(g C_D + C_V + P(reject) C_R + C_O) / E, g 4, a .5: E 1.9375, P .9375, cost 1.56375, .807097 a token."""
    costs = {"draft_cost_ratio": 0.1, "verify_cost_ratio": 1.05, "repair": 0.1, "overhead": 0.02}
    assert 1 / measured(4, "rate=0.5", **costs) == pytest.approx(0.807097, **digits)


def test_parallel_drafting():
    """One pass of .08 with a (.75, .65, .55): 2.320023; one after another at .75, c .06: 2.317267."""
    assert measured(3, "conditional=0.75,0.65,0.55", draft_cost_ratio=0.08 / 3) == pytest.approx(2.320023, **digits)
    assert measured(3, "rate=0.75", draft_cost_ratio=0.06) == pytest.approx(2.317267, **digits)


PEARL = many(("rate", "gamma", "speedup", "serial"), [
    (0.8, 5, 2.283199, 1.867556), (0.6, 10, 1.558944, 1.673846), (0.9, 4, 2.764692, 2.086812),
])  # fmt: skip


@PEARL
def test_pearl(rate, gamma, speedup, serial):
    """g c = 1: a step lasts as long as a plain one, so speedup is tokens a step; serial at its best g for that c."""
    found = tokens(model(rate, schedule="pearl"), Independent(rate=rate), gamma)
    after_whole = rate / (rate + 1 - rate**gamma)
    by_hand = 1 - after_whole + after_whole * (1 - rate**gamma) / (1 - rate)
    assert found == pytest.approx(by_hand, rel=1e-12)
    assert found == pytest.approx(speedup, **digits)
    assert float(exposed_seconds(model(rate, schedule="pearl"), np.float64(1), np.float64(1))) == 0
    best = specsim.optimal_gamma(acceptance=f"rate={rate}", draft_cost_ratio=1 / gamma, max_gamma=20)
    assert float(best["speedup"][0]) == pytest.approx(serial, **digits)


def test_prepared_outcome():
    """t_V + (1 - h) g t_d + h max(0, g t_d - t_V): a .8, g 5, t_d .2, h .6: 2.635200; serial 1.844640."""
    emitted = tokens(model(), Independent(rate=0.8), 5)
    prepared = model(schedule="prepared", prepared_share=0.6)
    times = {draft: float(exposed_seconds(draft, np.float64(1), np.float64(1))) for draft in (model(), prepared)}
    assert emitted / (1 + times[prepared]) == pytest.approx(2.635200, **digits)
    assert emitted / (1 + times[model()]) == pytest.approx(1.844640, **digits)
    # Drafting of 1.5 beside verification of 1: .4 x 1.5 + .6 x .5.
    assert float(exposed_seconds(prepared, np.float64(1.5), np.float64(1))) == pytest.approx(0.9, rel=1e-12)


def test_cascade():
    """c_eff = (g2 c2 + c1) / E(a12, g2), c1 .2, c2 .02, a .8: g2 6, .080983, 2.659279 at g 6; 1.867556 without.

    That is what one token more costs in a draft without end, of which the last inner round is no part.
    """
    inner = np.arange(1, 20)
    ratios = np.array([np.diff(inner_rounds(0.8, g, [899, 900]))[0] * (g * 0.02 + 0.2) for g in inner])
    assert inner[ratios.argmin()] == 6
    assert ratios.min() == pytest.approx(0.080983, **digits)
    best = specsim.optimal_gamma(acceptance="rate=0.8", draft_cost_ratio=float(ratios.min()), max_gamma=12)
    assert (int(best["gamma"][0]), float(best["speedup"][0])) == (6, pytest.approx(2.659279, **digits))
    best = specsim.optimal_gamma(acceptance="rate=0.8", draft_cost_ratio=0.2, max_gamma=12)
    assert float(best["speedup"][0]) == pytest.approx(1.867556, **digits)


def inner_rounds(rate, inner_gamma, gammas):
    """Whole rounds of the two smaller models for each draft length, from the passes of a cascade."""
    draft = served(
        "llama-3.2-3b", kind=CascadeDraft, acceptance=Independent(rate=0.8), inner=served("llama-3.2-1b"),
        inner_gamma=inner_gamma, inner_rate=rate,
    )  # fmt: skip
    gamma = np.asarray(gammas, dtype=float).reshape(-1, 1, 1)
    ((inner, middle),) = drafting_of(draft, served("llama-3-8b"), Round(gamma, gamma, np.ones(()), np.zeros(()))).lanes
    np.testing.assert_allclose(inner.times, middle.times * inner_gamma, rtol=1e-15)
    return middle.times.reshape(-1)


def test_a_cascade_of_whole_rounds():
    """a .5, 1 inner draft: 1 or 2 tokens, .5 each. N(1) 1, N(2) 1 + .5 N(1) = 1.5, N(3) 1 + .5 (N(2) + N(1)) = 2.25."""
    assert inner_rounds(0.5, 1, [0, 1, 2, 3]).tolist() == [0, 1, 1.5, 2.25]
    assert inner_rounds(1.0, 3, [1, 4, 5, 8, 9]).tolist() == [1, 1, 2, 2, 3]
    assert inner_rounds(0.0, 3, [1, 4]).tolist() == [1, 4]


@many(("rate", "inner_gamma", "gamma"), [(0.8, 2, 4), (0.6, 5, 7), (0.9, 3, 1)])
def test_whole_rounds_of_a_cascade_by_coins(rate, inner_gamma, gamma):
    rng = np.random.default_rng(23)
    emitted = geometric(rng, rate, inner_gamma, 30_000 * gamma).reshape(-1, gamma).cumsum(axis=1)
    found = (emitted < gamma).sum(axis=1) + 1
    expected = float(inner_rounds(rate, inner_gamma, [gamma])[0])
    assert abs(found.mean() - expected) <= 4 * found.std() / np.sqrt(len(found))


def test_a_horizontal_cascade():
    """E = sum of prod a_i, time sum c_i + t_V (CS Drafting): a (.8, .7, .6), two of c .2 and one of .02."""
    legs = tuple(Leg(model=served(name), tokens=n) for name, n in (("llama-3.2-3b", 2), ("llama-3.2-1b", 1)))
    acceptance = Positional(conditional=(0.8, 0.7, 0.6))
    draft = RelayDraft(acceptance=acceptance, legs=legs)
    points = (np.asarray(float(x)) for x in (3, 3, 1, 0))
    (lane,) = drafting_of(draft, served("llama-3-8b"), Round(*points)).lanes
    cost = sum(float(part.times) * c for part, c in zip(lane, (0.2, 0.02), strict=True))
    assert cost == pytest.approx(0.42, rel=1e-12)
    assert tokens(draft, acceptance, 3) / (1 + cost) == pytest.approx(2.696 / 1.42, rel=1e-12)


LOOKUP = {"acceptance": Independent(rate=0.7), "hit_rate": 0.4}


def test_lookup():
    """((1 - h) + h E(a, g)) / ((1 - h) t(1) + h t_V): h .4, a .7, g 8, t_V 1.1: 1.807239."""
    emitted = tokens(LookupDraft(**LOOKUP), Independent(rate=0.7), 8)
    assert emitted == pytest.approx(0.6 + 0.4 * (1 - 0.7**9) / 0.3, rel=1e-12)
    assert emitted / (0.6 + 0.4 * 1.1) == pytest.approx(1.807239, **digits)


LLAMA = {"machine": Machine(card("hardware", "h100-sxm5"), card("runtime", "ideal")), "target": served("llama-3-8b")}


def test_lookup_with_a_measured_verification():
    """The same by the planner, at batch 1: rounds without a hit are plain steps, whatever verification costs."""
    question = Question(**LLAMA, draft=LookupDraft(**LOOKUP), costs=MeasuredCosts(verify_cost_ratio=1.1))
    found = plan(question, Axes.of([1], [1024], [0, 8]))
    assert float(found.speedup[1, 0, 0]) == pytest.approx(1.807239, **digits)


@many("gamma", [1, 2, 8])
def test_work_of_a_lookup_at_batch_1_is_that_of_its_hits(gamma):
    """Time, operations and bytes of a round = (1 - h) of a plain step + h of a verification."""
    axes = Axes.of([1], [1024], [gamma])
    always = plan(Question(**LLAMA, draft=LookupDraft(acceptance=Independent(rate=0.7))), axes)
    often = plan(Question(**LLAMA, draft=LookupDraft(**LOOKUP)), axes)
    for name in ("verification_seconds", "operations_ratio", "bytes_ratio"):
        whole, found = (np.ravel(getattr(one.costs, name))[0] for one in (always, often))
        plain = np.ravel(always.costs.plain_seconds)[0] if name == "verification_seconds" else 1.0
        assert found == pytest.approx(0.6 * plain + 0.4 * whole, rel=1e-12), name


@many("gamma", [1, 2, 4])
def test_the_host_searches_in_every_round(gamma):
    """``host_time`` is the time of the host for one round, found or not and however short the draft."""
    question = Question(**LLAMA, draft=LookupDraft(**LOOKUP, host_time_seconds=1e-4))
    found = plan(question, Axes.of([1, 8], [1024], [gamma])).costs
    assert np.ravel(found.drafting_seconds) == pytest.approx(1e-4, rel=1e-12)


def test_steps_of_a_batch_in_which_some_find_something():
    """1 - (1 - h)^B of steps verify; hits are then h / that of the sequences, with 1 + g tokens each."""
    rng = np.random.default_rng(3)
    hits = rng.random((200_000, 6)) < 0.2
    some = hits.any(axis=1)
    assert some.mean() == pytest.approx(1 - 0.8**6, abs=4 * 0.5 / np.sqrt(len(some)))
    found = plan(
        Question(**LLAMA, draft=LookupDraft(acceptance=Independent(rate=0.7), hit_rate=0.2)), Axes.of([6], [1024], [4])
    ).costs
    points = (np.float64(x) for x in (6, 1 + 4 * hits[some].mean(), 1024))
    whole = pass_time(Pass(LLAMA["target"], *points), LLAMA["machine"]).seconds
    by_coins = (1 - some.mean()) * found.plain_seconds + some.mean() * whole
    np.testing.assert_allclose(np.ravel(found.verification_seconds), np.ravel(by_coins), rtol=1e-4)


# --- coins


def pearl_coins(rng, rate, gamma, steps):
    """Tokens of each step: of one new draft after a rejection, of whole drafts without a bonus after acceptance."""
    whole, emitted = False, np.empty(steps)
    coins = rng.random((steps, gamma)) < rate
    for step in range(steps):
        run = int(coins[step].cumprod().sum())
        if whole:
            whole, emitted[step] = run == gamma, min(run + 1, gamma)
        else:
            # A verified first token stays at the head of the draft that goes on; its rejection costs one token too.
            whole, emitted[step] = bool(coins[step, 0]), 1
    return emitted


def blocks_apart(values, expected, size=500):
    """Deviation of a mean of dependent values, in standard errors of means of blocks."""
    means = values[: len(values) // size * size].reshape(-1, size).mean(axis=1)
    return abs(means.mean() - expected) / (means.std() / np.sqrt(len(means)))


@PEARL
def test_pearl_by_coins(rate, gamma, speedup, serial):
    found = pearl_coins(np.random.default_rng(11), rate, gamma, 300_000)
    assert blocks_apart(found, tokens(model(rate, schedule="pearl"), Independent(rate=rate), gamma)) < 4


def test_pearl_by_coins_of_drafts_that_depend_on_the_position():
    """x_1 / (x_1 + 1 - x_g) of steps with a (.9, .6, .8), which each emit x_0 + ... + x_(g - 1)."""
    conditional, rng, whole = (0.9, 0.6, 0.8), np.random.default_rng(5), False
    coins = (rng.random((300_000, 3)) < conditional).cumprod(axis=1).sum(axis=1)
    emitted = np.empty(len(coins))
    for step, run in enumerate(coins):
        emitted[step] = min(run + 1, 3) if whole else 1
        whole = run == 3 if whole else run > 0
    process = process_of(Positional(conditional=conditional))
    expected = pearl_steps(process.lengths(np.array([3])), process.lengths(np.array([1])))
    assert blocks_apart(emitted, float(expected.tokens_per_step[0])) < 4


@many(("hit_rate", "rate", "gamma"), [(0.4, 0.7, 8), (0.9, 0.3, 2), (0.05, 1.0, 5)])
def test_lookup_by_coins(hit_rate, rate, gamma):
    rng = np.random.default_rng(13)
    run = (rng.random((200_000, gamma)) < rate).cumprod(axis=1).sum(axis=1)
    found = 1 + run * (rng.random(200_000) < hit_rate)
    draft = LookupDraft(acceptance=Independent(rate=rate), hit_rate=hit_rate)
    assert abs(found.mean() - tokens(draft, Independent(rate=rate), gamma)) < 4 * found.std() / np.sqrt(len(found))


def rounds_of_outputs(emitted, length, outputs):
    """Rounds and tokens too many of outputs of one length, from rounds that follow each other."""
    rounds, beyond, at = np.empty(outputs), np.empty(outputs), 0
    for output in range(outputs):
        have, first = 0, at
        while have < length:
            have += emitted[at]
            at += 1
        rounds[output], beyond[output] = at - first, have - length
    return rounds, beyond


COINS = {
    "chain": (MeasuredDraft(acceptance=Independent(rate=0.8)), lambda rng: geometric(rng, 0.8, 4)),
    "never wrong": (MeasuredDraft(acceptance=Independent(rate=1)), lambda rng: np.full(1_000_000, 7.0)),
    "lookup": (
        LookupDraft(acceptance=Independent(rate=0.8), hit_rate=0.4),
        lambda rng: 1 + (geometric(rng, 0.8, 8) - 1) * (rng.random(1_000_000) < 0.4),
    ),
    "pearl": (model(0.8, schedule="pearl"), lambda rng: pearl_coins(rng, 0.8, 5, 400_000)),
}


def geometric(rng, rate, gamma, count=1_000_000):
    return 1.0 + (rng.random((count, gamma)) < rate).cumprod(axis=1).sum(axis=1)


@many(("name", "gamma"), [("chain", 4), ("never wrong", 6), ("lookup", 8), ("pearl", 5)])
def test_tokens_beyond_the_end_of_an_output_by_coins(name, gamma):
    """Renewal: (E[T^2] / E[T] - 1) / 2 tokens beyond; lengths of 200 to 263, so that no lattice shows."""
    draft, coins = COINS[name]
    lengths = lengths_of(draft, draft.acceptance, np.array([gamma]))
    rng = np.random.default_rng(17)
    emitted, beyond, at = coins(rng), [], 0
    for length in rng.integers(200, 264, 3000 if name != "pearl" else 2000):
        have = 0
        while have < length and at < len(emitted):
            have += emitted[at]
            at += 1
        beyond.append(have - length)
    beyond = np.array(beyond)
    error = beyond.std() / np.sqrt(len(beyond))
    assert abs(beyond.mean() - float(lengths.overshoot[0, 0, 0])) < 4 * error


@many("length", [256, 32])
def test_rounds_of_an_output_by_coins(length):
    """A .8, g 4: 9.984426 rounds for 32 tokens and 76.619189 for 256 (section 1.3)."""
    draft = MeasuredDraft(acceptance=Independent(rate=0.8))
    rounds = length / float(lengths_of(draft, draft.acceptance, np.array([4])).per_output(length)[0, 0, 0])
    assert rounds == pytest.approx({32: 9.984426, 256: 76.619189}[length], rel=1e-4)
    found, _ = rounds_of_outputs(geometric(np.random.default_rng(19), 0.8, 4), length, 3000)
    assert abs(found.mean() - rounds) < 4 * found.std() / np.sqrt(len(found))


@many("length", [1, 2, 3, 5, 8])
@many("rate", [0.3, 0.8, 1.0])
def test_a_round_counts_no_more_than_the_tokens_of_an_output(rate, length):
    """Rounds of an output are whole and at least one: so no round counts for more than the whole output."""
    draft = MeasuredDraft(acceptance=Independent(rate=rate))
    counted = lengths_of(draft, draft.acceptance, np.arange(9)).per_output(length)
    assert counted.max() <= length * (1 + 1e-12)
    assert float(independent_tokens_per_round(rate, 0)) == float(counted[0, 0, 0]) == 1
