"""Token trees: every search against all trees of a size, every lossless rule against enumeration, and reductions."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from conftest import columns_differ, question_of
from hypothesis import given, settings
from hypothesis import strategies as st

import specsim
from specsim.acceptance import candidates, now_and_then, process_of
from specsim.acceptance.ranks import RankChain, rank_chain_of
from specsim.acceptance.regimes import stationary_law
from specsim.acceptance.rules import EXACT_WITHIN, LOSSLESS, WRONG, most_probable
from specsim.planning.question import Axes
from specsim.planning.rounds import plan
from specsim.planning.tree_search import Limits, search_trees
from specsim.specs.acceptance import AtContext, ByContext, Classes, Regime, Regimes, RequestClass
from specsim.specs.ranked import Paired, Ranks
from specsim.specs.tree import DynamicTree, Tree, merged, read_shape, written_shape
from specsim.trees import rounds_of_tree, tree_lengths
from specsim.trees.in_regimes import best_trees_in_regimes
from specsim.trees.search import by_heap, by_programme


@lru_cache
def shapes_of(nodes, branches):
    """Every tree of so many nodes, as nested tuples of children."""

    @lru_cache
    def forests(left, most):
        if left == 0:
            return [()]
        return [
            (first, *rest)
            for size in range(1, left + 1) if most
            for first in forests(size - 1, branches)
            for rest in forests(left - size, most - 1)
        ]  # fmt: skip

    return forests(nodes - 1, branches)


@lru_cache
def trees_of(nodes, branches=3):
    """Every tree of so many nodes."""

    def grown(shape):
        parents = [-1]

        def grow(node, children):
            for child in children:
                parents.append(node)
                grow(len(parents) - 1, child)

        grow(0, shape)
        return Tree.of_parents(parents)

    return [grown(shape) for shape in shapes_of(nodes, branches)]


def test_all_trees_are_counted():
    """Without a limit of branches these are Catalan's numbers."""
    assert [len(trees_of(n, 9)) for n in range(2, 8)] == [1, 2, 5, 14, 42, 132]


def independent(*levels):
    return RankChain(np.array(levels)[..., None], np.ones((1, 1)), np.ones(1))


def random_ranks(generator, shape, falling):
    ranks = generator.dirichlet(np.ones(shape[-1] + 1) * 0.7, shape[:-1])[..., :-1]
    return -np.sort(-ranks, axis=-1) if falling else ranks


trees = st.lists(st.integers(0, 30), min_size=1, max_size=30).map(
    lambda parents: Tree.of_parents([-1, *(parent % (node + 1) for node, parent in enumerate(parents))])
)


# --- shapes


@given(trees)
def test_a_tree_is_read_back_as_it_was_written(tree):
    assert read_shape(tree.text) == tree
    assert read_shape(list(tree.parents)) == tree
    assert read_shape([[rank - 1 for rank in path] for path in tree.rank_paths[1:]]) == tree
    named = replace(tree, name="x")
    assert (read_shape(written_shape(named)), read_shape(written_shape(named)).name) == (tree, "x")


@given(trees)
def test_counts_and_masks_of_a_tree(tree):
    mask, depths = tree.ancestors, tree.depths
    assert mask.sum(1).tolist() == (depths + 1).tolist()
    assert (np.triu(mask, 1) == 0).all()
    assert tree.nodes == 1 + sum(tree.level_counts) == 1 + tree.children.sum()
    assert tree.path_tokens == sum(
        len(path) + 1 for path, leaf in zip(tree.rank_paths, tree.leaves, strict=True) if leaf
    )
    assert tree.step_tokens[0] == 1
    assert len(tree.step_tokens) == tree.depth
    assert all(t <= c for t, c in zip(tree.step_tokens[1:], tree.level_counts, strict=False))


@given(st.lists(st.lists(st.integers(0, 2), max_size=5), max_size=5))
def test_a_merged_tree_holds_exactly_the_prefixes(sequences):
    tree, tokens = merged(sequences)
    parents = tree.parents
    found = set()
    for node in range(tree.nodes):
        path, at = [], node
        while at:
            path.append(tokens[at - 1])
            at = parents[at]
        found.add(tuple(reversed(path)))
    assert found == {tuple(s[:k]) for s in [*sequences, []] for k in range(len(s) + 1)}


