"""Passes, caches and rounds of the engine on the toy."""

from __future__ import annotations

import numpy as np
import pytest

from specsim.reference.cache import BlockPool, CacheFull, PagedCache
from specsim.reference.decoding import Request, decode, top_gap
from specsim.reference.drafters import Drafter, Merged, Uniform
from specsim.reference.lookup import NgramCounts, PromptLookup, SuffixLookup
from specsim.reference.model_drafter import ModelDrafter
from specsim.reference.proposals import Proposal
from specsim.reference.sampling import RandomChance, Sampling
from specsim.reference.toys import toy
from specsim.reference.transformer import chain_block, forward, tree_block
from specsim.reference.trees import ancestors, chain, children, cut_to, depths, expansion
from specsim.reference.variants import first_layers, noisy, quantised, skipped_layers
from specsim.reference.verification import RULES

MODEL = toy(0)
GREEDY = Sampling()
PROMPTS = ([1, 2, 3, 4], [30, 2, 7], [9, 9, 9, 9, 9, 2, 9, 9])
LENGTH = 60


def chance(seed=0):
    return RandomChance(np.random.default_rng(seed))


def serial(tokens, model=MODEL):
    """Logits of every token, one pass each."""
    cache = model.cache()
    return np.concatenate([forward(model, [chain_block(cache, [token])])[0] for token in tokens])


def decoded(drafter=None, shape=None, prompts=PROMPTS, length=LENGTH, **more):
    requests = [
        Request(p, length, chance(n), drafter() if drafter else None, chain(0) if shape is None else shape)
        for n, p in enumerate(prompts)
    ]
    return decode(MODEL, requests, GREEDY, **more)


@pytest.fixture(scope="module")
def plain():
    """The target's own greedy output, by serial passes without the engine's rounds."""
    found = []
    for prompt in PROMPTS:
        cache, tokens = MODEL.cache(), list(prompt)
        logits = forward(MODEL, [chain_block(cache, tokens)], "last")[0][0]
        while len(tokens) < len(prompt) + LENGTH:
            tokens.append(int(logits.argmax()))
            logits = forward(MODEL, [chain_block(cache, tokens[-1:])])[0][0]
        found.append(tuple(tokens[len(prompt) :]))
    return found


def test_a_block_gives_the_logits_of_serial_passes():
    tokens = np.random.default_rng(0).integers(0, 44, 50).tolist()
    block = forward(MODEL, [chain_block(MODEL.cache(), tokens)])[0]
    assert np.abs(block - serial(tokens)).max() < 1e-5
    exact = toy(0, layers=3, dtype=np.float64)
    block = forward(exact, [chain_block(exact.cache(), tokens)])[0]
    assert np.abs(block - serial(tokens, exact)).max() < 1e-12


def test_a_ragged_batch_gives_each_sequence_its_own_logits():
    texts = [[1, 2, 3], [5] * 17, [7]]
    caches = [MODEL.cache() for _ in texts]
    for cache, before in zip(caches, ([4, 4], [], [1, 2, 3, 4, 5]), strict=True):
        if before:
            forward(MODEL, [chain_block(cache, before)])
    found = forward(MODEL, [chain_block(cache, text) for cache, text in zip(caches, texts, strict=True)])
    for before, text, logits in zip(([4, 4], [], [1, 2, 3, 4, 5]), texts, found, strict=True):
        assert np.abs(logits - serial([*before, *text])[len(before) :]).max() < 1e-5


@pytest.mark.parametrize("wanted", ["all", "last", "none"])
def test_wanted_logits(wanted):
    found = forward(MODEL, [chain_block(MODEL.cache(), [1, 2, 3]), chain_block(MODEL.cache(), [4])], wanted)
    assert [len(logits) for logits in found] == {"all": [3, 1], "last": [1, 1], "none": [0, 0]}[wanted]


@pytest.mark.parametrize("widths", [[2, 2, 1], [1, 1, 3, 1, 1, 1, 1, 1]])
def test_a_tree_forward_gives_the_logits_of_each_path(widths):
    parents = expansion(widths)
    assert len(parents) == {3: 11, 8: 21}[len(widths)]
    leaves = [node for node, below in enumerate(children(parents)) if not below]
    assert len(leaves) == {3: 4, 8: 3}[len(widths)]
    tokens = np.random.default_rng(1).integers(0, 44, len(parents))
    before = [3, 1, 4, 1, 5]
    cache = MODEL.cache()
    forward(MODEL, [chain_block(cache, before)])
    found = forward(MODEL, [tree_block(cache, tokens, parents)])[0]
    for node in leaves:
        path = [int(place) for place in np.flatnonzero(ancestors(parents)[node])]
        alone = serial([*before, *tokens[path]])[len(before) :]
        assert np.abs(found[path] - alone).max() < 1e-5


