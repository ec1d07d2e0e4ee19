"""Passes and memory of every drafter by hand, and figures of shared/research/algorithms.md, section 6, to the digits.

Conventions as in ``test_families_by_hand``: expected operators are [operations, bytes stored, bytes moved]. Vectors
beside matrices (norms, biases) are 1 part in 10,000 of a head; sums over all operators hold them exactly.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import served
from test_families_by_hand import SHARED, cached, gated, latent, mixture, product, tables

from specsim.catalog.cards import card
from specsim.cost.breakdown import operators
from specsim.cost.machine import Machine
from specsim.cost.memory import sequence_bytes
from specsim.cost.passes import Pass
from specsim.cost.roofline import pass_time
from specsim.drafting import Round, drafting_of
from specsim.specs.acceptance import Independent
from specsim.specs.drafter import (
    CascadeDraft,
    DraftModel,
    Eagle3Draft,
    EagleDraft,
    LayersDraft,
    Leg,
    LookaheadDraft,
    LookupDraft,
    MedusaDraft,
    MergedDraft,
    MtpDraft,
    RelayDraft,
    WindowDraft,
)
from specsim.specs.head import MedusaHeads
from specsim.specs.precision import PRECISIONS

many = pytest.mark.parametrize
QUANTITIES = ("operations", "stored_bytes", "activation_bytes")
RATE = {"acceptance": Independent(rate=0.7)}
W8B = 2 * (8_030_261_248 - 525_336_576)
"""Bytes of Llama-3-8B that a step reads: 8,030,261,248 parameters without the input table; 15.01 GB."""
W1B = 2 * 1_235_814_400
"""The same of Llama-3.2-1B, whose one table is its head."""
LAYER_8B = 4096 * 6144 + 4096 * 4096 + 3 * 4096 * 14_336 + 2 * 4096
"""Parameters of one layer of Llama-3-8B: q, k, v, output, three matrices of the mlp, two norms."""


def head_draft(kind, name, precision="bf16", **more):
    return kind(head=card("head", name), precision=PRECISIONS[precision], kv_precision="bf16", **RATE, **more)


def eagle(**more):
    return head_draft(EagleDraft, "eagle-llama3-instruct-8b", **more)


def eagle3(**more):
    return head_draft(Eagle3Draft, "eagle3-llama3.1-8b", **more)


def drafting(draft, target, gamma=4, batch=1, context=0, drafted=None):
    points = (gamma, gamma if drafted is None else drafted, batch, context)
    return drafting_of(draft, target, Round(*(np.asarray(float(x)) for x in points)))


def only(found):
    (lane,) = found.lanes
    return lane


def stored(of, names=None):
    return sum(float(o.stored_bytes) for o in operators(of) if names is None or o.name in names)


def agree(of, by_hand, but=()):
    computed = {o.name: o for o in operators(of) if o.kind != "exchange"}
    assert computed.keys() == by_hand.keys()
    for index, quantity in enumerate(QUANTITIES):
        tolerance = 1e-3 if quantity == "stored_bytes" else 1e-12
        figures = {name: float(getattr(o, quantity)) for name, o in computed.items() if name not in but}
        expected = {name: float(triple[index]) for name, triple in by_hand.items() if name not in but}
        assert figures == pytest.approx(expected, rel=tolerance), quantity


LLAMA = served("llama-3-8b")
LLAMA31 = served("llama-3.1-8b")
SMALL = served("llama-3.2-1b")
H100 = Machine(card("hardware", "h100-sxm5"), card("runtime", "lecture"))


def seconds(of, step_ms):
    """The lecture's pass with so many ms of fixed cost in place of .5 ms."""
    runtime = replace(H100.runtime, step_overhead_seconds=step_ms * 1e-3)
    return float(pass_time(of, replace(H100, runtime=runtime)).seconds)


PLAIN = Pass(LLAMA, *(np.asarray(float(x)) for x in (1, 1, 1024)))


# --- figures of section 6


