"""Figures of the literature that follow from acceptance and cost ratios alone, asked for as a user would.

Leviathan et al. 2023 (arXiv 2211.17192), sections 3.3 to 3.5 and tables 1 and 4; and textbook exercises on them.
"""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

import specsim
from specsim.cli import main
from specsim.planning.break_even import perfect_stop
from specsim.planning.question import Axes, Question
from specsim.planning.rounds import plan
from specsim.specs.acceptance import Independent
from specsim.specs.drafter import MeasuredDraft
from specsim.specs.scenario import MeasuredCosts


def by_gamma(rate, draft_cost_ratio, **options):
    table = specsim.optimal_gamma(
        acceptance=f"rate={rate}", draft_cost_ratio=draft_cost_ratio, max_gamma=20, all_gammas=True, **options
    )
    return {int(gamma): index for index, gamma in enumerate(table["gamma"])}, table


def value(column, rate, draft_cost_ratio, gamma, **options):
    at, table = by_gamma(rate, draft_cost_ratio, **options)
    return float(table[column][at[gamma]])


@pytest.mark.parametrize(
    ("rate", "cost", "gamma", "speedup", "digits"),
    [
        (0.8, 0, 5, 3.69, 2),
        (0.7, 0, 3, 2.533, 3),
        (0.75, 0.02, 7, 3.16, 2),
        (0.7, 0.05, 3, 2.20, 2),
        (0.6, 0.1, 3, 1.67, 2),
        (0.1, 0.2, 1, 0.92, 2),
        (0.5, 0.1, 2, 1.46, 2),
        (0.5, 0.1, 4, 1.38, 2),
    ],
)
def test_speedup_of_the_formula(rate, cost, gamma, speedup, digits):
    assert round(value("speedup", rate, cost, gamma), digits) == speedup


def test_tokens_per_round_of_the_formula():
    assert value("tokens_per_round", 0.5, 0, 4) == 1.9375
    assert value("tokens_per_round", 0.8, 0, 4) == pytest.approx(3.3616, abs=1e-12)
    assert value("tokens_per_round", 0.7, 0, 3) == pytest.approx(2.533, abs=1e-12)


def test_the_whole_curve_and_its_flat_optimum():
    at, table = by_gamma(0.8, 0.1)
    curve = [float(table["speedup"][at[gamma]]) for gamma in range(1, 9)]
    assert [round(s, 2) for s in curve[:7]] == [1.64, 2.03, 2.27, 2.40, 2.46, 2.47, 2.45]
    assert round(curve[7], 3) == 2.405
    assert int(table["gamma"][table["best"]][0]) == 6
    # 5 and 7 are within .02 of 6; the smaller one is as good.
    assert abs(curve[5] - curve[4]) < 0.02
    assert abs(curve[5] - curve[6]) < 0.025
    assert table["near_best"][0] == 5


def test_operations_grow_as_leviathan_tabulates():
    assert round(value("operations_factor", 0.8, 0, 5), 2) == 1.63
    assert value("operations_factor", 0.8, 0, 5) == pytest.approx(1.626334, abs=5e-7)


def test_reads_of_target_weights_fall_as_one_over_tokens_per_round():
    assert value("bytes_factor", 0.8, 0, 5) == pytest.approx(1 / value("tokens_per_round", 0.8, 0, 5), rel=1e-15)


@pytest.mark.parametrize(
    ("rate", "gamma", "operations", "speed"),
    [  # Leviathan et al. 2023, table 1: c and c_hat are 0.
        (0.6, 2, 1.53, 1.96),
        (0.7, 3, 1.58, 2.53),
        (0.8, 2, 1.23, 2.44),
        (0.8, 5, 1.63, 3.69),
        (0.9, 2, 1.11, 2.71),
        (0.9, 10, 1.60, 6.86),
    ],
)
def test_table_1_of_leviathan(rate, gamma, operations, speed):
    assert round(value("operations_factor", rate, 0, gamma), 2) == operations
    assert round(value("speedup", rate, 0, gamma), 2) == speed


@pytest.mark.parametrize(
    ("rate", "cost", "gamma", "printed"),
    [  # Leviathan et al. 2023, tables 2 and 4: T5-XXL with small, base and large drafts, predictions to .1.
        (0.75, 0.02, 7, 3.2),
        (0.80, 0.04, 7, 3.3),
        (0.82, 0.11, 7, 2.5),
        (0.62, 0.02, 7, 2.3),
        (0.68, 0.04, 5, 2.4),
        (0.71, 0.11, 3, 2.0),
        (0.65, 0.02, 5, 2.4),
        (0.73, 0.04, 5, 2.6),
        (0.74, 0.11, 3, 2.0),
        (0.53, 0.02, 5, 1.9),
        (0.55, 0.04, 3, 1.8),
        (0.56, 0.11, 3, 1.6),
    ],
)
def test_printed_predictions_of_leviathan(rate, cost, gamma, printed):
    assert value("speedup", rate, cost, gamma) == pytest.approx(printed, abs=0.1)


def test_a_bigram_drafter_gains_a_quarter():
    assert round(value("speedup", 0.2, 0, 3), 2) == 1.25


def test_best_draft_length_by_acceptance():
    _, table = by_gamma(0.6, 0.1)
    assert int(table["gamma"][table["best"]][0]) == 3
    assert float(table["speedup"][table["best"]][0]) >= (1 + 0.6) / (1 + 0.1)
    assert round((1 + 0.6) / (1 + 0.1), 2) == 1.45