@pytest.mark.parametrize("paged", [False, True])
def test_after_a_tree_the_cache_holds_the_accepted_path(paged):
    parents = expansion([2, 2, 1])
    tokens = np.random.default_rng(1).integers(0, 44, len(parents))
    cache = PagedCache(pool(4, 16)) if paged else MODEL.cache()
    before = [3, 1, 4, 1, 5]
    forward(MODEL, [chain_block(cache, before)])
    forward(MODEL, [tree_block(cache, tokens, parents)])
    path = [0, 2, 6, 10]  # the last branch of each level
    assert [int(parents[node]) for node in path] == [-1, 0, 2, 6]
    cache.keep(len(before), path)
    assert cache.length == len(before) + 4
    after = forward(MODEL, [chain_block(cache, [8])])[0]
    assert np.abs(after - serial([*before, *tokens[path], 8])[-1:]).max() < 1e-5


def pool(blocks, size):
    return BlockPool(blocks, size, len(MODEL.layers), MODEL.kv_heads, MODEL.head_size, np.float32)


class Known(Drafter):
    """Drafts a known continuation with a mistake at one place."""

    def __init__(self, text, right):
        self.text, self.right = text, right

    def propose(self, tokens, shape, chance):
        proposal = Proposal([tokens[-1]])
        drafts = list(self.text[len(tokens) : len(tokens) + len(shape) - 1])
        if self.right < len(drafts):
            drafts[self.right] = (drafts[self.right] + 1) % 44
        proposal.add_sequence(drafts)
        return proposal


@pytest.mark.parametrize("paged", [False, True])
def test_the_cache_goes_44_49_48(paged):
    """44 cached tokens, 5 verified, 3 of 4 drafts accepted (tutorial on cache rollback)."""
    prompt = np.random.default_rng(2).integers(0, 44, 45).tolist()
    whole = [*prompt, *decoded(prompts=[prompt], length=20)[0].output]
    seen = []
    cache = PagedCache(pool(8, 16)) if paged else MODEL.cache()
    advance, keep = cache.advance, cache.keep
    cache.advance = lambda count: (advance(count), seen.append(cache.length))
    cache.keep = lambda *of: (keep(*of), seen.append(cache.length))
    request = Request(prompt, 20, chance(), Known(whole, 3), chain(4), cache)
    out = decode(MODEL, [request], GREEDY)[0]
    assert seen[:3] == [44, 49, 48]
    assert out.rounds[0].accepted == 3
    assert [*prompt, *out.output] == whole


@pytest.mark.parametrize(("gamma", "written", "taken"), [(7, 1008, 0), (15, 1016, 1)])
def test_paged_rollback_takes_and_gives_back_blocks(gamma, written, taken):
    """Blocks of 16, 1000 tokens: 63 blocks of which the last holds 8; 2 accepted drafts leave 1003."""
    blocks = pool(70, 16)
    cache = PagedCache(blocks)
    cache.reserve(1000)
    cache.advance(1000)
    assert (len(cache.table), cache.in_last_block, blocks.allocated) == (63, 8, 63)
    cache.reserve(gamma + 1)
    cache.advance(gamma + 1)
    assert (cache.length, len(cache.table), blocks.allocated - 63) == (written, 63 + taken, taken)
    cache.keep(1000, (0, 1, 2))
    assert (cache.length, len(cache.table), blocks.returned) == (1003, 63, taken)


def test_an_empty_pool_says_so():
    blocks = pool(2, 4)
    cache = PagedCache(blocks)
    cache.reserve(8)
    with pytest.raises(CacheFull, match="all 2 blocks"):
        PagedCache(blocks).reserve(1)
    cache.truncate(0)
    assert len(blocks.free) == 2