# --- searches against all trees


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("falling", [True, False])
def test_the_programme_finds_what_trying_all_trees_finds(seed, falling):
    generator = np.random.default_rng(seed)
    levels = random_ranks(generator, (7, 3), falling) if seed % 2 else [random_ranks(generator, (3,), falling)] * 7
    chain = independent(*levels)
    every = {n: [(t, rounds_of_tree(chain, t).tokens_per_round) for t in trees_of(n)] for n in range(2, 9)}
    for depth in (2, 4, 7):
        found = by_programme([chain.at(level)[:, 0] for level in range(1, depth + 1)], 8)
        for nodes, here in every.items():
            allowed = [worth for tree, worth in here if tree.depth <= depth]
            mine = found.tokens_per_round[found.nodes == nodes]
            assert bool(allowed) == bool(mine.size)
            if allowed:
                assert mine.max() == pytest.approx(max(allowed), abs=1e-12)
        if falling and seed % 2 == 0:
            heap = by_heap([chain.at(level)[:, 0] for level in range(1, depth + 1)], 8)
            for nodes in every:
                assert heap.tokens_per_round[heap.nodes == nodes].max() == pytest.approx(
                    found.tokens_per_round[found.nodes == nodes].max(), abs=1e-12
                )


@pytest.mark.parametrize("seed", range(8))
def test_in_regimes_the_search_finds_what_trying_all_trees_finds(seed):
    generator = np.random.default_rng(seed)
    regimes = 2 + seed % 2
    transitions = 0.15 * generator.dirichlet(np.ones(regimes), regimes) + 0.85 * np.eye(regimes)
    ranks = random_ranks(generator, (1, regimes, 3), falling=seed % 4 > 0).transpose(0, 2, 1)
    chain = RankChain(ranks, transitions, stationary_law(transitions))
    found = best_trees_in_regimes(chain, 8, 7, 3)
    for nodes in range(2, 9):
        best = max(rounds_of_tree(chain, tree).tokens_per_round for tree in trees_of(nodes))
        mine = found.nodes == nodes
        assert found.tokens_per_round[mine].max() == pytest.approx(best, abs=1e-12)
        assert found.at_most[mine].max() >= best - 1e-12


@pytest.mark.parametrize("falling", [True, False])
def test_figures_of_found_trees_are_those_of_the_trees(falling):
    ranks = random_ranks(np.random.default_rng(5), (4,), falling)
    for search in (by_heap, by_programme) if falling else (by_programme,):
        found = search([ranks] * 6, 40)
        for index in range(0, len(found.nodes), 7):
            tree = found.tree(index)
            rounds = rounds_of_tree(independent(ranks), tree)
            assert (tree.nodes, tree.depth) == (found.nodes[index], found.depth[index])
            assert rounds.tokens_per_round == pytest.approx(found.tokens_per_round[index], abs=1e-12)
            assert rounds.whole_probability == pytest.approx(found.whole[index], abs=1e-12)
            assert tuple(found.inner[index, : tree.depth].astype(int)) == tree.step_tokens
            assert tuple(found.counts[index, 1 : tree.depth + 1].astype(int)) == tree.level_counts


@pytest.mark.parametrize("runtime", ["lecture", "typical"])
@pytest.mark.parametrize("ranks", [(0.6, 0.2, 0.1), (0.5, 0.1, 0.35)])
def test_no_tree_beats_the_bound_and_the_answer_is_nearly_there(runtime, ranks):
    """Against all trees of up to 7 nodes, priced one by one."""
    question = question_of("a10", runtime, "llama-7b", "llama-68m", Ranks(ranks=(ranks,)), memory=1e15)
    points, others = ([1, 4, 16, 64], [256, 1024], range(7)), [t for n in range(2, 8) for t in trees_of(n)]
    found = search_trees(question, Axes.of(*points), Limits(nodes=7, depth=6, branches=3))
    every = plan(question, Axes.of(*points, [tree for tree in others if not tree.is_chain]))
    mine = plan(question, Axes.of(*points, found.trees))
    best = np.broadcast_to(every.speedup, every.axes.shape).max(0)
    assert (found.bound >= best - 1e-12).all()
    np.testing.assert_allclose(np.broadcast_to(mine.speedup, mine.axes.shape).max(0), best, rtol=1e-3)


