"""The simulator against queues that have formulas: one place in the batch, no speculation, prompts at no cost."""

from __future__ import annotations

import numpy as np
import pytest
from serving_rig import constant, fixed_lengths, poisson, profile, run_of

from specsim.serving.requests import lengths_at
from specsim.serving.steady_state import steady_state
from specsim.specs.workload import Engine, Exponential, Fixed, GivenLengths

STEP = 0.01
ENGINE = Engine(max_batch_size=1)
REPLICATIONS, REQUESTS = 8, 5000
T_7 = 3.499
"""99.5 % quantile of Student's law with 7 degrees of freedom: one of a hundred intervals misses by chance."""


def waits(lengths, rate):
    """Mean wait for the one place over replications, with half its interval of 99 %."""
    replica = constant(STEP, engine=ENGINE)
    means = []
    for seed in range(REPLICATIONS):
        run = run_of(replica, poisson(rate, REQUESTS, lengths, seed), seed)
        wait = run.first_token_seconds - run.requests.arrival_seconds
        means.append(wait[REQUESTS // 10 :].mean())
    return np.mean(means), T_7 * np.std(means, ddof=1) / REPLICATIONS**0.5


@pytest.mark.parametrize("load", [0.4, 0.8])
def test_exponential_outputs_wait_as_in_m_m_1(load):
    """W = rho S / (1 - rho) for exponential service; outputs are geometric, whose second moment is taken exactly."""
    lengths = GivenLengths(prompt_tokens=Fixed(tokens=10), output_tokens=Exponential(mean=6.0))
    # The first token comes with the prompt: service is that of output - 1 tokens, which is geometric from 0.
    mean, square = 5 * STEP, (2 * 6**2 - 3 * 6 + 1) * STEP**2
    rate = load / mean
    expected = rate * square / (2 * (1 - load))
    assert expected == pytest.approx(load * mean / (1 - load), rel=0.11)
    found, half = waits(lengths, rate)
    assert abs(found - expected) < half
    assert half < 0.25 * expected


@pytest.mark.parametrize("load", [0.4, 0.8])
def test_fixed_outputs_wait_as_in_m_d_1(load):
    """W = rho S / (2 (1 - rho)) by Pollaczek and Khinchin."""
    mean = 5 * STEP
    found, half = waits(fixed_lengths(10, 6), load / mean)
    expected = load * mean / (2 * (1 - load))
    assert abs(found - expected) < half
    assert half < 0.25 * expected


@pytest.mark.parametrize(("law", "factor"), [(Exponential(mean=201.0), 1.0), (Fixed(tokens=201), 0.5)])
def test_the_quick_answer_knows_both_queues(law, factor):
    lengths = GivenLengths(prompt_tokens=Fixed(tokens=10), output_tokens=law)
    known = profile(constant(STEP, engine=ENGINE), lengths)
    rate = 0.6 / (200 * STEP)
    found = steady_state(known, np.array([rate]))
    assert float(found.waiting_seconds[0]) == pytest.approx(factor * 0.6 / 0.4 * 200 * STEP, rel=0.05)
    assert float(found.time_per_output_token[0]) == pytest.approx(STEP, rel=1e-6)


def test_geometric_lengths_have_their_mean_and_second_moment():
    share = (np.arange(2_000_000) + 0.5) / 2_000_000
    found = lengths_at(Exponential(mean=201.0), share)
    assert found.min() == 1
    assert found.mean() == pytest.approx(201, rel=1e-4)
    assert ((found - 1.0) ** 2).mean() == pytest.approx(2 * 201**2 - 3 * 201 + 1, rel=1e-3)


def test_processor_sharing_forgets_the_law_of_lengths():
    """The law of the batch is the same for fixed and for widely spread outputs of one mean (insensitivity)."""
    laws = (Fixed(tokens=201), Exponential(mean=201.0))
    found = []
    for law in laws:
        lengths = GivenLengths(prompt_tokens=Fixed(tokens=10), output_tokens=law)
        run = run_of(constant(STEP), poisson(4.0, 3000, lengths, 3), 3)
        found.append(run.in_flight_seconds / run.end_seconds)
        quick = steady_state(profile(constant(STEP), lengths), np.array([4.0]))
        assert float(quick.decoding[0]) == pytest.approx(4.0 * 200 * STEP, rel=1e-3)
        assert found[-1] == pytest.approx(float(quick.decoding[0]), rel=0.05)
