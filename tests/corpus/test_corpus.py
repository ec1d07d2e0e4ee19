"""Files as users write them: the valid ones work, and each invalid one is answered with exactly the message kept here.

A file is named after its kind and, if it is invalid, after its one defect; the line of the defect ends in ``# fault``
where the message can name it. After a change that is meant to change messages: ``pytest tests/corpus --regenerate``,
and read the difference in ``messages.txt`` before committing it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import plain
from hypothesis import given, settings
from hypothesis import strategies as st

import specsim
from specsim.catalog.resolve import resolve
from specsim.catalog.strict_yaml import parse_yaml, read_yaml, write_yaml
from specsim.cli import main
from specsim.errors import InputError

HERE = Path(__file__).parent
MESSAGES = HERE / "messages.txt"
VALID = sorted((HERE / "valid").glob("*.yaml"))
INVALID = sorted((HERE / "invalid").glob("*.yaml"), key=lambda path: path.stem)
QUESTION = {
    "--hardware": "h100-sxm5",
    "--target": "llama-3-8b",
    "--draft": "llama-3.2-1b",
    "--acceptance": "rate=0.8",
    "--runtime": "lecture",
    "--batch": "1",
    "--context": "128",
}
OPTION = {
    "hardware": "--hardware",
    "node": "--node",
    "model": "--target",
    "drafter": "--draft",
    "runtime": "--runtime",
    "acceptance": "--acceptance",
}
SHOWN = ("head", "kernels", "tree")
"""Cards that no option names: the catalogue shows them."""

by_file = pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs the command that reads a file, from the folder of the file."""

    def call(path):
        kind = path.stem.partition("-")[0]
        arguments = ["sweep", "--config", path.name, "--format", "csv"]
        if kind in SHOWN:
            arguments = ["catalog", "show", kind, path.name]
        elif kind == "capacity":
            arguments = ["capacity", "--config", path.name, "--quick", "--format", "csv"]
        elif kind != "scenario":
            options = {**QUESTION, OPTION[kind]: path.name}
            arguments = ["optimal-gamma", *(word for pair in options.items() for word in pair), "--format", "csv"]
        monkeypatch.chdir(path.parent)
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return call


def kept():
    """Message by the name of its file; blocks of an unindented name and indented lines."""
    blocks = MESSAGES.read_text(encoding="utf-8").strip().split("\n\n") if MESSAGES.exists() else []
    split = (block.split("\n") for block in blocks)
    return {name: "".join(f"{line[4:]}\n" for line in lines) for name, *lines in split}


def keep(messages):
    """Writes the messages of the files that exist, in the order of their names."""
    names = sorted(set(messages) & {path.stem for path in INVALID})
    blocks = [name + "\n" + "".join(f"    {line}\n" for line in messages[name].splitlines()) for name in names]
    MESSAGES.write_text("\n".join(blocks), encoding="utf-8")


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_a_valid_file_is_answered_with_rows(path, run):
    code, out, err = run(path)
    assert code == 0, err
    assert out.startswith("format: 1\n" if path.stem.partition("-")[0] in SHOWN else "hardware,")
    assert len(out.splitlines()) >= 2
    assert "Traceback" not in err
    assert "Warning" not in err


@pytest.mark.parametrize(
    "path", [path for path in VALID if path.stem.startswith("scenario-")], ids=lambda path: path.stem
)
def test_a_valid_scenario_resolves_to_a_scenario_with_the_same_rows(path, tmp_path):
    resolved = tmp_path / "resolved.yaml"
    resolved.write_text(specsim.resolve(path), encoding="utf-8")
    assert specsim.sweep(resolved).to_csv() == specsim.sweep(path).to_csv()


@by_file
def test_an_invalid_file_is_answered_with_the_kept_message(path, run, request):
    code, out, err = run(path)
    assert (code, out) == (2, "")
    if request.config.getoption("--regenerate"):
        keep({**kept(), path.stem: err})
    assert err == kept()[path.stem]


@by_file
def test_a_message_is_one_short_paragraph_that_names_the_file_and_the_line(path, run):
    err = run(path)[2]
    assert err.startswith(f"Error: {path.name}")
    assert err.endswith((".\n", "?\n"))
    assert err.count("\n") == 1
    assert len(err) < 400
    lines = path.read_text(encoding="utf-8").splitlines()
    marked = [number for number, line in enumerate(lines, start=1) if line.endswith("# fault")]
    assert len(marked) <= 1
    for number in marked:
        assert err.startswith(f"Error: {path.name}, line {number}")


