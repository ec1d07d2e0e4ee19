"""What holds of every run on a replica, whatever the load: nothing is lost, nobody is served before they came."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving_rig import chat, constant, fixed_lengths, llama, poisson, replica_of, run_of

from specsim.acceptance import process_of
from specsim.serving.arrivals import closed_starts
from specsim.serving.requests import Requests
from specsim.specs.acceptance import AtContext, ByContext, Classes, Independent, Regime, Regimes, RequestClass
from specsim.specs.workload import Engine


@st.composite
def small_runs(draw):
    """A few requests on a replica with a small cache, so that blocks are taken away."""
    number = draw(st.integers(1, 25))
    whole = st.integers(1, 60)
    prompt = np.array(draw(st.lists(whole, min_size=number, max_size=number)))
    output = np.array(draw(st.lists(whole, min_size=number, max_size=number)))
    gaps = np.array(draw(st.lists(st.floats(0, 0.3), min_size=number, max_size=number)))
    engine = Engine(
        max_batch_size=draw(st.integers(1, 8)), max_batch_tokens=draw(st.integers(45, 100)),
        prefill=draw(st.sampled_from(["chunked", "separate"])), block_tokens=draw(st.sampled_from([1, 4, 16])),
        prefix_hit_share=draw(st.sampled_from([0.0, 0.5])),
    )  # fmt: skip
    gammas = draw(st.sampled_from([(0,), (0, 1), (0, 4)]))
    longest = int((prompt + output).max()) + 5
    blocks = -(-longest // engine.block_tokens) + draw(st.integers(0, 4))
    replica = constant(0.01, gammas=gammas, rate=draw(st.sampled_from([0.0, 0.5, 1.0])), engine=engine, blocks=blocks)
    requests = Requests(np.cumsum(gaps), prompt, output, np.zeros(number, dtype=np.int64))
    return replica, requests, draw(st.integers(0, 100))


@settings(max_examples=150, deadline=None)
@given(small_runs())
def test_every_token_that_was_asked_for_comes_and_none_is_lost(case):
    replica, requests, seed = case
    run = run_of(replica, requests, seed, log=True)
    assert run.emitted_tokens.tolist() == requests.output_tokens.tolist()
    assert (run.first_token_seconds >= requests.arrival_seconds - 1e-12).all()
    assert (run.finish_seconds >= run.first_token_seconds).all()
    # Every answer has as many chunks as gaps and one more; the first token is a chunk.
    by_round = run.rounds
    resumed = sum(what == "preempted" for _, what, _ in run.events)
    assert resumed == run.preemptions.sum()
    # Tokens of rounds, the first ones, and those that come when a request has been read again.
    again = sum(what == "resumed" for _, what, _ in run.events)
    assert run.round_tokens + len(requests) + again == requests.output_tokens.sum()
    assert run.gap_count.sum() >= by_round
    assert sum(run.part_seconds) == pytest.approx(run.busy_seconds)
    assert run.time_at.sum() == pytest.approx(run.busy_seconds - run.part_seconds[3])
    assert run.busy_seconds <= run.end_seconds + 1e-9


@settings(max_examples=60, deadline=None)
@given(small_runs())
def test_littles_law_from_empty_to_empty(case):
    """The integral of the number of requests in the system, by events, is the sum of their times in it."""
    replica, requests, seed = case
    run = run_of(replica, requests, seed, log=True)
    ends = [time for time, what, _ in run.events if what == "finished"]
    changes = sorted([(t, 1) for t in requests.arrival_seconds] + [(t, -1) for t in ends])
    area, inside, last = 0.0, 0, 0.0
    for time, change in changes:
        area += inside * (time - last)
        inside, last = inside + change, time
    assert inside == 0
    assert area == pytest.approx((run.finish_seconds - requests.arrival_seconds).sum(), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(small_runs())
def test_a_run_is_the_same_again_under_its_seed(case):
    replica, requests, seed = case
    one, other = run_of(replica, requests, seed), run_of(replica, requests, seed)
    assert one.finish_seconds.tolist() == other.finish_seconds.tolist()


def test_blocks_are_taken_away_and_given_back():
    """A cache for three long requests at once: they lose blocks to each other, and all end."""
    engine = Engine(max_batch_size=16, block_tokens=16)
    replica = constant(0.01, engine=engine, blocks=30)
    run = run_of(replica, poisson(50.0, 40, fixed_lengths(16, 300)), log=True)
    assert run.preemptions.sum() > 10
    assert run.emitted_tokens.sum() == 40 * 300
    again = sum(what == "resumed" for _, what, _ in run.events)
    assert run.round_tokens + 40 + again == 40 * 300
    kinds = {what for _, what, _ in run.events}
    assert kinds == {"admitted", "first_token", "preempted", "resumed", "finished"}
    # Whoever lost blocks waited longer between two of its chunks than a step.
    assert run.gap_seconds.max() > 0.02


def test_the_cache_is_never_fuller_than_it_is():
    engine = Engine(max_batch_size=32, block_tokens=16)
    replica = replica_of(llama(), (0, 4), engine=engine, longest=2000)
    share = replica.cache.share_of_blocks * 20  # a twentieth of the cache
    small = replace(replica, cache=replace(replica.cache, share_of_blocks=share))
    run = run_of(small, poisson(40.0, 300, fixed_lengths(600, 300)))
    assert run.preemptions.sum() > 0
    assert 0.5 < run.cache_seconds / run.busy_seconds <= 1.001


def test_closed_loops_keep_their_users_busy():
    generator = np.random.default_rng(0)
    requests = poisson(1.0, 400, fixed_lengths(10, 100)).at(closed_starts(8, 400, generator))
    run = run_of(constant(0.01), requests, think_seconds=0.0)
    assert run.emitted_tokens.sum() == 400 * 100
    assert run.in_flight_seconds / run.end_seconds == pytest.approx(8, rel=0.03)
    # A next request of a user comes when the answer before it is there.
    assert not np.isnan(run.requests.arrival_seconds).any()


def test_stretches_last_inside_a_request():
    """Regimes are drawn once for each token, and requests that begin in easy text stay there for a while."""
    easy = Regime(acceptance_probability=(1.0,), mean_run_tokens=1e6)
    hard = Regime(acceptance_probability=(0.0,), mean_run_tokens=1e6)
    replica = replica_of(llama(Regimes(regimes={"easy": easy, "hard": hard})), (0, 4))
    run = run_of(replica, poisson(0.01, 200, fixed_lengths(100, 101)))
    rounds = np.rint((run.finish_seconds - run.first_token_seconds) / (run.busy_seconds / run.steps))
    fast = rounds < 40
    assert 0.35 < fast.mean() < 0.65
    times = run.finish_seconds - run.first_token_seconds
    assert times[~fast].mean() > 4 * times[fast].mean()


def test_rounds_emit_what_the_exact_process_says():
    replica = replica_of(llama(), (0, 4))
    run = run_of(replica, poisson(2.0, 200, chat()))
    assert run.round_tokens / run.rounds == pytest.approx(float(replica.choices.tokens_per_round[1]), rel=0.03)


def test_classes_arrive_as_often_as_they_are_said_to():
    """Hard requests of a drafter's classes are as many as arrive, though their tokens take more rounds."""
    easy = RequestClass(request_share=0.7, output_tokens=300, acceptance=Independent(rate=1.0))
    hard = RequestClass(request_share=0.3, output_tokens=300, acceptance=Independent(rate=0.0))
    replica = replica_of(llama(Classes(classes={"easy": easy, "hard": hard})), (0, 4))
    run = run_of(replica, poisson(0.02, 400, fixed_lengths(100, 101)))
    times = run.finish_seconds - run.first_token_seconds
    assert (times < times.mean()).mean() == pytest.approx(0.7, abs=0.06)


def test_acceptance_along_the_context_follows_each_request():
    """Short prompts are easy, long ones hard, and a table between says so request by request."""
    table = ByContext(
        table=(
            AtContext(context_length=1000, acceptance=Independent(rate=0.9)),
            AtContext(context_length=3000, acceptance=Independent(rate=0.1)),
        )
    )
    replica = replica_of(llama(table), (0, 4))
    found = []
    for prompt in (200, 1950, 3500):
        run = run_of(replica, poisson(0.05, 60, fixed_lengths(prompt, 101)))
        found.append(run.round_tokens / run.rounds)
    exact = process_of(table).lengths(np.array([4]), np.array([1000.0, 2000.0, 3000.0])).tokens_per_round[:, 0]
    assert found == pytest.approx(exact.tolist(), rel=0.06)
