"""Token trees against figures that were printed elsewhere or worked out apart from this code.

Sources: SpecInfer (Miao et al. 2024, arXiv 2305.09781) and a lecture on it for shapes and counts; Sequoia (Chen et al.
2024, Infini-AI-Lab/sequoia of 2025-01-28) for its acceptance vector; Medusa's tree lists (counts by level). Digits of
expected lengths and of candidate rules were computed apart from this code, by enumeration and by a linear program.
"""

from __future__ import annotations

import numpy as np
import pytest

import specsim
from specsim.acceptance import candidates
from specsim.acceptance.ranks import RankChain
from specsim.acceptance.regimes import stationary_law
from specsim.catalog import library
from specsim.catalog.cards import card
from specsim.specs.tree import Tree, merged, read_shape
from specsim.trees import fixed_shape, rounds_of_tree
from specsim.trees.search import by_heap, by_programme

RANKS = np.array([0.6, 0.2, 0.1])
SEQUOIA = np.array([0.634183, 0.107946, 0.056972, 0.022489, 0.019490])
"""The first entries of the vector that Sequoia ships; trees up to 16 nodes use no others."""


def chain_of(*levels):
    """Independent ranks, one list for all levels or one for each."""
    return RankChain(np.array(levels)[..., None], np.ones((1, 1)), np.ones(1))


def worth(found, nodes):
    """Tokens per round of the best tree of so many nodes."""
    return float(found.tokens_per_round[found.nodes == nodes].max())


# --- shapes


@pytest.mark.parametrize(
    ("shape", "nodes", "paths", "one_by_one"), [("<2,2,1>", 11, 4, 16), ("<1,1,3,1,1,1,1,1>", 21, 3, 27)]
)
def test_counts_of_expansions(shape, nodes, paths, one_by_one):
    tree = read_shape(shape)
    assert (tree.nodes, tree.paths, tree.path_tokens) == (nodes, paths, one_by_one)


@pytest.mark.parametrize(
    ("name", "levels", "leaves"),
    [
        ("medusa-mc-sim-7b-63", (10, 28, 23, 2), 42), ("medusa-vicuna-7b", (10, 23, 23, 7), 42),
        ("medusa-vicuna-13b", (10, 19, 25, 9), 42), ("medusa-vicuna-33b", (10, 24, 24, 5), 43),
        ("medusa-zephyr-7b", (10, 27, 23, 3), 44),
    ],
)  # fmt: skip
def test_level_counts_of_medusa(name, levels, leaves):
    found = card("tree", name)
    assert found.tree.level_counts == levels
    assert found.tree.nodes == 64
    assert f"{leaves} of them leaves" in found.notes


MEDUSA = (0.6, 0.15, 0.07, 0.04, 0.03, 0.02, 0.015, 0.01, 0.008, 0.006)
"""Ranks made up for comparison; what the lists themselves are worth under them was computed from the lists."""


@pytest.mark.parametrize(
    ("name", "of_the_list"),
    [("medusa-mc-sim-7b-63", 3.54099), ("medusa-vicuna-7b", 3.63836), ("medusa-vicuna-13b", 3.66992),
     ("medusa-vicuna-33b", 3.62166), ("medusa-zephyr-7b", 3.57814)],
)  # fmt: skip
def test_levels_filled_by_ranks_are_no_worse_than_the_list_and_no_better_than_the_best(name, of_the_list):
    tree = fixed_shape(chain_of(MEDUSA), card("tree", name).tree)
    found = rounds_of_tree(chain_of(MEDUSA), tree).tokens_per_round
    assert of_the_list <= found <= 3.73064 + 1e-5
    assert tree.level_counts == card("tree", name).tree.level_counts


def test_the_best_of_64_nodes_for_these_ranks():
    assert worth(by_heap([np.array(MEDUSA)] * 12, 64), 64) == pytest.approx(3.946347, abs=5e-7)
    assert worth(by_heap([np.array(MEDUSA)] * 4, 64), 64) == pytest.approx(3.73064, abs=5e-6)


def test_a_merged_tree_holds_all_sequences():
    tree, tokens = merged([(7, 8, 9), (7, 8, 4), (3,)])
    assert tree.parents == (-1, 0, 0, 1, 3, 3)
    assert tokens == (7, 3, 8, 9, 4)


# --- expected lengths


@pytest.mark.parametrize(
    ("shape", "nodes", "tokens"),
    [("<2,2,1>", 11, 2.824), ("<1,1,3,1,1,1,1,1>", 21, 2.732209), ("<1,1,1,1,1,1,1,1>", 9, 2.474806)],
)
def test_expected_length_by_coverage(shape, nodes, tokens):
    found = rounds_of_tree(chain_of(RANKS), read_shape(shape))
    assert found.tree.nodes == nodes
    assert found.tokens_per_round == pytest.approx(tokens, abs=5e-7)


