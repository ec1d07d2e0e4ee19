"""Kinds of fields: what each reads, what it refuses and with which words, how it writes, and its JSON Schema."""

from __future__ import annotations

import math
import re

import pytest

from specsim import units
from specsim.specs.fields import axis, choice, flag, number, quantity, tuple_of, whole

BOUNDS = {
    "probability": number(0, 1),
    "fraction": number(0, 1, open_minimum=True),
    "ratio": number(0),
    "factor": number(1),
    "above 2": number(2, open_minimum=True),
}


def reason(kind, value):
    """Why a value is refused."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        kind.read(value)
    return str(caught.value)


# --- numbers


@pytest.mark.parametrize(
    ("bounds", "value"),
    [("probability", 0), ("probability", 1), ("probability", 0.5), ("fraction", 1), ("fraction", 1e-6),
     ("ratio", 0), ("ratio", 1e9), ("factor", 1), ("above 2", 2.0000001)],
)  # fmt: skip
def test_a_number_inside_its_bounds_becomes_a_float(bounds, value):
    found = BOUNDS[bounds].read(value)
    assert (type(found), found) == (float, value)


@pytest.mark.parametrize(
    ("bounds", "value"),
    [("probability", -0.1), ("probability", 1.1), ("fraction", 0), ("fraction", 0.0), ("fraction", 1.1),
     ("ratio", -1e-300), ("factor", 0.999), ("above 2", 2)],
)  # fmt: skip
def test_a_number_outside_its_bounds(bounds, value):
    assert reason(BOUNDS[bounds], value).startswith("a number ")


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize(
    "value",
    [True, False, "0.5", "1", None, [], [3.0], {}, math.nan, math.inf, -math.inf, 3j, 10**400],
    ids=lambda value: repr(value)[:9],
)
def test_what_is_no_number(bounds, value):
    assert reason(BOUNDS[bounds], value).startswith("a number ")


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ("probability", "a number from 0 to 1"),
        ("fraction", "a number above 0, at most 1"),
        ("ratio", "a number of at least 0"),
        ("factor", "a number of at least 1"),
        ("above 2", "a number above 2"),
    ],
)
def test_the_bounds_in_words(bounds, words):
    assert reason(BOUNDS[bounds], "x") == words
    assert reason(BOUNDS[bounds], "80%") == f"{words}, as a fraction and not as a percentage"


@pytest.mark.parametrize("minimum", [0, 1])
def test_whole_numbers(minimum):
    kind = whole(minimum)
    assert [kind.read(value) for value in (minimum, 7, 10**9)] == [minimum, 7, 10**9]
    assert reason(kind, 10**9 + 1) == "a whole number of at most 1,000,000,000"
    for value in (minimum - 1, -1, 1.0, 2.5, "2", True, None, [2], math.inf, math.nan):
        assert reason(kind, value) == f"a whole number of at least {minimum}"


# --- words


def test_true_and_false_and_nothing_that_looks_like_them():
    assert flag().read(True) is True
    assert flag().read(False) is False
    for value in (0, 1, "true", "yes", "on", None, [], 1.0):
        assert reason(flag(), value) == "true or false"


def test_one_of_some_words():
    kind = choice("smooth", "sharp")
    assert kind.read("sharp") == "sharp"
    for value in ("Sharp", "sharp ", "", 1, True, None, ["sharp"], {"sharp": 1}):
        assert reason(kind, value) == "one of smooth, sharp"


# --- quantities


def test_a_quantity_reads_into_si_and_writes_back():
    kind = quantity(units.BANDWIDTH, positive=True)
    assert kind.read("3.35 TB/s") == 3.35e12
    assert kind.write(3.35e12) == "3.35 TB/s"


def test_zero_is_a_duration_and_no_bandwidth():
    assert quantity(units.TIME).read("0 s") == 0
    assert reason(quantity(units.BANDWIDTH, positive=True), "0 TB/s") == 'a bandwidth above 0, such as "3.35 TB/s"'
    # So small that it is zero.
    assert reason(quantity(units.TIME, positive=True), "1e-400 s") == 'a duration above 0, such as "0.5 ms"'


# --- lists


def test_a_list_of_probabilities():
    kind = tuple_of(number(0, 1), what="probabilities")
    assert kind.read([1, 0.5]) == (1.0, 0.5)
    assert kind.read((0.5,)) == (0.5,)
    assert kind.write((1.0, 0.5)) == [1.0, 0.5]
    for value in ([], (), 0.5, "0.5,0.4", {"a": 0.5}, None):
        assert reason(kind, value) == "a list of probabilities"
    for value in ([0.5, 1.5], [True], [[0.5]], ["0.5"], [None], [math.nan]):
        assert reason(kind, value) == "a list of probabilities, each a number from 0 to 1"


# --- axes of a grid


@pytest.mark.parametrize(
    ("written", "values"),
    [
        (8, (8,)),
        ("8", (8,)),
        (" 8 ", (8,)),
        ("4k", (4096,)),
        ([1, 8, 32], (1, 8, 32)),
        ((1, 8), (1, 8)),
        ("1,8,32", (1, 8, 32)),
        ("1, 8 ,32", (1, 8, 32)),
        ([32, 8, 1], (32, 8, 1)),
        (["1k", 2], (1024, 2)),
        ("1..4", (1, 2, 3, 4)),
        ("1 .. 4", (1, 2, 3, 4)),
        ("3..3", (3,)),
        ("1..256*2", (1, 2, 4, 8, 16, 32, 64, 128, 256)),
        ("1..100*3", (1, 3, 9, 27, 81)),
        ("3..20*2", (3, 6, 12)),
        ("5..5*2", (5,)),
        ("1k..8k*2", (1024, 2048, 4096, 8192)),
        (["1..3", 8, "16..64*2"], (1, 2, 3, 8, 16, 32, 64)),
        ("1..2,8,1k", (1, 2, 8, 1024)),
        (1_000_000_000, (1_000_000_000,)),
    ],
)
def test_an_axis(written, values):
    assert axis(1).read(written) == values


def test_zero_where_an_axis_allows_it():
    assert axis(0).read("0..8") == tuple(range(9))
    assert axis(0).read(0) == (0,)
    assert reason(axis(1), 0).startswith("whole numbers of at least 1: ")


LISTS = (
    "whole numbers of at least 1: a number, a list such as 1,8,32, a range such as 1..16 or a doubling such as "
    "1..256*2; k stands for 1024"
)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        *((wrong, LISTS) for wrong in (
            "", "x", "0", -1, "-1", 0, 1.5, 1.0, "1.5", "1e3", True, [True], None, [], [None], [[1]], {}, {"a": 1},
            math.nan, [math.inf], "1,,2", "1,", "1..", "..5", "1..2..3", "1..8*", "1...4", "1 8", "k", "1K", "1kk",
            "4 k", "٣", "²", "1..٣", "9" * 5000, "1..99999999999999999999", ["1,2"],
        )),
        ("5..1", "a range that rises, such as 1..16"),
        ("2k..8", "a range that rises, such as 1..16"),
        ("1..8*1", "a range from 1 or more whose factor is 2 or more, such as 1..256*2"),
        ("1..8*0", "a range from 1 or more whose factor is 2 or more, such as 1..256*2"),
        ("0..8*2", "a range from 1 or more whose factor is 2 or more, such as 1..256*2"),
        ("1..100001", "a range of at most 100,000 numbers"),
        ("1..1000000000", "a range of at most 100,000 numbers"),
        (1_000_000_001, "whole numbers of at most 1,000,000,000"),
        (10**40, "whole numbers of at most 1,000,000,000"),
        ("1..900000000000*2", "whole numbers of at most 1,000,000,000"),
        ([1, 1], "each number of an axis once"),
        ("1,8,8", "each number of an axis once"),
        (["1..4", 3], "each number of an axis once"),
    ],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_what_is_no_axis(written, words):
    assert reason(axis(1), written) == words


def test_the_longest_range():
    assert len(axis(1).read("1..100000")) == 100_000


def test_an_axis_is_written_as_a_list_that_reads_back():
    kind = axis(1)
    values = kind.read("1..256*2")
    assert kind.write(values) == list(values)
    assert kind.read(kind.write(values)) == values


# --- JSON Schema


@pytest.mark.parametrize("dimension", units.DIMENSIONS, ids=lambda dimension: dimension.suffix)
def test_the_pattern_for_editors_accepts_what_is_read_and_refuses_what_is_not(dimension):
    pattern = quantity(dimension).json_schema["pattern"]
    for unit in dimension.scales:
        assert re.search(pattern, f"1.5 {unit}")
        assert re.search(pattern, f" +.5e-3{unit} ")
    for wrong in (
        "1.5",
        "",
        dimension.example + " x",
        "-" + dimension.example,
        "80 furlongs",
        "1,5 " + dimension.example,
    ):
        assert not re.search(pattern, wrong), wrong
        with pytest.raises(ValueError, match=dimension.name):
            dimension.parse(wrong)


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (whole(1), {"type": "integer", "minimum": 1}),
        (number(0, 1), {"type": "number", "minimum": 0, "maximum": 1}),
        (number(0, 1, open_minimum=True), {"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
        (number(0), {"type": "number", "minimum": 0}),
        (flag(), {"type": "boolean"}),
        (choice("a", "b"), {"enum": ["a", "b"]}),
        (tuple_of(flag(), what="flags"), {"type": "array", "items": {"type": "boolean"}, "minItems": 1}),
    ],
    ids=["whole", "probability", "fraction", "ratio", "flag", "choice", "list"],
)
def test_the_schema_for_editors_says_the_same(kind, schema):
    assert kind.json_schema == schema


@pytest.mark.parametrize(
    ("kind", "value"),
    [("fraction", 1e-12), ("ratio", 1e12), ("factor", 1e308), ("above 2", 2 + 1e-12)],
)
def test_numbers_that_would_make_products_infinite_are_refused(kind, value):
    with pytest.raises(ValueError, match="within reason"):
        BOUNDS[kind].read(value)


def test_quantities_that_no_machine_has_are_refused():
    with pytest.raises(ValueError, match="within reason"):
        quantity(units.MEMORY).read("1e30 GB")
