"""Properties of the cost model and of the planner, over generated hardware, models, points and acceptances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import question_of, served
from hypothesis import given, settings
from hypothesis import strategies as st

from specsim.acceptance import process_of
from specsim.catalog import library
from specsim.catalog.cards import card
from specsim.cost.breakdown import operators
from specsim.cost.machine import Machine
from specsim.cost.passes import Pass
from specsim.cost.roofline import operator_time, pass_time
from specsim.planning.break_even import break_even_acceptance, perfect_stop
from specsim.planning.question import Axes, Question
from specsim.planning.rounds import NEAR_BEST, plan
from specsim.specs.acceptance import Independent, Length, Positional, Survival
from specsim.specs.drafter import MeasuredDraft
from specsim.specs.scenario import MeasuredCosts

probabilities = st.floats(0, 1)
LLAMA = question_of("h100-sxm5", "typical", "llama-3-8b", "llama-3.2-1b", memory=1e15)


def measured(rate, draft_cost_ratio, **costs):
    return Question(
        machine=None,
        target=None,
        draft=MeasuredDraft(acceptance=Independent(rate=rate)),
        costs=MeasuredCosts(draft_cost_ratio=draft_cost_ratio, **costs),
    )


POINTS = {"sequences": [1, 3, 16, 100, 1000], "tokens": [1, 2, 9, 65], "context": [0, 1, 500, 5000, 100_000]}


@pytest.mark.parametrize("runtime", library.names("runtime"))
@pytest.mark.parametrize("hardware", library.names("hardware"))
def test_every_operator_takes_longer_for_more_of_anything(hardware, runtime):
    """On every shipped accelerator and runtime: monotone in batch, in tokens and in context."""
    machine = Machine(card("hardware", hardware), card("runtime", runtime))
    tensor_parallel = 1 if machine.hardware.interconnect is None else 4
    precision = "bf16" if machine.hardware.dense_rate.of("bf16") else "fp16"
    target = served("llama-3-8b", tensor_parallel, precision=precision)
    grid = np.meshgrid(*map(np.asarray, POINTS.values()), indexing="ij")
    one = Pass(target, *(axis.astype(float) for axis in grid))
    times = [operator_time(o, one, machine).seconds for o in operators(one)] + [pass_time(one, machine).seconds]
    for seconds in times:
        whole = np.broadcast_to(seconds, grid[0].shape)
        for axis in range(3):
            assert (np.diff(whole, axis=axis) >= 0).all()


@pytest.mark.parametrize("runtime", library.names("runtime"))
def test_a_pass_is_its_parts(runtime):
    machine = Machine(card("hardware", "h100-sxm5"), card("runtime", runtime))
    one = Pass(served("llama-3-8b", 4), np.asarray([1.0, 64.0]), np.asarray(5.0), np.asarray(1000.0))
    time = pass_time(one, machine)
    parts = time.memory_seconds + time.compute_seconds + time.network_seconds + time.overhead_seconds
    np.testing.assert_allclose(parts, time.seconds, rtol=1e-14)


@pytest.mark.parametrize("field", ["bandwidth_bytes_per_second", "bf16"])
def test_faster_hardware_is_never_slower(field):
    hardware = LLAMA.machine.hardware
    if field == "bf16":
        rate = replace(hardware.dense_rate, bf16_operations_per_second=1.5 * hardware.dense_rate.of("bf16"))
        faster = replace(hardware, dense_rate=rate)
    else:
        faster = replace(hardware, memory=replace(hardware.memory, **{field: 1.5 * getattr(hardware.memory, field)}))
    axes = Axes.of([1, 64, 512], [128, 8000], range(9))
    slow = plan(LLAMA, axes).round_seconds
    fast = plan(replace(LLAMA, machine=replace(LLAMA.machine, hardware=faster)), axes).round_seconds
    assert (fast <= slow).all()
    assert (fast < slow).any()


@given(rate=probabilities, cost=st.floats(0, 2), verify=st.floats(1, 5), overhead=st.floats(0, 1))
def test_gamma_0_is_exactly_1x(rate, cost, verify, overhead):
    rounds = plan(measured(rate, cost, verify_cost_ratio=verify, overhead=overhead), Axes.of([1], [0], [0, 3]))
    assert float(rounds.speedup[0, 0, 0]) == 1.0


@given(low=probabilities, high=probabilities, gamma=st.integers(1, 30))
def test_speedup_rises_with_acceptance(low, high, gamma):
    low, high = sorted((low, high))
    axes = Axes.of([1], [0], [gamma])
    assert plan(measured(low, 0.1), axes).speedup <= plan(measured(high, 0.1), axes).speedup


@given(conditional=st.lists(probabilities, min_size=1, max_size=12), gamma=st.integers(0, 12))
def test_lengths_are_a_distribution_within_bounds(conditional, gamma):
    lengths = process_of(Positional(conditional=tuple(conditional))).lengths(np.array([gamma]))
    tokens = float(lengths.tokens_per_round[0])
    assert 1 <= tokens <= gamma + 1 + 1e-12
    assert lengths.distribution.min() >= -1e-15
    assert float(lengths.distribution.sum()) == pytest.approx(1, abs=1e-12)
    mean = float(lengths.distribution[0] @ np.arange(lengths.distribution.shape[1]))
    assert mean + 1 == pytest.approx(tokens, abs=1e-9)
    assert float(lengths.variance[0]) >= -1e-9


@given(conditional=st.lists(st.floats(0.01, 1), min_size=1, max_size=8))
def test_survival_and_conditional_are_two_spellings_of_one_thing(conditional):
    survival = tuple(np.cumprod(conditional).tolist())
    gamma = np.arange(len(conditional) + 1)
    one = process_of(Positional(conditional=tuple(conditional))).lengths(gamma)
    other = process_of(Survival(survival=survival)).lengths(gamma)
    np.testing.assert_allclose(one.tokens_per_round, other.tokens_per_round, rtol=1e-12)


@given(rate=probabilities, gamma=st.integers(1, 20))
def test_a_length_gives_back_the_tokens_it_was_read_from(rate, gamma):
    at = np.array([gamma])
    tokens = float(process_of(Independent(rate=rate)).lengths(at).tokens_per_round[0])
    again = process_of(Length(tokens_per_round=tokens, gamma=gamma)).lengths(at)
    assert float(again.tokens_per_round[0]) == pytest.approx(tokens, abs=1e-12)


@settings(max_examples=60)
@given(
    rate=probabilities,
    cost=st.floats(0, 1),
    verify=st.floats(0.5, 3),
    gammas=st.lists(st.integers(0, 40), min_size=1, max_size=12, unique=True),
)
def test_the_best_draft_length_is_found_by_looking_at_all(rate, cost, verify, gammas):
    question = measured(rate, cost, verify_cost_ratio=verify)
    rounds = plan(question, Axes.of([1], [0], gammas))
    alone = {g: float(plan(question, Axes.of([1], [0], [g])).speedup[0, 0, 0]) for g in gammas}
    top = max(alone.values())
    (best,) = [g for g, flag in zip(gammas, rounds.best[:, 0, 0], strict=True) if flag]
    # Powers may differ in the last bit with their place in an array, so what ties alone need not tie here.
    as_good = 1 - 4 * np.finfo(float).eps
    assert alone[best] >= as_good * top
    near = int(rounds.near_best[0, 0])
    assert alone[near] >= as_good * (1 - NEAR_BEST) * top
    assert all(speedup <= (1 - NEAR_BEST) * top / as_good for g, speedup in alone.items() if g < near)


@given(gammas=st.lists(st.integers(0, 40), min_size=1, max_size=12, unique=True))
def test_of_equally_good_draft_lengths_the_shortest_is_best(gammas):
    rounds = plan(measured(0.0, 0.0, verify_cost_ratio=1.0), Axes.of([1], [0], gammas))
    assert set(rounds.speedup.reshape(-1).tolist()) == {1.0}
    assert rounds.best[:, 0, 0].tolist() == [g == min(gammas) for g in gammas]


@given(cost=st.floats(0.001, 0.9), verify=st.floats(1, 2), repair=st.floats(0, 0.5), gamma=st.integers(1, 10))
def test_at_the_break_even_acceptance_nothing_is_gained_or_lost(cost, verify, repair, gamma):
    question = measured(0.5, cost, verify_cost_ratio=verify, repair=repair)
    axes = Axes.of([1], [0], [gamma])
    rate = float(break_even_acceptance(question, axes)[0, 0, 0])
    if np.isnan(rate):
        assert float(plan(measured(1.0, cost, verify_cost_ratio=verify, repair=repair), axes).speedup[0, 0, 0]) < 1
    else:
        speedup = plan(measured(rate, cost, verify_cost_ratio=verify, repair=repair), axes).speedup
        assert float(speedup[0, 0, 0]) == pytest.approx(1, abs=1e-9)


@given(rate=st.floats(0, 0.99), cost=st.floats(0.001, 1))
def test_no_fixed_draft_length_beats_a_perfect_stop(rate, cost):
    question, axes = measured(rate, cost), Axes.of([1], [0], range(40))
    rounds = plan(question, axes)
    most = float(rounds.speedup.max())
    assert most <= 1 / ((1 - rate) + min(cost, 1) * rate) * (1 + 1e-12)
    assert most <= perfect_stop(question, axes, rounds, 0).speedup * (1 + 1e-12)


@settings(max_examples=30, deadline=None)
@given(
    batch=st.integers(1, 2000),
    context=st.integers(0, 7000),
    gamma=st.integers(0, 12),
    memory=st.floats(1e9, 1e12),
)
def test_what_fits_is_what_the_largest_batch_says(batch, context, gamma, memory):
    question = question_of("h100-sxm5", "ideal", "llama-3-8b", "llama-3.2-1b", memory=memory)
    rounds = plan(question, Axes.of([batch], [context], [gamma]))
    fits = bool(rounds.feasible[0, 0, 0])
    assert fits == (batch <= float(np.max(rounds.fit.max_batch_size)))
    excess = float(np.broadcast_to(rounds.fit.excess_bytes, (1, 1, 1))[0, 0, 0])
    assert (excess > 0) == (float(rounds.fit.needed_bytes[0, 0, 0]) > memory)
