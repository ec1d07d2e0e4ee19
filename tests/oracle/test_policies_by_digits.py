"""Draft lengths chosen round by round, against digits: of the heuristic, of thresholds, of an oracle.

i.i.d. 0.8 and bursts (easy 0.95, hard 0.3, runs of 30 tokens), costs of a draft step of 0.02 to 0.23 plain steps.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from specsim.acceptance import RegimeChain
from specsim.acceptance import policies as rules
from specsim.acceptance.regimes import runs_to_transitions

INDEPENDENT = RegimeChain.of([0.8], [[1.0]])
BURSTS = RegimeChain.of([0.95, 0.3], runs_to_transitions([30, 30]))
MEMORYLESS = RegimeChain.of([0.95, 0.3], [[0.5, 0.5], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("cost", "heuristic", "fixed"),
    [(0.02, 3.3123, 3.8167), (0.05, 2.8868, 3.0921), (0.1, 2.3778, 2.4696), (0.23, 1.6303, 1.7508)],
)
def test_the_heuristic_loses_4_to_13_percent_on_independent_drafts(cost, heuristic, fixed):
    found, best = rules.heuristic(INDEPENDENT, cost), rules.best_fixed(INDEPENDENT, cost)[1]
    assert (found.tokens_per_round, found.drafted_per_round) == pytest.approx((3.6732, 5.4483), abs=5e-5)
    assert found.speedup == pytest.approx(heuristic, abs=5e-5)
    assert best.speedup == pytest.approx(fixed, abs=5e-5)
    assert 0.035 < 1 - found.speedup / best.speedup < 0.135


def test_the_heuristic_at_a_rate_of_one_half():
    found = rules.heuristic(RegimeChain.of([0.5], [[1.0]]), 0.1)
    assert (found.tokens_per_round, found.drafted_per_round) == pytest.approx((1.7251, 2.2729), abs=5e-5)


@pytest.mark.parametrize(("cost", "heuristic", "fixed"), [(0.05, 1.9121, 1.8203), (0.1, 1.6613, 1.5870)])
def test_the_heuristic_wins_5_percent_on_bursts(cost, heuristic, fixed):
    found, best = rules.heuristic(BURSTS, cost), rules.best_fixed(BURSTS, cost)[1]
    assert found.speedup == pytest.approx(heuristic, abs=5e-5)
    assert best.speedup == pytest.approx(fixed, abs=5e-5)
    assert found.speedup / best.speedup == pytest.approx(1.05, abs=0.005)


@pytest.mark.parametrize(
    ("cost", "fixed", "single", "threshold", "cumulative"),
    [(0.05, 2.010295, 1.991341, 0.17, 2.108871), (0.1, 1.738281, 1.825397, 0.3, 1.827381)],
)
def test_thresholds_on_tokens_that_are_easy_or_hard_by_chance(cost, fixed, single, threshold, cumulative):
    """Stopping on a single token can be worse than a fixed length; on the product it is not."""
    assert rules.best_fixed(MEMORYLESS, cost)[1].speedup == pytest.approx(fixed, abs=1e-6)
    assert rules.confident(MEMORYLESS, 0.5, cost, cumulative=False).speedup == pytest.approx(single, abs=2e-6)
    assert rules.confident(MEMORYLESS, threshold, cost, cumulative=True).speedup == pytest.approx(cumulative, abs=2e-6)


def test_tokens_and_drafts_of_the_best_threshold():
    found = rules.confident(MEMORYLESS, 0.17, 0.05, cumulative=True)
    assert (found.tokens_per_round, found.drafted_per_round) == pytest.approx((2.530285, 3.996582), abs=5e-6)


@pytest.mark.parametrize(("cost", "ratio"), [(0.01, 1.497), (0.02, 1.566), (0.05, 1.563), (0.1, 1.547)])
def test_the_oracle_is_at_most_60_percent_above_the_best_fixed_length(cost, ratio):
    """The largest ratio among the rates 0.01, 0.02, ... 0.98."""
    chains = [RegimeChain.of([rate / 100], [[1.0]]) for rate in range(1, 99)]
    pairs = ((rules.oracle(c, cost), rules.best_fixed(c, cost, longest=200)[1]) for c in chains)
    assert max(o.speedup / fixed.speedup for o, fixed in pairs) == pytest.approx(ratio, abs=6e-4)


def test_the_oracle_at_any_persistence():
    found = rules.oracle(INDEPENDENT, 0.05)
    assert found.speedup == pytest.approx(4.1667, abs=5e-5)
    for chain in (BURSTS, MEMORYLESS):
        assert rules.oracle(chain, 0.05).tokens_per_round == pytest.approx(1 / (1 - 0.625), rel=1e-9)


def test_no_policy_beats_the_oracle():
    generator = np.random.default_rng(5)
    for chain, cost in itertools.product((INDEPENDENT, BURSTS, MEMORYLESS), (0.02, 0.1)):
        bound = rules.oracle(chain, cost).speedup
        found = [
            rules.best_fixed(chain, cost)[1],
            rules.heuristic(chain, cost),
            rules.confident(chain, 0.4, cost, cumulative=False),
            rules.confident(chain, 0.2, cost, cumulative=True),
            rules.belief(chain, cost, 20_000, generator),
            rules.goodput(chain, cost, 20_000, generator),
        ]
        assert all(one.speedup < bound for one in found)


def test_belief_is_the_best_fixed_length_where_there_is_nothing_to_learn():
    found = rules.belief(INDEPENDENT, 0.1, 100_000, np.random.default_rng(1))
    assert found.drafted_per_round == 6.0
    assert found.speedup == pytest.approx(rules.fixed(INDEPENDENT, 6, 0.1).speedup, abs=4 * found.standard_error)


def test_belief_beats_every_fixed_length_on_bursts():
    found = rules.belief(BURSTS, 0.1, 100_000, np.random.default_rng(1))
    assert found.speedup - 4 * found.standard_error > rules.best_fixed(BURSTS, 0.1)[1].speedup


def test_regimes_that_never_end_are_a_chain_each():
    apart = RegimeChain.of([0.9, 0.3], np.eye(2), [0.5, 0.5])
    alone = [rules.heuristic(RegimeChain.of([rate], [[1.0]]), 0.1) for rate in (0.9, 0.3)]
    expected = 2 / sum(1 / one.speedup for one in alone)
    assert rules.heuristic(apart, 0.1).speedup == pytest.approx(expected, rel=1e-12)
    assert rules.confident(apart, 0.0, 0.1, cumulative=True, longest=4).speedup == pytest.approx(
        rules.fixed(apart, 4, 0.1).speedup, rel=1e-12
    )


def test_thresholds_of_0_are_fixed_lengths():
    for chain, cumulative in itertools.product((INDEPENDENT, BURSTS), (False, True)):
        found = rules.confident(chain, 0.0, 0.1, cumulative=cumulative, longest=5)
        assert found.speedup == pytest.approx(rules.fixed(chain, 5, 0.1).speedup, rel=1e-9)


def test_products_by_position_are_not_followed():
    chain = RegimeChain(np.array([[0.9], [0.8]]), np.ones((1, 1)), np.ones(1))
    with pytest.raises(ValueError, match="position"):
        rules.confident(chain, 0.4, 0.1, cumulative=True)