# --- lengths


@given(trees, st.integers(0, 10**6))
@settings(max_examples=50, deadline=None)
def test_regimes_that_are_alike_are_independent_ranks(tree, seed):
    generator = np.random.default_rng(seed)
    ranks = random_ranks(generator, (3,), falling=False)
    transitions = generator.dirichlet(np.ones(2), 2)
    alike = RankChain(np.stack([ranks, ranks], axis=-1)[None], transitions, stationary_law(transitions))
    one, two = rounds_of_tree(independent(ranks), tree), rounds_of_tree(alike, tree)
    assert two.tokens_per_round == pytest.approx(one.tokens_per_round, rel=1e-9)
    np.testing.assert_allclose(two.survival, one.survival, atol=1e-9)
    assert one.distribution.sum() == pytest.approx(1)
    assert one.tokens_per_round == pytest.approx((one.distribution * np.arange(1, tree.depth + 2)).sum())
    assert one.tokens_per_round <= tree.depth + 1


def test_rounds_of_a_tree_are_what_simulation_gives():
    transitions = np.array([[0.9, 0.1], [0.05, 0.95]])
    chain = RankChain(np.array([[[0.7, 0.3], [0.2, 0.3], [0.05, 0.2]]]), transitions, stationary_law(transitions))
    tree = read_shape("<3,2,1>")
    generator = np.random.default_rng(3)
    children = [[] for _ in range(tree.nodes)]
    for node, parent in enumerate(tree.parents[1:], start=1):
        children[parent].append(node)
    tokens, rounds, regime = 0, 20_000, 0
    for _ in range(rounds):
        node = 0
        while True:
            ranks = np.cumsum(chain.ranks[0, :, regime])
            child = int((generator.random() >= ranks).sum())
            regime = int(generator.random() >= transitions[regime, 0])
            tokens += 1
            if child >= len(children[node]):
                break
            node = children[node][child]
    assert tokens / rounds == pytest.approx(rounds_of_tree(chain, tree).tokens_per_round, abs=0.03)


def test_classes_and_contexts_of_equal_ranks_are_these_ranks():
    shapes, ranks = [read_shape("<3,1>"), read_shape("<2,2,1>")], Ranks(ranks=((0.6, 0.2, 0.1),))
    plain = tree_lengths(ranks, shapes)
    both = Classes(classes={
        "a": RequestClass(request_share=0.3, acceptance=ranks), "b": RequestClass(request_share=0.7, acceptance=ranks)
    })  # fmt: skip
    along = ByContext(
        table=(AtContext(context_length=0, acceptance=ranks), AtContext(context_length=9, acceptance=ranks))
    )
    np.testing.assert_allclose(tree_lengths(both, shapes).survival, plain.survival, atol=1e-12)
    np.testing.assert_allclose(tree_lengths(along, shapes, np.array([4.0])).survival[0], plain.survival, atol=1e-12)


def test_regimes_without_further_ranks_know_no_trees():
    regimes = Regimes(regimes={"easy": Regime(acceptance_probability=(0.9,), mean_run_tokens=9.0)})
    assert rank_chain_of(regimes) is None


# --- a chain is the tree <1, ..., 1>


SCENARIO = """\
format: 1
kind: sweep
name: x
hardware: a10
target: llama-7b
draft: {{model: llama-68m, acceptance: {acceptance}}}
grid: {{batch_size: [1, 7, 64], context_length: [0, 300, 2044], {drafts}}}
"""
REGIMES = (
    "{kind: regimes, regimes: {easy: {acceptance_probability: 0.9, further_ranks: [0.05], mean_run_tokens: 9}, "
    "hard: {acceptance_probability: 0.3, further_ranks: [0.2], mean_run_tokens: 20}}}"
)


KNOW_RANKS = ("'ranks=0.6,0.2,0.1'", "'ranks=0.6,0.2;0.5,0.3'", REGIMES)


