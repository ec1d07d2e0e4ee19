"""The YAML reader: version 1.2 numbers and words, everything else refused with its line."""

from __future__ import annotations

import math

import pytest
import yaml

from specsim.catalog import strict_yaml
from specsim.catalog.strict_yaml import parse_yaml, plain_value, read_yaml, write_yaml
from specsim.errors import InputError, Place


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-1", -1),
        ("+1", 1),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("1.5", 1.5),
        ("1.", 1.0),
        (".5", 0.5),
        ("1e9", 1e9),
        ("4.8e12", 4.8e12),
        ("4.8E+12", 4.8e12),
        ("-1.5e-3", -1.5e-3),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("off", "off"),
        ("tRUE", "tRUE"),
        ("nULL", "nULL"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("0o8", "0o8"),
        ("1e", "1e"),
        ("nan", "nan"),
        ("inf", "inf"),
        ("-.nan", "-.nan"),
        ("2001-01-01", "2001-01-01"),
        ("=", "="),
        ("٣", "٣"),
        ("1 GB", "1 GB"),
    ],
)
def test_a_plain_scalar_under_yaml_1_2(text, value):
    found = plain_value(text)
    assert (type(found), found) == (type(value), value)


def test_not_a_number_is_a_float():
    assert math.isnan(plain_value(".nan"))


def test_a_number_of_thousands_of_digits_is_read_without_harm():
    assert plain_value("9" * 5000) == math.inf
    assert plain_value("0x" + "f" * 5000) == "0x" + "f" * 5000


@pytest.mark.parametrize("text", ["a: '1e9'", 'a: "1e9"', "a: |-\n  1e9\n", "a: >-\n  1e9\n"])
def test_quotes_and_blocks_make_text(text):
    assert parse_yaml(text, "f") == {"a": "1e9"}


def test_aliases_stand_for_their_values():
    assert parse_yaml("a: &x [1, 2]\nb: *x\n", "f") == {"a": [1, 2], "b": [1, 2]}


def test_comments_blank_lines_and_a_document_start_are_nothing():
    assert parse_yaml("# first\n\n---\n\na: 1  # one\n...\n", "f") == {"a": 1}


def test_every_value_remembers_its_line():
    document = parse_yaml("a: 1\nb:\n  - x\n  - y: 2\nc: {d: 1,\n    e: 2}\n", "cards/x.yaml")
    assert document.place == Place("cards/x.yaml", 1)
    assert {key: place.line for key, place in document.places.items()} == {"a": 1, "b": 2, "c": 5}
    assert [place.line for place in document["b"].places] == [3, 4]
    assert {key: place.line for key, place in document["c"].places.items()} == {"d": 5, "e": 6}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f, line 1: expected a YAML mapping of fields to values."),
        ("# nothing", "f, line 1: expected a YAML mapping of fields to values."),
        ("- a", "f, line 1: expected a YAML mapping of fields to values."),
        ("5", "f, line 1: expected a YAML mapping of fields to values."),
        ("a: 1\na: 2", "f, line 2, a: repeated key; it stands on line 1 already."),
        ("a: 1\n'a': 2", "f, line 2, a: repeated key; it stands on line 1 already."),
        ("a:\n  b: 1\n  b: 2", "f, line 3, a.b: repeated key; it stands on line 2 already."),
        ("x:\n  - {b: 1, b: 2}", "f, line 2, x[0].b: repeated key; it stands on line 2 already."),
        ("a:", "f, line 1, a: expected a value, found none; leave the field out instead."),
        ("a: null", "f, line 1, a: expected a value, found none; leave the field out instead."),
        ("a: [1, ~]", "f, line 1, a[1]: expected a value, found none; leave the field out instead."),
        ("a: 1\n\tb: 2", "f, line 2: not valid YAML: a tab cannot indent, use spaces."),
        ("a:\n\tb: 2", "f, line 2: not valid YAML: a tab cannot indent, use spaces."),
        ("a: @x", "f, line 1: not valid YAML: text that begins with @ needs quotes."),
        ("a: `x`", "f, line 1: not valid YAML: text that begins with ` needs quotes."),
        ("a: %x", "f, line 1: not valid YAML: text that begins with % needs quotes."),
        ("a: b: c", "f, line 1: not valid YAML: a colon where none can be; text with a colon needs quotes."),
        ("a: [1\n", "f, line 2: not valid YAML: did not find expected ',' or ']' (while parsing a flow sequence from line 1)."),  # noqa: E501
        ("a: 'x\n\n", "f, line 3: not valid YAML: found unexpected end of stream (while scanning a quoted scalar from line 1)."),  # noqa: E501
        ('a: "\\q"', "f, line 1: not valid YAML: found unknown escape character."),
        ("a: *x", "f, line 1: not valid YAML: found undefined alias."),
        ("a: &x 1\nb: &x 2", "f, line 2: not valid YAML: this anchor is defined already."),
        ("a: 1\n---\nb: 2", "f, line 2: not valid YAML: a second document begins here, expected one."),
        ("a: 1\nb: \x07", "f, line 2: not valid YAML: the character U+0007 is not allowed."),
        ("a: &x [*x]", "f, line 1, a[0]: an alias that contains itself."),
        ("<<: {a: 1}", "f, line 1: merging with << is not allowed."),
        ("[a]: 1", "f, line 1: a key must be a plain word."),
        ("? {a: b}\n: c", "f, line 1: a key must be a plain word."),
        ("a: !!str 5", "f, line 1, a: the tag !!str is not allowed."),
        ("a: !!int '5'", "f, line 1, a: the tag !!int is not allowed."),
        ("a: !!binary aGk=", "f, line 1, a: the tag !!binary is not allowed."),
        ("a: !!python/name:os.system x", "f, line 1, a: the tag !!python/name:os.system is not allowed."),
        ("a: !new {b: 1}", "f, line 1, a: the tag !new is not allowed."),
        ("a: !!omap [b]", "f, line 1, a: the tag !!omap is not allowed."),
        ("!new {a: 1}", "f, line 1: the tag !new is not allowed."),
        ("a: " + "[" * 60 + "]" * 60, "f, line 1: the document has more than 50 levels."),
    ],
)  # fmt: skip
def test_what_is_refused_and_where(text, message):
    with pytest.raises(InputError) as caught:
        parse_yaml(text, "f")
    assert str(caught.value) == message


