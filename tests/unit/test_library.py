"""How a name, an alias or a path becomes a card, and what is said when it becomes none."""

from __future__ import annotations

import shutil

import pytest

from specsim.catalog import library
from specsim.catalog.cards import card
from specsim.catalog.library import SHELVES, check_head, comparable, find, known_name, names, read_card
from specsim.catalog.strict_yaml import parse_yaml
from specsim.errors import InputError, Place

HERE = Place(parameter="hardware")


def message(*arguments, **more):
    """What is said when a card is not found."""
    with pytest.raises(InputError) as caught:
        find(*arguments, **more)
    return str(caught.value)


# --- finding


@pytest.mark.parametrize("kind", SHELVES)
def test_every_name_finds_the_file_of_that_name(kind):
    assert names(kind)
    for name in names(kind):
        assert find(kind, name) == library.root() / SHELVES[kind].folder / f"{name}.yaml"


@pytest.mark.parametrize("kind", ["hardware", "kernels", "model", "runtime"])
def test_every_alias_finds_its_card(kind):
    for name in names(kind):
        for alias in card(kind, name).aliases:
            assert find(kind, alias).stem == name, alias
            assert find(kind, alias.upper()).stem == name, alias


@pytest.mark.parametrize(
    "spelling",
    ["meta-llama/Meta-Llama-3-8B", "Meta-Llama-3-8B", "meta-llama/meta-llama-3-8b", "Meta_Llama 3 8B", " llama-3-8b "],
)
def test_names_without_regard_to_case_and_punctuation(spelling):
    assert find("model", spelling).stem == "llama-3-8b"
    assert known_name("model", spelling) == "llama-3-8b"


@pytest.mark.parametrize(
    ("name", "key"),
    [("Meta-Llama_3 8B", "meta-llama-3-8b"), ("a/b", "a-b"), ("  A  b ", "a-b"), ("a.b+c", "a.b+c"), ("", "")],
)
def test_comparable_names(name, key):
    assert comparable(name) == key


def test_a_path_finds_a_file_beside_the_working_directory_or_beside_another_file(tmp_path, monkeypatch):
    path = tmp_path / "mine.yaml"
    shutil.copy(find("hardware", "a10"), path)
    assert find("hardware", str(path)) == path
    assert find("hardware", "mine.yaml", beside=tmp_path) == path
    monkeypatch.chdir(tmp_path)
    assert find("hardware", "mine.yaml").resolve() == path
    assert find("hardware", "./mine.yaml").resolve() == path


def test_a_path_with_a_slash_needs_no_suffix(tmp_path):
    path = tmp_path / "mine"
    shutil.copy(find("hardware", "a10"), path)
    assert find("hardware", str(path)) == path
    assert read_card("hardware", str(path))["name"] == "a10"


def test_a_file_called_like_a_card_does_not_hide_the_card(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a10").write_text("not a card", encoding="utf-8")
    assert find("hardware", "a10").name == "a10.yaml"


# --- not finding


@pytest.fixture
def small_catalogue(tmp_path, monkeypatch):
    """A catalogue of three accelerators and fourteen models, so that messages do not change with the real one."""
    for folder, card_names in (("hardware", ["h100-sxm5", "a10", "l4"]), ("models", [f"m{i}" for i in range(14)])):
        (tmp_path / "catalogue" / folder).mkdir(parents=True)
        for name in card_names:
            aliases = "aliases: [h100]\n" if name == "h100-sxm5" else ""
            (tmp_path / "catalogue" / folder / f"{name}.yaml").write_text(f"name: {name}\n{aliases}", encoding="utf-8")
    monkeypatch.setattr(library, "root", lambda: tmp_path / "catalogue")
    monkeypatch.chdir(tmp_path)
    library._known_names.cache_clear()
    yield
    library._known_names.cache_clear()


HARDWARE = "Known: a10, h100, h100-sxm5, l4. See: specsim catalog list hardware."


@pytest.mark.usefixtures("small_catalogue")
@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ("h10", f"no accelerator is called 'h10'. Nearest: h100, a10, h100-sxm5. {HARDWARE}"),
        ("H10", f"no accelerator is called 'H10'. Nearest: h100, a10, h100-sxm5. {HARDWARE}"),
        ("", f"no accelerator is called ''. {HARDWARE}"),
        ("x/y", f"no accelerator is called 'x/y'. {HARDWARE}"),
        ("*", f"no accelerator is called '*'. {HARDWARE}"),
        ("mine.yaml", "no such file: 'mine.yaml'."),
        ("mine.yml", "no such file: 'mine.yml'."),
        ("h100.yaml", "no such file: 'h100.yaml'. The catalogue has h100-sxm5, without a suffix."),
        ("a\0.yaml", r"no such file: 'a\x00.yaml'."),
    ],
)  # fmt: skip
def test_the_words_for_a_card_that_is_not_found(wanted, text):
    assert message("hardware", wanted, HERE) == f"hardware: {text}"


