"""The engine's rules, enumerated, beside the laws that ``acceptance.rules`` states: two voices of one law."""

from __future__ import annotations

import numpy as np
import pytest

from specsim.acceptance import rules
from specsim.reference.enumeration import outcomes
from specsim.reference.proposals import Proposal
from specsim.reference.sampling import without
from specsim.reference.verification import RULES, lenient, standard

EXACT = 1e-12


def pairs(count, tokens, seed):
    """Random laws, some with tokens that never come."""
    generator = np.random.default_rng(seed)
    for _ in range(count):
        laws = generator.dirichlet(np.full(tokens, 0.7), 2) * (generator.random((2, tokens)) < 0.85)
        laws[laws.sum(-1) == 0] = 1.0
        yield laws / laws.sum(-1, keepdims=True)


def judged(rule, target, draft, *, candidates=1, replace=True, chosen=None):
    """Law of the first emitted token and acceptance of one position, by everything that chance can do."""
    law, acceptance = np.zeros(len(target)), 0.0

    def experiment(chance):
        proposal = Proposal([0])
        left = draft
        for number in range(candidates):
            if chosen is not None:
                proposal.add(0, chosen[number], None)
            elif left.any():
                token = chance.draw(left)
                proposal.add(0, token, left)
                left = left if replace else without(left, token)
        verdict = rule(proposal, lambda node: target, chance)
        return (proposal.tokens[verdict.path[0]], 1) if verdict.path else (verdict.token, 0)

    for weight, (token, accepted) in outcomes(experiment):
        law[token] += weight
        acceptance += weight * accepted
    return law, acceptance


@pytest.mark.parametrize(
    ("rule", "stated"),
    [
        (standard, rules.standard),
        (RULES["naive"], rules.naive),
        (lenient(0.5), lambda p, q: rules.lenient(p, q, 0.5)),
        (RULES["typical"], rules.typical),
        (RULES["block"], rules.standard),
    ],
    ids=["standard", "naive", "lenience", "typical", "block"],
)
def test_one_drawn_candidate(rule, stated):
    for target, draft in pairs(60, 5, 1):
        law, acceptance = judged(rule, target, draft)
        wanted = stated(target, draft)
        assert np.abs(law - wanted.law).max() < EXACT
        assert acceptance == pytest.approx(float(wanted.acceptance), abs=EXACT)


def test_one_candidate_that_was_not_drawn():
    for target, draft in pairs(60, 5, 2):
        law, acceptance = judged(standard, target, draft, chosen=[int(draft.argmax())])
        wanted = rules.deterministic(target, draft)
        assert np.abs(law - wanted.law).max() < EXACT
        assert acceptance == pytest.approx(float(wanted.acceptance), abs=EXACT)


@pytest.mark.parametrize("candidates", [2, 3])
@pytest.mark.parametrize("replace", [True, False])
def test_several_candidates_are_lossless_and_accept_no_less_than_naive_and_than_one(candidates, replace):
    """600 pairs at vocabulary 5 in all (lecture on trees)."""
    for target, draft in pairs(150, 5, 3):
        law, acceptance = judged(standard, target, draft, candidates=candidates, replace=replace)
        assert np.abs(law - target).max() < EXACT
        naive_law, naive = judged(RULES["naive"], target, draft, candidates=candidates, replace=replace)
        assert np.abs(naive_law - target).max() < EXACT
        assert acceptance >= naive - EXACT
        assert acceptance >= float(rules.standard(target, draft).acceptance) - EXACT


def test_the_figures_of_the_documents():
    """Target (.6, .3, .1), draft (.2, .5, .3): acceptance .6; (.6, .4) and (.8, .2): .8; (.6, .4) and (.9, .1): .7."""
    for target, draft, wanted in (
        ([0.6, 0.3, 0.1], [0.2, 0.5, 0.3], 0.6),
        ([0.6, 0.4], [0.8, 0.2], 0.8),
        ([0.6, 0.4], [0.9, 0.1], 0.7),
    ):
        law, acceptance = judged(standard, np.array(target), np.array(draft))
        assert law == pytest.approx(target, abs=EXACT)
        assert acceptance == pytest.approx(wanted, abs=EXACT)


def test_block_verification_of_two_positions():
    for (first, second), (third, fourth) in zip(pairs(20, 3, 5), pairs(20, 3, 6), strict=True):
        target, draft = np.array([first, third]), np.array([second, fourth])
        lengths, law = np.zeros(3), np.zeros((3, 3))

        def experiment(chance, target=target, draft=draft):
            proposal = Proposal([0])
            for position in range(2):
                proposal.add(position, chance.draw(draft[position]), draft[position])
            places = [0, 1, 1]
            verdict = RULES["block"](proposal, lambda node: target[places[node]], chance)
            tokens = [*(proposal.tokens[node] for node in verdict.path), verdict.token]
            if len(tokens) == 1:
                tokens.append(chance.draw(target[1]))
            return len(verdict.path), tuple(tokens[:2])

        for weight, (accepted, tokens) in outcomes(experiment):
            lengths[accepted] += weight
            law[tokens] += weight
        stated = rules.block(list(target), list(draft))
        assert np.abs(lengths - stated.lengths).max() < EXACT
        assert np.abs(law - stated.law).max() < EXACT


def test_typical_acceptance_keeps_the_longest_accepted_path():
    target = np.array([0.5, 0.4, 0.1])
    proposal = Proposal([0])
    proposal.add_sequence([0, 2])
    proposal.add_sequence([1, 0])
    verdict = RULES["typical"](proposal, lambda node: target, None)
    assert [proposal.tokens[node] for node in verdict.path] == [0, 2]
    verdict = RULES["typical"](proposal, lambda node: np.array([0.6, 0.395, 0.005]), None)
    assert [proposal.tokens[node] for node in verdict.path] == [1, 0]
    assert verdict.token == 0


def test_block_verification_refuses_trees():
    proposal = Proposal([0])
    proposal.add_sequence([0])
    proposal.add_sequence([1])
    with pytest.raises(ValueError, match="judges a chain"):
        RULES["block"](proposal, lambda node: np.array([0.5, 0.5]), None)