@pytest.mark.parametrize(
    ("acceptance", "beside"),
    [("rate=0.7", ""), *((acceptance, beside) for acceptance in KNOW_RANKS for beside in ("", ", '<2,1>'"))],
)
def test_the_tree_of_ones_is_a_draft_length_in_every_column(tmp_path, acceptance, beside):
    tables = []
    for drafts in (f"gamma: [0, 3], tree: [{beside.removeprefix(', ')}]", f"gamma: 0, tree: ['<1,1,1>'{beside}]"):
        path = tmp_path / "x.yaml"
        path.write_text(
            SCENARIO.format(acceptance=acceptance, drafts=drafts.replace(", tree: []", "")), encoding="utf-8"
        )
        tables.append(specsim.sweep(path))
    assert columns_differ(*tables) == []


def test_a_chain_among_ranks_is_the_tree_of_ones_computed_as_a_tree():
    """The lengths by nodes and those by positions are two ways to one number."""
    for spec in (
        Ranks(ranks=((0.6, 0.2),)),
        Regimes(regimes={
            "easy": Regime(acceptance_probability=(0.9, 0.8), further_ranks=(0.05,), mean_run_tokens=9.0),
            "hard": Regime(acceptance_probability=(0.3,), further_ranks=(0.2,), mean_run_tokens=20.0),
        }),
    ):  # fmt: skip
        by_nodes = rounds_of_tree(rank_chain_of(spec), Tree.chain(3))
        by_position = process_of(spec).lengths(np.array([3]))
        np.testing.assert_allclose(by_nodes.survival, by_position.accepted[0], rtol=1e-13)
        assert 1 - by_nodes.whole_probability == pytest.approx(by_position.rejection_probability[0], abs=1e-13)


def test_dearer_draft_steps_never_make_trees_deeper():
    question = question_of("a10", "lecture", "llama-7b", "llama-68m", Ranks(ranks=((0.7, 0.1, 0.05),)))
    slower = replace(question, machine=replace(question.machine, runtime=replace(
        question.machine.runtime, draft_step_overhead_seconds=5e-3)))  # fmt: skip
    axes = Axes.of([1, 8, 32], [256], range(9))
    depths = []
    for one in (question, slower):
        found = search_trees(one, axes, Limits(nodes=32, depth=8, branches=3))
        rounds = plan(one, Axes.of([1, 8, 32], [256], range(9), found.trees))
        depths.append((rounds.best * rounds.axes.gamma).max(0)[:, 0])
    assert (depths[0] >= depths[1]).all()
    assert (depths[0] > depths[1]).any()


# --- dynamic trees


def paired(seed=0, positions=40, tokens=12, noise=0.8, **more):
    generator = np.random.default_rng(seed)
    logits = 2 * generator.normal(size=(positions, tokens))

    def probabilities(values):
        exp = np.exp(values)
        return tuple(map(tuple, (exp / exp.sum(-1, keepdims=True)).tolist()))

    return Paired(
        target_probs=probabilities(logits),
        draft_probs=probabilities(logits + noise * generator.normal(size=logits.shape)),
        **more,
    )


def test_a_dynamic_tree_gains_more_than_the_same_tree_in_every_round():
    spec, shape = paired(noise=0.3, verification="top-k"), DynamicTree(4, 4, 16)
    dynamic = tree_lengths(spec, [shape])
    chain = rank_chain_of(spec)
    static = by_heap([np.sort(chain.at(1)[:, 0])[::-1][:4]] * 4, 16)
    assert dynamic.tokens_per_round[0] > static.tokens_per_round[static.nodes == 16].max()
    assert tree_lengths(spec, [shape]).tokens_per_round[0] == dynamic.tokens_per_round[0]


def test_a_dynamic_tree_of_one_level_is_the_most_probable_candidates():
    spec = paired(verification="top-k")
    found = tree_lengths(spec, [DynamicTree(1, 4, 5)])
    assert found.survival[0, 0] == pytest.approx(rank_chain_of(spec).at(1)[:4, 0].sum(), abs=0.02)
    assert found.whole[0] == pytest.approx(found.survival[0, 0], abs=1e-12)


def test_under_ranks_a_dynamic_tree_is_no_better_than_the_best_tree():
    ranks = Ranks(ranks=((0.6, 0.2, 0.1),))
    for shape in (DynamicTree(4, 3, 20), DynamicTree(6, 2, 12), DynamicTree(3, 8, 40)):
        found = tree_lengths(ranks, [shape]).tokens_per_round[0]
        best = by_heap([np.array([0.6, 0.2, 0.1])[: shape.width]] * shape.depth, shape.nodes)
        assert found <= best.tokens_per_round.max() + 1e-12
        assert found >= 1 + sum(0.6**k for k in range(1, 4))


