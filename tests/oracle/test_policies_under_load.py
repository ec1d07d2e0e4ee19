"""What speculation does to a load, as the field knows it: luck, hours of the day, and memory that drafts take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from serving_rig import ONE, chat, eagle, fixed_lengths, llama, per_token, poisson, replica_of, run_of

import specsim
from specsim.acceptance import chain_of
from specsim.catalog.cards import card
from specsim.serving.arrivals import arrival_times, draw_sizes, sizes_of
from specsim.serving.cache import cache_of
from specsim.serving.policies import Adaptive, Always
from specsim.serving.policy_tables import cells_of, regrets_of
from specsim.serving.profile import profile_of
from specsim.serving.steady_state import steady_state
from specsim.specs.acceptance import Length, Regime, Regimes
from specsim.specs.workload import Engine, OnOff

BURSTY = Regimes(
    regimes={
        "easy": Regime(acceptance_probability=(0.95,), mean_run_tokens=200),
        "hard": Regime(acceptance_probability=(0.3,), mean_run_tokens=200),
    }
)


def test_bursty_drafts_give_the_throughput_of_independent_ones_and_a_wider_p99():
    """Equal tokens per round: the same mean time, but some requests sit in hard text and wait longer for each token.

    Over 300 tokens a request meets one or two stretches of 200, so the rounds it takes vary as 1 / its luck does.
    """
    tokens = float(chain_of(BURSTY).rounds([4]).tokens_per_round[0])
    even = Length(tokens_per_round=tokens, gamma=4)
    runs = [
        run_of(replica_of(llama(a), (0, 4)), poisson(2.0, 3000, fixed_lengths(500, 300), 1), 2) for a in (BURSTY, even)
    ]
    bursty, independent = (per_token(run) for run in runs)
    ratio = [run.round_tokens / run.rounds for run in runs]
    assert ratio[0] == pytest.approx(ratio[1], rel=0.03)
    assert bursty.mean() == pytest.approx(independent.mean(), rel=0.1)
    widths = [np.quantile(t, 0.99) / np.median(t) for t in (bursty, independent)]
    assert widths[0] > 1.25 * widths[1]


def test_throughput_at_saturation_is_of_one_order_for_both():
    tokens = float(chain_of(BURSTY).rounds([4]).tokens_per_round[0])
    found = []
    for acceptance in (BURSTY, Length(tokens_per_round=tokens, gamma=4)):
        replica = replica_of(llama(acceptance), (0, 4))
        found.append(profile_of(replica, sizes_of((fixed_lengths(500, 300),), ONE)).saturation)
    assert found[0] == pytest.approx(found[1], rel=0.03)


def test_the_best_fixed_gamma_falls_with_the_load():
    lengths = chat(prompt=200)
    best = []
    replicas = [replica_of(eagle("rate=0.7"), (0, g) if g else (0,), longest=8000) for g in range(7)]
    profiles = [profile_of(replica, sizes_of((lengths,), ONE)) for replica in replicas]
    for rate in (0.5, 20.0, 35.0, 42.0, 55.0):
        found = [steady_state(known, np.array([rate])) for known in profiles]
        times = [float(f.time_per_output_token[0]) if f.stable[0] else np.inf for f in found]
        best.append(int(np.argmin(times)))
    assert best == sorted(best, reverse=True)
    assert best[0] >= 4
    assert best[-1] <= 2


def day(number, generator):
    """Quiet and busy hours, shortened to minutes."""
    load = OnOff(
        on_requests_per_second=38.0, off_requests_per_second=1.0, on_duration_seconds=60.0, off_duration_seconds=300.0,
        durations="fixed",
    )  # fmt: skip
    return arrival_times(load, number, generator)


@pytest.fixture(scope="module")
def a_day():
    """Requests of a day with two busy hours, and the mean time per token of each policy over its requests."""
    generator = np.random.default_rng(4)
    times = day(4200, generator)
    requests = draw_sizes((chat(prompt=200),), ONE, len(times), generator).at(times)
    question = eagle("rate=0.7")
    whole = replica_of(question, tuple(range(7)), longest=20_000, policy="table")
    policies = {f"fixed {g}": Always("fixed", g) for g in range(7)}
    first = float(whole.choices.tokens_per_round[1] - 1)
    longest = np.array([choice.longest for choice in whole.choices.each])
    policies["table"] = whole.policy
    policies["adaptive"] = Adaptive("adaptive", whole.policy, whole.times.round_seconds, longest, first)
    runs = {name: run_of(replace(whole, policy=policy), requests, 5) for name, policy in policies.items()}
    return whole, runs


def test_a_table_beats_every_fixed_gamma_on_a_day_with_quiet_and_busy_hours(a_day):
    _, runs = a_day
    means = {name: per_token(run).mean() for name, run in runs.items()}
    fixed = [time for name, time in means.items() if name.startswith("fixed")]
    assert means["table"] < min(fixed)
    # What drafts pay in quiet hours costs more in busy ones.
    assert means["fixed 0"] > 1.02 * means["table"]
    assert means["fixed 6"] > 1.02 * means["table"]


def test_what_requests_have_shown_is_nearly_as_good_as_knowing_their_mean(a_day):
    _, runs = a_day
    assert per_token(runs["adaptive"]).mean() == pytest.approx(per_token(runs["table"]).mean(), rel=0.05)
    assert 0 < runs["adaptive"].drafted / runs["adaptive"].rounds < 6


def test_simpler_tables_give_away_more(a_day):
    whole, runs = a_day
    regrets = regrets_of(whole.policy, runs["table"].time_at)
    assert 0 <= regrets.by_batch <= regrets.fixed <= regrets.off
    assert regrets.by_batch < regrets.fixed
    assert regrets.fixed > 0.005
    cells = list(cells_of(whole.policy, runs["table"].time_at))
    assert sum(cell.time_share for cell in cells) == pytest.approx(1)
    assert all(cell.choice in cell.kept for cell in cells)
    assert len(cells) < 40
    gammas = [cell.choice for cell in cells if cell.context_from == 0]
    assert gammas[0] > gammas[-1]


def test_hysteresis_keeps_what_is_nearly_as_good():
    whole = replica_of(eagle("rate=0.7"), tuple(range(5)), policy="table")
    table = whole.policy
    calm = replace(table, hysteresis=0.05).begin(1)
    keen = replace(table, hysteresis=0.0).begin(1)
    batches = [*range(1, 200), *range(200, 0, -1)]
    changes = []
    for chooser in (calm, keen):
        chosen = [chooser.choose(batch, 500.0, None) for batch in batches]
        changes.append((np.diff(chosen) != 0).sum())
    assert changes[0] <= changes[1]
    best = table.goodput.argmax(0)
    entry = round(500.0 / table.tokens_per_entry)
    assert keen.choose(7, 500.0, None) == best[6, entry]
    for batch in batches:
        choice = calm.choose(batch, 500.0, None)
        at = table.goodput[:, batch - 1, entry]
        assert at[choice] * 1.05 >= at.max()


# --- cases that users have reported


def test_qwen_takes_57344_bytes_a_token():
    """vllm-project/vllm issue 22291: 2 x 28 layers x 4 heads x 128 x 2 bytes, and 0.176 GB at 3072 tokens."""
    question = llama(target="qwen2.5-7b", draft="qwen2.5-0.5b")
    cache = cache_of(question, False, 1, 8192, 16)
    activations = 2 * (2 * 3584 + max(152064, 2 * 18944))
    share = cache.share_of_blocks * cache.room_bytes
    # Blocks of 16 tokens; the slot of a round has its activations besides.
    assert share[192] - share[191] == pytest.approx(16 * 57_344)
    assert share[192] - activations == pytest.approx(3072 * 57_344, abs=2)
    assert abs(3072 * 57_344 / 0.176e9 - 1) < 0.01


def test_a_drafter_takes_tokens_of_the_cache():
    """Its weights, its cache, and a slot for every token that a round looks at."""
    question = llama()
    without, with_drafts = (cache_of(question, drafts, slots, 8192, 16) for drafts, slots in ((False, 1), (True, 5)))
    draft = question.draft.served
    assert without.room_bytes - with_drafts.room_bytes == pytest.approx(draft.device_weight_bytes, abs=1)
    lost = without.kv_tokens(4096) - with_drafts.kv_tokens(4096)
    per_token_of_both = question.target.kv_bytes_per_token + draft.kv_bytes_per_token
    expected = without.room_bytes / question.target.kv_bytes_per_token - with_drafts.room_bytes / per_token_of_both
    assert lost == pytest.approx(expected, rel=0.01)
    rows = list(
        specsim.capacity(
            hardware="h100", target="llama-3-8b", draft="llama-3.2-1b", acceptance="rate=0.8", rate=5, prompt=1000,
            output_length=200, policy=["off", "fixed:4"], quick_only=True,
        ).rows()
    )  # fmt: skip
    assert rows[0]["draft_memory_bytes"] == 0
    assert rows[1]["draft_memory_bytes"] > draft.device_weight_bytes
    assert rows[0]["kv_tokens"] > rows[1]["kv_tokens"]


def test_slots_are_those_of_the_whole_draft_and_not_of_what_is_accepted():
    """As many sequences fit as the planner of rounds says, at blocks of one token."""
    question = llama()
    for gamma in (0, 4):
        cache = cache_of(question, gamma > 0, gamma + 1, 4000, 1)
        table = specsim.optimal_gamma(
            hardware="h100", target="llama-3-8b", draft="llama-3.2-1b", acceptance="rate=0.8", batch_size=1,
            context_length=2000, all_gammas=True,
        )  # fmt: skip
        row = next(r for r in table.rows() if r["gamma"] == gamma)
        assert int(1 / float(cache.share(np.array([2000 + gamma + 1]))[0])) == row["max_batch_size"]


def test_a_cap_of_48_requests_is_kept():
    """sgl-project/sglang issue 34290: engines cap requests in flight under speculation, whatever fits."""
    replica = replica_of(llama(), (0, 4), engine=Engine(max_batch_size=48))
    run = run_of(replica, poisson(60.0, 1500, chat()))
    assert run.in_flight_seconds / run.busy_seconds <= 48
    assert run.time_at.shape[0] == 48
    assert run.time_at[47].sum() > 0.5 * run.time_at.sum()


def test_a_head_is_cheaper_than_a_model_in_memory():
    table = specsim.capacity(
        hardware="h200", target="llama-3.1-8b", draft=["eagle3-llama3.1-8b:rate=0.7", "llama-3.2-1b:rate=0.7"], rate=4,
        prompt=500, output_length=200, policy="fixed:3", quick_only=True,
    )  # fmt: skip
    head, model = (row["draft_memory_bytes"] for row in table.rows())
    assert head < model
    assert card("hardware", "h200-sxm").power_watts > 0