def test_eagle_on_llama_3_8b():
    """251.7M parameters + 525.3M of the head = 1.554 GB of 15.01 GB: c .1035; 32,000 tokens: .765 GB, c .0510."""
    (step,) = only(drafting(eagle(), LLAMA))
    whole, head = stored(step.of), stored(step.of, ["head"])
    assert (whole - head) / 2 == pytest.approx(251.7e6, rel=5e-4)
    assert head / 2 == pytest.approx(525.3e6, rel=1e-4)
    assert whole / 1e9 == pytest.approx(1.554, abs=5e-4)
    assert stored(replace(PLAIN, context_length=np.zeros(()))) == W8B
    assert whole / W8B == pytest.approx(0.1035, abs=5e-5)
    reduced = whole - head + 2 * 4096 * 32_000
    assert reduced / 1e9 == pytest.approx(0.765, abs=1e-3)
    assert reduced / W8B == pytest.approx(0.0510, abs=5e-5)


def test_eagle_with_a_tenth_of_a_millisecond():
    """.0627: .765 GB / (.8 x 3.35 TB/s) + .1 ms over the plain step of 6.1508 ms at context 1024 with .5 ms.

    Without .5 ms in the plain step, or at context 0, it would be .0688 or .0632.
    """
    (step,) = only(drafting(eagle(), LLAMA))
    reduced = replace(step.of.served, model=replace(step.of.served.model, vocab_size=32_000))
    plain = seconds(PLAIN, 0.5)
    assert plain * 1e3 == pytest.approx(6.150771, abs=5e-7)
    assert seconds(replace(step.of, served=reduced), 0.1) / plain == pytest.approx(0.0627, abs=5e-5)


def test_a_draft_of_1b():
    """.1647 by bytes; .2333 with .5 ms in both at context 1024 (H100, .8 of 3.35 TB/s)."""
    (step,) = only(drafting(served("llama-3.2-1b", kind=DraftModel, **RATE), LLAMA, context=1024))
    assert stored(replace(step.of, context_length=np.zeros(()))) / W8B == pytest.approx(0.1647, abs=5e-5)
    assert seconds(step.of, 0.5) / seconds(PLAIN, 0.5) == pytest.approx(0.2333, abs=5e-5)


def test_medusa_on_llama_3_8b():
    """4 (h^2 + h V) = 4.34 GB, 29 % of a step, whatever the draft length."""
    heads = MedusaHeads(name="four", target="llama-3-8b", hidden_size=4096, vocab_size=128_256, heads=4)
    draft = MedusaDraft(head=heads, precision=PRECISIONS["bf16"], kv_precision="bf16", **RATE)
    for gamma in (1, 4):
        (once,) = only(drafting(draft, LLAMA, gamma))
        assert once.times == 1
        assert stored(once.of) / 1e9 == pytest.approx(4.34, abs=5e-3)
        assert stored(once.of) / W8B == pytest.approx(0.29, abs=2e-3)


MAGIC = [
    ("self", 1, 1024, 0.674712), ("self", 32, 32_768, 2.318052), ("self", 256, 32_768, 3.013458),
    ("full", 1, 1024, 2.023014), ("full", 32, 32_768, 1.709527), ("full", 256, 32_768, 1.684672),
    ("short", 256, 32_768, 3.281899),
]  # fmt: skip


@many(("draft", "batch", "context", "speedup"), MAGIC)
def test_magicdec_by_bytes(draft, batch, context, speedup):
    """S = E t_T / (g t_D + t_V), t = W + B S kv, g 4, a .8 (E 3.3616), 131,072 bytes a token, t_V = t_T.

    The source reads 512 cached tokens; a window of w reads w - 1 besides the new one, so here w = 513. Its weights are
    rounded, 15.01 and 2.4716 GB, which shows in the last digits.
    """
    kinds = {
        "self": WindowDraft(window=513, **RATE),
        "full": served("llama-3.2-1b", kind=DraftModel, **RATE),
        "short": served("llama-3.2-1b", kind=DraftModel, window=513, **RATE),
    }
    (step,) = only(drafting(kinds[draft], LLAMA, batch=batch, context=context))
    plain = stored(Pass(LLAMA, *(np.asarray(float(x)) for x in (batch, 1, context))))
    assert plain == W8B + batch * context * 131_072
    weights, token = (W8B, 131_072) if draft == "self" else (W1B, 32_768)
    assert stored(step.of) == weights + batch * token * (context if draft == "full" else 512)
    t_v, t_d = plain - W8B + 15.01e9, stored(step.of) + (15.01e9 - W8B if draft == "self" else 2.4716e9 - W1B)
    assert 3.3616 * t_v / (4 * t_d + t_v) == pytest.approx(speedup, abs=6e-7)


