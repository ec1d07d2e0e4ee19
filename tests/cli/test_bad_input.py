"""Whatever a user gets wrong: exit code 2, a short paragraph that names the option or the file, no file left behind."""

from __future__ import annotations

import errno
import importlib
import io
import os
import subprocess
import sys
import tempfile

import click
import pytest

from specsim.catalog import library
from specsim.catalog.cards import RECORDS
from specsim.cli import COMMANDS, main

QUESTION = {
    "--hardware": "h100",
    "--target": "llama-3-8b",
    "--draft": "llama-3.2-1b",
    "--acceptance": "rate=0.8",
    "--batch": "1",
    "--context": "128",
}
FILES = {
    "binary.yaml": bytes(range(256)),
    "empty.yaml": b"",
    "list.yaml": b"- a\n",
    "tab.yaml": b"format: 1\n\tname: x\n",
    "repeated.yaml": b"name: x\nname: y\n",
    "null.yaml": b"name:\n",
    "format2.yaml": b"format: 2\n",
    "other-kind.yaml": b"kind: acceptances\n",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with files of every broken sort in it."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder.yaml").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def listing(folder):
    """Every file below a folder with its content, hidden and temporary ones too."""
    return {path.relative_to(folder): path.is_dir() or path.read_bytes() for path in folder.rglob("*")}


@pytest.fixture
def refused(folder, capsys):
    """Runs a command that must be refused and returns what it says."""

    def call(*arguments):
        before = listing(folder)
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert (stop.value.code, out) == (2, ""), err
        assert err.startswith("Error: ")
        assert err.endswith("\n")
        assert "Traceback" not in err
        assert max(map(len, err.splitlines())) < 500
        assert listing(folder) == before
        return err

    return call


def asked(command, **changes):
    """A full question, with some options replaced; None leaves one out."""
    of_trees = {"--acceptance": "ranks=0.6,0.2", "--max-nodes": "8"} if command == "optimal-tree" else {}
    options = {**QUESTION, **of_trees, **{f"--{name.replace('_', '-')}": value for name, value in changes.items()}}
    return [command, *(word for name, value in options.items() if value is not None for word in (name, value))]


# --- options of a question: each with wrong values and what must be said about them

