"""Rounds of token trees put together by hand from single passes: what is drafted, verified and kept in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import question_of

from specsim.catalog.cards import card
from specsim.cost.passes import Pass
from specsim.cost.roofline import pass_time
from specsim.planning.question import Axes, Question
from specsim.planning.rounds import plan
from specsim.specs.drafter import EagleDraft, LookupDraft, MeasuredDraft, MedusaDraft
from specsim.specs.precision import PRECISIONS
from specsim.specs.ranked import Ranks
from specsim.specs.scenario import MeasuredCosts
from specsim.specs.tree import read_shape

RANKS = Ranks(ranks=((0.6, 0.2, 0.1),))
TREE = read_shape("<2,2,1>")
BATCH, CONTEXT = 4, 300


@pytest.fixture
def question():
    return question_of("a10", "typical", "llama-7b", "llama-68m", RANKS)


def seconds(question, model, tokens, sequences=BATCH, machine=None):
    one = Pass(model, np.asarray(float(sequences)), np.asarray(float(tokens)), np.asarray(float(CONTEXT)))
    return float(pass_time(one, machine or question.machine).seconds)


def planned(question, *trees, gamma=()):
    return plan(question, Axes.of([BATCH], [CONTEXT], list(gamma), list(trees)))


def test_a_draft_step_for_each_level_works_on_the_level_before(question):
    rounds = planned(question, TREE)
    machine = question.machine.of_drafts
    steps = [seconds(question, question.draft.served, tokens, machine=machine) for tokens in (1, 2, 4)]
    fixed = 3 * question.machine.runtime.draft_step_overhead_seconds
    assert rounds.costs.drafting_seconds.item() == pytest.approx(sum(steps) + fixed, rel=1e-12)
    assert rounds.costs.draft_cost_ratio.item() == pytest.approx(
        (sum(steps) + fixed) / 3 / seconds(question, question.target, 1), rel=1e-12
    )


def test_only_nodes_with_children_are_drafted_from(question):
    """Of the three nodes of level 1 one has children: the second step works on one token."""
    narrow, wide = read_shape("[-1,0,0,0,1,1]"), read_shape("[-1,0,0,0,1,2]")
    assert (narrow.step_tokens, wide.step_tokens) == ((1, 1), (1, 2))
    costs = planned(question, narrow, wide).costs.drafting_seconds.reshape(-1)
    assert costs[0] < costs[1]
    assert costs[0] == pytest.approx(planned(question, gamma=[2]).costs.drafting_seconds.item(), rel=1e-12)


def test_verification_is_one_pass_over_all_nodes_and_slower_by_the_tree_factor(question):
    costs = planned(question, TREE).costs
    factor = question.machine.runtime.tree_factor
    assert factor > 1
    assert costs.verification_seconds.item() == pytest.approx(
        factor * seconds(question, question.target, 11), rel=1e-12
    )
    assert costs.verified_tokens.item() == 11


def test_path_by_path_every_candidate_is_a_sequence(question):
    apart = replace(question, draft=replace(question.draft, path_by_path=True))
    rounds = planned(apart, TREE, gamma=[3])
    whole = seconds(question, question.target, 4, sequences=4 * BATCH)
    assert rounds.costs.verification_seconds[1].item() == pytest.approx(whole, rel=1e-12)
    # A chain has one candidate, however it is verified.
    assert rounds.costs.verification_seconds[0].item() == planned(question, gamma=[3]).costs.verification_seconds.item()


def test_tokens_and_variance_of_a_round(question):
    lengths = planned(question, TREE).lengths
    reached = np.array([1, 0.8, 0.64, 0.64 * 0.6])
    assert lengths.tokens_per_round.item() == pytest.approx(reached.sum())
    law = reached - np.append(reached[1:], 0)
    mean_square = (law * np.arange(1, 5) ** 2).sum()
    assert lengths.variance.item() == pytest.approx(mean_square - reached.sum() ** 2)
    assert lengths.accepted_per_drafted.item() == pytest.approx((reached.sum() - 1) / 10)
    # Nothing is rejected where a candidate is accepted to its end.
    assert lengths.rejection_probability.item() == pytest.approx(1 - reached[-1])


def test_nodes_of_a_level_share_their_position(question):
    """2048 positions: three levels fit behind 2044 tokens, and eleven nodes would not if each had its own."""
    fits = plan(question, Axes.of([1], [2044, 2045], [3], [TREE])).feasible
    assert fits[:, 0].tolist() == [[True, False], [True, False]]


def test_every_node_takes_a_slot_of_the_cache(question):
    tree, chain = planned(question, TREE), planned(question, gamma=[10])
    assert tree.fit.needed_bytes.item() == chain.fit.needed_bytes.item()
    assert tree.fit.draft_bytes.item() == chain.fit.draft_bytes.item()


def test_medusa_drafts_a_tree_in_one_pass():
    sixteen = {"precision": PRECISIONS["fp16"], "kv_precision": "fp16"}
    draft = MedusaDraft(head=card("head", "medusa-vicuna-7b"), acceptance=RANKS, **sixteen)
    question = replace(question_of("a10", "typical", "vicuna-7b", "llama-68m"), draft=draft)
    rounds = planned(question, read_shape("<4,3,1>"), read_shape("<2,1,1>"), gamma=[3])
    drafting = np.broadcast_to(rounds.costs.drafting_seconds, rounds.axes.shape).reshape(-1)
    assert drafting[0] == drafting[1] == drafting[2] > 0
    assert rounds.costs.verified_tokens.reshape(-1).tolist() == [4, 29, 7]


def test_an_eagle_head_drafts_level_by_level():
    sixteen = {"precision": PRECISIONS["fp16"], "kv_precision": "fp16"}
    draft = EagleDraft(head=card("head", "eagle-vicuna-7b"), acceptance=RANKS, **sixteen)
    question = replace(question_of("a10", "typical", "vicuna-7b", "llama-68m"), draft=draft)
    rounds = planned(question, read_shape("8/10/60"), read_shape("8/10/61"), gamma=[8])
    drafting = rounds.costs.drafting_seconds.reshape(-1)
    # The triple drafts a level of ten whatever is verified of it.
    assert drafting[0] < drafting[1] == drafting[2]


def test_a_lookup_drafts_a_tree_where_it_finds_something():
    lookup = LookupDraft(hit_rate=0.4, acceptance=RANKS)
    question = replace(question_of("a10", "typical", "llama-7b", "llama-68m"), draft=lookup)
    lengths = planned(question, TREE).lengths
    assert lengths.tokens_per_round.item() == pytest.approx(0.6 + 0.4 * 2.824)


def test_measured_costs_count_levels():
    question = Question(None, None, MeasuredDraft(acceptance=RANKS), MeasuredCosts(draft_cost_ratio=0.1, repair=0.5))
    rounds = planned(question, TREE)
    assert rounds.costs.drafting_seconds.item() == pytest.approx(0.3)
    assert rounds.costs.overhead_seconds.item() == pytest.approx(0.5 * (1 - 0.384))
    assert rounds.speedup.item() == pytest.approx(2.824 / (1 + 0.3 + 0.5 * 0.616))
