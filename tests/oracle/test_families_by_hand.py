"""Every family of models by hand: what one device computes and reads in one decoding or verification pass.

One multiply-add is two operations; weights, cache and activations have 16 bits. Weights are read once a pass, and with
them vectors beside a matrix (norms, biases, convolutions, a gate of one row), whose arithmetic is free as all that is
elementwise. The cache is read once per sequence, however many new tokens look at it; new token i of n looks at context
+ i tokens. A product reads its input and writes its output; attention reads queries and new keys and values and writes
as much as it has queries. Expected operators are [operations, bytes of weights and cache, bytes of activations].
"""

from __future__ import annotations

from dataclasses import replace
from math import comb

import numpy as np
import pytest
from conftest import served

from specsim.catalog.cards import card
from specsim.cost.breakdown import operators
from specsim.cost.feed_forward import distinct_experts
from specsim.cost.machine import Machine
from specsim.cost.memory import sequence_bytes
from specsim.cost.passes import Pass
from specsim.cost.roofline import pass_time
from specsim.specs.attention import GatedDelta, GroupedAttention, Mamba2, linear_matrix_parameters
from specsim.specs.feed_forward import Experts
from specsim.specs.model import Model

QUANTITIES = ("operations", "stored_bytes", "activation_bytes")
many = pytest.mark.parametrize
every_quantity = many("quantity", QUANTITIES)
SHARED = ("shared_gate_up", "shared_down")


def a_pass(model, batch, tokens, context):
    return Pass(model, *(np.asarray(float(x)) for x in (batch, tokens, context)))


def found(model, batch, tokens, context):
    return {o.name: o for o in operators(a_pass(model, batch, tokens, context))}


def kept(model, tokens, context):
    return float(sequence_bytes(model, np.float64(tokens), np.float64(context)))


def sent(computed):
    """Runs, devices and bytes of each exchange."""
    return {n: (o.runs, o.group, float(o.message_bytes)) for n, o in computed.items() if o.kind == "exchange"}


def joined(hidden, runs, p, rows, vocabulary):
    """So many all-reduces of layers and one of the embedding, and the logits gathered."""
    logits = {"gather_logits": (1, p, 2 * vocabulary * rows)}
    return {"all_reduce": (runs + 1, p, (runs + 1) * hidden * 2 * rows)} | logits if p > 1 else {}


def line(layers, operations, read, moved):
    return layers * np.array([operations, read, moved], dtype=float)


def product(inputs, outputs, layers, rows, beside=0):
    """``rows`` tokens times a matrix of inputs x outputs with so many parameters beside it."""
    operations = 2 * inputs * outputs * rows
    return line(layers, operations, 2 * (inputs * outputs + beside), 2 * (inputs + outputs) * rows)


def cached(queries, kv, layers, batch, tokens, context, beside=0):
    """Grouped attention: 4 operations for a value of a query and a pair; ``kv`` values in keys and in values each."""
    pairs = batch * sum(context + i for i in range(1, tokens + 1))
    read, moved = 2 * (2 * kv * batch * context + beside), 2 * (2 * queries + 2 * kv) * batch * tokens
    return line(layers, 4 * queries * pairs, read, moved)


def latent(heads, hidden, layers, batch, tokens, context):
    """Absorbed heads of 128 + 64 over a cached vector of 512 + 64: every head's query goes to the 512 and comes back.

    A pair costs 2 H (512 + 64) + 2 H 512 operations; every device holds the whole vector.
    """
    rows, pairs = batch * tokens, batch * sum(context + i for i in range(1, tokens + 1))
    through = line(layers, 2 * heads * 128 * 512 * rows, 2 * heads * 128 * 512, 2 * heads * (128 + 512) * rows)
    moved = 2 * (heads * (512 + 64) + 512 + 64 + heads * 512) * rows
    over = line(layers, (2 * heads * 576 + 2 * heads * 512) * pairs, 2 * 576 * batch * context, moved)
    out = product(heads * 128, hidden, layers, rows)
    return {"key_absorb": through, "attention": over, "value_up": through, "output": out}