# --- operators of each drafter


@many(("batch", "context"), [(1, 0), (3, 500)])
def test_operators_of_eagle(batch, context):
    """Token and hidden state joined by 2h x h with a bias, one layer, the target's head."""
    by_hand = tables(4096, 128_256, batch) | gated(4096, 14_336, 1, batch)
    by_hand["join"] = product(8192, 4096, 1, batch, 4096)
    by_hand["qkv"] = product(4096, 6144, 1, batch)
    by_hand["attention"] = cached(4096, 1024, 1, batch, 1, context)
    by_hand["output"] = product(4096, 4096, 1, batch)
    (step,) = only(drafting(eagle(), LLAMA, batch=batch, context=context))
    agree(step.of, by_hand)
    assert float(step.times) == 4


@many(("batch", "context"), [(1, 0), (3, 500)])
def test_operators_of_eagle_3(batch, context):
    """Queries, keys and values from token and hidden state side by side, 2h, written once; the first joins 3h to h."""
    by_hand = tables(4096, 32_000, batch) | gated(4096, 14_336, 1, batch)
    by_hand["qkv"] = product(4096, 6144, 1, batch)
    by_hand["qkv_hidden"] = by_hand["qkv"] - [0, 0, 2 * 6144 * batch]
    by_hand["attention"] = cached(4096, 1024, 1, batch, 1, context)
    by_hand["output"] = product(4096, 4096, 1, batch)
    first, later = only(drafting(eagle3(), LLAMA31, batch=batch, context=context))
    agree(later.of, by_hand)
    agree(first.of, by_hand | {"join": product(3 * 4096, 4096, 1, batch)})
    assert (float(first.times), float(later.times)) == (1, 3)
    both = sum(float(o.operations) for o in operators(later.of) if o.name.startswith("qkv"))
    assert both == 2 * batch * 8192 * 6144
    (whole,) = only(drafting(eagle3(passes="one"), LLAMA31, batch=batch, context=context))
    assert (float(whole.times), float(whole.of.tokens)) == (1, 4 * batch)


@many("batch", [1, 2])
def test_operators_of_a_module_of_deepseek_v3(batch):
    """2h x h, one layer of 256 experts and a shared one behind latent attention, the target's head (p 1)."""
    by_hand = tables(7168, 129_280, batch) | mixture(7168, 1, 256, 8, 2048, batch, router_bias=256)
    by_hand |= gated(7168, 2048, 1, batch, SHARED) | latent(128, 7168, 1, batch, 1, 1000)
    by_hand["join"] = product(2 * 7168, 7168, 1, batch)
    by_hand["qkv_down"] = product(7168, 1536 + 512 + 64, 1, batch)
    by_hand["query_up"] = product(1536, 128 * 192, 1, batch)
    target = served("deepseek-v3")
    (step,) = only(drafting(head_draft(MtpDraft, "deepseek-v3-mtp"), target, batch=batch, context=1000))
    agree(step.of, by_hand)