# --- rules among several candidates

PAIRS = 600


def pairs(tokens=4, seed=0):
    generator = np.random.default_rng(seed)
    return generator.dirichlet(np.ones(tokens) * 0.7, PAIRS), generator.dirichlet(np.ones(tokens) * 0.7, PAIRS)


def enumerated(rule, target, draft, k):
    """The law of a rule by playing it for every sequence of candidates, apart from the code under test."""
    count, size = target.shape
    law = np.zeros(target.shape)
    fixed = np.argsort(-draft, axis=-1, kind="stable")
    rows = np.arange(count)
    drawn = [None] if rule in ("top-k", "greedy", "ratio-on-top-k") else itertools.product(range(size), repeat=k)
    wanted = most_probable(target) if rule == "greedy" else target
    rho = np.ones(count)
    if rule == "k-seq":
        found = candidates.k_seq(target, draft, k).ranks
        # The first rank is b(rho), and the sum over all 1 - (1 - b)^k = rho b.
        rho = found.sum(-1) / found[:, 0]
    for sequence in drawn:
        proposed = fixed[:, :k] if sequence is None else np.broadcast_to(sequence, (count, k))
        weight, left = np.ones(count), wanted.copy()
        rests = [draft]
        for j in range(k):
            after = rests[-1].copy()
            if sequence is not None:
                weight = weight * after[rows, proposed[:, j]]
            if rule.endswith("without-replacement"):
                after[rows, proposed[:, j]] = 0
                total = after.sum(-1, keepdims=True)
                after = np.divide(after, total, out=np.zeros_like(after), where=total > 0)
            rests.append(after)
        for j in range(k):
            at, rest = proposed[:, j], rests[j]
            p = left[rows, at]
            q = rest[rows, at]
            if rule in ("naive", "naive-without-replacement", "top-k", "greedy"):
                accept = p  # what is left of the target, renormalised, is its law given that none was it so far
            elif rule == "k-seq":
                accept = np.minimum(1, np.divide(p, rho * q, out=np.ones(count), where=q > 0))
            else:
                accept = np.minimum(1, np.divide(p, q, out=np.ones(count), where=q > 0))
            law[rows, at] += weight * accept
            weight = weight * (1 - accept)
            if rule in ("naive", "naive-without-replacement", "top-k", "greedy"):
                # A candidate that was drawn twice is rejected again: nothing is left of it.
                left[rows, at] = 0
            elif rule in ("multi-step", "without-replacement"):
                left = np.maximum(left - rest, 0)
            elif rule == "ratio-on-top-k":
                left = np.maximum(left - draft, 0)
            if rule not in ("k-seq", "multi-step-without-residual"):
                total = left.sum(-1, keepdims=True)
                left = np.where(total > 1e-15, left / np.maximum(total, 1e-300), wanted)
        if rule in ("k-seq", "multi-step-without-residual"):
            left = np.maximum(wanted - rho[:, None] * draft, 0)
            left = left / np.maximum(left.sum(-1, keepdims=True), 1e-300)
        law += weight[:, None] * left
    return law, wanted


@pytest.mark.parametrize("rule", [name for name, verdict in candidates.VERDICTS.items() if verdict != candidates.BOUND])
@pytest.mark.parametrize("k", [2, 3])
def test_the_law_of_every_rule_by_enumeration(rule, k):
    target, draft = pairs()
    found = candidates.RULES[rule](target, draft, k)
    played, wanted = enumerated(rule, target, draft, k)
    np.testing.assert_allclose(found.law, played, atol=EXACT_WITHIN)
    apart = np.abs(played - wanted).max(-1)
    if candidates.VERDICTS[rule] == WRONG:
        assert (apart > 1e-3).mean() > 0.9
    else:
        assert candidates.VERDICTS[rule].startswith(LOSSLESS)
        assert apart.max() < EXACT_WITHIN


