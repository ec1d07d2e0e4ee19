"""The quick answer against the simulation: 50 loads below 80 % of saturation, over drafts and lengths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from serving_rig import ONE, chat, fixed_lengths, llama, per_token, poisson, profile, replica_of, run_of

from specsim.serving.steady_state import steady_state
from specsim.specs.acceptance import Independent
from specsim.specs.workload import Engine, Exponential, Fixed, GivenLengths, Uniform

LENGTHS = {
    "fixed": fixed_lengths(500, 200),
    "chat": chat(),
    "long_prompts": GivenLengths(prompt_tokens=Uniform(low=500, high=3000), output_tokens=Exponential(mean=100.0)),
    "short_answers": GivenLengths(prompt_tokens=Fixed(tokens=1500), output_tokens=Exponential(mean=30.0)),
    "writing": GivenLengths(prompt_tokens=Fixed(tokens=100), output_tokens=Exponential(mean=500.0)),
}
CASES = [
    (name, gamma, share)
    for (name, gamma), share in itertools.product(itertools.product(LENGTHS, (0, 4)), (0.2, 0.4, 0.6, 0.7, 0.78))
]

WORSE = {("short_answers", 0, share) for share in (0.6, 0.7, 0.78)}
"""Plain decoding of short answers behind long prompts, where steps are mostly prompts: 13 to 15 % too short."""


@pytest.fixture(scope="module")
def replicas():
    """One replica for each draft length, of Llama-3-8B with a 1B draft on an H100."""
    return {0: replica_of(llama(), (0,), longest=8000), 4: replica_of(llama(), (0, 4), longest=8000)}


def test_there_are_fifty_loads():
    assert len(CASES) == 50


@pytest.mark.parametrize(("name", "gamma", "share"), CASES)
def test_throughput_within_5_and_time_per_token_within_10_percent(name, gamma, share, replicas):
    replica, lengths = replicas[gamma], LENGTHS[name]
    known = profile(replica, lengths)
    rate = share * known.saturation
    quick = steady_state(known, np.array([rate]))
    # Long enough that the start counts for little: 40 times what a request takes.
    number = int(np.clip(40 * rate * float(quick.end_to_end[0]), 800, 4000))
    requests = poisson(rate, number, lengths, seed=11)
    run = run_of(replica, requests, 12)
    counted = run.requests.arrival_seconds > run.requests.arrival_seconds[number // 5]
    begin, end = requests.arrival_seconds[number // 5], requests.arrival_seconds[-1]
    inside = (run.finish_seconds > begin) & (run.finish_seconds <= end)
    # What came in is what the load of this draw offers; the quick answer is asked at that rate.
    offered = requests.output_tokens[counted].sum() / (end - begin)
    answered = requests.output_tokens[inside].sum() / (end - begin)
    assert answered == pytest.approx(offered, rel=0.05)
    assert float(quick.tokens_per_second[0]) == pytest.approx(rate * known.mean_output)
    several = run.requests.output_tokens > 1
    found = per_token(run)[counted[several]].mean()
    within = 0.20 if (name, gamma, share) in WORSE else 0.10
    assert float(quick.time_per_output_token[0]) == pytest.approx(found, rel=within)


def test_separate_prefill_and_small_batches_are_met_as_well():
    for engine in (Engine(prefill="separate"), Engine(max_batch_size=8), Engine(max_batch_tokens=600)):
        replica = replica_of(llama(), (0, 4), engine=engine)
        known = profile(replica, LENGTHS["chat"])
        rate = 0.5 * known.saturation
        run = run_of(replica, poisson(rate, 2500, LENGTHS["chat"], 3), 4)
        quick = steady_state(known, np.array([rate]))
        assert float(quick.time_per_output_token[0]) == pytest.approx(per_token(run).mean(), rel=0.10)


@pytest.mark.parametrize("most", [1, 4, 8])
def test_quantiles_where_requests_wait_for_a_place_in_the_batch(most):
    """A full batch makes the wait: with a place for one it is that of M/D/1, 9 of 10 requests find it taken."""
    replica = replica_of(llama(), (0,), engine=Engine(max_batch_size=most))
    lengths = fixed_lengths(100, 150)
    rate = 0.9 * profile(replica, lengths).saturation
    quick = steady_state(profile(replica, lengths), np.array([rate]))
    run = run_of(replica, poisson(rate, 8000, lengths, 3), 4)
    arrival, counted = run.requests.arrival_seconds, slice(800, None)
    for latency, values in (
        ("time_to_first_token", (run.first_token_seconds - arrival)[counted]),
        ("end_to_end", (run.finish_seconds - arrival)[counted]),
    ):
        for share in (0.9, 0.99):
            found = quick.quantile(latency, share, ONE)
            assert found == pytest.approx(float(np.quantile(values, share)), rel=0.25), (latency, share)
    # Half of the requests are not faster than one that is alone.
    assert quick.quantile("end_to_end", 0.5, ONE) > 1.0
    assert float(quick.mean_batch_size[0]) <= most


def test_saturation_is_where_the_queue_grows_without_end():
    replica = replica_of(llama(), (0,), engine=Engine(max_batch_size=32))
    lengths = fixed_lengths(500, 200)
    limit = profile(replica, lengths).saturation
    for share, grows in ((0.9, False), (1.15, True)):
        run = run_of(replica, poisson(share * limit, 4000, lengths, 5), 6)
        wait = run.first_token_seconds - run.requests.arrival_seconds
        assert (wait[-400:].mean() > 2 * wait[1000:1400].mean() + 0.5) == grows


def test_quantiles_rise_and_a_law_reaches_its_quantiles():
    found = steady_state(profile(replica_of(llama(), (0, 4)), chat()), np.array([2.0, 8.0]))
    share = np.array([0.4, 0.6])
    for latency in ("time_to_first_token", "time_per_output_token", "end_to_end", "inter_token_gap"):
        values = [found.quantile(latency, of, share) for of in (0.1, 0.5, 0.9, 0.99)]
        assert values == sorted(values)
        assert values[0] > 0
        assert found.share_below(latency, values[2], share) == pytest.approx(0.9, abs=0.02)
    with pytest.raises(ValueError, match="no law is known of speed"):
        found.quantile("speed", 0.5, share)


def test_more_requests_are_never_faster():
    known = profile(replica_of(llama(Independent(rate=0.7)), (0, 3)), chat())
    found = steady_state(known, np.linspace(0.05, 0.99, 30) * known.saturation)
    assert (np.diff(found.time_per_output_token) >= -1e-12).all()
    assert (np.diff(found.time_to_first_token) >= -1e-9).all()
    assert found.stable.all()
    assert not steady_state(known, np.array([1.01 * known.saturation])).stable.any()