SEEN_IN_USE = ("inner-of-unknown-model", "prepared-without-its-share", "kind-in-plural", "without-its-layers")
"""What is wrong with cards that may be of several kinds, or that name other cards."""


@pytest.mark.parametrize(
    "path",
    [p for p in INVALID if p.stem.startswith(("head-", "drafter-")) and not p.stem.endswith(SEEN_IN_USE)],
    ids=lambda path: path.stem,
)
def test_the_catalogue_and_a_question_say_the_same_of_a_card(path, monkeypatch, capsys):
    """Also of cards for another target, whose own faults come first."""
    monkeypatch.chdir(path.parent)
    kind, question = path.stem.partition("-")[0], {**QUESTION, "--draft": path.name}
    for arguments in (
        ["catalog", "show", kind, path.name], ["optimal-gamma", *(word for pair in question.items() for word in pair)]
    ):  # fmt: skip
        with pytest.raises(SystemExit):
            main(arguments)
    shown, asked = capsys.readouterr().err.splitlines()
    assert shown == asked


def test_every_kept_message_belongs_to_a_file():
    assert list(kept()) == [path.stem for path in INVALID]


def test_every_kind_of_file_is_in_the_corpus():
    for files in (VALID, INVALID):
        assert {path.stem.partition("-")[0] for path in files} == {*OPTION, *SHOWN, "scenario", "capacity"}


# --- beyond one defect a file

JUNK = (
    0, -1, 1, 2.5, 1e300, float("inf"), float("nan"), True, 10**30, "", "x", "80 GB", "3 TB/s", "1..4", "5..1", "80%",
    "rate=0.5", "task=chat", "llama-3-8b", "h100", "a.yaml", "hardware-three-figures.yaml", "draft_model", "measured",
    [], [1], [[1]], ["x"], [{}], [{"model": "llama-3-8b"}], {}, {"a": 1}, {"kind": "task"}, {"kind": ["a"]},
    {"kind": {"a": 1}}, {"kind": "independent"}, {"model": "llama-3-8b"}, {"acceptance": 1},
)  # fmt: skip
NAMES = (
    "name", "kind", "format", "model", "method", "aliases", "acceptance", "draft", "drafts", "costs", "hardware",
    "target", "runtime", "grid", "gamma", "hardware.name", "target.model", "drafts.model", "drafts.acceptance",
)  # fmt: skip


def inside(document):
    """Every mapping and list in a document that holds anything, with each of its keys."""
    for key, value in document.items() if isinstance(document, dict) else enumerate(document):
        yield document, key
        if isinstance(value, dict | list):
            yield from inside(value)


def damaged(draw, document):
    """Replaces, removes and adds fields anywhere."""
    for _ in range(draw(st.integers(1, 3))):
        spots = list(inside(document))
        if not spots:
            break
        holder, key = draw(st.sampled_from(spots))
        change = draw(st.sampled_from(["replace", "replace", "remove", "add"]))
        if change == "remove":
            del holder[key]
        elif change == "replace" or isinstance(holder, list):
            holder[key] = plain(draw(st.sampled_from(JUNK)))
        else:
            holder[draw(st.sampled_from(NAMES))] = plain(draw(st.sampled_from(JUNK)))
    return document


@st.composite
def damaged_scenarios(draw):
    """A valid scenario with a few things gone wrong in it."""
    path = draw(st.sampled_from([path for path in VALID if path.stem.startswith("scenario-")]))
    return damaged(draw, plain(read_yaml(path)))


@settings(max_examples=150, deadline=None)
@given(document=damaged_scenarios())
def test_whatever_is_damaged_is_answered_with_faults_and_never_with_a_bug(document):
    try:
        resolution = resolve(parse_yaml(write_yaml(document), "x.yaml"), HERE / "valid")
    except InputError as error:
        said = str(error).splitlines()
    else:
        said = [f"scenario {number}." for number, _ in enumerate(resolution.scenarios)]
    assert said
    assert all(line.endswith((".", "?")) and len(line) < 600 for line in said)
    assert not any("input should be" in line for line in said)
