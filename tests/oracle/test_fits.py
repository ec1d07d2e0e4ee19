"""Fits against logs of known processes, and against what engines published.

Simulated logs: easy 0.95 and hard 0.3 in runs of 30 tokens, gamma 4. vLLM #48892: rates by position of a multi-token
prediction module at gamma 8. speculators #684: tokens per round at gamma 1 to 7 of a head that ages with depth.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from specsim.acceptance import RegimeChain, independent_tokens_per_round
from specsim.acceptance.bootstrap import bootstrap
from specsim.acceptance.fit import CannotTell, Counts, MeanLength, Rates, fit
from specsim.acceptance.fit_counts import (
    Parameters,
    fit_counts,
    likelihood_of,
    rounds_to_tell_apart,
    starting_points,
)
from specsim.acceptance.fit_rates import choose_form, fit_mixture, look_alikes
from specsim.acceptance.process import process_of
from specsim.acceptance.regimes import runs_to_transitions
from specsim.acceptance.simulate import simulate_log
from specsim.specs.acceptance import Independent, Length, Regimes, Survival

BURSTS = RegimeChain.of([0.95, 0.3], runs_to_transitions([30, 30]))
VLLM_48892 = (0.7568, 0.6011, 0.4976, 0.4113, 0.3538, 0.2980, 0.2608, 0.2229)
SPECULATORS_684 = (1.81, 2.40, 2.80, 3.06, 3.22, 3.30, 3.33)
GAMMAS = np.arange(1, 13)


def log_of(chain, gamma, rounds, generator, requests=1):
    accepted, first = simulate_log(chain, gamma, rounds, requests, generator)
    return Counts(np.full(len(accepted), gamma), accepted, first)


def chain_of_fit(found):
    return RegimeChain(found.parameters.acceptance, found.parameters.transitions[0], found.share[0])


# --- ordered counts


@pytest.fixture(scope="module")
def hundred():
    """Fits to 100 logs of 20,000 rounds: tokens per round, and whether intervals of 90 % hold the truth."""
    generator = np.random.default_rng(48892)
    truth = BURSTS.rounds(GAMMAS).tokens_per_round
    found, held = [], []
    for _ in range(100):
        counts = log_of(BURSTS, 4, 20_000, generator, requests=10)
        one = fit_counts(counts, starting_points(counts, 2))
        found.append(chain_of_fit(one).rounds(GAMMAS).tokens_per_round)
        drawn, _ = bootstrap(counts, one, 200, generator)
        chains = RegimeChain(drawn.parameters.acceptance[:, None, :], drawn.parameters.transitions, drawn.share)
        low, high = np.quantile(chains.rounds(GAMMAS).tokens_per_round, [0.05, 0.95], axis=0)
        held.append((low <= truth) & (truth <= high))
    return np.array(found), np.array(held), truth


def test_a_hundred_logs_are_fitted_without_bias(hundred):
    found, _, truth = hundred
    assert np.abs(found.mean(0) / truth - 1).max() < 0.003


def test_their_spread_is_near_the_information_bound(hundred):
    """The bound: curvature of the likelihood at the truth, on a log ten times as long."""
    found, _, truth = hundred
    bound = information_bound(BURSTS, 4, 20_000)
    assert bound[3] == pytest.approx(0.0139, rel=0.05)
    assert (found.std(0) / truth / bound).max() < 1.2


def test_their_intervals_hold_the_truth_as_often_as_they_say(hundred):
    """90 of 100, within what 100 logs can show."""
    _, held, _ = hundred
    assert (held.mean(0) > 0.82).all()
    assert (held.mean(0) < 0.98).all()


def information_bound(chain, gamma, rounds):
    """Least relative deviation of tokens per round that an unbiased fit can have."""
    counts = log_of(chain, gamma, 200_000, np.random.default_rng(1), requests=100)
    at, step = np.log([0.95 / 0.05, 0.3 / 0.7, 29, 29]), 0.02
    shifts = [
        (i, j, si * sj, si * step * np.eye(4)[i] + sj * step * np.eye(4)[j])
        for i, j in itertools.combinations_with_replacement(range(4), 2)
        for si, sj in itertools.product((1, -1), repeat=2)
    ]

    def parameters(points):
        acceptance, stays = 1 / (1 + np.exp(-points[:, :2])), 1 / (1 + np.exp(-points[:, 2:]))
        moves = np.array([[[easy, 1 - easy], [1 - hard, hard]] for easy, hard in stays])
        return Parameters(acceptance, moves, np.broadcast_to(chain.share, acceptance.shape))

    curvature = np.zeros((4, 4))
    values = likelihood_of(counts, parameters(at + np.array([shift for *_, shift in shifts])))
    for (i, j, sign, _), value in zip(shifts, values, strict=True):
        curvature[i, j] -= sign * value / (4 * step**2)
        curvature[j, i] = curvature[i, j]
    spread = np.linalg.inv(curvature * rounds / counts.rounds)

    def tokens(point):
        one = parameters(point[None])
        return RegimeChain.of(one.acceptance[0], one.transitions[0]).rounds(GAMMAS).tokens_per_round

    slope = np.array([(tokens(at + 1e-4 * e) - tokens(at - 1e-4 * e)) / 2e-4 for e in np.eye(4)])
    return np.sqrt(np.einsum("ig,ij,jg->g", slope, spread, slope)) / tokens(at)


def test_one_log_tells_its_regimes_and_predicts_other_draft_lengths():
    counts = log_of(BURSTS, 4, 20_000, np.random.default_rng(7), requests=50)
    found = fit(counts, None, 100, 0)
    assert isinstance(found.acceptance, Regimes)
    easy, hard = found.acceptance.regimes.values()
    assert easy.acceptance_probability[0] == pytest.approx(0.95, abs=0.01)
    assert hard.acceptance_probability[0] == pytest.approx(0.3, abs=0.01)
    assert easy.mean_run_tokens == pytest.approx(30, rel=0.15)
    own = counts.tokens / counts.rounds
    assert found.tokens_per_round[3] == pytest.approx(own, rel=1e-9)
    written = process_of(found.acceptance).lengths(GAMMAS)
    assert written.tokens_per_round == pytest.approx(found.tokens_per_round, rel=1e-6)
    assert written.extrapolated.tolist() == [False] * 4 + [True] * 8
    # Within the intervals, where the formula at the measured rate is outside for long drafts.
    truth = BURSTS.rounds(GAMMAS).tokens_per_round
    assert ((found.low < truth * 1.02) & (truth * 0.98 < found.high)).all()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_fit_reproduces_its_own_mean(seed):
    generator = np.random.default_rng(seed)
    three = RegimeChain.of((0.9, 0.6, 0.2), [[0.95, 0.04, 0.01], [0.05, 0.9, 0.05], [0.02, 0.08, 0.9]])
    for chain, regimes in ((BURSTS, 2), (three, 3), (three, 2), (RegimeChain.of([0.8], [[1.0]]), None)):
        counts = log_of(chain, 5, 2000, generator, requests=20)
        found = fit(counts, regimes, 20, 0)
        assert found.tokens_per_round[4] == pytest.approx(counts.tokens / counts.rounds, rel=1e-9)


def test_rounds_that_draft_less_are_modelled():
    """Draft lengths drawn anew in every round: the same regimes are found as at one length."""
    generator = np.random.default_rng(3)
    accepted, drafted, regime = [], [], 0
    for _ in range(12_000):
        length, count = int(generator.integers(0, 7)), 0
        while True:
            taken = count < length and generator.random() < (0.95, 0.3)[regime]
            regime = regime if generator.random() > 1 / 30 else 1 - regime
            if not taken:
                break
            count += 1
        accepted.append(count)
        drafted.append(length)
    counts = Counts(np.array(drafted), np.array(accepted), np.arange(12_000) == 0)
    found = fit_counts(counts, starting_points(counts, 2))
    assert found.parameters.acceptance[0] == pytest.approx((0.95, 0.3), abs=0.02)
    assert 1 / (1 - np.diagonal(found.parameters.transitions[0])) == pytest.approx((30, 30), rel=0.2)
    assert "are left out of the acceptance (hit_rate 0.8" in fit(counts, 2, 20, 0).assumed[-1]


def by_heuristic(chain, rounds, seed, cap=10):
    """A log in which the draft length is two more after whole acceptance and one less otherwise."""
    generator = np.random.default_rng(seed)
    regime, length, drafted, accepted = 0, 4, [], []
    for _ in range(rounds):
        count = 0
        while True:
            taken = count < length and generator.random() < chain.acceptance[0, regime]
            regime = regime if generator.random() < chain.transitions[regime, regime] else 1 - regime
            if not taken:
                break
            count += 1
        drafted.append(length)
        accepted.append(count)
        length = min(length + 2, cap) if count == length else max(length - 1, 1)
    return Counts(np.array(drafted), np.array(accepted), np.arange(rounds) == 0)


def test_draft_lengths_that_follow_the_regimes_leave_their_shares_alone():
    """Long drafts stand in easy text: to give their rounds the mean of rounds of any length would move the shares."""
    found = fit(by_heuristic(BURSTS, 20_000, 5), 2, 20, 0)
    truth = BURSTS.rounds(GAMMAS).tokens_per_round
    assert found.tokens_per_round == pytest.approx(truth, rel=0.03)
    easy = found.acceptance.regimes["easy"]
    hard = found.acceptance.regimes["hard"]
    by_runs = easy.mean_run_tokens / (easy.mean_run_tokens + hard.mean_run_tokens)
    assert easy.token_share == pytest.approx(by_runs, abs=0.01)


def of_one_kind_each(rates, requests, rounds, seed):
    """Requests that are easy or hard from their beginning to their end."""
    generator = np.random.default_rng(seed)
    parts = [log_of(RegimeChain.of([rates[k % 2]], [[1.0]]), 3, rounds, generator) for k in range(requests)]
    return Counts(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("drafted", "accepted", "first"))
    )


def test_requests_of_one_kind_each_are_regimes_that_never_end():
    found = fit(of_one_kind_each((0.9, 0.4), 60, 100, 3), None, 50, 0)
    assert not found.acceptance.ends
    assert found.acceptance.transitions is None
    shares = [regime.token_share for regime in found.acceptance.regimes.values()]
    assert sum(shares) == pytest.approx(1)
    assert sum("runs that never end" in line for line in found.found) == 2
    assert ((found.low <= found.tokens_per_round) & (found.tokens_per_round <= found.high)).all()


AGING = RegimeChain(np.array([[0.9], [0.75], [0.6], [0.45]]), np.ones((1, 1)), np.ones(1))


def test_probabilities_at_their_bounds_have_no_interval_and_spoil_none():
    """Two regimes asked of a log that ages: easy accepts all, hard nothing."""
    with np.errstate(all="raise", under="ignore"):
        found = fit(log_of(AGING, 4, 10_000, np.random.default_rng(3), 100), 2, 50, 0)
    assert ((found.low < found.tokens_per_round) & (found.tokens_per_round < found.high)).all()
    easy = next(line for line in found.found if line.startswith("easy"))
    assert easy.startswith("easy: acceptance 0.999") or easy.startswith("easy: acceptance 1.0000")
    assert "(" not in easy.split(",")[0]


def test_regimes_that_do_not_follow_the_record_say_by_how_many_standard_errors():
    aging_inside = RegimeChain(
        np.array([[0.95, 0.55], [0.9, 0.4], [0.8, 0.3], [0.7, 0.2]]), runs_to_transitions([50, 50]), np.full(2, 0.5)
    )
    found = fit(log_of(aging_inside, 4, 20_000, np.random.default_rng(1), 50), 2, 50, 0)
    assert any("standard errors, so these regimes do not follow the record" in line for line in found.found)
    right = fit(log_of(BURSTS, 4, 20_000, np.random.default_rng(1), 50), 2, 50, 0)
    assert not any("standard errors" in line for line in right.found)


def test_a_log_of_one_request_says_that_it_is_taken_for_one():
    generator = np.random.default_rng(2)
    alone, several = (fit(log_of(BURSTS, 4, 2000, generator, requests), 2, 20, 0) for requests in (1, 10))
    assert any(what.startswith("all rounds are those of one request") for what in alone.assumed)
    assert not any(what.startswith("all rounds are those of one request") for what in several.assumed)


def test_the_passes_over_stretches_are_those_of_the_uncut_log():
    """Likelihood by the plain forward recursion over single symbols."""
    counts = log_of(BURSTS, 4, 1000, np.random.default_rng(4), requests=3)
    parameters = Parameters(BURSTS.acceptance, BURSTS.transitions[None], BURSTS.share[None])
    acceptance, law, expected = BURSTS.acceptance[0], BURSTS.share, 0.0
    for count, first in zip(counts.accepted, counts.first, strict=True):
        law = BURSTS.share if first else law
        for position in range(count + 1):
            chance = acceptance if position < count else 1 - acceptance if count < 4 else np.ones(2)
            law = (law * chance) @ BURSTS.transitions
            expected += np.log(law.sum())
            law = law / law.sum()
    assert likelihood_of(counts, parameters)[0] == pytest.approx(expected, rel=1e-9)


def test_k_is_chosen_by_bic():
    generator = np.random.default_rng(12)
    independent = fit(log_of(RegimeChain.of([0.7], [[1.0]]), 4, 5000, generator), None, 20, 0)
    assert isinstance(independent.acceptance, Independent)
    aging = RegimeChain(np.array([[0.8], [0.6], [0.4], [0.2]]), np.ones((1, 1)), np.ones(1))
    assert isinstance(fit(log_of(aging, 4, 5000, generator, 5), None, 20, 0).acceptance, Survival)
    assert isinstance(fit(log_of(BURSTS, 4, 5000, generator, 5), None, 20, 0).acceptance, Regimes)


# --- what rates cannot tell, and counts in their order can


def test_four_look_alikes_have_one_set_of_rates_and_are_told_apart_from_counts_in_their_order():
    mixture = fit_mixture((0.461870, 0.292093, 0.230088, 0.200327))
    alike = look_alikes(mixture, [0.93, 0.95, 0.97, 0.99])
    assert alike.acceptance[:, 0, 1] == pytest.approx((0.293418, 0.3, 0.306070, 0.311685), abs=1e-4)
    leaves = np.stack([alike.transitions[:, 0, 1], alike.transitions[:, 1, 0]], -1)
    expected = ((0.012077, 0.013130), (0.033333, 0.033333), (0.054062, 0.049977), (0.074233, 0.063722))
    assert leaves == pytest.approx(np.array(expected), abs=1e-4)
    assert np.ptp(alike.rounds(GAMMAS).survival, axis=0).max() < 1e-9
    chains = [RegimeChain.of(alike.acceptance[k, 0], alike.transitions[k]) for k in range(4)]
    generator = np.random.default_rng(0)
    needed = [rounds_to_tell_apart(one, other, 4, generator) for one, other in itertools.pairwise(chains)]
    # Neighbours: some four hundred rounds where runs are long, some 1300 where they are short.
    assert needed == pytest.approx((375, 1000, 1300), rel=0.35)
    sets = Parameters(alike.acceptance[:, 0], alike.transitions, alike.share)
    for index, chain in enumerate(chains):
        right = [
            int(np.argmax(likelihood_of(log_of(chain, 4, 4000, generator, requests=4), sets))) == index
            for _ in range(10)
        ]
        assert sum(right) >= 9


def test_a_fit_of_rates_says_that_runs_cannot_be_told():
    found = fit(Rates((0.461870, 0.292093, 0.230088, 0.200327), 4), None, 20, 0)
    assert isinstance(found.acceptance, Regimes)
    assert not found.acceptance.ends
    told = found.found[-1]
    assert told.startswith("run lengths cannot be told from rates: ")
    assert "rounds in order tell runs of 17.5 tokens from runs of 34.5" in told
    assert found.tokens_per_round == pytest.approx(BURSTS.rounds(GAMMAS).tokens_per_round, rel=1e-4)


# --- rates


def test_rates_of_six_positions_are_recovered_exactly():
    survival = BURSTS.rounds([6]).survival[0]
    found = fit_mixture(survival[:3], 6)
    assert found.rates == pytest.approx((0.918837, 0.289496), abs=2e-6)
    assert found.survival(6) == pytest.approx(survival, abs=1e-6)
    assert found.token_share == pytest.approx((0.533103, 0.466897), abs=1e-5)


def test_vllm_48892_is_predicted_from_its_first_four_positions():
    found = fit(Rates(VLLM_48892[:4], 8), 2, 20, 0)
    measured = 1 + sum(VLLM_48892)
    assert measured == pytest.approx(4.40, abs=0.005)
    assert found.tokens_per_round[7] == pytest.approx(4.40, rel=0.02)
    assert independent_tokens_per_round(VLLM_48892[0], 8) == pytest.approx(3.78, abs=0.005)


def test_speculators_684_keeps_its_falling_conditionals():
    survival = np.diff([1.0, *SPECULATORS_684])
    assert choose_form(survival, 10_000).kind == "survival"
    found = fit(Rates(tuple(survival), 7), None, 20, 0)
    assert isinstance(found.acceptance, Survival)
    assert found.tokens_per_round[:7] == pytest.approx(SPECULATORS_684, abs=1e-9)
    assert found.found[-1].startswith("conditional probabilities fall from 0.810 to 0.375")
    over = independent_tokens_per_round(survival[0], 7) / SPECULATORS_684[-1] - 1
    assert over == pytest.approx(0.29, abs=0.005)


@pytest.mark.parametrize(
    ("tokens", "gamma", "rate"), [(2.412354, 4, 0.625), (3.0, 5, 0.709011), (1.6, 1, 0.6), (2.95, 8, 0.670273)]
)
def test_a_length_alone_is_one_rate(tokens, gamma, rate):
    found = fit(MeanLength(tokens, gamma), None, 20, 0)
    assert isinstance(found.acceptance, Length)
    assert found.tokens_per_round[0] - 1 == pytest.approx(rate, abs=1e-6)
    assert np.isnan(found.low).all()


# --- what is refused


def counts_of(accepted, drafted):
    return Counts(np.full(len(accepted), drafted), np.array(accepted), np.arange(len(accepted)) == 0)


def random_counts():
    return log_of(RegimeChain.of([0.6], [[1.0]]), 2, 240, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("recorded", "regimes", "reason"),
    [
        (counts_of([1, 2, 0] * 10, 3), None, "30 rounds are too few to fit anything: log 100 or more."),
        (counts_of([0] * 200, 0), None, "nothing was drafted in any round: log rounds with drafts."),
        (counts_of([3] * 200, 3), None, "every draft was accepted"),
        (counts_of([0] * 200, 3), None, "no draft was accepted: the draft looks broken"),
        (random_counts(), 3, "240 rounds do not show 3 regimes"),
        (Rates((0.7, 0.5), 2), 2, "2 positions do not tell two regimes: log three or more."),
        (Rates((0.7, 0.5, 0.4), 3), 3, "rates by position tell two regimes at most"),
        (Rates((0.8, 0.5, 0.2), 3), 2, "conditional probabilities do not rise"),
        (Rates((1.0, 1.0), 2), None, "every draft was accepted"),
        (Rates((0.0, 0.0), 2), None, "no draft was accepted"),
        (Rates((0.7, 0.5), 2, 50), None, "50 rounds are too few"),
        (MeanLength(2.5, 3), 2, "a mean length does not tell regimes"),
    ],
)
def test_what_cannot_be_told_is_refused(recorded, regimes, reason):
    with pytest.raises(CannotTell) as said:
        fit(recorded, regimes, 20, 0)
    assert str(said.value).startswith(reason)
