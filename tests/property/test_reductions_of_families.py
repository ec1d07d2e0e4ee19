"""Reduction identities of models, formats and layouts: what reduces to something plainer gives its rows, bit by bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import columns_differ, served

from specsim.catalog.cards import card
from specsim.cost.machine import Machine
from specsim.planning.question import Axes, Question
from specsim.planning.rounds import plan
from specsim.planning.sweep import Block
from specsim.report.columns import Answer, rows
from specsim.specs.acceptance import Independent
from specsim.specs.attention import GroupedAttention
from specsim.specs.drafter import DraftModel
from specsim.specs.feed_forward import Experts, Mlp
from specsim.specs.precision import PRECISIONS, Precision
from specsim.specs.scenario import Grid, Scenario
from specsim.specs.served import ServedModel

GRID = Grid(batch_size=(1, 4, 33, 256), context_length=(0, 100, 1024, 5000), gamma=(0, 1, 4, 8))


def table(target, hardware="h100-sxm5", runtime="typical", node=None):
    """All rows for a target as it is served, with a small draft beside it."""
    small = "llama-68m" if target.model.encoder is None else "t5-small"
    draft = served(small, kind=DraftModel, acceptance=Independent(rate=0.7))
    machine = Machine(card("hardware", hardware), card("runtime", runtime), node and card("node", node))
    question = Question(machine, target, draft)
    scenario = Scenario(
        hardware=machine.hardware, node=machine.node, runtime=machine.runtime, target=target, drafts=(draft,), grid=GRID
    )
    axes = Axes.of(GRID.batch_size, GRID.context_length, GRID.gamma)
    return rows(Answer(Block(scenario, question, axes), plan(question, axes)))


def serve(model, **more):
    return ServedModel(model=model, precision=PRECISIONS["bf16"], kv_precision="bf16", **more)


@pytest.fixture
def dense():
    return replace(card("model", "llama-3-8b"), name="one")


@pytest.mark.parametrize("runtime", ["ideal", "lecture"])
@pytest.mark.parametrize("experts", [1, 2, 8])
def test_experts_that_all_tokens_visit_are_dense(dense, experts, runtime):
    """k of k experts of width f / k read and compute what one block of width f does; the router comes on top.

    Kernels of one block are counted once and the router is a product of its own, so no fixed costs here.
    """
    width = dense.mlp.intermediate_size // experts
    mixture = replace(dense, mlp=None, experts=Experts(count=experts, top_k=experts, intermediate_size=width))
    bare = card("runtime", runtime)
    machine = Machine(card("hardware", "h100-sxm5"), replace(bare, activations=False), None)
    question = Question(
        machine, serve(dense), served("llama-68m", kind=DraftModel, acceptance=Independent(rate=0.7))
    )  # fmt: skip
    axes = Axes.of(GRID.batch_size, GRID.context_length, GRID.gamma)
    of_block, of_experts = plan(question, axes), plan(replace(question, target=serve(mixture)), axes)
    router = dense.layers * experts * dense.hidden_size
    assert mixture.parameters == dense.parameters + router
    assert mixture.active_parameters == mixture.parameters
    # The router is one part in 8000 of the weights and operations.
    share = 2 * router / dense.streamed_parameters
    np.testing.assert_allclose(of_experts.round_seconds, of_block.round_seconds, rtol=share + 1e-5)
    assert np.all(of_experts.round_seconds >= of_block.round_seconds)
    np.testing.assert_allclose(of_experts.speedup, of_block.speedup, rtol=2 * share + 1e-5)
    assert of_experts.best.tolist() == of_block.best.tolist()


def test_no_expert_is_read_twice_however_many_tokens_choose(dense):
    """Once every expert is touched, reading them all is a dense read of all of them."""
    mixture = replace(dense, mlp=None, experts=Experts(count=4, top_k=1, intermediate_size=14_336))
    block = replace(dense, mlp=Mlp(intermediate_size=4 * 14_336))
    found, all_of_them = table(serve(mixture), runtime="ideal"), table(serve(block), runtime="ideal")
    large = found["batch_size"] == 256
    ratio = found["verification_ms"][large] / all_of_them["verification_ms"][large]
    assert np.all(ratio[np.isfinite(ratio)] < 1.001)


@pytest.mark.parametrize("window", [6000, 131_072])
def test_a_window_that_reaches_everything_is_full_attention(dense, window):
    sliding = replace(dense, sliding_window=window, layer_pattern=("sliding",))
    assert columns_differ(table(serve(dense)), table(serve(sliding)), but=("limit_excess_bytes",)) == []
    mixed = replace(dense, sliding_window=window, layer_pattern=("sliding", "full"))
    # Two kinds of layers are two sums of half the layers each.
    for name in ("round_ms", "verification_ms", "speedup", "memory_bytes", "max_batch_size"):
        np.testing.assert_allclose(table(serve(dense))[name], table(serve(mixed))[name], rtol=1e-12, err_msg=name)


def test_as_many_key_value_heads_as_heads_is_multi_head_attention(dense):
    heads = replace(dense, attention=GroupedAttention(heads=32, kv_heads=32, head_dim=128))
    assert serve(heads).kv_bytes_per_token == 4 * serve(dense).kv_bytes_per_token == 2 * 2 * 32 * 4096
    assert heads.parameters - dense.parameters == 32 * 2 * 24 * 128 * 4096


@pytest.mark.parametrize("name", ["llama-3-8b", "deepseek-v2-lite", "gpt-oss-20b", "qwen3-30b-a3b"])
def test_layouts_of_one_are_none(name):
    one = {"tensor_parallel": 1, "pipeline_parallel": 1, "expert_parallel": 1, "attention_data_parallel": 1}
    assert columns_differ(table(served(name)), table(serve(card("model", name), **one))) == []


@pytest.mark.parametrize("name", ["llama-3-8b", "qwen3-30b-a3b"])
def test_nothing_offloaded_is_resident(name):
    assert columns_differ(table(served(name)), table(serve(card("model", name), offloaded=0.0))) == []


def test_a_node_that_says_what_the_accelerator_says_changes_nothing():
    target = serve(card("model", "llama-3-8b"), tensor_parallel=4)
    assert columns_differ(table(target), table(target, node="hgx-h100"), but=("node",)) == []


@pytest.mark.parametrize("name", ["llama-3-8b", "deepseek-v2-lite", "gpt-oss-20b", "t5-v1_1-large", "gemma-2-9b"])
def test_a_format_of_16_bits_everywhere_is_bf16(name, monkeypatch):
    modules = frozenset(("attention", "mlp", "experts", "router", "head", "embedding"))
    wide = Precision("bf16", 16.0, "bf16", modules)
    target = serve(card("model", name), source_tokens=100 if name.startswith("t5") else 0)
    assert columns_differ(table(target), table(replace(target, precision=wide))) == []


def test_fp16_is_bf16_where_the_rates_are_equal():
    target = serve(card("model", "llama-3-8b"))
    other = replace(target, precision=PRECISIONS["fp16"], kv_precision="fp16")
    assert columns_differ(table(target), table(other), but=("precision", "kv_precision")) == []


def test_correlation_0_is_each_token_for_itself_and_1_is_one_choice_for_all():
    model = card("model", "qwen3-30b-a3b")
    alike = {c: serve(replace(model, experts=replace(model.experts, correlation=c))) for c in (0.0, 0.5, 1.0)}
    assert columns_differ(table(serve(model)), table(alike[0.0])) == []
    gamma = table(serve(model))["gamma"]
    verify = {c: table(target)["verify_cost_ratio"] for c, target in alike.items()}
    fits = (gamma > 0) & np.isfinite(verify[0.0])
    assert np.all(verify[1.0][fits] <= verify[0.5][fits])
    assert np.all(verify[0.5][fits] <= verify[0.0][fits])
    at_1 = fits & (table(serve(model))["batch_size"] == 1)
    assert np.all(verify[1.0][at_1] < verify[0.0][at_1])


def test_an_encoder_that_has_read_nothing_costs_the_projections_alone():
    model = card("model", "t5-v1_1-large")
    nothing, something = (table(serve(model, source_tokens=n)) for n in (0, 200))
    more = something["plain_step_ms"] - nothing["plain_step_ms"]
    assert np.all(more[np.isfinite(more)] > 0)
