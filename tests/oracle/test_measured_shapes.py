"""Shapes that public measurements show of models and layouts, not their digits; each names the report it comes from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import served

import specsim
from specsim.catalog.cards import card
from specsim.cost.feed_forward import distinct_experts
from specsim.specs.feed_forward import Experts


def verify_ratios(most, **question):
    """Verification of 1 to most tokens in plain steps, at batch 1."""
    table = specsim.optimal_gamma(
        draft_cost_ratio=0.1, acceptance="rate=0.5", max_gamma=most - 1, all_gammas=True, batch_size=1, **question
    )
    return table["verify_cost_ratio"]


@pytest.mark.parametrize(
    "question",
    [
        {"hardware": "h100", "target": "qwen3-235b-a22b", "tensor_parallel": 8},
        {"hardware": "h200", "target": "qwen3-235b-a22b", "tensor_parallel": 4},
    ],
    ids=lambda question: question["hardware"],
)
def test_verification_of_a_mixture_grows_concavely_to_twice_a_step_at_9_tokens(question):
    """ggml-org/llama.cpp#14132, Qwen3-235B-A22B: 1 1.30 1.41 1.45 1.56 1.67 1.76 1.88 2.0 steps for 1 to 9 tokens."""
    ratios = verify_ratios(32, **question)
    assert ratios[8] == pytest.approx(2.0, abs=0.2)
    steps = np.diff(ratios)
    assert np.all(steps > 0)
    assert np.all(np.diff(steps) < 0)


def test_a_small_mixture_grows_by_about_half_a_step_a_token_on_a_small_device():
    """ggml-org/llama.cpp#22673, Qwen3.6-35B-A3B on an RTX 3060: rounds of 1.57 2.05 2.59 3.13 steps at 1 to 4 drafts.

    A draft of its own module takes a part of that; verification alone grows by less, and each token by less still.
    """
    steps = np.diff(verify_ratios(5, hardware="rtx-3090", target="qwen3-30b-a3b", precision="q4_k"))
    assert np.all((steps > 0.2) & (steps < 0.52))


def test_a_dense_model_of_as_many_active_parameters_hardly_grows():
    dense = verify_ratios(9, hardware="h100", target="qwen3-8b")
    assert dense[8] < 1.02


@pytest.mark.parametrize("length", [2.0, 2.25, 2.5])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_mixture_loses_at_small_batch_where_a_dense_model_gains(length, batch_size):
    """sgl-project/SpecForge#339, Qwen3-30B-A3B on 2 H100: .72 to .93 at batch 1 and .75 to .79 at batch 4.

    About two tokens a round are what drafts of three bring there, and a dense 8B gains by as much.
    """
    question = {
        "hardware": "h100", "draft": "qwen3-0.6b", "draft_tensor_parallel": 1, "batch_size": batch_size,
        "acceptance": f"length={length}@3", "max_gamma": 3, "all_gammas": True,
    }  # fmt: skip
    mixture = specsim.optimal_gamma(target="qwen3-30b-a3b", tensor_parallel=2, **question)
    dense = specsim.optimal_gamma(target="qwen3-8b", **question)
    assert float(mixture["speedup"][3]) < 0.9
    assert float(dense["speedup"][3]) > (1.1 if length > 2 else 0.95)
    assert float(dense["speedup"][3]) > 1.4 * float(mixture["speedup"][3])


def test_the_plain_step_of_that_mixture_is_as_measured():
    """The same report: 222.47 and 566.21 tokens a second at batch 1 and 4 without speculation."""
    table = specsim.optimal_gamma(
        hardware="h100", target="qwen3-30b-a3b", tensor_parallel=2, draft_cost_ratio=0.1, acceptance="rate=0.5",
        batch_size="1,4",
    )  # fmt: skip
    assert table["plain_tokens_per_second"].tolist() == pytest.approx([222.47, 566.21], rel=0.18)


