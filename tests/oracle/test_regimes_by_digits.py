"""Acceptance in regimes against digits worked out before: by simulation, by enumeration, in closed form.

Tables: the lecture's case (easy 0.95, hard 0.3, half each, gamma 4) over mean run lengths, a chain of three regimes,
regimes whose acceptance falls with the position, and the law of the rounds that n tokens take.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from specsim.acceptance import RegimeChain, independent_tokens_per_round, process_of, rounds_to_finish
from specsim.acceptance.regimes import runs_to_transitions, stationary_law
from specsim.specs.acceptance import AtContext, ByContext, Classes, Independent, Regime, Regimes, RequestClass

NEVER = float("inf")


def lecture_case(run):
    return RegimeChain.of([0.95, 0.3], runs_to_transitions([run, run]))


def rate_of(rounds):
    """Accepted / examined."""
    survival = np.concatenate([np.ones((*rounds.survival.shape[:-1], 1)), rounds.survival], axis=-1)
    return survival[..., 1:].sum(-1) / survival[..., :-1].sum(-1)


@pytest.mark.parametrize(
    ("run", "tokens", "rate", "formula", "over", "hard"),
    [
        (1, 2.479083, 0.616835, 2.376787, -4.126, 0.1292),
        (2, 2.412354, 0.625000, 2.412354, 0.0, 0.5000),
        (4, 2.299678, 0.614517, 2.366816, 2.919, 0.6612),
        (10, 2.219336, 0.603024, 2.318177, 4.454, 0.7287),
        (20, 2.192989, 0.598508, 2.299429, 4.854, 0.7458),
        (30, 2.184379, 0.596949, 2.293005, 4.973, 0.7510),
        (50, 2.177565, 0.595687, 2.287818, 5.063, 0.7549),
        (100, 2.172502, 0.594731, 2.283904, 5.128, 0.7577),
        (NEVER, 2.167481, 0.593769, 2.279972, 5.190, 0.7605),
    ],
)
def test_the_lectures_case_at_any_run_length(run, tokens, rate, formula, over, hard):
    rounds = lecture_case(run).rounds([4])
    independent = independent_tokens_per_round(rate_of(rounds)[0], 4)
    assert rounds.tokens_per_round[0] == pytest.approx(tokens, abs=1e-6)
    assert rate_of(rounds)[0] == pytest.approx(rate, abs=1e-6)
    assert independent == pytest.approx(formula, abs=1e-6)
    assert 100 * (independent / rounds.tokens_per_round[0] - 1) == pytest.approx(over, abs=5e-4)
    assert rounds.start_share[0, 1] == pytest.approx(hard, abs=5e-5)


def test_the_formula_overestimates_by_5_percent_at_a_run_of_34_tokens():
    rounds = lecture_case(34.0225).rounds([4])
    assert independent_tokens_per_round(rate_of(rounds), 4) / rounds.tokens_per_round == pytest.approx(1.05, abs=1e-6)


def test_three_regimes():
    rounds = RegimeChain.of((0.9, 0.6, 0.2), [[0.9, 0.08, 0.02], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]]).rounds([6])
    assert rounds.tokens_per_round[0] == pytest.approx(2.562123, abs=1e-6)
    assert rate_of(rounds)[0] == pytest.approx(0.640039, abs=1e-6)
    expected = (0.513945, 0.337917, 0.247365, 0.190541, 0.150903, 0.121453)
    assert rounds.survival[0] == pytest.approx(expected, abs=1e-6)
    assert rounds.start_share[0] == pytest.approx((0.236259, 0.371410, 0.392331), abs=1e-6)
    assert rounds.variance[0] == pytest.approx(4.352181, abs=1e-6)


def test_two_regimes_at_several_draft_lengths():
    rounds = lecture_case(30).rounds([1, 4, 12])
    assert rounds.tokens_per_round == pytest.approx((1.562737, 2.184379, 2.521584), abs=1e-6)
    assert rounds.survival[1, :4] == pytest.approx((0.461870, 0.292093, 0.230088, 0.200327), abs=1e-6)


def test_regimes_are_never_switching_ones_with_the_eigenvalues_as_acceptance():
    """1 / E = sum of a_k / E_iid(lam_k): lam (.918837, .289496), a (.533103, .466897)."""
    mixture = RegimeChain.of((0.918837, 0.289496), np.eye(2), (0.533103, 0.466897))
    gamma = np.arange(13)
    assert mixture.rounds(gamma).tokens_per_round == pytest.approx(
        lecture_case(30).rounds(gamma).tokens_per_round, rel=2e-6
    )


def test_acceptance_that_falls_with_the_position_inside_regimes():
    easy, hard = Regime(acceptance_probability=(0.95, 0.9, 0.85, 0.8), mean_run_tokens=10), (0.4, 0.3, 0.2, 0.1)
    spec = Regimes(regimes={"easy": easy, "hard": Regime(acceptance_probability=hard, mean_run_tokens=15)})
    assert process_of(spec).lengths(np.array([4])).tokens_per_round[0] == pytest.approx(2.081587, abs=1e-6)


@pytest.mark.parametrize(
    ("run", "variance", "correlation", "asymptotic"),
    [(30, 2.488127, 0.588405, 18.553643), (4, 2.407306, 0.147143, 3.277324), (2, 2.090951, 0.0, 2.090951)],
)
def test_variance_and_correlation_of_rounds(run, variance, correlation, asymptotic):
    rounds = lecture_case(run).rounds([4])
    assert rounds.variance[0] == pytest.approx(variance, abs=1e-6)
    assert rounds.lag_1_autocorrelation[0] == pytest.approx(correlation, abs=1e-6)
    assert rounds.asymptotic_variance[0] == pytest.approx(asymptotic, abs=1e-6)


INDEPENDENT = RegimeChain.of([0.8], [[1.0]])


@pytest.mark.parametrize(
    ("chain", "tokens", "mean", "per_round", "deviation", "quantiles"),
    [
        (INDEPENDENT, 32, 9.984426, 9.519277, 1.513853, (10, 13, 14)),
        (INDEPENDENT, 256, 76.619189, 76.154212, 4.177071, (76, 84, 87)),
        (lecture_case(30), 32, 15.018718, 14.649475, 5.905860, (15, 25, 27)),
        (lecture_case(30), 256, 117.557465, 117.195796, 20.761503, (117, 152, 165)),
    ],
)
def test_rounds_that_a_request_takes(chain, tokens, mean, per_round, deviation, quantiles):
    rounds = chain.rounds([4])
    law = rounds_to_finish(rounds, tokens)
    assert law.mean == pytest.approx(mean, abs=1e-6)
    assert tokens / rounds.tokens_per_round[0] == pytest.approx(per_round, abs=1e-6)
    assert law.standard_deviation == pytest.approx(deviation, abs=1e-6)
    assert tuple(law.quantile([0.5, 0.95, 0.99])) == quantiles


def test_the_variance_of_rounds_grows_by_v_over_e_cubed_for_each_token():
    rounds = lecture_case(4).rounds([4])
    short, long = (rounds_to_finish(rounds, tokens).standard_deviation ** 2 for tokens in (200, 400))
    assert (long - short) / 200 == pytest.approx(0.2694747, abs=1e-6)
    assert rounds.asymptotic_variance[0] / rounds.tokens_per_round[0] ** 3 == pytest.approx(0.2694747, abs=1e-6)


@pytest.mark.parametrize(
    ("chain", "batch", "makespan", "active"),
    [
        (INDEPENDENT, 8, 82.736686, 7.408485),
        (INDEPENDENT, 32, 85.711757, 28.605341),
        (lecture_case(30), 8, 147.346612, 6.382636),
        (lecture_case(30), 32, 160.167400, 23.486920),
        (lecture_case(30), 64, 165.274444, 45.522330),
    ],
)
def test_a_static_batch_waits_for_its_last_sequence(chain, batch, makespan, active):
    law = rounds_to_finish(chain.rounds([4]), 256)
    assert law.last_of(batch) == pytest.approx(makespan, abs=1e-6)
    assert law.mean_active(batch) == pytest.approx(active, abs=1e-6)


@pytest.mark.parametrize("tokens", range(1, 8))
def test_rounds_of_short_requests_by_enumeration(tokens):
    """Every sequence of outcomes of rounds, with its probability, until the tokens are there."""
    rounds = lecture_case(3).rounds([2])
    outcomes, pending, expected = rounds.outcomes[0], [(0, rounds.chain.share)], []
    while pending:
        expected.append(sum(law.sum() for _, law in pending))
        pending = [
            (have + accepted + 1, law @ outcomes[accepted])
            for (have, law), accepted in itertools.product(pending, range(3))
            if have + accepted + 1 < tokens
        ]
    assert rounds_to_finish(rounds, tokens).unfinished[: len(expected)] == pytest.approx(expected, abs=1e-12)


def test_four_sets_of_parameters_that_rates_cannot_tell_apart():
    easy, hard = (0.93, 0.95, 0.97, 0.99), (0.293418, 0.3, 0.306070, 0.311685)
    leave = ((0.012077, 0.013130), (0.033333, 0.033333), (0.054062, 0.049977), (0.074233, 0.063722))
    transitions = np.array([[[1 - e, e], [h, 1 - h]] for e, h in leave])
    rounds = RegimeChain.of(np.stack([easy, hard], axis=-1), transitions).rounds([4, 12])
    expected = np.broadcast_to((0.461870, 0.292093, 0.230088, 0.200327), (4, 4))
    assert rounds.survival[:, 0, :4] == pytest.approx(expected, abs=1e-5)
    assert rounds.tokens_per_round[:, 1] == pytest.approx(np.full(4, 2.521584), abs=5e-5)
    assert rounds.lag_1_autocorrelation[:, 0] == pytest.approx((0.6254, 0.5884, 0.5551, 0.5248), abs=5e-5)


def test_alternating_certain_regimes_have_no_inverse_and_an_answer():
    rounds = RegimeChain.of([1.0, 1.0], runs_to_transitions([1, 1])).rounds([0, 1, 2, 3, 4, 5])
    assert rounds.tokens_per_round == pytest.approx((1, 2, 3, 4, 5, 6), abs=1e-9)


def test_classes_weigh_by_the_time_that_requests_spend():
    """Half the requests at 0.9, half at 0.3, equal outputs: the harmonic mean of their tokens per round."""
    one, other = (Independent(rate=rate) for rate in (0.9, 0.3))
    spec = Classes(
        classes={
            "code": RequestClass(request_share=0.5, acceptance=one),
            "chat": RequestClass(request_share=0.5, acceptance=other),
        }
    )
    gamma = np.array([0, 1, 4])
    found = process_of(spec).lengths(gamma)
    each = [independent_tokens_per_round(rate, gamma) for rate in (0.9, 0.3)]
    assert found.tokens_per_round == pytest.approx(2 / (1 / each[0] + 1 / each[1]), rel=1e-12)
    # The same as stretches that never end, with the same shares of tokens.
    mixture = RegimeChain.of((0.9, 0.3), np.eye(2), (0.5, 0.5)).rounds(gamma)
    assert found.accepted == pytest.approx(mixture.survival, abs=1e-12)


def test_acceptance_along_the_context_is_read_between_entries_and_held_beyond():
    table = ((1000, 0.8), (3000, 0.4))
    spec = ByContext(table=tuple(AtContext(context_length=at, acceptance=Independent(rate=rate)) for at, rate in table))
    found = process_of(spec).lengths(np.array([0, 2]), np.array([0.0, 1000.0, 1500.0, 3000.0, 9000.0]))
    assert found.tokens_per_round[:, 0] == pytest.approx(np.ones(5))
    ends = 1 + 0.8 + 0.64, 1 + 0.4 + 0.16
    expected = (ends[0], ends[0], 0.75 * ends[0] + 0.25 * ends[1], ends[1], ends[1])
    assert found.tokens_per_round[:, 1] == pytest.approx(expected)
    with pytest.raises(ValueError, match="needs one"):
        process_of(spec).lengths(np.array([2]))


def test_the_stationary_law_of_regimes_that_never_end_is_their_middle():
    assert stationary_law(np.eye(3)) == pytest.approx(np.full(3, 1 / 3))