UNREADABLE = [
    ("missing.yaml", "no such file: 'missing.yaml'"),
    ("folder.yaml", "folder.yaml is a folder"),
    ("binary.yaml", "binary.yaml: is not a text file"),
    ("empty.yaml", "empty.yaml, line 1: expected a YAML mapping"),
    ("list.yaml", "list.yaml, line 1: expected a YAML mapping"),
    ("tab.yaml", "tab.yaml, line 2: not valid YAML: a tab"),
    ("repeated.yaml", "repeated.yaml, line 2, name: repeated key"),
    ("null.yaml", "null.yaml, line 1, name: expected a value"),
    ("format2.yaml", "format2.yaml, line 1, format: expected format 1, found 2"),
    ("other-kind.yaml", "other-kind.yaml, line 1"),
]
NO_NAME = [
    ("", "is called ''"),
    ("zzz9", "is called 'zzz9'"),
    ("null", "is called 'null'"),
    ("[h100]", "is called '[h100]'"),
]
NO_CARD = [*UNREADABLE, *NO_NAME, *((name, f"is called '{name}'") for name in ("5", "1e9", "true"))]
NO_NUMBER = [
    ("", "expected a number"),
    ("x", "expected a number"),
    ("nan", "expected a number"),
    (".nan", "expected a number"),
    (".inf", "expected a number"),
    ("-0.1", "expected a number"),
    ("true", "expected a number"),
    ("null", "expected a number"),
    ("0.1 ms", "expected a number"),
    ("[0.1]", "expected a number"),
]
NO_RATIO = [*NO_NUMBER, ("10%", "not as a percentage")]
NO_PRECISION = [("", "bf16"), ("bf8", "bf16"), ("BF16", "bf16"), ("16", "bf16"), ("true", "bf16"), ("null", "bf16")]
NO_COUNT = [
    (value, "expected a whole number of at least 1")
    for value in ("", "0", "-1", "1.5", "2.0", "x", "true", "null", "nan")
]
NO_SHARE = [*NO_RATIO, ("1.5", "expected a number from 0 to 1, found 1.5")]
NO_COUNT_OR_ZERO = [
    (value, "expected a whole number of at least 0") for value in ("", "-1", "1.5", "x", "true", "null", "nan")
]
NO_AXIS = [
    *((value, "expected whole numbers of at least") for value in (
        "", "-1", "1.5", "1e3", "x", "nan", ".inf", "true", "null", "1,,2", "1,x", "1..", "..5", "1 8", "[1]", "80%",
    )),
    ("5..1", "expected a range that rises"),
    ("1..8*1", "factor is 2 or more"),
    ("1..1000000", "at most 100,000 numbers"),
    ("99999999999999999999", "at most 1,000,000,000"),
]  # fmt: skip
NO_DRAFT_LENGTH = [
    (value, "expected a whole number from 0 to 1000")
    for value in ("", "-1", "1.5", "1001", "x", "nan", "true", "null", "0..8", "1,2", "1k", "9" * 30)
]
NO_ACCEPTANCE = [
    *UNREADABLE,
    ("", "expected an acceptance"),
    ("x", "expected an acceptance"),
    ("true", "expected an acceptance"),
    ("0.5,0.3", "conditional=0.5,0.3"),
    ("0.5,0.3", "survival=0.5,0.3"),
    ("1.2", "expected a number from 0 to 1, found 1.2"),
    ("-1", "expected a number from 0 to 1, found -1"),
    ("80%", "not a percentage"),
    ("rate", "expected a value after it"),
    ("rate=", "expected a number"),
    ("rate=x", "expected a number"),
    ("rate=nan", "expected a number"),
    ("rate=1.2", "expected a number from 0 to 1, found 1.2"),
    ("rate=-0.1", "expected a number from 0 to 1, found -0.1"),
    ("rate=80%", "not a percentage"),
    ("rat=0.8", "Nearest: rate"),
    ("conditional=", "expected a number"),
    ("conditional=0.5,1.5", "expected a list of probabilities"),
    ("survival=0.5,0.6", "cannot rise"),
    ("length=2.5", "expected the draft length after @"),
    ("length=5@3", "emits at most 4 tokens"),
    ("length=0.5@3", "expected a number of at least 1"),
    ("length=2.5@0", "expected a whole number of at least 1"),
    ("length=2.5@-1", "expected a whole draft length"),
    ("length=2.5@²", "expected a whole draft length"),
    ("drafted=1.5@3", "expected a number from 0 to 1"),
    ("drafted=0.5@x", "expected a whole draft length"),
    ("task=", "unknown task ''"),
    ("task=chta", "Nearest: chat"),
]
NO_FORMAT = [(value, "'table', 'csv', 'json'") for value in ("", "xml", "CSV")]
NO_OUTPUT = [
    ("", "expected the name of a file"),
    ("rows", "no format is known"),
    ("rows.xml", ".csv"),
    ("missing/rows.csv", "No such file or directory"),
]

