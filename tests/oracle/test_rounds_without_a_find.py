"""Lookups that find nothing in some rounds, where rounds remember: regimes, classes of requests, tables by context.

By hand: with N = h N_gamma + (1 - h) I the tokens per round of regimes are 1 / (pi N^-1 1). Easy 0.95 and hard 0.3 in
runs of 30 tokens, hit rate 0.4: 1.578333 at gamma 4 and 1.764813 at gamma 8; 1 + h (tau - 1) would give 1.473752 and
1.568795, as if rounds began where they do without such rounds. Classes count by their rounds: 1 / E is the mean of
1 / E_i over tokens.
"""

from __future__ import annotations

import numpy as np
import pytest

import specsim
from specsim.acceptance import RegimeChain, now_and_then, process_of
from specsim.acceptance.regimes import runs_to_transitions
from specsim.planning.lengths import lengths_of
from specsim.planning.schedules import pearl_lengths, pearl_steps
from specsim.specs.acceptance import AtContext, ByContext, Classes, Independent, Regime, Regimes, RequestClass, Survival
from specsim.specs.drafter import LookupDraft

BURSTY = Regimes(
    regimes={
        "easy": Regime(acceptance_probability=(0.95,), mean_run_tokens=30.0),
        "hard": Regime(acceptance_probability=(0.3,), mean_run_tokens=30.0),
    }
)
CLASSES = Classes(
    classes={
        "chat": RequestClass(request_share=0.5, output_tokens=100.0, acceptance=Independent(rate=0.6)),
        "code": RequestClass(request_share=0.5, output_tokens=300.0, acceptance=Independent(rate=0.9)),
    }
)


def lengths(acceptance, hit_rate, gamma, context=None):
    draft = LookupDraft(acceptance=acceptance, hit_rate=hit_rate)
    return lengths_of(draft, acceptance, np.array(gamma), None if context is None else np.array([float(context)]))


def simulated(hit_rate, gamma, rounds, seed):
    """Tokens of rounds and what they reject, from regimes that are drawn position by position."""
    generator = np.random.default_rng(seed)
    uniform = generator.random((rounds, 2 * gamma + 3))
    easy, tokens, rejected = True, 0, 0
    for row in uniform:
        accepted = 0
        if row[0] < hit_rate:
            while accepted < gamma and row[1 + 2 * accepted] < (0.95 if easy else 0.3):
                easy ^= row[2 + 2 * accepted] < 1 / 30
                accepted += 1
            rejected += accepted < gamma
        easy ^= row[-1] < 1 / 30
        tokens += accepted + 1
    return tokens / rounds, rejected / rounds


def test_regimes_by_digits():
    assert lengths(BURSTY, 0.4, [4, 8]).tokens_per_round.reshape(-1) == pytest.approx([1.578333, 1.764813], abs=2e-6)


@pytest.mark.parametrize("gamma", [4, 8])
def test_regimes_as_simulated(gamma):
    found = lengths(BURSTY, 0.4, [gamma])
    tokens, rejected = simulated(0.4, gamma, 150_000, gamma)
    assert found.tokens_per_round.item() == pytest.approx(tokens, rel=0.015)
    assert found.rejection_probability.item() == pytest.approx(rejected, rel=0.015)


def test_the_next_round_follows_from_the_outcomes():
    """Rounds begin as the outcomes of the rounds before say, and these sum to certainty."""
    rounds = RegimeChain.of([0.95, 0.3], runs_to_transitions([30, 12])).rounds([0, 1, 4], 0.4)
    moves = rounds.outcomes.sum(-3)
    assert moves.sum(-1) == pytest.approx(np.ones((3, 2)))
    assert np.einsum("ga,gab->gb", rounds.start_share, moves) == pytest.approx(rounds.start_share)
    by_outcome = np.einsum("ga,gjab,j->g", rounds.start_share, rounds.outcomes, np.arange(1.0, 6))
    assert by_outcome == pytest.approx(rounds.tokens_per_round)


def test_classes_count_by_the_rounds_that_they_take():
    """0.25 of the tokens at 1 + 0.5 (tau(0.6) - 1), 0.75 at 1 + 0.5 (tau(0.9) - 1)."""
    each = [1 + 0.5 * sum(rate**j for j in range(1, 7)) for rate in (0.6, 0.9)]
    assert lengths(CLASSES, 0.5, [6]).tokens_per_round.item() == pytest.approx(1 / (0.25 / each[0] + 0.75 / each[1]))


def test_a_table_by_context_reads_such_rounds():
    table = ByContext(table=(AtContext(context_length=1000, acceptance=BURSTY),))
    found, at_once = lengths(table, 0.4, [4], context=500), lengths(BURSTY, 0.4, [4])
    assert found.tokens_per_round.item() == pytest.approx(at_once.tokens_per_round.item())