DRAFTERS = {
    "same weights": lambda: ModelDrafter(MODEL, GREEDY),
    "noise .1": lambda: ModelDrafter(noisy(MODEL, 0.1, np.random.default_rng(1)), GREEDY),
    "noise .3": lambda: ModelDrafter(noisy(MODEL, 0.3, np.random.default_rng(1)), GREEDY),
    "first layer": lambda: ModelDrafter(first_layers(MODEL, 1), GREEDY),
    "skipped layer": lambda: ModelDrafter(skipped_layers(MODEL, [1]), GREEDY),
    "3 bits": lambda: ModelDrafter(quantised(MODEL, 3), GREEDY),
    "prompt lookup": PromptLookup,
    "suffix": lambda: SuffixLookup([PROMPTS[2]]),
    "counts": lambda: NgramCounts([PROMPTS[2]], 44, GREEDY),
    "uniform": lambda: Uniform(44),
    "merged": lambda: Merged([PromptLookup(), ModelDrafter(first_layers(MODEL, 1), GREEDY)]),
}
SHAPES = {"1": chain(1), "4": chain(4), "<3,1,1>": expansion([3, 1, 1]), "parents": np.array([-1, 0, 0, 1, 2, 2, 5])}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_greedy_output_is_the_targets_own(plain, drafter, shape):
    found = decoded(DRAFTERS[drafter], SHAPES[shape])
    for one, wanted, prompt in zip(found, plain, PROMPTS, strict=True):
        if one.output != wanted:  # only a near tie may flip
            place = next(i for i, (a, b) in enumerate(zip(one.output, wanted, strict=True)) if a != b)
            assert top_gap(serial([*prompt, *wanted[:place]])[-1]) < 1e-4
        assert len(one.rounds) <= LENGTH
        assert all(1 <= r.emitted <= r.drafted + 1 for r in one.rounds)
        assert sum(r.emitted for r in one.rounds) == LENGTH


@pytest.mark.parametrize("rule", ["naive", "block"])
def test_every_lossless_rule_is_greedy_at_temperature_0(plain, rule):
    found = decoded(DRAFTERS["noise .1"], chain(4), rule=RULES[rule])
    assert [one.output for one in found] == plain


def test_a_paged_cache_changes_nothing(plain):
    blocks = pool(30, 8)
    drafter = DRAFTERS["noise .1"]
    requests = [Request(p, LENGTH, chance(), drafter(), chain(4), PagedCache(blocks)) for p in PROMPTS]
    assert [one.output for one in decode(MODEL, requests, GREEDY)] == plain


def test_the_same_weights_are_always_accepted():
    for one in decoded(DRAFTERS["same weights"], chain(4)):
        assert {r.accepted for r in one.rounds if not r.cut} == {4}
        assert {r.passes for r in one.rounds if not r.cut} == {4}


def test_acceptance_falls_with_noise_and_calls_fall_as_tokens_per_round_rise():
    rates, calls = [], []
    for sigma in (0.05, 0.1, 0.3, 0.9):
        model = noisy(MODEL, sigma, np.random.default_rng(1))
        found = decoded(lambda model=model: ModelDrafter(model, GREEDY), chain(4), length=120)
        rounds = [r for one in found for r in one.rounds]
        whole = [r for r in rounds if not r.cut]
        rates.append(sum(r.accepted for r in whole) / sum(r.accepted + (r.accepted < 4) for r in whole))
        calls.append(len(rounds))
        tokens_per_round = 1 + np.mean([r.accepted for r in whole])
        assert len(rounds) == pytest.approx(360 / tokens_per_round, rel=0.02)
    assert rates == sorted(rates, reverse=True)
    assert calls == sorted(calls)
    assert calls[0] < 360 / 2
    assert calls[-1] > 360 / 1.2


def test_longer_drafts_never_cost_calls_and_soon_help_no_more():
    calls = []
    for gamma in (1, 2, 3, 4, 6, 8):
        found = decoded(DRAFTERS["noise .1"], chain(gamma), length=120)
        calls.append(sum(len(one.rounds) for one in found))
    assert calls[0] > calls[-1]
    assert calls[-2] - calls[-1] < calls[0] - calls[1]


def test_uniform_drafts_never_cost_a_call():
    for one in decoded(DRAFTERS["uniform"], chain(4)):
        assert len(one.rounds) <= LENGTH


def test_wider_first_levels_are_accepted_more_often():
    calls = [
        sum(len(one.rounds) for one in decoded(DRAFTERS["noise .3"], expansion([k, 1, 1, 1]), length=120))
        for k in (1, 2, 5)
    ]
    assert calls[0] > calls[1] > calls[2]