@many("batch", [1, 6])
def test_operators_of_medusa(batch):
    """Five heads of h x h with a bias and h x V each, no layers and no cache; a pass of the target if not merged."""
    target, draft = served("vicuna-7b"), head_draft(MedusaDraft, "medusa-vicuna-7b")
    (once,) = only(drafting(draft, target, batch=batch, context=77))
    agree(once.of, {"residual": product(4096, 4096, 5, batch, 4096), "heads": product(4096, 32_000, 5, batch)})
    assert stored(once.of) == 2 * draft.head.parameters == 2 * 739_266_560
    prediction, again = only(drafting(replace(draft, merged=False), target, batch=batch, context=77))
    assert stored(again.of) == stored(once.of)
    assert stored(prediction.of) == stored(Pass(target, *(np.asarray(float(x)) for x in (batch, 1, 77))))


@many(("layers", "context"), [(1, 0), (8, 300), (32, 300)])
def test_bytes_of_own_layers(layers, context):
    """So many layers, the last norm and the head; 4096 bytes of cache a token and layer."""
    (step,) = only(drafting(LayersDraft(layers=layers, **RATE), LLAMA, batch=2, context=context))
    weights = 2 * (layers * LAYER_8B + 4096 + 4096 * 128_256)
    assert stored(step.of) == weights + 2 * context * layers * 4096


def test_tokens_that_are_verified():
    """Lookahead: W (N - 1) + G (N - 1); two models: 2 g + 1; Medusa: as many as it has heads; others leave it open."""
    ahead = drafting(LookaheadDraft(window=15, guesses=10, **RATE), LLAMA, gamma=4)
    assert (float(ahead.verified_tokens), ahead.lanes) == (100, ())
    assert float(drafting(LookaheadDraft(window=15, guesses=10, **RATE), LLAMA, gamma=0).verified_tokens) == 1
    assert float(drafting(MergedDraft(models=(SMALL, SMALL), **RATE), LLAMA, gamma=4).verified_tokens) == 9
    medusa = head_draft(MedusaDraft, "medusa-vicuna-7b")
    assert [float(drafting(medusa, served("vicuna-7b"), g).verified_tokens) for g in (0, 3, 5, 9)] == [1, 4, 6, 6]
    assert drafting(eagle(), LLAMA).verified_tokens is None


def test_how_often_passes_run():
    """Cascade: 1, 2 or 3 tokens with .5, .25, .25: N 1, 1.5, 2, 2.625 for 1 to 4; a relay of 3, then the rest of 5."""
    inner, middle = only(drafting(cascade(), LLAMA))
    assert float(middle.times) == pytest.approx(2.625, rel=1e-12)
    assert float(inner.times) == pytest.approx(2 * 2.625, rel=1e-12)
    assert float(middle.of.tokens) == 3
    legs = RelayDraft(legs=(Leg(model=served("llama-3.2-3b"), tokens=3), Leg(model=SMALL, tokens=1)), **RATE)
    assert [float(part.times) for part in only(drafting(legs, LLAMA, gamma=5))] == [3, 2]
    assert [float(part.times) for part in only(drafting(legs, LLAMA, gamma=2))] == [2, 0]
    (whole,) = only(drafting(served("llama-3.2-1b", kind=DraftModel, passes="one", **RATE), LLAMA, gamma=5))
    assert (float(whole.times), float(whole.of.tokens)) == (1, 5)


def cascade():
    middle = served("llama-3.2-3b", kind=CascadeDraft, inner=SMALL, inner_gamma=2, inner_rate=0.5, **RATE)
    assert middle.label == "llama-3.2-3b by llama-3.2-1b"
    return middle


# --- memory


def kept(draft, target, gamma=4, context=1000):
    """Weights on one device, and the cache of one sequence with a slot for each token of a round."""
    resident = drafting(draft, target, gamma, context=context).resident
    points = np.float64(gamma + 1), np.float64(context)
    return resident.weight_bytes, sum(float(sequence_bytes(model, *points)) for model in resident.cached)