def test_a_mixture_gains_most_at_a_batch_between():
    """The sparser a mixture, the larger the batch at which speculation pays best: few tokens touch new experts each,
    many wait for arithmetic, and between them every expert is read anyway (MoESD).
    """
    table = specsim.optimal_gamma(
        hardware="h200", target="qwen3-30b-a3b", draft_cost_ratio=0.05, acceptance="rate=0.8", max_gamma=3,
        all_gammas=True, batch_size="1..512*2", context_length=256,
    )  # fmt: skip
    speedup = table["speedup"][table["gamma"] == 3]
    best = int(np.argmax(speedup))
    assert 2 <= best <= 8
    assert speedup[best] > 1.2 * speedup[0]
    assert speedup[best] > 1.2 * speedup[-1]


@pytest.mark.parametrize("rate", [0.2, 0.3])
def test_a_draft_at_the_targets_tensor_parallelism_loses_where_one_device_gains(rate):
    """OPT-30B with OPT-125M on 4 devices, NCCL all-reduces of 40 us (34 to 56 us as profiled by microsoft/vidur)."""
    eager = replace(card("runtime", "typical"), all_reduce_latency_seconds=40e-6)
    question = {
        "hardware": "a100", "target": "opt-30b", "draft": "opt-125m", "tensor_parallel": 4, "runtime": eager,
        "acceptance": f"rate={rate}", "batch_size": 1, "context_length": 512, "all_gammas": True,
    }  # fmt: skip
    alone, together = (specsim.optimal_gamma(**question, draft_tensor_parallel=p) for p in (1, 4))
    gamma = 5 if rate == 0.3 else 3
    assert float(alone["speedup"][gamma]) > 1
    assert float(together["speedup"][gamma]) < 1
    assert float(together["draft_cost_ratio"][1]) > 1.8 * float(alone["draft_cost_ratio"][1])


def test_eight_bits_of_a_70b_model_on_one_device():
    """The lecture: 18.7 ms for 5 and for 21 tokens; weights of 8 bits, products and cache of 16."""
    table = specsim.optimal_gamma(
        hardware="h200", target="llama-3-70b", precision="int8-w8a16", runtime="lecture", draft="llama-3.2-1b",
        acceptance="rate=0.5", batch_size=1, context_length=1024, max_gamma=20, all_gammas=True,
    )  # fmt: skip
    times = table["verification_ms"][[0, 4, 20]].tolist()
    assert times == pytest.approx([18.687] * 3, abs=0.001)


def test_weights_on_the_host_make_drafts_nearly_free():
    """SpecInfer reports 2.6 to 3.5 times for OPT-13B and OPT-30B offloaded from one A10."""
    table = specsim.optimal_gamma(
        hardware="a10", target="opt-30b", offloaded=1, draft="opt-125m", acceptance="rate=0.7", batch_size=1,
        context_length=512, max_gamma=8,
    )  # fmt: skip
    assert 2 < float(table["speedup"][0]) < 4
    assert str(table["bound"][0]) == "host"
    # Over PCIe Gen4 at .8 of 31 GB/s.
    streamed = 2 * served("opt-30b").model.streamed_parameters
    assert float(table["plain_step_ms"][0]) == pytest.approx(streamed / (0.8 * 31e9) * 1e3, rel=1e-3)


@pytest.mark.parametrize(
    ("experts", "top_k", "expected"),
    [
        (8, 2, {5: 6.1016, 8: 7.1991}),
        (64, 8, {5: 31.1738, 40: 63.6934}),
        (256, 8, {1: 8, 5: 37.5769, 64: 222.4425, 160: 254.4074}),
    ],
)
def test_expected_distinct_experts(experts, top_k, expected):
    of = Experts(count=experts, top_k=top_k, intermediate_size=1)
    for tokens, distinct in expected.items():
        assert float(distinct_experts(of, np.asarray(1.0), np.asarray(float(tokens)))) == pytest.approx(
            distinct, abs=5e-5
        )
        # As many sequences of one token are the same tokens.
        assert distinct_experts(of, np.asarray(float(tokens)), np.ones(())) == pytest.approx(distinct, abs=5e-5)