def mixture(hidden, layers, count, top_k, width, rows, p=1, bias=0, router_bias=0):
    """A router that every device has whole; E (1 - (1 - k / E)^n) experts read, k n rows, a p-th of each expert.

    A slice of an expert takes whole hidden states and gives whole ones back: only its own width is split.
    """
    distinct, sent, width = count * (1 - (1 - top_k / count) ** rows), top_k * rows, width / p

    def experts(inputs, outputs, biases):
        each = inputs * outputs
        return line(layers, 2 * each * sent, 2 * (each + biases) * distinct, 2 * (inputs + outputs) * sent)

    by_hand = {"router": product(hidden, count, layers, rows, hidden + router_bias)}
    by_hand["experts_gate_up"] = experts(hidden, 2 * width, bias * 2 * width)
    return by_hand | {"experts_down": experts(width, hidden, bias * hidden)}


def gated(hidden, width, layers, rows, names=("gate_up", "down"), beside=0, after=0):
    shapes = (hidden, 2 * width, layers, rows, beside), (width, hidden, layers, rows, after)
    return {name: product(*shape) for name, shape in zip(names, shapes, strict=True)}


def tables(hidden, vocabulary, rows, p=1):
    """Rows looked up and written; final norm and head; logits read once to sample."""
    by_hand = {"embedding": line(1, 0, 0, 2 * 2 * hidden * rows), "sampling": line(1, 0, 0, 2 * vocabulary / p * rows)}
    return by_hand | {"head": product(hidden, vocabulary / p, 1, rows, hidden)}


def agree(operators_found, by_hand, quantities=QUANTITIES):
    computed = {name: o for name, o in operators_found.items() if o.kind != "exchange"}
    assert computed.keys() == by_hand.keys()
    for quantity in quantities:
        figures = {name: float(getattr(o, quantity)) for name, o in computed.items()}
        expected = {name: float(triple[QUANTITIES.index(quantity)]) for name, triple in by_hand.items()}
        assert figures == pytest.approx(expected, rel=1e-12), quantity
        assert sum(figures.values()) == pytest.approx(sum(expected.values()), rel=1e-12), quantity


@every_quantity
@many("p", [1, 2])
def test_qwen3_30b_a3b(p, quantity):
    """2 sequences of 5 tokens over 300 read 128 (1 - (15 / 16)^10) = 60.869 experts in each of 48 layers."""
    queries, kv, rows = 32 * 128 / p, 4 * 128 / p, 2 * 5
    by_hand = tables(2048, 151_936, rows, p) | mixture(2048, 48, 128, 8, 768, rows, p)
    by_hand["qkv"] = product(2048, queries + 2 * kv, 48, rows, 2048 + 2 * 128)
    by_hand["attention"] = cached(queries, kv, 48, 2, 5, 300)
    by_hand["output"] = product(queries, 2048, 48, rows)
    computed = found(served("qwen3-30b-a3b", p), 2, 5, 300)
    agree(computed, by_hand, [quantity])
    assert float(computed["experts_down"].rows) == pytest.approx(80 / 60.869, rel=1e-5)
    assert sent(computed) == joined(2048, 96, p, 10, 151_936)


@many(("count", "top_k", "tokens", "distinct"), [
    (8, 2, 5, 6.1016), (8, 2, 8, 7.1991), (64, 8, 5, 31.1738), (64, 8, 40, 63.6934), (256, 8, 1, 8),
    (256, 8, 5, 37.5769), (256, 8, 64, 222.4425), (256, 8, 160, 254.4074),
])  # fmt: skip
def test_distinct_experts(count, top_k, tokens, distinct):
    """Tokens of one sequence count as sequences of one; correlation 1 makes one of 7, 1/2 makes n of 2 n - 1."""
    for correlation, sequences, each in ((0, tokens, 1), (0, 1, tokens), (1, tokens, 7), (0.5, 1, 2 * tokens - 1)):
        experts = Experts(count=count, top_k=top_k, intermediate_size=1, correlation=correlation)
        touched = distinct_experts(experts, np.float64(sequences), np.float64(each))
        assert touched == pytest.approx(distinct, abs=5e-5), correlation