@pytest.mark.usefixtures("small_catalogue")
def test_of_many_cards_only_the_nearest_are_named():
    assert message("model", "m3x") == "no model is called 'm3x'. Nearest: m3, m13. See: specsim catalog list model."
    assert message("model", "zzz") == "no model is called 'zzz'. See: specsim catalog list model."


def test_a_path_out_of_the_catalogue_is_no_name():
    assert message("hardware", "kernels/hopper").startswith("no accelerator is called 'kernels/hopper'. ")


def test_the_place_and_the_field_of_a_name_are_told():
    assert message("model", "zzz", Place("s.yaml", 6), field="target.model").startswith(
        "s.yaml, line 6, target.model: no "
    )


@pytest.mark.parametrize("wanted", [".", "x.yaml"])
def test_a_folder_is_no_card(tmp_path, wanted):
    (tmp_path / "x.yaml").mkdir()
    folder = tmp_path / wanted
    assert message("hardware", f"{folder}/", HERE) == f"hardware: {folder} is a folder, expected a YAML file."


@pytest.mark.parametrize("suffix", ["", ".yaml"])
def test_a_name_too_long_for_any_file(suffix):
    text = message("hardware", "/" + "x" * 5000 + suffix, HERE)
    assert text.startswith("hardware: no ")
    assert len(text) < 400


def test_a_dangling_link_is_no_file(tmp_path):
    link = tmp_path / "x.yaml"
    link.symlink_to(tmp_path / "gone")
    assert message("hardware", str(link)).startswith("no such file: ")


# --- format and kind


@pytest.mark.parametrize("kind", SHELVES)
def test_every_shipped_card_states_its_format_and_kind(kind):
    for name in names(kind):
        document = read_card(kind, name)
        assert (document["format"], document["kind"]) == (1, SHELVES[kind].stated)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("format: 2\nkind: model", "f, line 1, format: expected format 1, found 2."),
        ("format: '1'\nkind: model", "f, line 1, format: expected format 1, found '1'."),
        ("format: true\nkind: model", "f, line 1, format: expected format 1, found true."),
        ("format: 1.0\nkind: model", "f, line 1, format: expected format 1, found 1.0."),
        ("format: [1]\nkind: model", "f, line 1, format: expected format 1, found [1]."),
        ("format: 1\nkind: hardware", "f, line 2, kind: expected kind model, found 'hardware'."),
        ("format: 1\nkind: [model]", "f, line 2, kind: expected kind model, found ['model']."),
    ],
)
def test_another_format_or_kind_is_the_only_fault(text, fault):
    with pytest.raises(InputError) as caught:
        check_head(parse_yaml(text, "f"), "model")
    assert str(caught.value) == fault


@pytest.mark.parametrize("text", ["format: 1\nkind: model", "kind: model", "format: 1", "a: 1"])
def test_format_and_kind_may_be_left_out(text):
    check_head(parse_yaml(text, "f"), "model")


def test_a_card_of_another_kind_is_told_once_and_not_field_by_field(tmp_path):
    with pytest.raises(InputError) as caught:
        card("hardware", str(find("model", "llama-3-8b")))
    assert len(caught.value.faults) == 1
    assert "expected kind hardware, found 'model'" in str(caught.value)


def test_kernels_named_by_a_path_lie_beside_the_card_that_names_them(tmp_path):
    shutil.copy(find("kernels", "hopper"), tmp_path / "own.yaml")
    text = find("hardware", "h100-sxm5").read_text(encoding="utf-8").replace("kernels: hopper", "kernels: own.yaml")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    assert card("hardware", str(tmp_path / "mine.yaml")) == card("hardware", "h100-sxm5")


# --- the folder of the catalogues


@pytest.fixture
def installed_at(monkeypatch):
    """Pretends that the package lies in some folder."""

    def pretend(package):
        monkeypatch.setattr(library, "_PACKAGE", package)
        return library.root.__wrapped__()

    return pretend


def test_a_wheel_carries_the_catalogues_inside_the_package(tmp_path, installed_at):
    (tmp_path / "site/specsim/_catalog").mkdir(parents=True)
    assert installed_at(tmp_path / "site/specsim") == tmp_path / "site/specsim/_catalog"


@pytest.mark.parametrize("project", [None, '[project]\nname = "another"\n'], ids=["no project", "another project"])
def test_a_folder_that_happens_to_be_called_hardware_is_not_the_catalogue(tmp_path, installed_at, project):
    (tmp_path / "specsim").mkdir()
    (tmp_path / "hardware").mkdir()
    if project is not None:
        (tmp_path / "pyproject.toml").write_text(project, encoding="utf-8")
    with pytest.raises(RuntimeError, match="the installation is incomplete"):
        installed_at(tmp_path / "specsim")


def test_a_checkout_has_the_catalogues_beside_the_package(tmp_path, installed_at):
    (tmp_path / "specsim").mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "specsim-llm"\n', encoding="utf-8")
    assert installed_at(tmp_path / "specsim") == tmp_path