OPTIONS = {
    "--hardware": [
        *NO_CARD, ("h10", "Nearest: h100"), ("llama-3-8b", "no accelerator"), ("./folder.yaml/", "is a folder"),
        ("h100.yaml", "The catalogue has h100-sxm5, without a suffix"),
    ],
    "--target": [*NO_CARD, ("llama-3-8", "llama-3-8b"), ("h100", "no model")],
    "--draft": [
        *NO_CARD, ("llama-3.2-1", "llama-3.2-1b"), ("none", "no model"), (":", "no model"), (":rate=0.8", "no model"),
        ("eagle-vicuna-7b", "eagle-vicuna-7b is made for"), ("eagle3-llama3.3-70b:rate=0.7", "is made for"),
        ("medusa-vicuna-7b:rate=0.7", "is made for"), ("deepseek-v3-mtp:rate=0.7", "is made for"),
        ("eagle-llama3-instruct-8", "Nearest: eagle-llama3-instruct-8b"), ("ngrm", "Nearest: ngram"),
        ("ngram:rate=1.2", "expected a number from 0 to 1, found 1.2"),
        *((f"llama-3.2-1b:{value}", words) for value, words in NO_ACCEPTANCE),
    ],
    "--acceptance": NO_ACCEPTANCE,
    "--runtime": [*NO_CARD, ("typcal", "Nearest: typical"), ("hopper", "no runtime")],
    "--node": [*NO_CARD, ("hgx-h10", "Nearest: hgx-h100"), ("hgx-a100", "is built from"), ("h100", "no node")],
    "--precision": [*NO_PRECISION, ("fp8", "fp8-w8a8 or fp8-w8a16"), ("int3", "int4-w4a16-g128")],
    "--kv-precision": NO_PRECISION,
    "--draft-precision": NO_PRECISION,
    "--draft-kv-precision": NO_PRECISION,
    "--tensor-parallel": [*NO_COUNT, ("3", "tensor_parallel 3 does not divide"), ("64", "does not divide")],
    "--pipeline-parallel": [*NO_COUNT, ("33", "has only 32 layers"), ("16", "16 devices are more than one server")],
    "--expert-parallel": [*NO_COUNT, ("2", "does not divide the 1 devices"), ("1k", "expected a whole number")],
    "--attention-data-parallel": [*NO_COUNT, ("2", "does not divide the 1 devices")],
    "--offloaded": NO_SHARE,
    "--source-tokens": [*NO_COUNT_OR_ZERO, ("512", "has no encoder")],
    "--draft-tensor-parallel": [*NO_COUNT, ("3", "does not divide"), ("2", "exceeds the target's 1")],
    "--output-length": [
        *((value, "expected a whole number of at least 0") for value in (
            "", "-1", "1.5", "x", "true", "null", "nan", ".inf", "1e3", "1,2", "0..8", "[1]", "80%", "256 tokens",
        )),
        *((value, "at most") for value in ("99999999999999999999", "9" * 30)),
    ],
    "--draft-cost-ratio": NO_RATIO,
    "--verify-cost-ratio": NO_RATIO,
    "--draft-operations-ratio": NO_RATIO,
    "--repair": NO_RATIO,
    "--overhead": NO_RATIO,
    "--plain-step-ms": [*NO_NUMBER, ("0", "expected a number"), ("1e-6", "is faster than")],
    "--batch": [*NO_AXIS, ("0", "at least 1")],
    "--context": NO_AXIS,
    "--format": NO_FORMAT,
    "--output": NO_OUTPUT,
}  # fmt: skip
NO_TREE_SIZE = [("", "whole number"), ("0", "whole number"), ("-1", "whole number"), ("x", "whole number"),
                ("2000", "whole number"), ("1.5", "whole number"), ("true", "whole number")]  # fmt: skip