def routed(count, top_k, tokens, groups, trials):
    """Experts with a token, and tokens sent, in each group, for tokens that draw k different experts evenly."""
    chosen = np.random.default_rng(7).random((trials, tokens, count)).argsort(axis=2)[:, :, :top_k]
    loads = np.stack([np.bincount(c.ravel(), minlength=count) for c in chosen]).reshape(trials, groups, -1)
    return (loads > 0).sum(axis=2), loads.sum(axis=2)


def test_distinct_experts_by_simulation():
    assert routed(256, 8, 5, 1, 4000)[0].mean() == pytest.approx(37.5769, abs=0.1)


@every_quantity
@many("p", [1, 8])
def test_deepseek_v3(p, quantity):
    """3 sequences of 4 tokens over 1000. 3 dense layers of 18432, 58 of 256 experts and a shared one."""
    by_hand = tables(7168, 129_280, 12, p) | mixture(7168, 58, 256, 8, 2048, 12, p, router_bias=256)
    by_hand |= gated(7168, 18_432 / p, 3, 12, beside=7168) | gated(7168, 2048 / p, 58, 12, SHARED)
    by_hand["qkv_down"] = product(7168, 1536 + 512 + 64, 61, 12, 7168 + 1536 + 512)
    by_hand["query_up"] = product(1536, 128 / p * (128 + 64), 61, 12)
    by_hand |= latent(128 / p, 7168, 61, 3, 4, 1000)
    agree(found(served("deepseek-v3", p), 3, 4, 1000), by_hand, [quantity])


@every_quantity
@many("p", [1, 2])
def test_deepseek_v2_lite(p, quantity):
    """2 of 3 tokens over 500. No bottleneck for queries; a dense layer of 10944, 26 of 64 experts and 2 shared ones."""
    by_hand = tables(2048, 102_400, 6, p) | mixture(2048, 26, 64, 6, 1408, 6, p)
    by_hand |= gated(2048, 10_944 / p, 1, 6, beside=2048) | gated(2048, 2 * 1408 / p, 26, 6, SHARED)
    by_hand["qkv_down"] = product(2048, 16 / p * (128 + 64) + 512 + 64, 27, 6, 2048 + 512)
    by_hand |= latent(16 / p, 2048, 27, 2, 3, 500)
    agree(found(served("deepseek-v2-lite", p), 2, 3, 500), by_hand, [quantity])


@many(("name", "layers", "parameters"), [("deepseek-v3", 61, 187_107_328), ("deepseek-v2-lite", 27, 13_763_072)])
def test_absorbed_projections_read_all_parameters_of_attention(name, layers, parameters):
    """So many in a layer, inner norms included; the norm before them is read too. The cache has 576 values."""
    computed, hidden = found(served(name), 1, 1, 0), {61: 7168, 27: 2048}[layers]
    attention = {"qkv_down", "query_up", "key_absorb", "value_up", "output"} & computed.keys()
    assert sum(float(computed[part].stored_bytes) for part in attention) == layers * 2 * (parameters + hidden)
    assert kept(served(name), 4, 996) == kept(served(name, 8), 4, 996) == layers * 2 * 576 * 1000


@many(("name", "read"), [
    ("qwen3-30b-a3b", 3_041_867_776), ("deepseek-v3", 36_625_618_432), ("deepseek-v2-lite", 2_451_435_008),
    ("gpt-oss-120b", 5_132_849_472), ("gemma-3-27b", 27_009_002_240),
])  # fmt: skip
def test_one_token_reads_the_active_parameters_without_the_input_table(name, read):
    """The counts of shared/data/model-specs.yaml; Gemma's table is tied."""
    stored = sum(float(o.stored_bytes) for o in found(served(name), 1, 1, 0).values())
    assert stored == pytest.approx(2 * read, rel=1e-12)