@pytest.mark.parametrize("acceptance", [Independent(rate=0.7), Survival(survival=(0.8, 0.5, 0.4))])
def test_rounds_without_memory_are_weighted_as_they_are(acceptance):
    gamma, hit = np.arange(4), 0.3
    whole, some = lengths(acceptance, 1.0, gamma), lengths(acceptance, hit, gamma)
    for name in ("tokens_per_round", "mean_square"):
        assert getattr(some, name) == pytest.approx(1 - hit + hit * getattr(whole, name))
    for name in ("drafted_per_round", "rejection_probability"):
        assert getattr(some, name) == pytest.approx(hit * getattr(whole, name))
    assert some.accepted_per_drafted[1:] == pytest.approx(whole.accepted_per_drafted[1:])


def test_one_regime_and_equal_regimes_are_rounds_without_memory():
    equal = Regimes(regimes={n: Regime(acceptance_probability=(0.7,), mean_run_tokens=5.0) for n in ("one", "other")})
    assert lengths(equal, 0.3, [0, 1, 5]).tokens_per_round == pytest.approx(
        lengths(Independent(rate=0.7), 0.3, [0, 1, 5]).tokens_per_round
    )


def test_the_rounds_that_draft_are_told_apart():
    found = now_and_then(process_of(Independent(rate=0.7)), 0.3).lengths(np.array([0, 4]))
    drafts = process_of(Independent(rate=0.7)).lengths(np.array([0, 4]))
    assert found.of_drafts.tokens_per_round == pytest.approx(drafts.tokens_per_round)
    assert found.acceptance_rate[1] == pytest.approx(0.7)
    assert np.isnan(found.acceptance_rate[0])


def test_explain_tells_where_such_rounds_begin():
    told = specsim.explain(
        hardware="h100", target="llama-3.1-8b", batch_size=1, draft="ngram", acceptance=BURSTY, gamma=4
    ).to_text()
    assert "1.578 tokens a round" in told
    assert "Something is found in 40% of the rounds, which emit 2.446 tokens." in told
    assert "Rounds begin in: easy 33.8%, hard 66.2%." in told


# --- the other schedule in which rounds begin elsewhere: drafting during verification


def overlapped(acceptance, gamma):
    return pearl_steps(*pearl_lengths(process_of(acceptance), np.array(gamma)))


def steps_simulated(gamma, steps, seed):
    """Tokens of a step, whole drafts among them and rejections, position by position."""
    uniform = np.random.default_rng(seed).random((steps, 2 * gamma + 2))
    easy, whole, tokens, wholes, rejected = True, False, 0, 0, 0
    for row in uniform:
        most, accepted = gamma if whole else 1, 0
        while accepted < most and row[2 * accepted] < (0.95 if easy else 0.3):
            easy ^= row[2 * accepted + 1] < 1 / 30
            accepted += 1
        wholes += whole
        whole = accepted == most
        if not whole:
            easy ^= row[-1] < 1 / 30
        rejected += not whole
        tokens += accepted + (not whole)
    return tokens / steps, wholes / steps, rejected / steps


@pytest.mark.parametrize(("gamma", "tokens"), [(2, 1.360365), (4, 1.638991), (8, 1.812073)])
def test_overlapped_steps_in_stretches(gamma, tokens):
    found = overlapped(BURSTY, [gamma])
    assert found.tokens_per_step.item() == pytest.approx(tokens, abs=1e-5)
    drawn = steps_simulated(gamma, 100_000, gamma)
    ours = (found.tokens_per_step.item(), found.whole_share.item(), found.rejection_probability.item())
    assert ours == pytest.approx(drawn, rel=0.025)


def test_overlapped_steps_without_memory_are_those_of_independent_drafts():
    equal = Regimes(regimes={n: Regime(acceptance_probability=(0.7,), mean_run_tokens=5.0) for n in ("one", "other")})
    alike = Classes(
        classes={n: RequestClass(request_share=0.5, acceptance=Independent(rate=0.7)) for n in ("one", "other")}
    )
    plain = overlapped(Independent(rate=0.7), [0, 1, 5])
    for acceptance in (equal, alike):
        found = overlapped(acceptance, [0, 1, 5])
        for name in vars(plain):
            assert getattr(found, name)[1:] == pytest.approx(getattr(plain, name)[1:]), name
        assert found.tokens_per_step[0] == 1


def test_overlapped_steps_of_classes_count_by_the_steps_that_they_take():
    each = [overlapped(Independent(rate=rate), [6]).tokens_per_step.item() for rate in (0.6, 0.9)]
    assert overlapped(CLASSES, [6]).tokens_per_step.item() == pytest.approx(1 / (0.25 / each[0] + 0.75 / each[1]))


def test_overlapped_steps_at_the_bounds():
    """Certain acceptance emits gamma a step, and none emits one."""
    sure, never = (
        Regimes(regimes={n: Regime(acceptance_probability=(p,), mean_run_tokens=5.0) for n in ("one", "other")})
        for p in (1.0, 0.0)
    )
    assert overlapped(sure, [1, 4]).tokens_per_step == pytest.approx([1, 4], rel=1e-6)
    assert overlapped(never, [1, 4]).tokens_per_step == pytest.approx([1, 1])
