"""What holds for every shipped model in every layout: bounds, monotony, and that what fits is what is said to fit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from conftest import served
from hypothesis import given, settings
from hypothesis import strategies as st

from specsim.catalog import library
from specsim.catalog.cards import card
from specsim.cost.breakdown import operators
from specsim.cost.machine import Machine
from specsim.cost.memory import Resident, fit, sequence_bytes
from specsim.cost.passes import Pass
from specsim.cost.roofline import pass_time
from specsim.errors import Contradiction
from specsim.specs.precision import KV_BYTES, PRECISIONS

MODELS = library.names("model")
BATCH = np.array([1.0, 2, 3, 7, 8, 9, 64, 65, 500]).reshape(-1, 1)
CONTEXT = np.array([0.0, 1, 100, 127, 128, 129, 1023, 1024, 4096, 100_000])
TOKENS = np.array([1.0, 2, 5, 9, 33]).reshape(-1, 1, 1)
LAYOUTS = [
    {},
    {"tensor_parallel": 2},
    {"tensor_parallel": 4, "attention_data_parallel": 4},
    {"tensor_parallel": 4, "expert_parallel": 4},
    {"tensor_parallel": 4, "expert_parallel": 4, "attention_data_parallel": 2},
    {"tensor_parallel": 8, "expert_parallel": 8, "attention_data_parallel": 8},
    {"pipeline_parallel": 2},
    {"pipeline_parallel": 2, "tensor_parallel": 4},
    {"offloaded": 0.5},
]


def laid_out(name, layout, **formats):
    """A model in a layout; None where the model does not take it."""
    model = card("model", name)
    source = {"source_tokens": 128} if model.encoder is not None else {}
    try:
        return served(name, **layout, **source, **formats)
    except Contradiction:
        return None


def machine(hardware="h100-sxm5", runtime="typical"):
    return Machine(card("hardware", hardware), card("runtime", runtime))


@pytest.mark.parametrize("name", MODELS)
def test_a_pass_takes_longer_for_more_of_anything_in_every_layout(name):
    found = [target for target in (laid_out(name, layout) for layout in LAYOUTS) if target is not None]
    assert len(found) >= 4
    for target in found:
        seconds = np.broadcast_to(pass_time(Pass(target, BATCH, TOKENS, CONTEXT), machine()).seconds, (5, 9, 10))
        assert np.all(np.isfinite(seconds))
        assert np.all(seconds > 0)
        for axis, what in enumerate(("tokens", "batch", "context")):
            worst = np.diff(seconds, axis=axis).min()
            assert worst >= -1e-12 * seconds.max(), (what, target.tensor_parallel, target.pipeline_parallel)


@pytest.mark.parametrize("name", MODELS)
def test_parts_of_a_pass_add_up_and_waiting_is_never_negative(name):
    for layout in LAYOUTS:
        target = laid_out(name, layout)
        if target is not None:
            time = pass_time(Pass(target, BATCH, TOKENS, CONTEXT), machine())
            np.testing.assert_allclose(sum(time.parts), time.seconds, rtol=1e-12)
            assert all(np.all(part >= -1e-15) for part in time.parts)


@pytest.mark.parametrize("name", MODELS)
def test_fewer_bits_are_fewer_bytes_and_no_bytes_are_lost(name):
    weights = {form: served(name, precision=form).weight_bytes for form in PRECISIONS}
    assert max(weights.values()) == weights["fp32"] == 4 * card("model", name).parameters
    assert 2 * weights["bf16"] == weights["fp32"]
    for narrow, wide in itertools.pairwise(("q4_0", "q4_1", "q5_k", "q6_k", "q8_0")):
        assert weights[narrow] < weights[wide]
    # What stays in 16 bits is at most what the format leaves alone.
    for form, precision in PRECISIONS.items():
        assert weights[form] >= precision.weight_bits / 8 * card("model", name).parameters


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_all_devices_together_hold_every_weight(name, layout):
    target = laid_out(name, layout)
    if target is not None and not target.offloaded:
        assert target.device_weight_bytes * target.devices >= target.weight_bytes * (1 - 1e-12)
        assert target.device_weight_bytes <= target.weight_bytes
        if target.devices > 1:
            assert target.device_weight_bytes < target.weight_bytes


@pytest.mark.parametrize("name", MODELS)
def test_one_token_reads_what_is_said_to_be_read(name):
    target = laid_out(name, {})
    one = Pass(target, np.ones(()), np.ones(()), np.zeros(()))
    read = sum(float(o.stored_bytes) for o in operators(one) if o.kind == "matrix")
    sinks = getattr(target.model.attention, "sinks", False) * target.model.attention.heads * target.model.layers
    assert read == pytest.approx(2 * (target.model.streamed_parameters - sinks), rel=1e-12)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kv_precision", KV_BYTES)
def test_caches_grow_with_context_and_tokens_and_never_beyond_a_full_one(name, kv_precision):
    target = laid_out(name, {}, kv_precision=kv_precision)
    kept = sequence_bytes(target, TOKENS, CONTEXT)
    assert np.all(np.diff(np.broadcast_to(kept, (5, 1, 10)), axis=0) > 0)
    assert np.all(np.diff(kept, axis=-1) >= 0)
    model = target.model
    source = model.layers * target.cached_values_per_device * target.kv_bytes_per_value * target.source_tokens
    full = (CONTEXT + TOKENS) * target.kv_bytes_per_token + source + model.state_bytes * TOKENS
    assert np.all(kept <= full * (1 + 1e-12))
    if set(model.layer_pattern) == {"full"}:
        np.testing.assert_allclose(kept, full, rtol=1e-12)


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from(
        ["llama-3.1-8b", "deepseek-v2-lite", "gpt-oss-20b", "gemma-3-27b", "qwen3-30b-a3b", "mistral-7b"]
    ),
    layout=st.sampled_from(LAYOUTS),
    draft=st.sampled_from([None, "llama-3.2-1b", "qwen3-0.6b"]),
    gamma=st.integers(0, 12),
    context=st.integers(0, 6000),
    form=st.sampled_from(["bf16", "fp8-w8a8", "q4_k"]),
)  # fmt: skip
def test_the_largest_batch_fits_and_one_more_does_not(name, layout, draft, gamma, context, form):
    target = laid_out(name, layout, precision=form)
    if target is None:
        return
    drafter = Resident() if draft is None else Resident(served(draft).device_weight_bytes, (served(draft),))

    def at(batch):
        points = (np.asarray(float(x)) for x in (batch, gamma + 1, context))
        return fit(target, drafter, *points, machine())

    most = int(at(1).max_batch_size)
    if at(1).limit == 3:
        assert most == 0
        return
    if most > 0:
        assert at(most).limit == 0
        assert at(most).excess_bytes == 0
    beyond = at(most + 1)
    assert beyond.limit in (1, 2)
    assert beyond.excess_bytes > 0
    assert float(beyond.needed_bytes) > float(at(max(most, 1)).draft_bytes)


@given(
    experts=st.integers(1, 400), top_k=st.integers(1, 16), tokens=st.integers(1, 64), batch=st.integers(1, 64),
    correlation=st.floats(0, 1),
)  # fmt: skip
def test_distinct_experts_lie_between_the_choice_of_one_token_and_all(experts, top_k, tokens, batch, correlation):
    from specsim.cost.feed_forward import distinct_experts
    from specsim.specs.feed_forward import Experts

    of = Experts(count=max(experts, top_k), top_k=top_k, intermediate_size=1, correlation=correlation)
    found = float(distinct_experts(of, np.asarray(float(batch)), np.asarray(float(tokens))))
    assert top_k * (1 - 1e-12) <= found <= min(of.count, top_k * batch * tokens) * (1 + 1e-12)
    if correlation == 1:
        alone = float(distinct_experts(of, np.asarray(float(batch)), np.ones(())))
        assert found == alone