OF_TREES = {
    "--ranks": [
        *UNREADABLE, ("", "expected a number"), ("x", "expected a number"), ("0.6,", "expected a number"),
        ("60%,20%", "not a percentage"), ("0.5,1.6", "expected a list of probabilities"), ("-0.1", "from 0 to 1"),
        ("0.6,0.5", "sum to at most 1. They sum to 1.1"), ("0.5,0.2;0.9,0.2", "Those of level 2 sum to 1.1"),
    ],
    "--verification": [("greedy", "it says nothing: only paired probabilities"), ("", "it says nothing")],
}  # fmt: skip
NO_TREE = [
    ("", "expected a tree such as"), ("<2,2", "expected a tree such as"), ("<2,0>", "1 or more children"),
    ("[-1,-1,0]", "one root"), ("[0,1]", "one root"), ("[-1,2,1]", "without cycles"), ("[-1,7]", "nodes from 0 to 1"),
    ("8/8/9999", "at most 457 verified nodes"), ("0/1/2", "at least 1"), ("1+0", "1 or more nodes"),
    ("<9999>", "4,096"),
    ("medusa", "Nearest: medusa-"), ("h100", "no token tree"), ("missing.yaml", "no such file"),
]  # fmt: skip
OPTIONS_OF = {
    "optimal-gamma": {**OPTIONS, "--max-gamma": NO_DRAFT_LENGTH},
    "optimal-tree": {
        **OPTIONS,
        **OF_TREES,
        "--max-nodes": [*NO_TREE_SIZE, ("1", "from 2 to 1024")],
        "--max-depth": NO_TREE_SIZE,
        "--max-branches": NO_TREE_SIZE,
        "--picture": [],
    },
    "explain": {**OPTIONS, **OF_TREES, "--gamma": NO_DRAFT_LENGTH, "--tree": NO_TREE},
    "sweep": {
        "--config": [*UNREADABLE, *NO_NAME, ("quickstar", "Nearest: quickstart"), ("h100", "no scenario")],
        "--workers": [(value, "--workers") for value in ("", "0", "-1", "1.5", "x", "257")],
        "--format": NO_FORMAT,
        "--output": NO_OUTPUT,
    },
}
NO_PROBABILITIES = [
    *((value, "expected probabilities of tokens") for value in (
        "", "x", "true", "null", ",", "0.5,", ";", "0.5,0.5;", "0.5 0.5", "[0.5,0.5]", "rate=0.5", "nan,1",
    )),
    *((value, "expected numbers from 0 to 1") for value in ("-0.1,1.1", ".nan,1", "2,-1", ".inf,0")),
    ("50%,50%", "not percentages"),
    ("0.5,0.4", "sum to 1, within 1e-6; these sum to 0.9"),
    ("0,0", "these sum to 0"),
    ("0.500002,0.5", "these sum to 1.000002"),
    ("0.5,0.5;0.5,0.4", "those of position 2 sum to 0.9"),
    ("0.5,0.5;1", "as many tokens at every position"),
]  # fmt: skip
OPTIONS_OF["rules"] = {
    "--target-probs": NO_PROBABILITIES,
    "--draft-probs": [
        *NO_PROBABILITIES, ("0.5,0.3,0.2", "expected 2 tokens, as many as the target has, found 3"),
        ("0.5,0.5;0.5,0.5", "expected 1 position, as many as the target has, found 2"),
    ],
    "--rule": [("", "Known: standard"), ("standrd", "Nearest: standard"), ("Standard", "Nearest: standard"),
               ("standard,block", "unknown rule"), ("all", "unknown rule")],
    "--pairs": [(value, "in place of probabilities") for value in ("missing.yaml", "")],
    "--candidates": [(value, "expected a whole number from 1 to 64") for value in (
        "", "0", "-1", "1.5", "65", "x", "true", "2k",
    )],
    "--lenience": [(value, "expected a number above 0, at most 1") for value in (
        "", "0", "-1", "1.5", "x", ".nan", ".inf", "true", "null", "50%", "[1]",
    )],
    "--format": NO_FORMAT,
    "--output": NO_OUTPUT,
}  # fmt: skip
NO_FILE = [
    ("missing.yaml", "no such file"), ("folder.yaml", "no such file"), ("", "no such file"),
    ("binary.yaml", "binary.yaml"), ("empty.yaml", "empty.yaml"), ("tab.yaml", "tab.yaml"),
]  # fmt: skip
OPTIONS_OF["validate"] = {
    "--data": [*NO_FILE, ("format2.yaml", "expected a YAML list of rows"), ("list.yaml", "expected a mapping")],
    "--aliases": [*NO_FILE, ("list.yaml", "expected a YAML mapping"), ("repeated.yaml", "repeated key")],
    "--by": [("", "Known: quantity"), ("sourc", "Nearest: source"), ("Hardware", "Nearest: hardware")],
    "--picture": [
        ("", "expected a file called"),
        ("x.pdf", "expected a file called"),
        ("missing/x.svg", "No such file"),
    ],
    "--format": NO_FORMAT,
    "--output": NO_OUTPUT,
}
OPTIONS_OF["calibrate"] = {
    "--runtime": [("vlm", "Nearest: vllm"), ("h100", "no runtime"), ("", "no runtime")],
    "--without": [("", "no measurement has the source"), ("vllm", "no measurement has the source")],
    "--aliases": [],
    "--name": [],
    "--model": [("toy", "it says nothing where no machine is timed")],
    "--cards": [(".", "it says nothing where no machine is timed")],
    "--threads": [("1", "it says nothing where no machine is timed")],
    "--format": NO_FORMAT,
    "--output": [*NO_OUTPUT[:1], *NO_OUTPUT[3:]],
}
NO_WHOLE_NUMBER = [(value, "expected a whole number") for value in ("", "0", "-1", "1.5", "x", "true", "1,2", "[1]")]
NOT_TIMED = [(value, "it says nothing where no passes are timed") for value in ("1", "x", "")]
OPTIONS_OF["measure"] = {
    "--model": [("", "no such model"), ("toi", "Nearest: toy"), ("missing.gguf", "no such model")],
    "--draft": [
        ("", "unknown drafter"), ("lokup", "Nearest: lookup"), ("noise:-1", "expected noise:0.1"),
        ("noise:x", "expected noise:0.1"), ("noise:.nan", "expected noise:0.1"), ("bits:0", "expected bits:3"),
        ("bits:2.5", "expected bits:3"), ("layers:0", "expected layers:20"), ("layers:3", "asks for layer 3"),
        ("skip:2..9", "asks for layer 9"), ("skip:", "expected skip:11..20"), ("counts:1", "expected counts:3"),
        ("suffix:0", "expected suffix:2"), ("lookup:0", "expected lookup:3..1"), ("same:1", "expected same"),
        ("+", "unknown drafter"), ("lookup+layers:9", "asks for layer 9"),
    ],
    "--gamma": [(value, "expected") for value in ("", "0", "-1", "1.5", "x", "true", "65", "4..2")],
    "--tree": [
        ("", "expected a tree"), ("<>", "expected a tree"), ("<2,0>", "expected"), ("x", "expected a tree"),
        ("<300>", "expected 2 to 256 nodes"), ("0,1", "expected a tree"), ("-1,1", "expected a tree without cycles"),
        ("-1,-1", "expected"),
    ],
    "--temperature": [(value, "expected a number from 0") for value in ("", "-1", "x", ".nan", ".inf", "true", "50%")],
    "--top-k": NO_WHOLE_NUMBER,
    "--top-p": [(value, "expected a number") for value in ("", "0", "1.1", "x", ".nan", "90%")],
    "--rule": [("", "unknown ''"), ("standrd", "Nearest: standard"), ("Standard", "Nearest: standard")],
    "--lenience": [(value, "expected a number") for value in ("", "0", "1.5", "x", ".nan", "50%")],
    "--candidates": [("", "unknown ''"), ("sample", "Nearest: sampled")],
    "--prompts": [
        ("", "no such file or kind"), ("prose,cod", "Nearest: code"), ("missing.txt", "no such file or kind"),
        ("folder.yaml", "no such file or kind"), ("binary.yaml", "binary.yaml"), ("tab.yaml", "tab.yaml"),
        ("other-kind.yaml", "expected format: 1 and kind: prompts"),
    ],
    "--limit": NO_WHOLE_NUMBER,
    "--tokens": NO_WHOLE_NUMBER,
    "--seed": [(value, "expected a whole number") for value in ("", "-1", "1.5", "x", "true", "9" * 30)],
    "--by": [("", "unknown ''"), ("texts", "Nearest: text")],
    "--record": [("missing/r.jsonl", "No such file or directory"), ("folder.yaml", "no regular file")],
    "--pairs": [("p.jsonl", "at temperature 0 there are no probabilities")],
    "--pairs-top": [("8", "it says nothing without a file of pairs")],
    "--journal": [
        ("missing/j.jsonl", "No such file or directory"), ("folder.yaml", "Is a directory"),
        ("list.yaml", "is no journal of measure"),
    ],
    "--batch": NOT_TIMED,
    "--width": NOT_TIMED,
    "--context": NOT_TIMED,
    "--repeats": NOT_TIMED,
    "--threads": [(value, "expected a whole number from 1 to 1024") for value in ("", "0", "-1", "1.5", "x", "²")],
    "--format": NO_FORMAT,
    "--output": NO_OUTPUT,
}  # fmt: skip
COMPLETE = {
    "sweep": ["sweep", "--config", "quickstart"],
    "validate": ["validate"],
    "calibrate": ["calibrate"],
    "rules": ["rules", "--target-probs", "0.6,0.4", "--draft-probs", "0.8,0.2"],
    "measure": ["measure", "--draft", "lookup", "--limit", "1", "--tokens", "5"],
}
"""Commands that ask something else than a question about one machine."""
SAID_WITHOUT_OPTION = ("exceeds the target's", "is faster than", "more than one server")
"""Facts about several options together: whole sentences."""