def test_inside_the_window():
    """gpt-oss-120b, 2 sequences of 5 tokens over 50: every other layer looks at 128; biases, 64 sinks a layer.

    Gemma-3-27B, 2 of 3 over 900: layers 6, 12, ... 60 of 62 see everything; four norms a layer, two of a head's width.
    """
    by_hand = tables(2880, 201_088, 10) | mixture(2880, 36, 128, 4, 2880, 10, bias=1, router_bias=128)
    by_hand["qkv"] = product(2880, 4096 + 2 * 512, 36, 10, 2880 + 4096 + 2 * 512)
    by_hand["output"] = product(4096, 2880, 36, 10, 2880)
    by_hand["attention"] = by_hand["window_attention"] = cached(4096, 512, 18, 2, 5, 50, 64)
    agree(found(served("gpt-oss-120b"), 2, 5, 50), by_hand)
    by_hand = tables(5376, 262_144, 6) | gated(5376, 21_504, 62, 6, beside=5376, after=5376)
    by_hand["qkv"] = product(5376, 4096 + 2 * 2048, 62, 6, 5376 + 2 * 128)
    by_hand["output"] = product(4096, 5376, 62, 6, 5376)
    by_hand["attention"] = cached(4096, 2048, 10, 2, 3, 900)
    by_hand["window_attention"] = cached(4096, 2048, 52, 2, 3, 900)
    agree(found(served("gemma-3-27b"), 2, 3, 900), by_hand)


WINDOWS = many(("name", "window", "sliding", "full", "queries", "kv", "sinks"), [
    ("gpt-oss-120b", 128, 18, 18, 4096, 512, 64), ("gemma-3-27b", 1024, 52, 10, 4096, 2048, 0),
])  # fmt: skip
AROUND = many("beyond", [-100, -7, -2, -1, 0, 1, 1000])


@WINDOWS
@AROUND
def test_pairs_in_a_window(name, window, sliding, full, queries, kv, sinks, beyond):
    """New token i sees min(context + i, window) tokens, itself included; 5 new tokens below, across, beyond it."""
    context, computed = window + beyond, found(served(name), 2, 5, window + beyond)
    in_window, all_pairs = (2 * sum(min(context + i, w) for i in range(1, 6)) for w in (window, 10**9))
    assert float(computed["window_attention"].operations) == 4 * queries * sliding * in_window
    assert float(computed["attention"].operations) == 4 * queries * full * all_pairs
    assert float(computed["attention"].stored_bytes) == full * 2 * (2 * 2 * kv * context + sinks)


@WINDOWS
@AROUND
def test_cache_read_and_kept_in_a_window(name, window, sliding, full, queries, kv, sinks, beyond):
    """A new token at place t sees t - window + 1 to t: so at most window - 1 cached ones are read, and kept."""
    context = window + beyond
    seen = {place for t in range(context + 1, context + 6) for place in range(max(1, t - window + 1), t + 1)}
    reach = sum(place <= context for place in seen)
    assert reach == min(context, window - 1)
    read = float(found(served(name), 2, 5, context)["window_attention"].stored_bytes)
    assert read == sliding * 2 * (2 * 2 * kv * reach + sinks)
    assert kept(served(name), 5, context) == 2 * 2 * kv * (sliding * (reach + 5) + full * (context + 5))


QWEN3_NEXT = Model(
    name="qwen3-next-80b-a3b", layers=48, hidden_size=2048, vocab_size=151_936, max_positions=262_144,
    attention=GroupedAttention(heads=16, kv_heads=2, head_dim=256, query_key_norm=True, output_gate=True),
    linear_attention=GatedDelta(key_heads=16, value_heads=32, key_head_dim=128, value_head_dim=128),
    layer_pattern=("linear", "linear", "linear", "full"),
    experts=Experts(count=512, top_k=10, intermediate_size=512, shared=1, shared_gate=True),
)  # fmt: skip


