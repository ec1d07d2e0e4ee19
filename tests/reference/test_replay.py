"""Rounds along a known text are those of the engine; texts are classed by repetition; rounds are summed up."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from specsim.reference.decoding import Request, Round, decode
from specsim.reference.lookup import PromptLookup, SuffixLookup
from specsim.reference.measuring import NEAR_TIE, lead_where_they_part
from specsim.reference.model_drafter import ModelDrafter
from specsim.reference.replay import (
    acceptance_along,
    agreements,
    expected_tokens_per_round,
    output_logits,
    overlaps,
    rounds_of_agreements,
    rounds_of_drafter,
)
from specsim.reference.sampling import RandomChance, Sampling
from specsim.reference.statistics import summary
from specsim.reference.texts import repetition
from specsim.reference.toys import toy
from specsim.reference.trees import chain
from specsim.reference.variants import noisy

MODEL = toy(0)
PROMPT = [5, 1, 5, 1, 5, 1]


def decoded(drafter, gamma, sampling=None, seed=0, **more):
    request = Request(PROMPT, 80, RandomChance(np.random.default_rng(seed)), drafter, chain(gamma), **more)
    return decode(MODEL, [request], sampling or Sampling())[0]


@pytest.mark.parametrize("gamma", [1, 3, 6])
@pytest.mark.parametrize("drafter", [PromptLookup, SuffixLookup])
def test_lookups_along_a_text_are_those_of_the_engine(drafter, gamma):
    found = decoded(drafter(), gamma)
    replayed = rounds_of_drafter(drafter(), PROMPT, found.output, gamma)
    whole = [r for r in found.rounds if not r.cut]
    count = len(replayed.accepted)
    assert 0 <= len(whole) - count <= 1
    assert [r.accepted for r in whole][:count] == replayed.accepted.tolist()
    assert [r.drafted for r in whole][:count] == replayed.drafted.tolist()


@pytest.mark.parametrize("gamma", [1, 3, 6])
def test_a_model_drafter_along_a_text_is_that_of_the_engine(gamma):
    draft = noisy(MODEL, 0.1, np.random.default_rng(1))
    found = decoded(ModelDrafter(draft, Sampling()), gamma)
    replayed = rounds_of_agreements(agreements(draft, PROMPT, found.output), gamma)
    whole = [r.accepted for r in found.rounds if not r.cut]
    assert whole[: len(replayed.accepted)] == replayed.accepted.tolist()
    assert set(replayed.drafted.tolist()) == {gamma}


def test_expected_rounds_are_those_of_all_outcomes():
    """Rounds that begin where the end cannot cut them, by enumeration of what is accepted where."""
    acceptance, gamma = np.array([0.9, 0.2, 0.7, 0.5, 0.6]), 2
    tokens = rounds = 0.0
    for accepted in itertools.product([0, 1], repeat=5):
        weight = np.prod([a if yes else 1 - a for a, yes in zip(acceptance, accepted, strict=True)])
        place = 0
        while place + gamma < 5:
            kept = 0
            while kept < gamma and accepted[place + kept]:
                kept += 1
            tokens += weight * (kept + 1)
            rounds += weight
            place += kept + 1
    assert expected_tokens_per_round(acceptance, gamma) == pytest.approx((tokens, rounds))


def test_accepted_drafts_are_as_many_as_laws_overlap():
    """Within 4 standard errors: false alarms are 6 in 100,000."""
    sampling = Sampling(0.7)
    draft = noisy(MODEL, 0.2, np.random.default_rng(1))
    tried = []

    def examine(node):
        law = node.proposal.draws[node.node][0].law
        tried.append((np.minimum(node.target, law).sum(), node.accepted is not None))

    for seed in range(10):
        decoded(ModelDrafter(draft, sampling), 4, sampling, seed, examine=examine)
    overlap, accepted = np.array(tried, dtype=float).T
    error = np.sqrt((overlap * (1 - overlap)).sum()) / len(tried)
    assert abs(accepted.mean() - overlap.mean()) < 4 * error


def test_overlap_and_acceptance_along_a_text():
    sampling = Sampling(1.0)
    draft = noisy(MODEL, 0.2, np.random.default_rng(1))
    output = decoded(None, 0, sampling).output
    target, other = (output_logits(model, PROMPT, output) for model in (MODEL, draft))
    shares, along = overlaps(target, other, sampling), acceptance_along(target, other, output, sampling)
    assert ((shares > 0) & (shares < 1)).all()
    assert shares.mean() == pytest.approx(along.mean(), abs=0.15)
    assert overlaps(target, target, sampling) == pytest.approx(np.ones(len(output)))


def test_where_outputs_part():
    output = decoded(None, 0).output
    assert lead_where_they_part(MODEL, PROMPT, output, output) is None
    other = (*output[:7], (output[7] + 1) % 44, *output[8:])
    lead = lead_where_they_part(MODEL, PROMPT, output, other)
    largest = np.sort(output_logits(MODEL, PROMPT, output)[7])[-2:]
    assert lead == pytest.approx(float(largest[1] - largest[0]), abs=1e-4)
    assert lead > NEAR_TIE
    assert lead_where_they_part(MODEL, PROMPT, output, output[:5]) == float("inf")


def test_texts_are_classed_by_repetition():
    fresh = list(range(100, 160))
    assert repetition([1, 2, 3], fresh).sort == "ordinary"
    assert repetition(fresh, fresh) == repetition(fresh, fresh[:])
    copied = repetition([*fresh, 1], [0, *fresh])
    assert copied.sort == "copying"
    assert copied.copied == pytest.approx((60 - 12) / 61)
    looped = repetition([1], [7, 8, 9] * 20)
    assert looped.sort == "looping"
    assert looped.looped == pytest.approx((60 - 12 - 3) / 60)
    assert repetition([1], []).sort == "ordinary"


def round_of(drafted, accepted, cut=False):
    return Round(drafted, drafted, accepted, accepted + 1, cut, drafted, 0.2, 1.0, 0.1)


def test_rounds_are_summed_up():
    texts = [
        [round_of(4, 4), round_of(4, 1), round_of(0, 0)],
        [round_of(2, 2), round_of(4, 0), round_of(4, 3, cut=True)],
    ]
    found = summary(texts, 4, 0)
    assert (found.texts, found.rounds, found.whole_rounds) == (2, 6, 5)
    assert found.tokens == 5 + 2 + 1 + 3 + 1 + 4
    assert found.tokens_per_round == pytest.approx(12 / 5)
    assert found.accepted_per_drafted == pytest.approx(7 / 14)
    assert found.acceptance_rate == pytest.approx(7 / (4 + 2 + 0 + 2 + 1))
    assert found.empty_rounds == pytest.approx(1 / 5)
    assert found.empty_rounds_per_token == pytest.approx(1 / 12)
    assert found.distribution.tolist() == pytest.approx([2 / 5, 1 / 5, 1 / 5, 0, 1 / 5])
    assert found.survival.tolist() == pytest.approx([3 / 5, 2 / 5, 1 / 5, 1 / 5])
    assert found.low <= found.tokens_per_round <= found.high
    assert found.verification_seconds == pytest.approx(1.0)


def test_nothing_is_said_of_no_rounds():
    found = summary([[round_of(1, 0, cut=True)]], 4, 0)
    assert np.isnan(found.tokens_per_round)
    assert np.isnan(found.low)
