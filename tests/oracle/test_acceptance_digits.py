"""Acceptance: figures worked out by hand, and what engines print."""

from __future__ import annotations

import numpy as np
import pytest

import specsim
from specsim.acceptance import process_of, rate_from_tokens_per_round
from specsim.specs.acceptance import Drafted, Independent, Length, Positional, Survival


def lengths(spec, gamma):
    return process_of(spec).lengths(np.array([gamma]))


def test_independent_drafts():
    found = lengths(Independent(rate=0.8), 4)
    assert float(found.tokens_per_round[0]) == pytest.approx(3.3616, abs=1e-14)
    assert float(found.variance[0]) == pytest.approx(2.57004544, abs=1e-12)
    assert float(found.accepted_per_drafted[0]) == pytest.approx(0.5904, abs=1e-14)
    np.testing.assert_allclose(found.distribution[0], [0.2, 0.16, 0.128, 0.1024, 0.4096], atol=1e-15)
    assert float(lengths(Independent(rate=0.7), 3).variance[0]) == pytest.approx(1.534911, abs=1e-12)


def test_conditional_acceptance_by_position():
    found = lengths(Positional(conditional=(0.8, 0.7, 0.6)), 3)
    np.testing.assert_allclose(found.accepted[0], [0.8, 0.56, 0.336], atol=1e-15)
    assert float(found.tokens_per_round[0]) == pytest.approx(2.696, abs=1e-14)


def test_rates_per_position_as_vllm_prints_them():
    """Unconditional: accepted at a position / number of drafts."""
    found = lengths(Survival(survival=(0.72, 0.51, 0.36)), 3)
    assert float(found.tokens_per_round[0]) == pytest.approx(2.59, abs=1e-14)
    conditional = process_of(Survival(survival=(0.72, 0.51, 0.36))).conditional
    np.testing.assert_allclose(conditional, [0.72, 0.708333, 0.705882], atol=5e-7)


@pytest.mark.parametrize("form", ["survival=0.75,0.45,0.30", "drafted=0.5@3", "length=2.5@3"])
def test_three_spellings_give_the_same_tokens_per_round(form):
    table = specsim.optimal_gamma(acceptance=form, draft_cost_ratio=0.1, max_gamma=3, all_gammas=True)
    assert float(table["tokens_per_round"][3]) == pytest.approx(2.50, abs=1e-12)


@pytest.mark.parametrize(
    ("tokens", "gamma", "rate"),
    [(2.412354, 4, 0.625), (3.0, 5, 0.709011), (1.6, 1, 0.6), (2.95, 8, 0.670273), (1.0, 4, 0.0), (5.0, 4, 1.0)],
)
def test_one_rate_from_a_mean_length(tokens, gamma, rate):
    assert float(rate_from_tokens_per_round(tokens, gamma)) == pytest.approx(rate, abs=5e-7)


def test_no_rate_reaches_an_impossible_length():
    assert np.isnan(rate_from_tokens_per_round([0.9, 5.1], [4, 4])).all()


def test_lengths_beyond_the_record_are_marked():
    gamma = np.arange(6)
    assert (
        process_of(Positional(conditional=(0.8, 0.7))).lengths(gamma).extrapolated.tolist() == [False] * 3 + [True] * 3
    )
    assert (
        process_of(Length(tokens_per_round=2.0, gamma=3)).lengths(gamma).extrapolated.tolist()
        == [False] * 4 + [True] * 2
    )
    assert process_of(Drafted(accepted_per_drafted=0.5, gamma=3)).lengths(gamma).extrapolated[4]
    assert not process_of(Independent(rate=0.8)).lengths(gamma).extrapolated.any()


def test_nothing_survives_a_certain_rejection():
    found = lengths(Survival(survival=(0.5, 0.0, 0.0)), 3)
    assert found.accepted[0].tolist() == [0.5, 0.0, 0.0]


def test_beyond_the_record_the_best_is_not_claimed_unless_asked_for():
    given = {"acceptance": "survival=0.9,0.8,0.7", "draft_cost_ratio": 0.01}
    held = specsim.optimal_gamma(**given)
    assert held["gamma"].tolist() == [3]
    assert held.extrapolated
    free = specsim.optimal_gamma(**given, extrapolate=True)
    assert free["gamma"].tolist() == [8]
    assert free["extrapolated"].tolist() == [True]