@pytest.mark.parametrize(
    ("command", "option", "value", "words"),
    [
        (command, option, *case)
        for command, options in OPTIONS_OF.items()
        for option in options
        for case in options[option]
    ],
    ids=lambda part: str(part)[:30] or "nothing",
)
def test_a_wrong_value_of_an_option(refused, command, option, value, words):
    question = COMPLETE.get(command) or asked(command, **({"acceptance": None} if option == "--ranks" else {}))
    replaced = option == "--draft" and command not in COMPLETE
    err = refused(*asked(command, draft=value)) if replaced else refused(*question, option, value)
    assert words in err
    named = (option, "--target", "--draft") if "does not divide" in words else (option,)
    file = value.rpartition(":")[2]
    assert any(name in err for name in named) or file in FILES or any(fact in err for fact in SAID_WITHOUT_OPTION)
    if file in FILES:
        assert err.startswith(f"Error: {file}")


def parameters(command, of=click.Option):
    """Parameters of a command that take a value."""
    found = importlib.import_module(COMMANDS[command][0]).command.params
    return [parameter for parameter in found if isinstance(parameter, of) and not getattr(parameter, "is_flag", False)]


@pytest.mark.parametrize("command", OPTIONS_OF)
def test_every_option_of_every_command_is_in_the_matrix(command):
    names = {max(option.opts, key=len) for option in parameters(command)}
    assert names == set(OPTIONS_OF[command])


