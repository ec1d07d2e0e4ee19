"""Properties of acceptance in regimes: the identities of the theory, over generated chains, and the reductions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from conftest import plain
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import specsim
from specsim.acceptance import RegimeChain, independent_tokens_per_round, process_of
from specsim.acceptance.regimes import runs_to_transitions, stationary_law
from specsim.report.columns import COLUMNS
from specsim.specs.acceptance import AtContext, ByContext, Classes, Independent, Regime, Regimes, RequestClass

LLAMA = {"hardware": "h100", "target": "llama-3-8b", "draft": "llama-3.2-1b"}
POINTS = {"batch_size": "1,16,256", "context_length": "0,1024,4096", "all_gammas": True}
probabilities = st.floats(0, 1)


@st.composite
def chains(draw, positions=1):
    """Chains of one to four regimes, none of which holds a token for ever."""
    size = draw(st.integers(1, 4))
    rows = [draw(st.lists(st.floats(0.01, 1), min_size=size, max_size=size)) for _ in range(size)]
    transitions = np.array(rows) / np.sum(rows, axis=1, keepdims=True)
    acceptance = np.array([[draw(st.just(0.0) | st.floats(1e-3, 1)) for _ in range(size)] for _ in range(positions)])
    return RegimeChain(acceptance, transitions, stationary_law(transitions))


@settings(max_examples=100, deadline=None)
@given(chain=chains(positions=3), gamma=st.integers(0, 8))
def test_the_identities_of_the_embedded_chain(chain, gamma):
    rounds = chain.rounds([gamma])
    identity = np.eye(chain.transitions.shape[0])
    visits, moves = rounds.accepting[: gamma + 1].sum(0), rounds.outcomes[0].sum(0)
    assert moves == pytest.approx(identity - visits @ (identity - chain.transitions), abs=1e-12)
    assume(np.linalg.cond(visits) < 1e6)
    start = rounds.start_share[0]
    assert start @ moves == pytest.approx(start, abs=1e-9)
    assert start @ visits / rounds.tokens_per_round[0] == pytest.approx(chain.share, abs=1e-9)
    shares = np.einsum("a,jab->j", start, rounds.outcomes[0])
    assert shares.sum() == pytest.approx(1)
    assert rounds.tokens_per_round[0] == pytest.approx(shares @ (np.arange(gamma + 1) + 1))
    second = shares @ (np.arange(gamma + 1) + 1) ** 2
    assert rounds.variance[0] == pytest.approx(second - rounds.tokens_per_round[0] ** 2, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(chain=chains(), gamma=st.integers(0, 12))
def test_the_spectral_form_and_the_bounds(chain, gamma):
    acceptance = chain.acceptance[0]
    values, right = np.linalg.eig(acceptance[:, None] * chain.transitions)
    assume(np.linalg.cond(right) < 1e6)
    shares = (chain.share @ right) * np.linalg.inv(right).sum(-1)
    geometric = sum(values**j for j in range(gamma + 1))
    assume(np.abs(geometric).min() > 1e-6)
    tokens = chain.rounds([gamma]).tokens_per_round[0]
    assert 1 / tokens == pytest.approx((shares / geometric).sum().real, rel=1e-6)
    mean = float(chain.share @ acceptance)
    assert 1 - 1e-12 <= tokens <= min(gamma + 1, 1 / (1 - mean) if mean < 1 else np.inf) + 1e-9


@settings(max_examples=50, deadline=None)
@given(acceptance=st.lists(st.floats(0.05, 0.95), min_size=2, max_size=3), gamma=st.integers(0, 8))
def test_regimes_without_memory_are_independent_drafts(acceptance, gamma):
    size = len(acceptance)
    rounds = RegimeChain.of(acceptance, np.full((size, size), 1 / size)).rounds([gamma])
    expected = independent_tokens_per_round(np.mean(acceptance), gamma)
    assert rounds.tokens_per_round[0] == pytest.approx(expected, rel=1e-12)
    assert rounds.asymptotic_variance[0] == pytest.approx(rounds.variance[0], rel=1e-9, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(chain=chains(positions=2), gamma=st.integers(0, 3))
def test_survival_by_enumeration(chain, gamma):
    """Every path of regimes and outcomes of one round, begun with the law in which rounds begin."""
    rounds = chain.rounds([gamma])
    survival = np.zeros(gamma)
    for path in itertools.product(range(len(chain.share)), repeat=gamma):
        moves = np.prod([chain.transitions[pair] for pair in itertools.pairwise(path)])
        accepted = np.cumprod([chain.at(position)[regime] for position, regime in enumerate(path, start=1)])
        survival += (rounds.start_share[0][path[0]] * moves if path else 0.0) * accepted
    assert rounds.survival[0] == pytest.approx(survival, abs=1e-12)


def test_sets_of_parameters_are_answered_at_once():
    rates = np.linspace(0.1, 0.99, 7)
    transitions = np.stack([runs_to_transitions([run, 2 * run]) for run in range(2, 9)])
    together = RegimeChain.of(np.stack([rates, rates / 2], axis=-1), transitions).rounds([1, 3, 8])
    assert together.survival.shape == (7, 3, 8)
    for index, rate in enumerate(rates):
        alone = RegimeChain.of([rate, rate / 2], transitions[index]).rounds([1, 3, 8])
        for name in ("survival", "variance", "lag_1_autocorrelation", "asymptotic_variance", "start_share", "outcomes"):
            assert getattr(together, name)[index] == pytest.approx(getattr(alone, name), rel=1e-10, abs=1e-12), name


# --- reductions, in every column of the rows


def regimes(*probabilities_and_runs, **more):
    found = {
        f"regime {index}": Regime(acceptance_probability=(probability,), mean_run_tokens=run)
        for index, (probability, run) in enumerate(probabilities_and_runs)
    }
    return Regimes(regimes=found, **more)


def rows(acceptance):
    return specsim.optimal_gamma(**LLAMA, **POINTS, acceptance=acceptance, output_length=200)


def assert_equal_rows(one, other):
    assert len(one) == len(other)
    for column in COLUMNS:
        found, expected = list(one.cells(column.name)), list(other.cells(column.name))
        if column.name == "acceptance":
            continue
        numbers = [table[column.name] for table in (one, other)]
        if numbers[0].dtype.kind == "f":
            np.testing.assert_allclose(*numbers, rtol=1e-12, atol=1e-12, err_msg=column.name)
        else:
            assert found == expected, column.name


independent = Independent(rate=0.8)


@pytest.mark.parametrize(
    "acceptance",
    [
        regimes((0.8, 30)),
        regimes((0.8, None)),
        regimes((0.8, 30), (0.8, 7)),
        regimes((0.8, 1), (0.8, 1)),
        Regimes(
            regimes={"a": Regime(acceptance_probability=(0.8, 0.8)), "b": Regime(acceptance_probability=(0.8,))},
            transitions={"a": {"a": 0.5, "b": 0.5}, "b": {"a": 0.25, "b": 0.75}},
        ),
        regimes((0.9, 2), (0.7, 2)),
        Classes(classes={"all": RequestClass(request_share=1.0, acceptance=independent)}),
        Classes(
            classes={
                "short": RequestClass(request_share=0.5, output_tokens=10.0, acceptance=independent),
                "long": RequestClass(request_share=0.5, output_tokens=900.0, acceptance=regimes((0.8, 5))),
            }
        ),
        ByContext(table=(AtContext(context_length=7, acceptance=independent),)),
        ByContext(
            table=(
                AtContext(context_length=7, acceptance=independent),
                AtContext(context_length=2000, acceptance=regimes((0.8, 3), (0.8, 30))),
            )
        ),
    ],
    ids=["K = 1", "K = 1 for ever", "equal", "alternating", "transitions", "memoryless", "class", "classes",
         "context", "contexts"],
)  # fmt: skip
def test_what_comes_down_to_independent_drafts_has_their_rows(acceptance):
    assert_equal_rows(rows(acceptance), rows("rate=0.8"))


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_records_of_any_shape_read_back(data):
    from specsim.catalog.dump import document_of
    from specsim.catalog.validate import validate
    from specsim.specs.acceptance import Acceptance

    numbers = data.draw(st.lists(st.tuples(probabilities, st.floats(1, 1000)), min_size=1, max_size=4))
    spec = regimes(*numbers, recorded_gamma=data.draw(st.none() | st.integers(1, 9)))
    by_class = Classes(classes={"a": RequestClass(request_share=1.0, output_tokens=5.0, acceptance=spec)})
    for one in (spec, by_class, ByContext(table=(AtContext(context_length=9, acceptance=by_class),))):
        assert validate(Acceptance, plain(document_of(one))) == one
        assert hash(one) == hash(validate(Acceptance, plain(document_of(one))))


def test_drafts_beyond_the_record_are_marked():
    beyond = process_of(regimes((0.9, 30), (0.5, 30), recorded_gamma=3)).lengths(np.arange(6)).extrapolated
    assert beyond.tolist() == [False, False, False, False, True, True]


@pytest.mark.parametrize(
    ("transitions", "share", "settled"),
    [
        ([[0.9, 0.1], [0.3, 0.7]], (0.1, 0.9), (0.75, 0.25)),
        ([[0.0, 1.0], [1.0, 0.0]], (0.9, 0.1), (0.5, 0.5)),
        ([[1.0, 0.0], [0.0, 1.0]], (0.9, 0.1), (0.9, 0.1)),
        ([[1.0, 0.0], [1e-9, 1.0 - 1e-9]], (0.9, 0.1), (1.0, 0.0)),
        ([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], (0.6, 0.0, 0.4), (0.3, 0.3, 0.4)),
    ],
)
def test_shares_settle_where_transitions_lead(transitions, share, settled):
    chain = RegimeChain.of([0.5] * len(share), transitions, share)
    assert chain.settled_share == pytest.approx(settled, abs=1e-6)