def test_no_speculation_where_acceptance_is_below_the_cost():
    table = specsim.optimal_gamma(acceptance="rate=0.1", draft_cost_ratio=0.2)
    assert table["gamma"].tolist() == [0]
    assert table["decision"].tolist() == ["off"]


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.6, 0.9])
def test_some_draft_length_pays_exactly_when_acceptance_exceeds_the_cost(rate):
    below = specsim.optimal_gamma(acceptance=f"rate={rate}", draft_cost_ratio=rate * 0.999)
    above = specsim.optimal_gamma(acceptance=f"rate={rate}", draft_cost_ratio=rate * 1.001)
    assert below["gamma"][0] > 0
    assert above["gamma"][0] == 0


def test_break_even_acceptance_equals_the_cost_ratio():
    explanation = specsim.explain(acceptance="rate=0.6", draft_cost_ratio=0.1)
    lines = [line for section in explanation.sections for line in section.lines]
    assert "Least acceptance_rate that pays, by independent drafts: 0.1000 at gamma 1; 0.2330 at gamma 3." in lines


def test_round_with_every_cost_of_the_tutorial():
    """(k C_draft + C_verify + P(reject) C_repair + C_overhead) / tokens at k 4, a .5."""
    table = specsim.optimal_gamma(
        acceptance="rate=0.5", draft_cost_ratio=0.1, verify_cost_ratio=1.05, repair=0.1, overhead=0.02,
        max_gamma=4, all_gammas=True,
    )  # fmt: skip
    assert float(table["round_cost_ratio"][4]) == pytest.approx(1.56375, abs=1e-12)
    assert 1 / float(table["speedup"][4]) == pytest.approx(0.807097, abs=5e-7)


def perfect_stop_speedup(rate, cost):
    """1 / ((1 - a) + c a): 1 / (1 - a) tokens for a / (1 - a) draft steps (Leviathan et al. 2023, section 3.5)."""
    return 1 / ((1 - rate) + cost * rate)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("cost", [0.0, 0.05, 0.3])
def test_a_perfect_stop_of_any_length(rate, cost):
    """Drafts of up to 800 tokens are as long as any; verification costs a plain step here."""
    question = Question(
        None, None, MeasuredDraft(acceptance=Independent(rate=rate)), MeasuredCosts(draft_cost_ratio=cost)
    )
    axes = Axes.of([1], [0], range(801))
    found = perfect_stop(question, axes, plan(question, axes), 0)
    assert found.speedup == pytest.approx(perfect_stop_speedup(rate, cost), rel=1e-9)
    assert found.tokens == pytest.approx(1 / (1 - rate), rel=1e-9)


def test_a_perfect_stop_by_hand():
    """a .5, up to 2 drafts of .1: 1.75 tokens; 0, 1 or 2 drafts with .5, .25, .25, verified for 1.2, and .05 fixed.

    .5 x 1 + .25 x 1.3 + .25 x 1.4 + .05 = 1.225 plain steps. A repair is never needed.
    """
    costs = MeasuredCosts(draft_cost_ratio=0.1, verify_cost_ratio=1.2, overhead=0.05, repair=7.0)
    question = Question(None, None, MeasuredDraft(acceptance=Independent(rate=0.5)), costs)
    axes = Axes.of([1], [0], [0, 1, 2])
    found = perfect_stop(question, axes, plan(question, axes), 2)
    assert (found.longest, found.tokens) == (2, 1.75)
    assert found.speedup == pytest.approx(1.75 / 1.225, rel=1e-12)


def test_a_perfect_stop_is_at_most_about_sixty_percent_better():
    rates = np.linspace(0.02, 0.98, 97)
    worst = {}
    for cost in (0.01, 0.02, 0.05, 0.1):
        ratios = []
        for rate in rates:
            best = specsim.optimal_gamma(acceptance=f"rate={rate:.2f}", draft_cost_ratio=cost, max_gamma=400)
            ratios.append(perfect_stop_speedup(round(float(rate), 2), cost) / float(best["speedup"][0]))
        worst[cost] = round(max(ratios), 2)
    assert worst == {0.01: 1.50, 0.02: 1.57, 0.05: 1.56, 0.1: 1.55}


def test_a_perfect_stop_drafts_one_over_one_minus_acceptance():
    explanation = specsim.explain(acceptance="rate=0.8", draft_cost_ratio=0.05)
    lines = " ".join(line for section in explanation.sections for line in section.lines)
    # Up to 8 drafts: 1 + .8 + ... + .8^8 = 4.33 tokens for 1 + 3.33 x .05 plain steps.
    assert "would reach 3.71x with drafts of up to 8, at 4.33 tokens a round" in lines


def test_operations_over_the_usual_grid_grow_1_3_to_2_9_times():
    """At the best draft length, over acceptance .5 to .9 and cost ratio .02 to .2."""
    factors = []
    for rate in (0.5, 0.6, 0.7, 0.8, 0.9):
        for cost in (0.02, 0.05, 0.1, 0.2):
            best = specsim.optimal_gamma(acceptance=f"rate={rate}", draft_cost_ratio=cost, max_gamma=30)
            factors.append(float(best["operations_factor"][0]))
    assert min(factors) > 1.3
    assert round(max(factors), 1) == 2.9


def test_the_commands_print_the_same(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["optimal-gamma", "--acceptance", "rate=0.8", "--draft-cost-ratio", "0.1", "--all", "--format", "csv"])
    assert stop.value.code == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [round(float(row["speedup"]), 2) for row in rows[1:8]] == [1.64, 2.03, 2.27, 2.40, 2.46, 2.47, 2.45]
    assert [row["gamma"] for row in rows if row["best"] == "true"] == ["6"]
    # Nothing absolute is known, so nothing absolute is printed.
    assert {row["plain_step_ms"] + row["tokens_per_second"] for row in rows} == {""}