@pytest.mark.parametrize("command", ["explain"])
@pytest.mark.parametrize("option", ["--batch", "--context"])
@pytest.mark.parametrize("value", ["1,2", "1..4"])
def test_explain_takes_one_operating_point(refused, command, option, value):
    err = refused(*asked(command), option, value)
    assert err == f"Error: {option}: explain looks at one operating point: expected one number.\n"


def test_explain_takes_one_draft(refused):
    assert refused(*asked("explain"), "--draft", "llama-3.2-3b").startswith(
        "Error: --draft: explain looks at one draft"
    )


@pytest.mark.parametrize("command", ["optimal-gamma", "explain"])
@pytest.mark.parametrize(
    ("left_out", "words"),
    [("hardware", "hardware"), ("target", "target"), ("draft", "--draft: expected a draft model")],
)
def test_a_question_with_a_part_left_out(refused, command, left_out, words):
    assert words in refused(*asked(command, **{left_out: None}))


@pytest.mark.parametrize("command", ["optimal-gamma", "explain"])
def test_a_command_without_a_question(refused, command):
    assert "expected an accelerator, a target and a draft model" in refused(command)


@pytest.mark.parametrize("command", ["optimal-gamma", "explain"])
def test_several_faults_are_told_at_once_each_in_its_paragraph(refused, command):
    err = refused(*asked(command, hardware="zzz9", target="zzz8", draft="zzz7:rate=x"))
    assert [line.removeprefix("Error: ").split(":")[0] for line in err.splitlines()] == [
        "--hardware", "--target", "--draft", "--draft",
    ]  # fmt: skip
    err = refused(*asked(command, batch="0", context="-1", precision="bf8"))
    assert [line.removeprefix("Error: ").split(":")[0] for line in err.splitlines()] == [
        "--precision", "--batch", "--context",
    ]  # fmt: skip


def test_a_wrong_value_is_told_once_however_many_fields_inherit_it(refused):
    assert refused(*asked("optimal-gamma", tensor_parallel="0")).count("\n") == 1
    assert refused(*asked("optimal-gamma", acceptance="rate=2"), "--draft", "llama-3.2-3b").count("\n") == 1


# --- arguments and commands


@pytest.mark.parametrize(
    "name", [*UNREADABLE, *NO_NAME, ("quickstar", "Nearest: quickstart")], ids=lambda case: case[0] or "nothing"
)
def test_a_scenario_that_resolve_cannot_find_or_read(refused, name):
    value, words = name
    err = refused("resolve", value)
    assert words in err
    assert err.startswith(("Error: FILE: ", f"Error: {value}"))


@pytest.mark.parametrize("kind", list(RECORDS))
@pytest.mark.parametrize(("value", "words"), [*UNREADABLE, *NO_NAME])
def test_a_card_that_catalog_show_cannot_find_or_read(refused, kind, value, words):
    err = refused("catalog", "show", kind, value)
    assert words in err
    assert err.startswith(("Error: NAME: ", f"Error: {value}"))


@pytest.mark.parametrize("kind", ["harware", "", "Hardware", "acceptance", "all"])
@pytest.mark.parametrize(
    "command", [["catalog", "list"], ["catalog", "show"], ["catalog", "template"], ["schema"]], ids=" ".join
)
def test_a_kind_of_card_that_does_not_exist(refused, command, kind):
    err = refused(*command, kind, *(["x"] if command[-1] == "show" else []))
    assert ", ".join(map(repr, RECORDS)) in err
    assert f"See: specsim {' '.join(command)} --help" in err


def test_a_format_of_the_catalogue_that_does_not_exist(refused):
    assert "'table', 'csv', 'json'" in refused("catalog", "list", "--format", "xml")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["optimal-gama"], "Nearest: optimal-gamma"),
        (["zzz9"], "Known: optimal-gamma, optimal-tree, sweep, explain"),
        (["--hardware", "h100"], "No such option '--hardware'"),
        (["catalog", "lst"], "list"),
        (["sweep"], "--config"),
        (["resolve"], "FILE"),
        (["schema"], "hardware"),
        (["catalog", "show", "model"], "NAME"),
        (["resolve", "quickstart", "lecture-grid"], "lecture-grid"),
        (["catalog", "list", "model", "hardware"], "hardware"),
        (["optimal-gamma", "h100"], "h100"),
        (["optimal-gamma", "--hardwar", "h100"], "--hardware"),
        (["optimal-gamma", "--batch"], "--batch"),
        (["optimal-gamma", "--all=yes"], "--all"),
        (["optimal-gamma", "--extrapolate=yes"], "--extrapolate"),
        (["explain", "--quiet=yes"], "--quiet"),
        (["explain", "--max-gamma", "3"], "--max-gamma"),
        (["sweep", "--config"], "--config"),
        (["rules"], "--target-probs"),
        (["rules", "--target-probs", "0.6,0.4"], "--draft-probs"),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, list) else None,
)
def test_a_command_line_that_cannot_be_read(refused, arguments, words):
    err = refused(*arguments)
    assert words in err
    known = " ".join(word for word in arguments[:1] if word in COMMANDS)
    assert f"See: specsim{' ' + known if known else ''}" in err.splitlines()[-1]
    assert err.splitlines()[-1].endswith(" --help")