@pytest.mark.parametrize("right", [1, 4])
def test_end_of_sequence_inside_a_draft_ends_there(right):
    prompt = list(PROMPTS[0])
    whole = [*prompt, *decoded(prompts=[prompt], length=40)[0].output]
    place = next(i for i in range(len(prompt) + 6, len(whole)) if whole[i] not in whole[len(prompt) : i])
    cache = MODEL.cache()
    request = Request(prompt, 40, chance(), Known(whole, right), chain(4), cache)
    one = decode(MODEL, [request], GREEDY, end=frozenset({whole[place]}))[0]
    assert [*prompt, *one.output] == whole[: place + 1]
    assert cache.length == place  # all but the last token
    assert one.rounds[-1].cut
    assert sum(r.emitted for r in one.rounds) == len(one.output)


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 5, 7])
def test_the_length_limit_holds_inside_a_draft(limit):
    found = decoded(DRAFTERS["same weights"], chain(4), length=limit)
    for one in found:
        assert len(one.output) == limit
        assert len(one.rounds) == -(-limit // 5)
        assert [r.cut for r in one.rounds] == [False] * (limit // 5) + [True] * (limit % 5 > 0)


def test_a_sequence_of_one_token_is_prompt_enough():
    assert len(decoded(PromptLookup, chain(2), prompts=[[3]], length=9)[0].output) == 9


def test_the_same_seed_gives_the_same_text():
    def run(seed):
        request = Request(PROMPTS[0], 40, chance(seed), ModelDrafter(MODEL, Sampling(1.0)), chain(3))
        return decode(MODEL, [request], Sampling(1.0))[0].output

    assert run(1) == run(1) != run(2)


def test_trees_have_depths_and_are_cut():
    assert depths(expansion([2, 1])).tolist() == [0, 1, 1, 2, 2]
    assert cut_to(np.array([-1, 0, 1, 0, 2, 3]), 1).tolist() == [-1, 0, 0]


def test_drawing_a_token_twice_gives_one_node_and_two_draws():
    law = np.full(44, 1 / 44)
    proposal = Proposal([0])
    assert proposal.add(0, 5, law) == (1, True)
    assert proposal.add(0, 5, law) == (1, False)
    assert (proposal.drafted, len(proposal.draws[0])) == (1, 2)


@pytest.mark.parametrize(
    ("drafter", "text", "wanted"),
    [
        (PromptLookup(3, 1), [1, 2, 3, 4, 5, 1, 2, 3], [4, 5, 1]),
        (PromptLookup(3, 1), [1, 2, 3, 7, 3, 9, 3], [9, 3]),
        (PromptLookup(3, 2), [1, 2, 3, 7, 3, 9, 3], []),
        (SuffixLookup(shortest=2), [1, 2, 3, 4, 5, 6, 2, 3], [4, 5]),
        (SuffixLookup([[8, 1, 2, 3, 4, 5]], shortest=2), [7, 8, 1, 2, 3], [4, 5]),
        (SuffixLookup(shortest=2), [1, 2], []),
    ],
)
def test_lookups_copy_what_came_after(drafter, text, wanted):
    assert drafter.propose(text, chain(3), chance()).tokens[1:] == wanted


def test_a_lookup_fills_a_tree_with_different_continuations():
    proposal = PromptLookup(2, 1).propose([1, 2, 5, 1, 2, 6, 1, 2, 6, 1, 2], expansion([2, 1]), chance())
    assert proposal.tokens == [2, 6, 1, 5, 1]
    assert proposal.parents == [-1, 0, 1, 0, 3]


def test_counts_follow_the_longest_context():
    counts = NgramCounts([[1, 2, 3, 1, 2, 3, 4, 2, 5]], 8, Sampling(1.0))
    assert counts.law([1, 2]).tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    assert counts.law([9, 2]).round(3).tolist() == [0, 0, 0, 0.667, 0, 0.333, 0, 0]
    assert counts.law([9]) is None


def test_top_p_keeps_the_fewest_tokens_that_reach_it():
    logits = np.log([0.5, 0.3, 0.15, 0.05])
    assert Sampling(1.0, top_p=0.8).law(logits).round(6).tolist() == [0.625, 0.375, 0, 0]
    assert Sampling(1.0, top_p=0.81).law(logits).round(6).tolist() == [0.526316, 0.315789, 0.157895, 0]
    assert Sampling(1.0, top_k=2, top_p=0.5).law(logits).tolist() == [1, 0, 0, 0]
    assert Sampling(0.0).law(logits).tolist() == [1, 0, 0, 0]


def test_a_quantised_copy_has_few_values_in_a_group():
    matrix = quantised(MODEL, 2).layers[0].qkv
    assert len(np.unique(matrix[:, 0].round(5))) <= 4
    assert quantised(MODEL, 2).embedding is not MODEL.embedding
