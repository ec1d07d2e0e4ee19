"""Acceptance on one line: what each form means, what is refused and with which words."""

from __future__ import annotations

import pytest

from specsim.catalog.forms import FORMS, acceptance_document
from specsim.errors import InputError, Place

HERE = Place(parameter="acceptance")


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("rate=0.8", {"kind": "independent", "rate": 0.8}),
        (" rate = 0.8 ", {"kind": "independent", "rate": 0.8}),
        ("rate=8e-1", {"kind": "independent", "rate": 0.8}),
        ("rate=.8", {"kind": "independent", "rate": 0.8}),
        ("rate=1", {"kind": "independent", "rate": 1.0}),
        ("conditional=0.8,0.7,0.6", {"kind": "positional", "conditional": [0.8, 0.7, 0.6]}),
        ("conditional=0.8", {"kind": "positional", "conditional": [0.8]}),
        ("survival= 0.75, 0.45 ,0.30", {"kind": "survival", "survival": [0.75, 0.45, 0.3]}),
        ("drafted=0.5@3", {"kind": "drafted", "accepted_per_drafted": 0.5, "gamma": 3}),
        ("length=2.5@3", {"kind": "length", "tokens_per_round": 2.5, "gamma": 3}),
        ("length = 2.5 @ 3", {"kind": "length", "tokens_per_round": 2.5, "gamma": 3}),
        ("task=chat", {"kind": "task", "task": "chat"}),
        ("ranks=0.6,0.2,0.1", {"kind": "ranks", "ranks": [0.6, 0.2, 0.1]}),
        ("ranks=0.6,0.2; 0.5", {"kind": "ranks", "ranks": [[0.6, 0.2], [0.5]]}),
        ("length=2.34@<5,1,1,1>", {"kind": "tree_length", "tokens_per_round": {"<5,1,1,1>": 2.34}}),
        ("length=4@8/8/64", {"kind": "tree_length", "tokens_per_round": {"8/8/64": 4.0}}),
        # Whether a number fits its field is said by validation, with the field's own bounds.
        ("rate=1.5", {"kind": "independent", "rate": 1.5}),
        ("length=9@3", {"kind": "length", "tokens_per_round": 9.0, "gamma": 3}),
    ],
)
def test_each_form_as_a_document(text, document):
    found, remark = acceptance_document(text, HERE)
    assert (dict(found), remark) == (document, None)
    assert set(found.places.values()) == {HERE}


def test_a_bare_number_is_a_rate_and_a_remark_says_so():
    found, remark = acceptance_document("0.8", HERE)
    assert found == {"kind": "independent", "rate": 0.8}
    assert remark == "acceptance 0.8 is read as rate=0.8: accepted drafts / examined drafts"


@pytest.mark.parametrize("form", FORMS)
def test_the_example_of_each_form_is_right_itself(form):
    example = FORMS[form].split(" (")[0]
    found, remark = acceptance_document(example, HERE)
    assert example.startswith(form + "=")
    assert found["kind"]
    assert remark is None


@pytest.mark.parametrize("bare", ["0.5,0.3", "0.8,0.7,0.6", ".5,x", "1,"])
def test_a_bare_list_is_refused_and_both_readings_are_named(bare):
    with pytest.raises(InputError) as caught:
        acceptance_document(bare, HERE)
    assert str(caught.value) == (
        f"acceptance: a bare list has two readings: conditional={bare} (each given that all before were accepted) or "
        f"survival={bare} (unconditional, what vLLM prints per position). Write the one that is meant."
    )


EXAMPLES = (
    "rate=0.8, conditional=0.8,0.7,0.6, survival=0.75,0.45,0.30, drafted=0.5@3, length=2.5@3, "
    "ranks=0.6,0.2,0.1, task=chat, or a YAML file"
)
KNOWN = "Known: rate, conditional, survival, drafted, length, ranks, task."