def test_qwen3_next_80b_a3b():
    """2 sequences of 5 tokens over 300. A state is read once, written after each token, kept once for each.

    It has 32 matrices of 128 x 128 in fp32 and 3 tokens of 2 x 2048 + 4096 channels. A token costs 7 operations a value
    (decay 1, state times key, outer product and state times query 2 each) and 2 x 4 a channel. The projection in makes
    q, k, v, a gate z, and b and a: 2048 + 2048 + 4096 + 4096 + 2 x 32.
    """
    by_hand = tables(2048, 151_936, 10) | mixture(2048, 48, 512, 10, 512, 10)
    by_hand |= gated(2048, 512, 48, 10, SHARED, beside=2048)
    by_hand["qkv"] = product(2048, 2 * 4096 + 2 * 512, 12, 10, 2048 + 2 * 256)
    by_hand["attention"] = cached(4096, 512, 12, 2, 5, 300)
    by_hand["output"] = product(4096, 2048, 12, 10)
    by_hand["linear_in"] = product(2048, 12_352, 36, 10, 2048 + 4 * 8192 + 2 * 32 + 128)
    token, state = 7 * 32 * 128 * 128 + 2 * 4 * 8192, 4 * 32 * 128 * 128 + 2 * 3 * 8192
    by_hand["linear_attention"] = line(36, 10 * token, 2 * state, 10 * (state + 2 * (12_352 + 4096)))
    by_hand["linear_out"] = product(4096, 2048, 36, 10)
    model = replace(served("qwen3-8b"), model=QWEN3_NEXT)
    agree(found(model, 2, 5, 300), by_hand)
    assert kept(model, 5, 300) == 36 * 5 * state + 12 * 2 * 2 * 512 * 305
    # 79.7B without the module for a second token; published: 80B.
    whole, linear = 2048 * 9216 + 4096 * 2048 + 2 * 256, 2048 * (12_352 + 4096) + 4 * 8192 + 2 * 32 + 128
    each = 2048 * 512 + 513 * 3 * 2048 * 512 + 2048 + 2 * 2048
    assert QWEN3_NEXT.parameters == 12 * whole + 36 * linear + 48 * each + 2048 + 2 * 151_936 * 2048
    assert QWEN3_NEXT.parameters / 1e9 == pytest.approx(79.67, abs=0.01)


def test_a_mamba2_layer():
    """Mamba2-2.7B: d 2560, inner 5120, 80 heads, state 128: 64 layers and a tied table of 50288 are 2,702,599,680.

    In d (2 inner + 2 G N + H), convolution (inner + 2 G N) (4 + 1), dt bias, A and D a head, norm inner, out.
    """
    layer = Mamba2(heads=80, head_dim=64, state_size=128)
    inside = 2560 * (2 * 5120 + 2 * 128 + 80) + (5120 + 2 * 128) * 5 + 3 * 80 + 5120 + 5120 * 2560
    assert linear_matrix_parameters(layer, 2560) + layer.small_parameters == inside
    assert 64 * (inside + 2560) + 50_288 * 2560 + 2560 == 2_702_599_680


@many("p", [1, 4])
def test_t5_v1_1_xxl(p):
    """3 sequences of 4 tokens over 20, source 200: cross-attention multiplies queries and output only."""
    width, rows, model = 4096 / p, 3 * 4, served("t5-v1_1-xxl", p, source_tokens=200)
    by_hand = tables(4096, 32_128, rows, p) | gated(4096, 10_240 / p, 24, rows, beside=4096)
    by_hand["qkv"] = product(4096, 3 * width, 24, rows, 4096)
    by_hand["attention"] = cached(width, width, 24, 3, 4, 20)
    by_hand["output"] = by_hand["cross_output"] = product(width, 4096, 24, rows)
    by_hand["cross_query"] = product(4096, width, 24, rows, 4096)
    by_hand["cross_attention"] = line(24, 4 * width * 200 * rows, 2 * 2 * width * 200 * 3, 2 * 2 * width * rows)
    computed = found(model, 3, 4, 20)
    agree(computed, by_hand)
    assert kept(model, 4, 20) == 24 * 2 * 2 * width * (20 + 4 + 200)
    assert sent(computed) == joined(4096, 72, p, 12, 32_128)
    if p == 1:  # all but encoder, input table, tables of distances, and projections of the source's keys and values
        encoder = 24 * (4 * 4096**2 + 3 * 4096 * 10_240 + 2 * 4096) + 4096
        read = 11_135_332_352 - encoder - 32_128 * 4096 - 2 * 32 * 64 - 24 * 2 * 4096**2
        assert sum(float(o.stored_bytes) for o in computed.values() if o.kind == "matrix") == 2 * read


