"""Where a plan reduces to something simpler, it is that: the rows of optimal-gamma, the steady state, no drafter."""

from __future__ import annotations

import numpy as np
import pytest
from serving_rig import ONE, fixed_lengths, llama, per_token, poisson, replica_of, run_of

import specsim
from specsim.api.loads import capacity_question, priced_plans
from specsim.catalog.capacity import without_simulation
from specsim.serving.arrivals import sizes_of
from specsim.serving.figures import quick_figures
from specsim.serving.profile import profile_of
from specsim.serving.steady_state import steady_state

LLAMA = {"hardware": "h100", "target": "llama-3-8b"}
DRAFTED = {**LLAMA, "draft": "llama-3.2-1b", "acceptance": "rate=0.8"}
LOAD = {"rate": 6, "prompt": 800, "output_length": 200, "requests": 300, "replications": 2}


def rows_of(table):
    return list(table.rows())


@pytest.mark.parametrize("gamma", [0, 1, 4])
def test_one_request_at_a_time_is_the_row_of_optimal_gamma(gamma):
    """Rounds at batch 1 are those of optimal-gamma exactly at the entries of the tables, and linear between them."""
    replica = replica_of(llama(), (0, gamma) if gamma else (0,), longest=3200)
    times = replica.times
    contexts = times.context[[1, 8, 16]].astype(int)
    table = specsim.optimal_gamma(**DRAFTED, batch_size=[1, 8, 32], context_length=contexts.tolist(), all_gammas=True)
    rows = {(r["batch_size"], r["context_length"]): r for r in table.rows() if r["gamma"] == gamma}
    choice = len(times.seconds) - 1
    for (batch, context), row in rows.items():
        entry = np.flatnonzero(times.context == context)[0]
        parts = times.seconds[choice, batch - 1, entry] * 1e3
        for value, name in zip(parts, ("drafting_ms", "verification_ms", "overhead_ms"), strict=True):
            assert value == pytest.approx(row[name], rel=1e-12, abs=1e-12)
        assert replica.choices.tokens_per_round[choice] == pytest.approx(row["tokens_per_round"], rel=1e-12)
        assert times.verified_tokens[choice] == row["nodes"]


def test_a_lonely_request_takes_what_the_row_says():
    """Simulated and quick, at a load without queueing: round / tokens_per_round at the mean context."""
    replica = replica_of(llama(), (0, 4), longest=3200)
    lengths = fixed_lengths(1000, 1001)
    table = specsim.optimal_gamma(**DRAFTED, batch_size=1, context_length=1500, output_length=1000, all_gammas=True)
    row = next(r for r in table.rows() if r["gamma"] == 4)
    # The row spreads the drafter's reading over the output; it comes with the prompt here.
    reading = replica.times.prompt_step(np.zeros(()), np.array(1000.0), np.zeros(()))
    assert reading > 0
    plain = specsim.optimal_gamma(**DRAFTED, batch_size=1, context_length=1500, all_gammas=True)
    expected = next(r for r in plain.rows() if r["gamma"] == 4)["round_ms"] * 1e-3
    per_output = replica.choices.tokens_per_round[1] * 1000 / (1000 + replica.choices.overshoot[1])
    run = run_of(replica, poisson(0.002, 60, lengths))
    assert per_token(run).mean() == pytest.approx(expected / per_output, rel=0.02)
    known = profile_of(replica, sizes_of((lengths,), ONE))
    quick = steady_state(known, np.array([0.002]))
    assert float(quick.time_per_output_token[0]) == pytest.approx(expected / per_output, rel=0.01)
    assert row["tokens_per_round"] == pytest.approx(replica.choices.tokens_per_round[1])


def test_gamma_0_is_off_in_every_column():
    off, zero = (rows_of(specsim.capacity(**DRAFTED, **LOAD, policy=policy)) for policy in ("off", "fixed:0"))
    one, other = off[-1], zero[-1]
    differ = {name for name in one if one[name] != other[name] and (one[name] == one[name])}
    assert differ <= {"draft", "policy", "draft_memory_bytes"}


@pytest.mark.parametrize("policy", ["off", "fixed:3", "table"])
def test_without_targets_a_plan_is_the_steady_state(policy):
    question = capacity_question(**DRAFTED, **LOAD, policy=policy)
    asked = without_simulation(question)
    row = priced_plans(asked)[-1]
    assert row.plan.feasible
    assert row.plan.replicas == 1
    expected = quick_figures(row.plan.replica, asked.task.workload, 1, asked.task.targets)
    for (name, of), value in expected.latencies.items():
        assert row.plan.figures.latencies[name, of] == value
    known = profile_of(row.plan.replica, asked.task.workload.sizes)
    found = steady_state(known, np.array([6.0]))
    assert expected.latencies["time_per_output_token", "mean"] == float(found.time_per_output_token[0])
    assert expected.tokens_per_second == 6.0 * 200
    simulated = rows_of(specsim.capacity(**DRAFTED, **LOAD, policy=policy))[-1]
    assert simulated["replicas"] == 1
    assert abs(simulated["quick_tpot_error"]) < 0.1


def test_a_table_of_one_choice_is_that_choice():
    one = rows_of(specsim.capacity(**DRAFTED, **LOAD, policy="fixed", max_gamma=1))[-1]
    other = rows_of(specsim.capacity(**DRAFTED, **LOAD, policy="table", max_gamma=1))[-1]
    for name in ("tpot_p50_ms", "tpot_p99_ms", "ttft_p99_ms", "replicas", "usd_per_hour"):
        assert one[name] == other[name]


def test_twice_the_price_is_twice_the_cost_and_nothing_else():
    one, other = (
        rows_of(specsim.capacity(**LLAMA, **LOAD, policy="off", price=price, quick_only=True))[0] for price in (2, 4)
    )
    differ = {name for name in one if one[name] != other[name] and one[name] == one[name]}
    assert differ == {"usd_per_hour", "usd_per_million_tokens"}
    assert other["usd_per_million_tokens"] == 2 * one["usd_per_million_tokens"]


def test_a_trace_at_double_speed_is_a_trace_of_double_rate(tmp_path):
    generator = np.random.default_rng(0)
    times = np.cumsum(generator.exponential(0.5, 200))
    path = tmp_path / "trace.csv"
    lines = [f"{time},GPT,{300 + i},{20 + i % 50},0,API" for i, time in enumerate(times)]
    path.write_text("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n" + "\n".join(lines))
    own = 200 / (times[-1] - times[0])
    one = rows_of(specsim.capacity(**LLAMA, trace=path, speed=2, policy="off", replications=1))[0]
    other = rows_of(specsim.capacity(**LLAMA, trace=path, rate=2 * own, policy="off", replications=1))[0]
    for name in ("ttft_p99_ms", "tpot_p50_ms", "e2e_p99_ms"):
        assert one[name] == pytest.approx(other[name], rel=1e-9)
