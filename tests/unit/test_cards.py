"""Shipped cards: every figure has its source, and the figures that follow from them are those that others count."""

from __future__ import annotations

import dataclasses

import pytest
from conftest import served

from specsim.catalog import library
from specsim.catalog.cards import RECORDS, card, derived_figures
from specsim.catalog.dump import document_of

KINDS = ("hardware", "kernels", "model", "runtime")
CARDS = [(kind, name) for kind in KINDS for name in library.names(kind)]
FIGURELESS = {"format", "kind", "name", "title", "aliases", "sources", "assumptions", "notes", "vendor", "type"}


def figures(document, path=""):
    """Paths of everything in a card that is a figure and not a name."""
    for key, value in document.items():
        here = f"{path}.{key}" if path else key
        if key in FIGURELESS:
            continue
        if isinstance(value, dict):
            yield from figures(value, here)
        else:
            yield here


@pytest.mark.parametrize(("kind", "name"), CARDS)
def test_every_figure_has_a_source_or_a_reason(kind, name):
    found = card(kind, name)
    written = library.read_card(kind, name)
    written.pop("kernels", None) if kind == "hardware" else None
    covered = {**found.sources, **found.assumptions}
    for path in figures(written):
        prefixes = [path[: len(prefix)] for prefix in covered if path == prefix or path.startswith(prefix + ".")]
        assert prefixes or "all" in covered, f"{kind} {name}: {path} has neither source nor reason"
    for where, text in covered.items():
        assert len(text) > 10, f"{kind} {name}: {where}"


@pytest.mark.parametrize(("kind", "name"), CARDS)
def test_a_card_is_called_like_its_file_and_names_no_field_that_it_lacks(kind, name):
    found = card(kind, name)
    assert (found.name, found.kind) == (name, kind)
    assert found.title
    document = document_of(found)
    for path in (*found.sources, *found.assumptions):
        at = document
        for part in [] if path == "all" else path.split("."):
            assert part in at, f"{kind} {name}: {path} is not a field"
            at = at[part]


def test_names_and_aliases_are_unique():
    for kind in KINDS:
        names = [
            library.comparable(n)
            for card_name in library.names(kind)
            for n in (card_name, *card(kind, card_name).aliases)
        ]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [  # Counts of the keras-hub preset table (71453d08) and of the safetensors index of Llama-3.1-70B.
        ("llama-2-7b", 6_738_415_616),
        ("llama-3-8b", 8_030_261_248),
        ("llama-3.1-70b", 70_553_706_496),
        ("qwen2.5-0.5b", 494_032_768),
        ("qwen2.5-1.5b", 1_543_714_304),
        ("qwen2.5-7b", 7_615_616_512),
        ("qwen2.5-32b", 32_763_876_352),
        ("qwen2.5-72b", 72_706_203_648),
        # That table counts the tied embedding twice; without the second copy of vocabulary x hidden size:
        ("llama-3.2-1b", 1_498_482_688 - 128_256 * 2048),
        ("llama-3.2-3b", 3_606_752_256 - 128_256 * 3072),
        # It has 2048 position rows where Hugging Face has 2050.
        ("opt-125m", 125_237_760 + 2 * 768),
    ],
)
def test_parameters_from_the_fields_are_exact(name, parameters):
    assert card("model", name).parameters == parameters


@pytest.mark.parametrize(
    ("name", "billions"),
    [("llama-2-13b", 13.02), ("llama-2-70b", 68.98), ("llama-3-70b", 70.55), ("opt-13b", 12.85), ("opt-30b", 29.97),
     ("tinyllama-1.1b", 1.10), ("llama-68m", 0.068), ("qwen2.5-3b", 3.09)],
)  # fmt: skip
def test_parameters_are_what_the_names_say(name, billions):
    assert card("model", name).parameters / 1e9 == pytest.approx(billions, abs=0.005)


@pytest.mark.parametrize(
    ("name", "kv_bytes"),
    [("llama-2-7b", 524_288), ("llama-2-13b", 819_200), ("llama-2-70b", 327_680), ("llama-3-8b", 131_072),
     ("llama-3.1-405b", 516_096), ("qwen2.5-7b", 57_344), ("opt-13b", 819_200)],
)  # fmt: skip
def test_cache_bytes_per_token(name, kv_bytes):
    assert served(name).kv_bytes_per_token == kv_bytes


def test_key_value_heads_are_replicated_beyond_their_number():
    shares = [
        served("llama-3-70b", p).kv_bytes_per_token / served("llama-3-70b").kv_bytes_per_token for p in (1, 4, 8, 16)
    ]
    assert shares == [1, 1 / 4, 1 / 8, 1 / 8]


def test_all_norms_and_biases_of_opt_are_counted():
    """Per layer 4 (h^2 + h) + 2 h f + f + h + 4 h; tables and positions once, tied; a final norm of 2 h."""
    h, f, layers, vocabulary = 5120, 20_480, 40, 50_272
    by_hand = vocabulary * h + 2050 * h + layers * (4 * (h * h + h) + 2 * h * f + f + h + 4 * h) + 2 * h
    assert card("model", "opt-13b").parameters == by_hand == 12_853_473_280


def test_ridge_points_lie_where_accelerators_lie():
    for name in library.names("hardware"):
        hardware = card("hardware", name)
        rate = hardware.dense_rate.of("bf16") or hardware.dense_rate.of("fp16")
        ridge = rate / hardware.memory.bandwidth_bytes_per_second
        assert 8 < ridge < 600, name


def test_derived_figures_are_shown_for_every_card():
    for kind, name in CARDS:
        assert bool(derived_figures(card(kind, name))) == (kind in ("hardware", "model"))


def test_every_kind_of_card_has_a_record():
    assert {record.kind for record in map(RECORDS.get, KINDS)} == set(KINDS)
    assert all(dataclasses.is_dataclass(record) for record in RECORDS.values())


#: Read a second time from the vendors' figures and not from the cards: GB, GB/s, dense bf16 TFLOP/s, one-way link GB/s.
SECOND_READING = {
    "h100-sxm5": (80, 3350, 989.5, 450),
    "h200-sxm": (141, 4800, 989.5, 450),
    "a100-80-sxm": (80, 2039, 312, 300),
    "a10": (24, 600, 125, None),
    "l4": (24, 300, 121, None),
    "rtx-4090": (24, 1008, 165.2, None),
    "tpu-v4": (32, 1200, 275, 270),
    "b200-sxm": (180, 8000, 2250, 900),
    "gaudi3": (128, 3700, 1677, 600),
    "mi300x": (192, 5300, 1307.4, 448),
    "tpu-v5p": (95, 2765, 459, 600),
    "v100-sxm2-32": (32, 900, 125, 150),
    "l40s": (48, 864, 362.05, None),
    "h100-nvl": (94, 3900, 835.5, 300),
    "inferentia2": (32, 820, 190, None),
    "rtx-5090": (32, 1792, 209.5, None),
    "gh200-144": (144, 4900, 989.5, 450),
    "a10g": (24, 600, 70, None),
}


@pytest.mark.parametrize("name", SECOND_READING)
def test_hardware_agrees_with_a_second_reading(name):
    found = card("hardware", name)
    link = found.interconnect.bandwidth_bytes_per_second / 1e9 if found.interconnect else None
    figures = (
        found.memory.capacity_bytes / 1e9,
        found.memory.bandwidth_bytes_per_second / 1e9,
        (found.dense_rate.of("bf16") or found.dense_rate.of("fp16")) / 1e12,
        link,
    )
    assert figures == pytest.approx(SECOND_READING[name])