@pytest.mark.parametrize(
    ("text", "expected", "found"),
    [
        ("rate", "a value after it, as in rate=0.8 (accepted / examined drafts)", "rate"),
        ("task", "a value after it, as in task=chat (published values)", "task"),
        ("rate=", f"a number as in {FORMS['rate']}", ""),
        ("rate=x", f"a number as in {FORMS['rate']}", "x"),
        ("rate=nan", f"a number as in {FORMS['rate']}", "nan"),
        ("rate=inf", f"a number as in {FORMS['rate']}", "inf"),
        ("rate=1_0", f"a number as in {FORMS['rate']}", "1_0"),
        ("rate=0x1", f"a number as in {FORMS['rate']}", "0x1"),
        ("rate=٠", f"a number as in {FORMS['rate']}", "٠"),
        ("rate=0,8", f"a number as in {FORMS['rate']}", "0,8"),
        ("rate==0.8", f"a number as in {FORMS['rate']}", "=0.8"),
        ("rate=80%", f"a number (a fraction, not a percentage) as in {FORMS['rate']}", "80%"),
        ("80%", f"a fraction and not a percentage, as in {FORMS['rate']}", "80%"),
        ("conditional=", f"a number as in {FORMS['conditional']}", ""),
        ("conditional=0.5,", f"a number as in {FORMS['conditional']}", ""),
        ("conditional=0.5,x", f"a number as in {FORMS['conditional']}", "x"),
        ("survival=0.5;0.4", f"a number as in {FORMS['survival']}", "0.5;0.4"),
        ("length=2.5", f"the draft length after @, as in {FORMS['length']}", "length=2.5"),
        ("length=@3", f"a number as in {FORMS['length']}", ""),
        ("length=2.5@", f"a whole draft length after @, as in {FORMS['length']}", ""),
        ("length=2.5@-1", f"a whole draft length after @, as in {FORMS['length']}", "-1"),
        ("length=2.5@2.5", f"a whole draft length after @, as in {FORMS['length']}", "2.5"),
        ("ranks=", f"a number as in {FORMS['ranks']}", ""),
        ("ranks=0.5;", f"a number as in {FORMS['ranks']}", ""),
        ("length=2.5@²", f"a whole draft length after @, as in {FORMS['length']}", "²"),
        ("drafted=0.5", f"the draft length after @, as in {FORMS['drafted']}", "drafted=0.5"),
        ("drafted=50%@3", f"a number (a fraction, not a percentage) as in {FORMS['drafted']}", "50%"),
        ("", f"an acceptance such as {EXAMPLES}", ""),
        ("high", f"an acceptance such as {EXAMPLES}", "high"),
        ("nan", f"an acceptance such as {EXAMPLES}", "nan"),
        ("true", f"an acceptance such as {EXAMPLES}", "true"),
    ],
)
def test_what_is_refused_and_with_which_words(text, expected, found):
    with pytest.raises(InputError) as caught:
        acceptance_document(text, HERE)
    assert str(caught.value) == f"acceptance: expected {expected}, found {found!r}."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rat=0.8", f"unknown form of acceptance 'rat'. Nearest: rate, drafted, ranks. {KNOWN}"),
        ("RATE=0.8", f"unknown form of acceptance 'RATE'. Nearest: rate, drafted. {KNOWN}"),
        ("=0.8", f"unknown form of acceptance ''. {KNOWN}"),
        ("vllm=0.8", f"unknown form of acceptance 'vllm'. {KNOWN}"),
    ],
)
def test_an_unknown_form_is_answered_with_the_known_ones(text, message):
    with pytest.raises(InputError) as caught:
        acceptance_document(text, HERE)
    assert str(caught.value) == f"acceptance: {message}"


def test_a_draft_length_of_thousands_of_digits_is_refused_in_a_short_message():
    with pytest.raises(InputError) as caught:
        acceptance_document("length=2.5@" + "9" * 5000, HERE)
    assert str(caught.value).endswith("found '" + "9" * 56 + "....")


def test_a_fault_in_a_file_names_the_field():
    with pytest.raises(
        InputError, match=r"^x\.yaml, line 7, drafts\[0\]\.acceptance: expected a number as in rate=0\.8"
    ):
        acceptance_document("rate=x", Place("x.yaml", 7), "drafts[0].acceptance")