B3 = 2 * 3_212_749_824
"""Bytes of Llama-3.2-3B."""
KEPT = [
    (lambda: eagle(), LLAMA, 2 * 251_666_432, 4096 * 1005),
    (lambda: eagle3(), LLAMA31, 2 * 424_689_664, 4096 * 1005),
    (lambda: head_draft(MedusaDraft, "medusa-vicuna-7b"), served("vicuna-7b"), 2 * 739_266_560, 0),
    (lambda: head_draft(MtpDraft, "deepseek-v3-mtp", tensor_parallel=8), served("deepseek-v3", 8),
     2 * 11_610_068_224 / 8, 2 * 576 * 1005),
    (lambda: LookupDraft(**RATE), LLAMA, 0, 0),
    (lambda: LookaheadDraft(window=15, guesses=15, **RATE), LLAMA, 0, 0),
    (lambda: LayersDraft(layers=8, **RATE), LLAMA, 0, 0),
    (lambda: WindowDraft(window=512, **RATE), LLAMA, 0, 131_072 * (511 + 5)),
    (lambda: served("llama-3.2-1b", kind=DraftModel, window=512, **RATE), LLAMA, W1B, 32_768 * (511 + 5)),
    (lambda: served("llama-3.2-1b", kind=DraftModel, own_device=True, **RATE), LLAMA, 0, 0),
    (lambda: MergedDraft(models=(SMALL, served("llama-3.2-3b")), **RATE), LLAMA, W1B + B3, (32_768 + 114_688) * 1005),
    (cascade, LLAMA, W1B + B3, (32_768 + 114_688) * 1005),
    (lambda: RelayDraft(legs=(Leg(model=SMALL, tokens=3),), **RATE), LLAMA, W1B, 32_768 * 1005),
]  # fmt: skip


@many(("draft", "target", "weights", "cache"), KEPT, ids=range(len(KEPT)))
def test_memory_of_a_drafter(draft, target, weights, cache):
    """Heads hold their own parameters only: table and output matrix are the target's. A window keeps w - 1 tokens."""
    assert kept(draft(), target) == pytest.approx((weights, cache), rel=1e-12)


# --- what a step reads is what a head has


def test_a_step_of_eagle_3_reads_its_own_parameters_once():
    """The first step at an empty cache: 424,689,664 parameters, four norms among them."""
    first, later = only(drafting(eagle3(), LLAMA31))
    assert stored(first.of) == 2 * 424_689_664
    assert stored(later.of) == 2 * (424_689_664 - 3 * 4096 * 4096)


def test_a_step_of_eagle_reads_its_own_parameters_and_the_head():
    """251,666,432 parameters and V h of the target's head; EAGLE-1 has no first and no last norm."""
    (step,) = only(drafting(eagle(), LLAMA))
    assert stored(step.of) == 2 * (251_666_432 + 128_256 * 4096)


def test_a_step_of_a_module_reads_its_own_parameters_and_the_head():
    """Of the 256 experts a token meets 8; three norms stand around the layer."""
    head = card("head", "deepseek-v3-mtp")
    (step,) = only(drafting(head_draft(MtpDraft, "deepseek-v3-mtp"), served("deepseek-v3")))
    resting = (256 - 8) * 3 * 7168 * 2048
    assert stored(step.of) == 2 * (head.parameters - resting + 129_280 * 7168)


def test_queries_keys_and_values_of_eagle_3_are_written_once():
    """One product of 2h x 6144 reads 8192 values and writes 6144 of each token."""
    _, later = only(drafting(eagle3(), LLAMA31))
    moved = sum(float(o.activation_bytes) for o in operators(later.of) if o.name.startswith("qkv"))
    assert moved == 2 * (8192 + 6144)


@many("precision", ["fp8-w8a8", "int4-w4a16-g128"])
@many("draft", [eagle, eagle3])
def test_a_head_keeps_its_weights_in_the_format_in_which_it_reads_them(draft, precision):
    """What a step reads of the layer and what is kept of it are the same bytes, to the norms."""
    narrow = draft(precision=precision)
    target = LLAMA if draft is eagle else LLAMA31
    step = only(drafting(narrow, target))[0]
    own = stored(step.of) - (stored(step.of, ["head"]) if draft is eagle else 0)
    assert kept(narrow, target)[0] == pytest.approx(own, rel=1e-3)
