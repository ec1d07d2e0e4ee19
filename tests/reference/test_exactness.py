"""The engine's output has the target's law, by enumeration of everything that chance can do, and wrong engines fail."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from specsim.reference.decoding import Request, decode
from specsim.reference.drafters import Merged, Uniform
from specsim.reference.enumeration import law_of, outcomes
from specsim.reference.lookup import NgramCounts, PromptLookup, SuffixLookup
from specsim.reference.model_drafter import ModelDrafter
from specsim.reference.sampling import RandomChance, Sampling
from specsim.reference.toys import toy
from specsim.reference.transformer import chain_block, forward
from specsim.reference.trees import chain, expansion
from specsim.reference.variants import noisy
from specsim.reference.verification import RULES, lenient, speculative_step, standard, walk

TOKENS = 3
PROMPT = (0, 1, 0, 1)
EXACT = 1e-12
"""Largest deviation of one probability."""

MODEL = toy(3, TOKENS, layers=1, hidden_size=8, heads=2, kv_heads=1, dtype=np.float64, spread=1.0)
DRAFT = noisy(MODEL, 0.8, np.random.default_rng(1))
SAMPLING = Sampling(temperature=1.0)


def target_law(length, sampling=SAMPLING, model=MODEL, tokens=TOKENS):
    """The joint law of the next tokens by one serial pass for each path: no engine, no cache that is rolled back."""
    law = np.ones(())
    for depth in range(length):
        rows = []
        for path in np.ndindex((tokens,) * depth):
            logits = forward(model, [chain_block(model.cache(), [*PROMPT, *path])])[0][-1]
            rows.append(sampling.law(logits))
        law = law[..., None] * np.array(rows).reshape((tokens,) * (depth + 1))
    return law


def engine_law(drafter, shape, rule=standard, length=3, sampling=SAMPLING):
    def experiment(chance):
        request = Request(PROMPT, length, chance, drafter(), shape)
        return decode(MODEL, [request], sampling, rule)[0].output

    return law_of(experiment, TOKENS, length)


def model_drafter(candidates="sampled", sampling=SAMPLING):
    return lambda: ModelDrafter(DRAFT, sampling, candidates)


DRAFTERS = {
    "sampled": model_drafter(),
    "without-replacement": model_drafter("without-replacement"),
    "most-probable": model_drafter("most-probable"),
    "uniform": lambda: Uniform(TOKENS),
    "prompt-lookup": PromptLookup,
    "suffix": lambda: SuffixLookup([(2, 0, 1, 2)], shortest=1),
    "counts": lambda: NgramCounts([(0, 1, 2, 1, 1, 0)], TOKENS, SAMPLING, order=2),
    "merged": lambda: Merged([PromptLookup(), ModelDrafter(DRAFT, SAMPLING)]),
}
SHAPES = {"chain": chain(2), "tree": expansion([2, 1])}


def deviation(law, wanted):
    return float(np.abs(law - wanted).max())


@pytest.mark.parametrize("rule", ["standard", "naive"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_output_has_the_targets_law(drafter, shape, rule):
    length = 2 if (drafter, shape) == ("merged", "tree") else 3
    law = engine_law(DRAFTERS[drafter], SHAPES[shape], RULES[rule], length)
    assert deviation(law, target_law(length)) < EXACT


@pytest.mark.parametrize("drafter", ["sampled", "most-probable", "uniform", "prompt-lookup"])
def test_block_verification_has_the_targets_law(drafter):
    assert deviation(engine_law(DRAFTERS[drafter], chain(2), RULES["block"]), target_law(3)) < EXACT


@pytest.mark.parametrize("sampling", [Sampling(0.5), Sampling(1.0, top_k=2), Sampling(0.8, top_p=0.8), Sampling(0.0)])
@pytest.mark.parametrize("shape", SHAPES)
def test_temperature_top_k_and_top_p_hold_on_both_sides(sampling, shape):
    law = engine_law(model_drafter(sampling=sampling), SHAPES[shape], sampling=sampling)
    assert deviation(law, target_law(3, sampling)) < EXACT


def test_three_candidates_of_which_a_token_comes_twice():
    shape = expansion([3])
    assert deviation(engine_law(model_drafter(), shape, length=2), target_law(2)) < EXACT


def test_a_tree_that_is_no_expansion():
    shape = np.array([-1, 0, 1, 0])
    assert deviation(engine_law(model_drafter("without-replacement"), shape), target_law(3)) < EXACT


def resample_from_target(target, proposal, draws, chance):
    accepted = speculative_step(target, proposal, draws, chance)
    return accepted if isinstance(accepted, int) else target


def ratio_without_a_draw(target, proposal, draws, chance):
    """Judges candidates chosen without chance as if they had been drawn."""
    for draw in draws:
        law = np.full(TOKENS, 1 / TOKENS) if draw.law is None else draw.law
        token = proposal.tokens[draw.child]
        if chance.happens(min(1.0, target[token] / law[token])):
            return draw.child
        target = np.maximum(target - law, 0.0)
        target = target / target.sum() if target.sum() else law
    return target


@pytest.mark.parametrize(
    ("drafter", "step"),
    [("sampled", resample_from_target), ("uniform", resample_from_target), ("most-probable", ratio_without_a_draw)],
)
@pytest.mark.parametrize("shape", SHAPES)
def test_wrong_engines_fail_the_same_check(drafter, step, shape):
    law = engine_law(DRAFTERS[drafter], SHAPES[shape], partial(walk, step), length=2)
    assert law.sum() == pytest.approx(1, abs=EXACT)
    assert deviation(law, target_law(2)) > 1e-3


def test_a_draft_at_another_temperature_is_exact_too_but_not_if_its_law_is_misreported():
    other = Sampling(0.6)
    assert deviation(engine_law(model_drafter(sampling=other), chain(2), length=2), target_law(2)) < EXACT

    class Misreporting(ModelDrafter):
        def propose(self, tokens, shape, chance):
            proposal = super().propose(tokens, shape, chance)
            wrong = Sampling(2.0).law(np.log(proposal.draws[0][0].law))
            proposal.draws[0] = [type(draw)(draw.child, wrong) for draw in proposal.draws[0]]
            return proposal

    law = engine_law(lambda: Misreporting(DRAFT, SAMPLING), chain(2), length=2)
    assert deviation(law, target_law(2)) > 1e-3


@pytest.mark.parametrize("lenience", [0.5, 0.9])
@pytest.mark.parametrize("shape", SHAPES)
def test_lenience_is_lossy_within_its_bound(lenience, shape):
    law = engine_law(model_drafter(), SHAPES[shape], lenient(lenience), length=1 + 1)
    first, wanted = law.sum(-1), target_law(1)
    assert deviation(law, target_law(2)) > 1e-3
    if shape == "chain":
        assert (first <= wanted / lenience + EXACT).all()


def test_no_lenience_is_exact():
    assert deviation(engine_law(model_drafter(), chain(2), lenient(1.0)), target_law(3)) < EXACT


def test_typical_acceptance_leaves_nothing_to_chance_but_the_draft():
    found = list(
        outcomes(
            lambda chance: decode(
                MODEL,
                [Request(PROMPT, 3, chance, PromptLookup(), chain(2))],
                SAMPLING,
                RULES["typical"],
            )[0].output
        )
    )
    assert len(found) == 1


def test_block_verification_accepts_no_less_than_speculative_sampling():
    def accepted(rule):
        return sum(
            weight * rounds[0].accepted
            for weight, rounds in outcomes(
                lambda chance: decode(MODEL, [Request(PROMPT, 3, chance, model_drafter()(), chain(2))], SAMPLING, rule)[
                    0
                ].rounds
            )
        )

    assert accepted(RULES["block"]) >= accepted(standard) > accepted(RULES["naive"])


def test_the_joint_law_of_two_tokens_by_chance():
    """Pearson's chi-square against the exact law; the false alarm rate is 1 in 10,000 (quantile for 8 degrees)."""
    requests = 4000
    found = np.zeros((TOKENS, TOKENS))
    for seed in range(requests):
        chance = RandomChance(np.random.default_rng([7, seed]))
        request = Request(PROMPT, 2, chance, ModelDrafter(DRAFT, SAMPLING), chain(2))
        found[decode(MODEL, [request], SAMPLING)[0].output] += 1
    wanted = target_law(2) * requests
    assert ((found - wanted) ** 2 / wanted).sum() < 31.83
    wrong = engine_law(model_drafter(), chain(2), partial(walk, resample_from_target), 2) * requests
    assert ((wrong - wanted) ** 2 / wanted).sum() > 31.83