@pytest.mark.parametrize("arguments", [[], ["catalog"]], ids=["specsim", "specsim catalog"])
def test_a_command_that_is_not_named_is_answered_with_the_commands(folder, capsys, arguments):
    with pytest.raises(SystemExit):
        main(arguments)
    out, err = capsys.readouterr()
    assert (out + err).startswith("Usage: specsim")
    assert "Commands:" in out + err
    assert "Traceback" not in out + err


# --- fields that contradict one another, and more than can be answered


def test_an_acceptance_that_no_draft_uses(refused):
    arguments = asked("optimal-gamma", draft="llama-3.2-1b:rate=0.7")
    assert refused(*arguments) == (
        "Error: --acceptance: every draft has an acceptance of its own; this one is not used.\n"
    )


def test_a_share_of_operations_beside_a_draft_model(refused):
    err = refused(*asked("optimal-gamma"), "--draft-operations-ratio", "0.1")
    assert "draft_operations_ratio says nothing beside a draft model." in err


def test_a_step_measured_beyond_the_positions_of_the_model(refused):
    err = refused(*asked("optimal-gamma"), "--plain-step-ms", "8@1,9000")
    assert "A plain step at context 9000 is more than the 8192 positions of the target." in err


def test_a_measured_step_that_the_card_forbids_names_its_option(refused):
    err = refused(*asked("optimal-gamma"), "--plain-step-ms", "1@1,1024")
    assert err.startswith("Error: --plain-step-ms: A plain step of 1 ms at batch 1, context 1024 is faster than")


def test_more_rows_than_memory_holds(refused):
    arguments = [*asked("optimal-gamma", batch="1..5000", context="1..1000"), "--all"]
    assert refused(*arguments).startswith("Error: The grid has 45,000,000 points and at most 2,000,000 are held")


@pytest.mark.parametrize(
    ("one", "other"),
    [("draft.precision", "drafts.precision"), ("acceptance.rate", "drafts.acceptance.rate")],
)
def test_one_axis_under_two_names(folder, refused, one, other):
    values = "[bf16, fp8]" if "precision" in one else "[0.6, 0.8]"
    (folder / "twice.yaml").write_text(
        "hardware: h100\ntarget: llama-3-8b\ndraft: llama-3.2-1b\nacceptance: rate=0.8\n"
        f"grid:\n  batch_size: 1\n  context_length: 1\n  {one}: {values}\n  {other}: {values}\n",
        encoding="utf-8",
    )
    assert f"this is the field of {one} too." in refused("sweep", "--config", "twice.yaml")


# --- files that are written


WRITERS = {
    "optimal-gamma": asked("optimal-gamma"),
    "optimal-tree": asked("optimal-tree"),
    "explain": asked("explain"),
    **COMPLETE,
    "simulate": ["simulate", "--acceptance", "rate=0.8", "--rounds", "1000"],
    "fit": ["fit", "survival=0.75,0.45,0.3"],
    "capacity": ["capacity", "--hardware", "h100", "--target", "llama-3-8b", "--rate", "2", "--prompt", "100",
                 "--output-length", "50", "--policy", "off", "--quick"],
    "resolve": ["resolve", "quickstart"],
    "schema": ["schema", "model"],
}  # fmt: skip
every_writer = pytest.mark.parametrize("arguments", WRITERS.values(), ids=WRITERS)


def test_every_command_with_an_output_is_a_writer():
    with_output = {name for name in COMMANDS if any("--output" in p.opts for p in parameters(name, click.Parameter))}
    assert with_output == set(WRITERS)


@every_writer
@pytest.mark.parametrize("suffix", [".csv", ".json", ".txt"])
def test_no_file_is_left_where_the_folder_is_missing(refused, arguments, suffix):
    err = refused(*arguments, "--output", f"missing/file{suffix}")
    assert err == f"Error: --output: cannot write missing/file{suffix}: No such file or directory.\n"