def test_widening_the_first_level_pays_more_than_widening_the_third():
    """The lecture's toy: the first guess is right in 39.2 %, one of five in 81.7 %; 1.63 to 2.34, 1.65 to 1.75."""
    others = (0.817 - 0.392) / 4
    chain = chain_of((0.392, others, others, others, others))
    found = {shape: rounds_of_tree(chain, read_shape(shape)).tokens_per_round
             for shape in ("<1,1,1,1>", "<5,1,1,1>", "<1,1,5,1>")}  # fmt: skip
    assert round(found["<1,1,1,1>"], 2) == 1.63
    assert found["<5,1,1,1>"] == pytest.approx(2.34, abs=0.05)
    assert found["<1,1,5,1>"] == pytest.approx(1.75, abs=0.05)


def test_a_tree_in_regimes():
    transitions = np.array([[11 / 12, 1 / 12], [1 / 20, 19 / 20]])
    chain = RankChain(np.array([[[0.85, 0.35], [0.08, 0.25]]]), transitions, stationary_law(transitions))
    tree = Tree.of_paths([(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)])
    found = rounds_of_tree(chain, tree)
    assert found.tokens_per_round == pytest.approx(2.319775, abs=5e-7)
    np.testing.assert_allclose(found.start_share, [0.264369, 0.735631], atol=5e-7)
    assert rounds_of_tree(chain.mean(), tree).tokens_per_round == pytest.approx(2.368162, abs=5e-7)


# --- the best trees

BEST = {2: 1.6, 3: 1.96, 4: 2.176, 5: 2.376, 6: 2.5056, 7: 2.6256, 8: 2.7456, 9: 2.8456, 10: 2.92336, 16: 3.306016}
BEST_TWO_LEVELS = {4: 2.16, 5: 2.28, 6: 2.4, 7: 2.5, 8: 2.56, 13: 2.71}


@pytest.mark.parametrize("search", [by_heap, by_programme])
def test_the_best_trees_of_falling_ranks(search):
    found = search([RANKS] * 15, 16)
    assert {nodes: worth(found, nodes) for nodes in BEST} == pytest.approx(BEST, abs=5e-7)
    found = search([RANKS] * 2, 13)
    assert {nodes: worth(found, nodes) for nodes in BEST_TWO_LEVELS} == pytest.approx(BEST_TWO_LEVELS, abs=5e-9)


def test_where_ranks_rise_the_programme_finds_more_than_the_most_probable_nodes():
    rising = np.array([0.5, 0.1, 0.35])
    programme = by_programme([rising] * 7, 8)
    assert {n: worth(programme, n) for n in (4, 5, 8)} == pytest.approx({4: 1.95, 5: 2.2, 8: 2.6}, abs=1e-12)
    heap = {n: float(by_heap([rising] * 7, n).tokens_per_round[-1]) for n in (4, 5, 8)}
    assert heap == pytest.approx({4: 1.875, 5: 1.975, 8: 2.5875}, abs=1e-12)


def test_sequoia_s_own_vector():
    found = by_programme([SEQUOIA] * 9, 16)
    for nodes, tokens in ((4, 2.291432), (8, 2.732173), (16, 3.130289)):
        assert worth(found, nodes) == pytest.approx(tokens, abs=3e-6)  # five entries of 32, of six digits
    four = by_programme([SEQUOIA] * 4, 16)
    assert worth(four, 8) == pytest.approx(2.698048, abs=1e-6)
    assert worth(four, 16) == pytest.approx(3.012590, abs=3e-6)
    # The tree of 8 nodes and 4 levels that is shipped beside the vector is the best of its size.
    best = int(np.flatnonzero((four.nodes == 8) & (four.depth == 4))[0])
    assert four.tree(best).level_counts == card("tree", "sequoia-8").tree.level_counts == (2, 3, 1, 1)


@pytest.mark.parametrize(
    ("batch", "verification", "nodes", "depth", "tokens", "speedup"),
    [
        (1, lambda n: 10 + 0.5 * np.maximum(0, n - 8), 8, 2, 2.56, 2.133333),
        (1, lambda n: 10 + 0.05 * np.maximum(0, n - 60), 60, 4, 3.9816, 2.844),
        (16, lambda n: 10 + 0.05 * np.maximum(0, n - 60), 4, 2, 2.16, 1.770492),
        (64, lambda n: 10 + 0.05 * np.maximum(0, n - 60), 2, 1, 1.6, 1.133333),
    ],
)
def test_the_best_size_under_a_cost_curve(batch, verification, nodes, depth, tokens, speedup):
    """One draft step a level takes 1, a plain step 10."""
    found = by_heap([RANKS] * 12, 100)
    plain = verification(np.array(batch))
    rate = found.tokens_per_round * plain / (verification(batch * found.nodes) + found.depth)
    best = int(rate.argmax())
    assert (found.nodes[best], found.depth[best]) == (nodes, depth)
    assert found.tokens_per_round[best] == pytest.approx(tokens, abs=1e-4)
    assert rate[best] == pytest.approx(speedup, abs=5e-4)