@pytest.mark.parametrize(
    "rule", [name for name, verdict in candidates.VERDICTS.items() if verdict.startswith(LOSSLESS)]
)
@pytest.mark.parametrize("draft", [(0, 1, 0, 0), (0.5, 0.5, 0, 0), (0.2, 0.5, 0.3, 0)])
def test_lossless_rules_where_the_draft_runs_out_of_tokens(rule, draft):
    target = np.array([0.4, 0.3, 0.2, 0.1])
    for k in (1, 2, 3, 4):
        law = candidates.RULES[rule](target, np.array(draft, dtype=float), k).law
        wanted = np.eye(4)[0] if rule == "greedy" else target
        np.testing.assert_allclose(law, wanted, atol=EXACT_WITHIN)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_order_of_the_rules(k):
    target, draft = pairs(5, seed=1)
    accepted = {name: rule(target, draft, k).acceptance for name, rule in candidates.RULES.items()}
    slack = 1e-12
    assert (accepted["multi-step"] >= accepted["naive"] - slack).all()
    assert (accepted["without-replacement"] >= accepted["multi-step"] - slack).all()
    assert (accepted["without-replacement"] >= accepted["naive-without-replacement"] - slack).all()
    assert (accepted["k-seq"] >= accepted["multi-step"] - slack).all()
    for name in ("multi-step", "k-seq", "naive"):
        assert (accepted[name] <= accepted["transport-bound"] + slack).all()
    for name in ("without-replacement", "naive-without-replacement"):
        assert (accepted[name] <= accepted["transport-bound-without-replacement"] + slack).all()
    ranks = candidates.multi_step(target, draft, k).ranks
    assert (np.diff(ranks, axis=-1) <= slack).all()
    if k > 2:
        assert (np.diff(candidates.without_replacement(target, draft, k).ranks, axis=-1) > slack).any()


def test_as_many_candidates_as_tokens_are_always_enough():
    target, draft = pairs()
    np.testing.assert_allclose(candidates.without_replacement(target, draft, 4).acceptance, 1, atol=1e-12)


def test_one_candidate_is_the_rule_of_one():
    target, draft = pairs()
    for rule in ("multi-step", "without-replacement", "k-seq", "transport-bound"):
        found = candidates.RULES[rule](target, draft, 1).acceptance
        np.testing.assert_allclose(found, np.minimum(target, draft).sum(-1), atol=1e-12)


def test_sampled_sequences_of_rejected_candidates_give_the_exact_ranks():
    target, draft = (one[:5] for one in pairs())
    found = candidates.estimated_without_replacement(target, draft, 3, np.random.default_rng(0), 4000)
    exact = candidates.without_replacement(target, draft, 3).ranks
    np.testing.assert_allclose(found[:, 0], exact[:, 0], atol=1e-12)
    np.testing.assert_allclose(found, exact, atol=0.01)


def test_the_bound_over_prefixes_is_the_bound_over_all_sets():
    target, draft = (one[:50] for one in pairs())
    for k in (2, 3):
        every = min_over_sets(target, draft, k)
        np.testing.assert_allclose(candidates.transport_bound(target, draft, k).acceptance, every, atol=1e-12)


def min_over_sets(target, draft, k):
    size = target.shape[-1]
    sets = [list(s) for n in range(size + 1) for s in itertools.combinations(range(size), n)]
    return 1 + np.min([target[:, s].sum(-1) - draft[:, s].sum(-1) ** k for s in sets], axis=0)


@pytest.mark.parametrize("drafting", [0.4, 1.0])
def test_rounds_without_a_tree_are_those_of_chains(drafting):
    """A chain as a tree, in rounds of which a share has a draft, is the chain that is solved apart."""
    regimes = {
        name: Regime(acceptance_probability=(rate,), mean_run_tokens=run, further_ranks=(0.02,))
        for name, rate, run in (("easy", 0.95, 30.0), ("hard", 0.3, 20.0))
    }
    spec = Regimes(regimes=regimes)
    chains = now_and_then(process_of(spec), drafting).lengths(np.array([3]))
    trees = tree_lengths(spec, [Tree.chain(3)], drafting=drafting)
    assert trees.tokens_per_round[0] == pytest.approx(chains.tokens_per_round[0], abs=1e-12)
    assert 1 - trees.whole[0] == pytest.approx(chains.rejection_probability[0], abs=1e-12)


def test_where_no_child_is_ever_accepted_nothing_is_drafted():
    table = specsim.optimal_tree(draft_cost_ratio=0.1, ranks="0,0")
    assert table["gamma"].tolist() == [0]
    assert list(table.cells("decision")) == ["off"]
