"""The timing model term by term, worked by hand: smooth corner, attention, fixed costs, all-reduce, shards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import question_of, served

import specsim
from specsim.catalog.cards import card
from specsim.cost.breakdown import operators
from specsim.cost.machine import Machine
from specsim.cost.memory import Resident, fit
from specsim.cost.passes import Pass
from specsim.cost.roofline import operator_time, pass_time

BANDWIDTH, RATE = 3.35e12, 989.5e12
HIDDEN, INTERMEDIATE, LAYERS = 4096, 14_336, 32
KERNELS = card("hardware", "h100-sxm5").kernels
TYPICAL = card("runtime", "typical")
"""Fitted constants, which move with the evidence; the arithmetic with them is done here by hand."""


def timed(batch, tokens, context, tensor_parallel=1, runtime="typical"):
    machine = Machine(card("hardware", "h100-sxm5"), card("runtime", runtime))
    one = Pass(served("llama-3-8b", tensor_parallel), *(np.asarray(float(x)) for x in (batch, tokens, context)))
    return {o.name: operator_time(o, one, machine) for o in operators(one)}, pass_time(one, machine)


def test_a_matrix_product_turns_its_corner_by_the_4_norm():
    """Down projection at 300 tokens: both limits close together, and a fixed cost a product."""
    down = timed(300, 1, 0)[0]["down"]
    memory = 2 * (INTERMEDIATE * HIDDEN + 300 * (INTERMEDIATE + HIDDEN)) / (KERNELS.memory_efficiency * BANDWIDTH)
    compute = 2 * INTERMEDIATE * HIDDEN * 300 / (KERNELS.compute_efficiency * RATE)
    assert 0.5 < memory / compute < 2
    by_hand = LAYERS * ((memory**4 + compute**4) ** 0.25 + KERNELS.matrix_overhead_seconds)
    assert float(down.seconds) == pytest.approx(by_hand, rel=1e-12)


def test_attention_takes_the_larger_limit_at_its_own_bandwidth():
    """64 sequences of 4096 tokens, and a fixed cost a call."""
    attention = timed(64, 5, 4096)[0]["attention"]
    cache = 64 * 4096 * 131_072
    new = LAYERS * 2 * 64 * 5 * 2 * (HIDDEN + 1024)
    rate, call = KERNELS.attention_memory_efficiency * BANDWIDTH, KERNELS.attention_overhead_seconds
    assert float(attention.seconds) == pytest.approx((cache + new) / rate + LAYERS * call, rel=1e-12)
    # Many tokens over a long context wait for arithmetic: 100 x (8000 + 50.5) tokens looked at, four operations each.
    many = timed(64, 100, 8000)[0]["attention"]
    looked_at = 64 * 100 * (8000 + 101 / 2)
    compute = 4 * 4096 * looked_at / (KERNELS.compute_efficiency * RATE)
    assert float(many.seconds) == pytest.approx(LAYERS * (compute + call), rel=1e-12)


def test_a_pass_adds_what_the_runtime_costs_per_layer():
    operators_of, whole = timed(8, 1, 1000)
    assert float(whole.seconds) == pytest.approx(
        sum(float(t.seconds) for t in operators_of.values()) + LAYERS * TYPICAL.layer_overhead_seconds, rel=1e-12
    )


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_all_reduces_by_hand(devices):
    """Two a layer and one of the embedding: 5 us and 2 (p - 1) / p of 16 x 4096 values over a part of 450 GB/s."""
    reduced = timed(16, 1, 0, devices)[0]["all_reduce"]
    message = 16 * HIDDEN * 2
    by_hand = (2 * LAYERS + 1) * (5e-6 + 2 * (devices - 1) / devices * message / (KERNELS.link_efficiency * 450e9))
    assert float(reduced.seconds) == pytest.approx(by_hand, rel=1e-12)


def test_shards_carry_their_part_of_weights_operations_and_cache():
    whole, parts = (
        {o.name: o for o in operators(Pass(served("llama-3-8b", p), np.asarray(4.0), np.ones(()), np.asarray(100.0)))}
        for p in (1, 4)
    )
    for name in ("qkv", "output", "gate_up", "down", "head", "attention"):
        assert float(parts[name].operations) == pytest.approx(float(whole[name].operations) / 4, rel=1e-12), name
    assert float(parts["attention"].stored_bytes) == float(whole["attention"].stored_bytes) / 4
    norms = 2 * 2 * LAYERS * HIDDEN
    sharded = sum(float(parts[n].stored_bytes) for n in ("qkv", "output", "gate_up", "down"))
    full = sum(float(whole[n].stored_bytes) for n in ("qkv", "output", "gate_up", "down"))
    # Every device has the norms to itself.
    assert sharded - norms == pytest.approx((full - norms) / 4, rel=1e-12)


def test_memory_by_hand():
    """70B over 4 devices with a 1B draft on each, 10 sequences of 1000 tokens and 5 slots, bf16.

    Every device has all norms; of one token it keeps two hidden states and a quarter of the logits.
    """
    machine = Machine(card("hardware", "h100-sxm5"), card("runtime", "ideal"))
    target, draft = served("llama-3-70b", 4), served("llama-3.2-1b")
    drafter = Resident(draft.device_weight_bytes, (draft,))
    found = fit(target, drafter, np.asarray(10.0), np.asarray(5.0), np.asarray(1000.0), machine)
    norms = (2 * 80 + 1) * 8192
    weights = 2 * ((70_553_706_496 - norms) / 4 + norms) + 2 * 1_235_814_400
    per_token, activations = 2 * 2 * 80 * 2 * 128 + 32_768, 2 * (2 * 8192 + 128_256 / 4)
    assert float(found.needed_bytes) == weights + 10 * (1005 * per_token + 5 * activations)
    assert float(found.draft_bytes) == 2 * 1_235_814_400 + 10 * 1005 * 32_768
    assert float(found.max_batch_size) == (80e9 - weights) // (1005 * per_token + 5 * activations)


def test_the_last_position_of_a_model_may_be_used():
    """Context plus the tokens of a round may fill all 8192 positions, and not one more."""
    rows = specsim.optimal_gamma(
        hardware="h200", target="llama-3-8b", draft="llama-3.2-1b", acceptance="rate=0.8", batch_size=1,
        context_length="8187,8188", max_gamma=4, all_gammas=True,
    )  # fmt: skip
    at_the_end = rows.where(rows["gamma"] == 4)
    assert at_the_end["feasible"].tolist() == [True, False]
    assert at_the_end["limit"].tolist() == ["", "position"]


def test_only_what_fits_is_called_best():
    """Batch 316 is the last at which two drafts fit; at 330 the target fits alone."""
    rows = specsim.optimal_gamma(
        hardware="h100", target="llama-3-8b", draft="llama-3.2-1b", acceptance="rate=0.8", batch_size="316,330",
        all_gammas=True,
    )  # fmt: skip
    best = rows.where(rows["best"])
    assert best["gamma"].tolist() == [2, 0]
    assert best["feasible"].all()
    assert any("gamma 0 is all there is" in note for note in rows.infeasible)


def test_measured_overheads_cost_nothing_where_nothing_is_drafted():
    given = {"hardware": "h100", "target": "llama-3-8b", "draft": "llama-3.2-1b", "acceptance": "rate=0.8"}
    rows = specsim.optimal_gamma(**given, batch_size=1, all_gammas=True, overhead=0.5, repair=0.2, max_gamma=2)
    plain = float(rows["plain_step_ms"][0])
    assert float(rows["overhead_ms"][0]) == 0.0
    assert float(rows["speedup"][0]) == 1.0
    # The runtime's own cost of a round, half a plain step, and a fifth of one with probability 1 - .8^gamma.
    assert float(rows["overhead_ms"][2]) == pytest.approx(
        TYPICAL.round_overhead_seconds * 1e3 + plain * (0.5 + 0.2 * (1 - 0.64)), rel=1e-12
    )


def test_tensor_parallel_without_an_own_interconnect_goes_over_the_host_link():
    machine = Machine(card("hardware", "a10"), card("runtime", "typical"))
    assert machine.link_bytes_per_second(2) == 0.1 * 31e9
    alone = replace(card("hardware", "a10"), host_link=None)
    assert np.isnan(Machine(alone, card("runtime", "typical")).link_bytes_per_second(2))


def test_a_draft_at_the_targets_parallelism_pays_its_latency_every_step():
    """OPT-30B on four A10 with OPT-125M: 24 all-reduces a draft step undo what splitting 125M weights gains."""
    question = question_of("a10", "typical", "opt-30b", "opt-125m", tensor_parallel=4)
    one = replace(question.draft, tensor_parallel=1)
    at = {}
    for draft in (question.draft, one):
        step = Pass(draft, np.ones(()), np.ones(()), np.asarray(500.0))
        at[draft.tensor_parallel] = float(pass_time(step, question.machine).seconds)
    assert at[4] > 24 * 5e-6
    assert at[1] < at[4] * 1.5
