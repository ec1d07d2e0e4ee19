"""Simulation knows nothing of the exact theory: the two must agree, to within its own standard error."""

from __future__ import annotations

import numpy as np
import pytest

from specsim.acceptance import RegimeChain, rounds_to_finish
from specsim.acceptance.regimes import runs_to_transitions, stationary_law
from specsim.acceptance.simulate import simulate_requests, simulate_rounds

PROCESSES = 200


def random_process(generator):
    """One to three regimes, some with acceptance by position, some that alternate, some that never end."""
    size = int(generator.integers(1, 4))
    positions = int(generator.choice([1, 1, 3]))
    acceptance = generator.random((positions, size))
    kind = generator.choice(["runs", "rows", "apart"])
    if kind == "runs":
        transitions = runs_to_transitions((1 + 60 * generator.random(size) ** 2).tolist())
    elif kind == "rows":
        transitions = generator.dirichlet(np.ones(size), size)
    else:
        transitions = np.eye(size)
        return RegimeChain(acceptance, transitions, generator.dirichlet(np.full(size, 3.0)))
    return RegimeChain(acceptance, transitions, stationary_law(transitions))


def test_200_random_processes_are_within_4_standard_errors_of_exact():
    generator = np.random.default_rng(20240607)
    errors, kinds = [], set()
    for _ in range(PROCESSES):
        chain, gamma = random_process(generator), int(generator.integers(0, 9))
        found = simulate_rounds(chain, gamma, 10_000, generator)
        exact = chain.rounds([gamma])
        assert found.rounds >= 10_000
        difference = found.tokens_per_round - exact.tokens_per_round[0]
        if gamma == 0:
            assert difference == 0
        else:
            errors.append(difference / found.standard_error)
        kinds.add((chain.share.size, chain.positions > 1))
    assert {(3, True), (3, False), (2, True), (1, True)} <= kinds
    assert np.abs(errors).max() < 4
    # They are as large as they say, and on neither side.
    assert 0.8 < np.std(errors) < 1.2
    assert abs(np.mean(errors)) < 0.25


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_distribution_of_accepted_drafts(size):
    generator = np.random.default_rng(size)
    chain = RegimeChain.of(generator.random(size), runs_to_transitions([3.0, 5.0, 9.0][:size]))
    found = simulate_rounds(chain, 5, 200_000, generator)
    survival = np.concatenate([[1.0], chain.rounds([5]).survival[0], [0.0]])
    expected = survival[:-1] - survival[1:]
    assert found.distribution.sum() == pytest.approx(1)
    # Rounds are not independent: twice the binomial error, four times.
    assert np.abs(found.distribution - expected).max() < 8 * (0.25 / found.rounds) ** 0.5


@pytest.mark.parametrize("tokens", [1, 5, 64])
def test_the_law_of_rounds_that_requests_take(tokens):
    generator = np.random.default_rng(tokens)
    chain = RegimeChain.of([0.9, 0.4, 0.1], runs_to_transitions([20.0, 10.0, 5.0]))
    drawn = simulate_requests(chain, 3, tokens, 20_000, generator)
    law = rounds_to_finish(chain.rounds([3]), tokens)
    assert abs(drawn.mean() - law.mean) <= 4 * drawn.std() / 20_000**0.5 + 1e-12
    more = (drawn[:, None] > np.arange(len(law.unfinished))).mean(0)
    assert np.abs(more - law.unfinished).max() < 4 * (0.25 / 20_000) ** 0.5


def test_a_seed_says_everything():
    chain = RegimeChain.of([0.95, 0.3], runs_to_transitions([30.0, 30.0]))
    one, same, other = (simulate_rounds(chain, 4, 5000, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert one.tokens_per_round == same.tokens_per_round
    assert (one.ended == same.ended).all()
    assert one.tokens_per_round != other.tokens_per_round


def test_certain_acceptance_and_certain_rejection():
    for rate, tokens in ((1.0, 5.0), (0.0, 1.0)):
        found = simulate_rounds(RegimeChain.of([rate], [[1.0]]), 4, 20_000, np.random.default_rng(0))
        assert found.tokens_per_round == pytest.approx(tokens, abs=max(4 * found.standard_error, 1e-12))