def llama(queries, kv, layers, hidden, width, batch, p=1):
    """5 tokens over 100 in a dense Llama on one of p devices that have ``queries`` and ``kv`` values."""
    by_hand = tables(hidden, 128_256, 5 * batch, p) | gated(hidden, width / p, layers, 5 * batch, beside=hidden)
    by_hand["qkv"] = product(hidden, queries + 2 * kv, layers, 5 * batch, hidden)
    by_hand["attention"] = cached(queries, kv, layers, batch, 5, 100)
    return by_hand | {"output": product(queries, hidden, layers, 5 * batch)}


@many(("batch", "at_a_time"), [(1, 1), (2, 1), (6, 2)])
def test_four_stages(batch, at_a_time):
    """Llama-3-8B: stages work on ceil(B / min(4, B)) sequences; 3 times the hidden states go on to the next."""
    model = served("llama-3-8b", pipeline_parallel=4)
    agree(found(model, batch, 5, 100), llama(4096, 1024, 32, 4096, 14_336, at_a_time))
    assert sent(found(model, batch, 5, 100)) == {"next_stage": (3, 4, 3 * 4096 * 2 * at_a_time * 5)}
    assert kept(model, 5, 100) == 131_072 * 105 / 4


def test_key_value_heads_are_replicated():
    """Llama-3-70B on 16 devices: 4 query heads and one whole head of keys and of values on each, 8 heads in two."""
    agree(found(served("llama-3-70b", 16), 2, 5, 100), llama(4 * 128, 128, 80, 8192, 28_672, 2, 16))
    assert kept(served("llama-3-70b", 16), 5, 100) == 80 * 2 * 2 * 128 * 105


@many(("name", "p", "parameters", "whole", "times"), [
    ("llama-3-70b", 16, 70_553_706_496, 80 * 8192 * 2 * 128, 8),  # keys and values of one of 8 heads
    ("deepseek-v3", 8, 671_026_419_200, 61 * 7168 * 2112 + 58 * 7168 * 256, 1),  # projections down; routers
    ("qwen3-30b-a3b", 4, 30_532_122_624, 48 * 2048 * 128, 1),  # routers
])  # fmt: skip
def test_what_a_device_reads_whole_it_holds_whole(name, p, parameters, whole, times):
    """Beside norms: what is found ``times`` over all devices without copies is on every one of them."""
    model = card("model", name)
    small = model.decoder_modules()["small"]
    by_hand = 2 * ((parameters - small - whole * times) / p + small + whole)
    assert served(name, p).device_weight_bytes == pytest.approx(by_hand, rel=1e-12)


@many(("groups", "own"), [(4, 2), (2, 3)])
def test_attention_shared_out_by_sequences(groups, own):
    """Qwen3-30B-A3B on 4 devices, 6 sequences of 5: each share has ceil(6 / groups), experts see all 30 tokens."""
    queries, kv, model = 1024 * groups, 128 * groups, served("qwen3-30b-a3b", 4, attention_data_parallel=groups)
    by_hand = tables(2048, 151_936, 30, 4) | mixture(2048, 48, 128, 8, 768, 30, 4)
    by_hand["qkv"] = product(2048, queries + 2 * kv, 48, own * 5, 2048 + 2 * 128)
    by_hand["attention"] = cached(queries, kv, 48, own, 5, 300)
    by_hand["output"] = product(queries, 2048, 48, own * 5)
    inside = {"all_reduce": (48, 2, 48 * 2048 * 2 * 15)} if groups == 2 else {}
    whole = {"gather_scatter": (97, 4, 97 * 2048 * 2 * 30), "gather_logits": (1, 4, 2 * 151_936 * 30)}
    assert sent(found(model, 6, 5, 300)) == inside | whole
    agree(found(model, 6, 5, 300), by_hand)