def test_every_null_and_repeated_key_is_told_at_once():
    with pytest.raises(InputError) as caught:
        parse_yaml("a:\nb: 1\nb: 2\nc: ~\n", "f")
    assert [fault.place.line for fault in caught.value.faults] == [1, 3, 4]


def test_aliases_cannot_multiply_without_end(monkeypatch):
    monkeypatch.setattr(strict_yaml, "_MOST_NODES", 1000)
    text = "a: &a [" + "x," * 20 + "]\nb: &b [" + "*a," * 20 + "]\nc: [" + "*b," * 20 + "]\n"
    with pytest.raises(InputError, match=r"f, line \d: the document has more than 1,000 values\."):
        parse_yaml(text, "f")


def test_a_file_with_a_byte_order_mark_or_with_windows_line_ends(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: x\r\n")
    assert read_yaml(path) == {"a": 1, "b": "x"}
    path.write_bytes(b"\xef\xbb\xbf@x: 1\n")
    with pytest.raises(InputError, match="text that begins with @ needs quotes"):
        read_yaml(path)


@pytest.mark.parametrize("content", [bytes(range(256)), "a: é".encode("latin-1"), "a: 1".encode("utf-16")])
def test_a_file_that_is_no_text(tmp_path, content):
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_yaml(path)
    assert str(caught.value) == f"{path}: is not a text file in UTF-8."


@pytest.mark.parametrize(("name", "reason"), [("missing.yaml", "No such file or directory"), (".", "Is a directory")])
def test_a_file_that_cannot_be_read(tmp_path, name, reason):
    with pytest.raises(InputError) as caught:
        read_yaml(tmp_path / name)
    assert str(caught.value) == f"{tmp_path / name}: cannot be read: {reason}."


@pytest.mark.parametrize("loader", [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)])
def test_the_parser_in_python_and_that_in_c_read_the_same(loader, monkeypatch):
    monkeypatch.setattr(strict_yaml, "_Loader", loader)
    text = "a: 1e9\nb: no\nc: '1'\nd: {e: [010, 1:30, true]}\nf: =\ng: 2001-01-01\n"
    assert parse_yaml(text, "f") == {
        "a": 1e9, "b": "no", "c": "1", "d": {"e": [10, "1:30", True]}, "f": "=", "g": "2001-01-01",
    }  # fmt: skip
    for wrong in ("a: @x", "a: 1\na: 2", "a: \x07", "a:\n\tb: 1", "a: !!str 5", "a: ~", "a: [1", "a: 1\n---\nb: 1"):
        with pytest.raises(InputError, match=r"^f, line"):
            parse_yaml(wrong, "f")


def test_written_yaml_is_plain_and_keeps_the_order_of_fields():
    document = {"name": "x", "count": 1, "rate": 0.8, "flag": True, "unit": "80 GB", "list": [1, 2]}
    assert write_yaml(document) == "name: x\ncount: 1\nrate: 0.8\nflag: true\nunit: 80 GB\nlist:\n- 1\n- 2\n"


@pytest.mark.parametrize("text", ["1e9", "010", "0x1F", "true", "null", "~", "", ".inf", "1.5"])
def test_text_that_would_read_as_something_else_is_written_in_quotes(text):
    assert write_yaml({"a": text}) == f'a: "{text}"\n'


@pytest.mark.parametrize("number", [5e-324, 1e22, 1e-7, 1.5e300, math.inf, -math.inf, 3.0, -0.0])
def test_a_float_is_written_without_a_tag(number):
    text = write_yaml({"a": number})
    assert "!" not in text
    assert repr(parse_yaml(text, "f")["a"]) == repr(number)