# --- rules among several candidates

A = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.2, 0.5, 0.1, 0.2])
B = np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.5, 0.3])


@pytest.mark.parametrize(
    ("rule", "pair", "k", "acceptance"),
    [
        ("multi-step", A, 2, 0.755), ("multi-step", A, 3, 0.819), ("without-replacement", A, 2, 0.814821),
        ("without-replacement", A, 3, 0.939048), ("k-seq", A, 2, 0.788098), ("k-seq", A, 3, 0.858519),
        ("transport-bound", A, 2, 0.86), ("transport-bound", A, 3, 0.988),
        ("transport-bound-without-replacement", A, 2, 0.972222), ("transport-bound-without-replacement", A, 3, 1),
        ("naive", A, 2, 0.4515), ("naive", A, 3, 0.57155), ("naive-without-replacement", A, 2, 0.538889),
        ("naive-without-replacement", A, 3, 0.788492), ("top-k", A, 2, 0.8), ("top-k", A, 3, 0.85),
        ("multi-step", B, 1, 0.6), ("multi-step", B, 2, 0.68), ("multi-step", B, 3, 0.744),
        ("without-replacement", B, 2, 0.737143), ("without-replacement", B, 3, 1), ("k-seq", B, 2, 0.708062),
        ("transport-bound", B, 2, 0.76), ("transport-bound", B, 3, 0.888),
    ],
)  # fmt: skip
def test_acceptance_of_several_candidates(rule, pair, k, acceptance):
    assert float(candidates.RULES[rule](*pair, k).acceptance) == pytest.approx(acceptance, abs=5e-7)


def test_acceptance_by_rank():
    np.testing.assert_allclose(candidates.multi_step(*A, 3).ranks, [0.65, 0.105, 0.064], atol=1e-12)
    np.testing.assert_allclose(candidates.without_replacement(*A, 3).ranks, [0.65, 0.164821, 0.124226], atol=5e-7)
    extreme = np.array([0.0, 1.0]), np.array([0.9, 0.1])
    np.testing.assert_allclose(candidates.without_replacement(*extreme, 2).ranks, [0.1, 0.9], atol=1e-12)
    np.testing.assert_allclose(candidates.multi_step(*extreme, 2).ranks, [0.1, 0.09], atol=1e-12)


def test_the_ratio_rule_on_the_most_probable_candidates_is_wrong():
    np.testing.assert_allclose(candidates.ratio_on_top_k(*A, 1).law, [0.342857, 0.6, 0.057143, 0], atol=5e-7)
    np.testing.assert_allclose(candidates.ratio_on_top_k(*A, 2).law, [0.4, 0.6, 0, 0], atol=1e-12)
    generator = np.random.default_rng(0)
    target, draft = generator.dirichlet(np.ones(5), 300), generator.dirichlet(np.ones(5), 300)
    apart = np.abs(candidates.ratio_on_top_k(target, draft, 2).law - target).sum(-1) / 2
    assert 0.25 < apart.mean() < 0.45  # .355 in a sample of 300 pairs


# --- the lecture's table, and SpecInfer on an A10


def rows_of(name):
    return specsim.sweep(name).to_frame()


def test_the_tree_table_of_the_lecture():
    rows = rows_of("lecture-trees").set_index(["batch_size", "nodes"])
    assert round(rows.verification_ms[1, 5], 1) == round(rows.verification_ms[1, 21], 1) == 18.7
    assert round(rows.speedup[16, 5], 2) == 1.30
    assert round(rows.speedup[16, 21], 2) == 0.64
    assert rows.speedup[64, 5] < 1
    assert rows.speedup[64, 21] < 1
    assert rows.best[64, 1]


def test_the_best_width_on_an_a10_never_grows_with_the_batch():
    rows = rows_of("specinfer-trees")
    batches = sorted(set(rows.batch_size))
    for draft, here in rows[rows.best].groupby("draft"):
        width = [int(here[here.batch_size == batch].nodes.iloc[0] - 3) // 6 for batch in batches]
        assert width == sorted(width, reverse=True), draft
        assert width[0] == 5
        # Reported: wide trees are best at batch 1 and 2, narrow ones from batch 4 on.
        crossover = next(batch for batch, wide in zip(batches, width, strict=True) if wide < 5)
        assert 2 < crossover <= 16


def test_every_published_tree_is_read():
    assert len(library.names("tree")) >= 10
    for name in library.names("tree"):
        assert card("tree", name).tree.nodes > 1