@many(("name", "hidden", "sparse", "dense", "count", "top_k", "vocabulary"), [
    ("deepseek-v3", 7168, 58, 3, 256, 8, 129_280), ("mixtral-8x7b", 4096, 32, 0, 8, 2, 32_000),
])  # fmt: skip
def test_tokens_are_sent_to_experts(name, hidden, sparse, dense, count, top_k, vocabulary):
    """8 devices with sequences and experts of their own, 16 tokens: to the groups that have one of a token's k experts.

    Of e groups e (1 - C(E - E / e, k) / C(E, k)) have one; then back.
    """
    exchanges = sent(found(served(name, 8, attention_data_parallel=8, expert_parallel=8), 16, 1, 300))
    copies = 8 * (1 - comb(count - count // 8, top_k) / comb(count, top_k))
    runs, _, message = exchanges.pop("send_to_experts")
    assert (runs, message) == (2 * sparse, pytest.approx(2 * sparse * hidden * 2 * 16 / 8 * copies, rel=1e-12))
    assert exchanges.pop("gather_logits") == (1, 8, 2 * vocabulary * 16)
    # Layers without experts gather and scatter, and the head gathers once.
    assert exchanges == {"gather_scatter": (2 * dense + 1, 8, (2 * dense + 1) * hidden * 2 * 16)}


def test_groups_of_several_devices_gather_all_tokens():
    exchanges = sent(found(served("deepseek-v3", 8, attention_data_parallel=8, expert_parallel=4), 16, 1, 300))
    assert exchanges["gather_scatter"] == (123, 8, 123 * 7168 * 2 * 16)
    assert set(exchanges) == {"gather_scatter", "gather_logits"}


@many("sequences", [1, 5, 64])
@many("groups", [2, 8, 64])
def test_the_busiest_group_of_experts(groups, sequences):
    """DeepSeek-V3 on so many devices: experts of the fullest group within 10 % of a simulation, its tokens within 20 %.

    Tokens decide the arithmetic, which counts once they are many; then they are within 10 % too.
    """
    touched, sent = (loads.max(axis=1).mean() for loads in routed(256, 8, sequences, groups, 1000))
    up = found(served("deepseek-v3", groups, expert_parallel=groups), sequences, 1, 0)["experts_gate_up"]
    each = 58 * 2 * 7168 * 2048 * 2
    assert float(up.stored_bytes) / each == pytest.approx(touched, rel=0.1)
    assert float(up.operations) / each == pytest.approx(sent, rel=0.1 if sequences == 64 else 0.2)
    assert float(up.rows) >= 1, "a touched expert has a token"


def test_offloaded_weights():
    """Three quarters of Llama-3-70B stay with the host: 63 GB/s bring what a pass reads of them; the table is not."""
    machine, model = Machine(card("hardware", "h100-sxm5"), card("runtime", "ideal")), served("llama-3-70b")
    away = replace(model, offloaded=0.75)
    layers = 2 * (70_553_706_496 - 2 * 128_256 * 8192)
    # Two of 80 layers are on their way through a buffer, as far as they come from the host.
    assert away.device_weight_bytes == pytest.approx(2 * 70_553_706_496 / 4 + 0.75 * layers / 40, rel=1e-12)
    resident, timed = (pass_time(a_pass(m, 1, 5, 100), machine) for m in (model, away))
    assert float(timed.seconds) == pytest.approx(0.75 * 2 * 69_503_033_344 / 63e9, rel=1e-12)
    assert float(timed.host_seconds) == pytest.approx(float(timed.seconds - resident.seconds), rel=1e-12)
