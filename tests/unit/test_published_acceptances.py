"""Published acceptances: what stands for a row, and the range that a question without an acceptance takes."""

import pytest

from specsim.catalog import evidence, library
from specsim.catalog.validate import validate
from specsim.errors import InputError, Place

COLLECTIONS = sorted(library.names("acceptance"))
HERE = Place("scenario.yaml", 1)


def row(**values):
    return evidence.Row(target="a", draft="b", task="any", source="c", **values)


@pytest.mark.parametrize("method", COLLECTIONS)
def test_every_row_says_something_and_whence(method):
    collection = validate(evidence.Acceptances, library.read_card("acceptance", method))
    assert collection.name == method
    for one in collection.rows:
        values = (one.rate, one.at_least, one.tokens_per_round, one.accepted_per_drafted, one.survival, one.conditional)
        assert any(value is not None for value in values), one
        assert all((one.source, one.target, one.draft)), one
        assert one.acceptance_rate is None or 0 <= one.acceptance_rate <= 1


def test_as_many_values_as_the_page_says():
    rows = [r for m in COLLECTIONS for r in validate(evidence.Acceptances, library.read_card("acceptance", m)).rows]
    assert len(rows) >= 680
    assert len({r.target for r in rows}) >= 49


@pytest.mark.parametrize(
    ("values", "rate"),
    [
        ({"rate": 0.7}, 0.7),
        ({"at_least": 0.6}, 0.6),
        ({"tokens_per_round": 3.0, "gamma": 5}, 0.709011),
        ({"accepted_per_drafted": 0.5904, "gamma": 4}, 0.8),
        ({"survival": (0.7, 0.49, 0.343)}, 0.7),
        ({"conditional": (0.7, 0.7, 0.7)}, 0.7),
        ({"tokens_per_round": 3.0, "tree": "<2,2>"}, None),
        ({"tokens_per_round": 3.0}, None),
    ],
)
def test_what_stands_for_a_row(values, rate):
    found = row(**values).acceptance_rate
    assert found is None if rate is None else found == pytest.approx(rate, abs=1e-4)


@pytest.mark.parametrize("method", ["draft_model", "eagle", "eagle3", "mtp", "dflash", "window"])
@pytest.mark.parametrize("task", evidence.TASKS)
def test_an_unknown_pair_takes_the_quartiles_of_its_kind(method, task):
    found = evidence.published(method, {"nobody's"}, {"unheard-of"}, task, HERE)
    low, typical, high = (found[end]["rate"] for end in ("low", "typical", "high"))
    assert 0 <= low <= typical <= high <= 1
    assert low < high
    assert "of other pairs" in found["basis"]


def test_the_pair_itself_goes_before_its_kind():
    found = evidence.published("eagle3", {"llama-3.1-8b"}, {"eagle3-llama3.1-8b"}, "code", HERE)
    assert "of this pair on code" in found["basis"]


@pytest.mark.parametrize("method", ["lookup", "lookahead", "medusa"])
def test_rounds_and_trees_say_nothing_of_a_chain(method):
    assert evidence.chains(method) == ()


def test_an_unknown_task_has_a_nearest_one():
    with pytest.raises(InputError, match="Nearest: chat"):
        evidence.published("eagle3", set(), set(), "chatt", HERE)
