"""Faults as text: the place first, then what was expected and found; and names that are near."""

from __future__ import annotations

import math

import pytest

from specsim.errors import Fault, InputError, Place, SpecsimError, nearest, shown


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (Fault("wrong."), "wrong."),
        (Fault("wrong.", Place("a.yaml")), "a.yaml: wrong."),
        (Fault("wrong.", Place("a.yaml", 3)), "a.yaml, line 3: wrong."),
        (Fault("wrong.", Place("a.yaml", 3), "target.model"), "a.yaml, line 3, target.model: wrong."),
        (Fault("wrong.", Place(), "target.model"), "target.model: wrong."),
        (Fault("wrong.", Place(parameter="batch_size")), "batch_size: wrong."),
        (Fault("wrong.", Place(parameter="batch_size"), "grid.batch_size"), "batch_size: wrong."),
    ],
)
def test_a_fault_names_its_place_first(fault, text):
    assert str(fault) == text


def test_an_error_has_one_paragraph_for_each_fault():
    error = InputError([Fault("one.", Place("a.yaml", 1)), Fault("two.")])
    assert str(error) == "a.yaml, line 1: one.\ntwo."
    assert [fault.message for fault in error.faults] == ["one.", "two."]
    assert isinstance(error, SpecsimError)


def test_what_two_faults_say_alike_is_said_once():
    place = Place(parameter="acceptance")
    error = InputError([Fault("wrong.", place, "drafts[0].acceptance"), Fault("wrong.", place, "drafts[1].acceptance")])
    assert str(error) == "acceptance: wrong."
    assert len(error.faults) == 2


@pytest.mark.parametrize("given", ["text", Fault("text"), [Fault("text")]], ids=["text", "fault", "list"])
def test_an_error_from_text_or_a_fault_or_many(given):
    error = InputError(given)
    assert error.faults == (Fault("text"),)
    assert str(error) == "text"


@pytest.mark.parametrize(
    ("name", "known", "sentence"),
    [
        ("typcal", ["ideal", "typical"], "Nearest: typical. Known: ideal, typical."),
        ("TYPICAL", ["ideal", "typical"], "Nearest: typical, ideal. Known: ideal, typical."),
        ("rate", ["Rate", "other"], "Nearest: Rate. Known: Rate, other."),
        ("zzz", ["ideal", "typical"], "Known: ideal, typical."),
        ("", ["ideal"], "Known: ideal."),
        (5, ["ideal"], "Known: ideal."),
        ([], ["ideal"], "Known: ideal."),
        ("n3", [f"n{i}" for i in range(13)], "Nearest: n3, n9, n8."),
        ("zzz", [f"n{i}" for i in range(13)], ""),
    ],
)
def test_names_that_are_near(name, known, sentence):
    assert nearest(name, known) == sentence


def test_at_most_three_names_are_near():
    assert nearest("aaaa", ["aaab", "aaac", "aaad", "aaae"], list_all_up_to=0).count(",") == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (1, "1"),
        (1.5, "1.5"),
        (1e300, "1e+300"),
        (math.inf, ".inf"),
        (-math.inf, "-.inf"),
        (math.nan, ".nan"),
        ("80 gb", "'80 gb'"),
        ("", "''"),
        ("a\nb", r"'a\nb'"),
        ([1, True, "a"], "[1, true, 'a']"),
        ((), "[]"),
        ({"a": {"b": [math.inf]}}, "{a: {b: [.inf]}}"),
        ({}, "{}"),
    ],
    ids=repr,
)
def test_a_value_is_shown_as_yaml_writes_it(value, text):
    assert shown(value) == text


def test_a_long_value_is_cut():
    assert shown("x" * 100) == "'" + "x" * 56 + "..."
    assert len(shown(list(range(1000)))) == 60
    assert shown("x" * 100, 200) == repr("x" * 100)