@every_writer
@pytest.mark.parametrize("suffix", [".csv", ".json", ".txt"])
def test_a_folder_in_place_of_the_file_is_left_alone(folder, refused, arguments, suffix):
    (folder / f"taken{suffix}").mkdir()
    (folder / f"taken{suffix}" / "kept").write_text("kept", encoding="utf-8")
    err = refused(*arguments, "--output", f"taken{suffix}")
    assert f"taken{suffix}" in err
    assert "Is a directory" in err or "is a folder" in err


@every_writer
def test_a_file_in_place_of_the_folder(refused, arguments):
    assert "empty.yaml" in refused(*arguments, "--output", "empty.yaml/file.csv")


@every_writer
def test_a_folder_in_which_nothing_may_be_written(refused, monkeypatch, arguments):
    def denied(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(tempfile, "mkstemp", denied)
    err = refused(*arguments, "--output", "file.csv")
    assert err == "Error: --output: cannot write file.csv: Permission denied.\n"


@every_writer
def test_a_disk_that_fills_up_leaves_no_part_of_a_file(refused, monkeypatch, arguments):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def full(handle, *_, **__):
        os.close(handle)
        return Full()

    monkeypatch.setattr(os, "fdopen", full)
    assert "No space left on device" in refused(*arguments, "--output", "file.csv")


@every_writer
def test_a_pipe_in_place_of_the_file_is_left_alone(folder, refused, arguments):
    os.mkfifo(folder / "pipe.csv")
    try:
        with pytest.raises(SystemExit) as stop:
            main([*arguments, "--output", "pipe.csv"])
        assert stop.value.code == 2
        assert (folder / "pipe.csv").is_fifo()
    finally:
        (folder / "pipe.csv").unlink()


@every_writer
def test_links_that_lead_in_a_circle(folder, arguments, capsys):
    (folder / "a.csv").symlink_to("b.csv")
    (folder / "b.csv").symlink_to("a.csv")
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--output", "a.csv"])
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith("Error: --output: cannot write a.csv: ")
    assert (folder / "a.csv").is_symlink()


@pytest.mark.parametrize("command", ["optimal-gamma", "explain"])
def test_an_older_result_survives_a_mistake(folder, refused, command):
    (folder / "rows.csv").write_text("older", encoding="utf-8")
    refused(*asked(command, hardware="zzz9"), "--output", "rows.csv")
    assert (folder / "rows.csv").read_text(encoding="utf-8") == "older"


def test_an_older_result_survives_a_mistake_in_a_scenario(folder, refused):
    text = library.find("scenario", "quickstart").read_text(encoding="utf-8").replace("rate: 0.8", "rate: 8")
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    (folder / "rows.csv").write_text("older", encoding="utf-8")
    err = refused("sweep", "--config", "mine.yaml", "--output", "rows.csv")
    assert err.startswith("Error: mine.yaml, line ")
    assert "drafts[0].acceptance.rate: expected a number from 0 to 1, found 8." in err


# --- paths that are relative to something


def test_a_file_named_in_a_scenario_lies_beside_the_scenario(folder, refused):
    (folder / "deep").mkdir()
    (folder / "deep/mine.yaml").write_text(
        "hardware: card.yaml\ntarget: llama-3-8b\ndraft: llama-3.2-1b\ngrid: {batch_size: 1, context_length: 1}\n",
        encoding="utf-8",
    )
    assert (
        refused("resolve", "deep/mine.yaml") == "Error: deep/mine.yaml, line 1, hardware: no such file: 'card.yaml'.\n"
    )
    (folder / "deep/card.yaml").write_text("memory: {capacity: 80 GB, bandwidth: 3 TB}\n", encoding="utf-8")
    err = refused("resolve", "deep/mine.yaml")
    assert "deep/card.yaml, line 1, memory.bandwidth: expected a bandwidth" in err
    assert "deep/card.yaml, line 1, dense_rate: this field is missing." in err


# --- as a user starts it


@pytest.mark.parametrize(
    "arguments",
    [["optimal-gamma", "--hardware", "zzz9", "--target", "llama-3-8b", "--draft", "llama-3.2-1b"],
     ["sweep", "--config", "binary.yaml"], ["schema", "model", "-o", "folder.yaml"], ["nonsense"]],
    ids=lambda arguments: arguments[0],
)  # fmt: skip
def test_in_a_process_of_its_own(folder, arguments):
    before = listing(folder)
    done = subprocess.run([sys.executable, "-m", "specsim", *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.stderr
    assert listing(folder) == before
