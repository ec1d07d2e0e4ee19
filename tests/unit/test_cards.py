"""Shipped cards: every figure has its source, and the figures that follow from them are those that others count."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import yaml
from conftest import served

import specsim
from specsim.catalog import library
from specsim.catalog.cards import RECORDS, card, derived_figures
from specsim.catalog.dump import document_of
from specsim.specs.fields import Tagged

KINDS = ("hardware", "node", "kernels", "model", "head", "drafter", "runtime", "tree")
CARDS = [(kind, name) for kind in KINDS for name in library.names(kind)]
FIGURELESS = {
    "format", "kind", "name", "title", "aliases", "sources", "assumptions", "notes", "vendor", "type", "method",
    # Every offer names who made it and when.
    "prices",
}  # fmt: skip


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


#: Parameters; whether the keras-hub preset table (71453d08) or a safetensors index has as many, or only the rules of
#: the layout say so; and of mixtures what one token meets with both tables, and without the input table.
COUNTS = {
    "llama-7b": (6_738_415_616, True),
    "llama-65b": (65_285_660_672, False),
    "llama-2-7b": (6_738_415_616, True),
    "llama-2-13b": (13_015_864_320, False),
    "llama-2-70b": (68_976_648_192, False),
    "llama-3-8b": (8_030_261_248, True),
    "llama-3-70b": (70_553_706_496, False),
    "llama-3.1-8b": (8_030_261_248, True),
    "llama-3.1-70b": (70_553_706_496, True),
    "llama-3.1-405b": (405_853_388_800, False),
    # That table counts the tied embedding of these two twice; here without the second copy of vocabulary x hidden size.
    "llama-3.2-1b": (1_498_482_688 - 128_256 * 2048, True),
    "llama-3.2-3b": (3_606_752_256 - 128_256 * 3072, True),
    "llama-3.3-70b": (70_553_706_496, True),
    "llama-68m": (68_030_208, False),
    "llama-160m": (162_417_408, False),
    "tinyllama-1.1b": (1_100_048_384, False),
    "vicuna-7b": (6_738_415_616, True),
    "vicuna-13b": (13_015_864_320, False),
    "vicuna-33b": (32_528_943_616, False),
    "qwen2.5-0.5b": (494_032_768, True),
    "qwen2.5-1.5b": (1_543_714_304, True),
    "qwen2.5-7b": (7_615_616_512, True),
    "qwen2.5-32b": (32_763_876_352, True),
    "qwen2.5-72b": (72_706_203_648, True),
    "qwen3-0.6b": (596_049_920, True),
    "qwen3-8b": (8_190_735_360, True),
    "qwen3-32b": (32_762_123_264, True),
    "qwen3-30b-a3b": (30_532_122_624, True, 3_353_032_704, 3_041_867_776),
    "qwen3-235b-a22b": (235_093_634_560, True, 22_190_763_520, 21_568_433_664),
    "mixtral-8x7b": (46_702_792_704, True, 12_879_925_248, 12_748_853_248),
    "mistral-7b": (7_241_732_096, True),
    "deepseek-v3": (671_026_419_200, False, 37_552_297_472, 36_625_618_432),
    "deepseek-r1": (671_026_419_200, False, 37_552_297_472, 36_625_618_432),
    "deepseek-v2-lite": (15_706_484_224, False, 2_661_150_208, 2_451_435_008),
    "kimi-k2": (1_026_408_232_448, False, 32_861_500_928, 31_687_095_808),
    "gemma-2-2b": (2_614_341_888, True),
    "gemma-2-9b": (9_241_705_984, True),
    "gemma-2-27b": (27_227_128_320, True),
    "gemma-3-27b": (27_009_002_240, True),
    "gpt-oss-20b": (20_914_757_184, True, 4_187_440_704, 3_608_307_264),
    "gpt-oss-120b": (116_829_156_672, True, 5_711_982_912, 5_132_849_472),
    "phi-3-mini-4k": (3_821_079_552, True),
    "phi-4": (14_659_507_200, False),
    "glm-4.5": (352_797_829_024, False, 33_632_266_144, 32_856_319_904),
    # It has 2048 position rows where Hugging Face has 2050.
    "opt-125m": (125_237_760 + 2 * 768, True),
    "opt-13b": (12_853_473_280, False),
    "opt-30b": (29_974_540_288, False),
    "t5-small": (60_506_624, True),
    "t5-base": (222_903_552, True),
    "t5-large": (737_668_096, True),
    "t5-v1_1-small": (76_961_152, True),
    "t5-v1_1-base": (247_577_856, True),
    "smollm2-135m": (134_515_008, True),
    "t5-v1_1-large": (783_150_080, True),
    "t5-v1_1-xxl": (11_135_332_352, True),
}


def test_no_model_is_left_uncounted():
    # Only their names say how many parameters these have, in billions.
    named = {"qwen2.5-3b": 3.09, "qwen3-next-80b-a3b": 80, "sheared-llama-1.3b": 1.345}
    assert set(library.names("model")) == {*COUNTS, *named}
    for name, billions in named.items():
        assert card("model", name).parameters / 1e9 == pytest.approx(billions, rel=0.005)


@pytest.mark.parametrize("name", COUNTS)
def test_parameters_from_the_fields_are_exact(name):
    model, (parameters, _, *active) = card("model", name), COUNTS[name]
    assert model.parameters == parameters
    if active:
        assert [model.active_parameters, model.active_parameters_without_embedding] == active
    else:
        assert model.active_parameters == parameters
        table = 0 if model.tied_embeddings else model.vocab_size * model.hidden_size
        assert model.active_parameters_without_embedding == parameters - table


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # Counts by the code of the heads; published, in billions: .24 .37 .99 .24 .37 .56 .28 .25 (EAGLE), 11.5 (MTP),
        # and 1.48 GB for the five heads of Medusa in 16 bits.
        ("eagle-llama2-chat-7b", 235_937_792),
        ("eagle-llama2-chat-13b", 369_633_280),
        ("eagle-llama2-chat-70b", 989_872_128),
        ("eagle-vicuna-7b", 235_937_792),
        ("eagle-vicuna-13b", 369_633_280),
        ("eagle-vicuna-33b", 557_200_384),
        ("eagle-mixtral-8x7b", 276_832_256),
        ("eagle-llama3-instruct-8b", 251_666_432),
        ("eagle3-llama3.1-8b", 424_689_664),
        ("eagle3-llama3.3-70b", 1_403_027_456),
        ("eagle3-qwen3-8b", 399_523_840),
        ("eagle3-qwen3-32b", 782_520_320),
        ("eagle3-qwen3-30b-a3b", 182_984_704),
        ("eagle3-gpt-oss-20b", 307_641_600),
        ("eagle3-gpt-oss-120b", 307_641_600),
        ("eagle3-deepseek-v3", 1_447_849_984),
        ("eagle3-kimi-k2-instruct", 1_190_948_864),
        ("medusa-vicuna-7b", 739_266_560),
        ("medusa-vicuna-13b", 950_297_600),
        ("deepseek-v3-mtp", 11_610_068_224),
    ],
)
def test_own_parameters_of_draft_heads(name, parameters):
    head = card("head", name)
    assert head.parameters == parameters
    assert head.target in library.names("model")
    assert head.vocab_size == card("model", head.target).vocab_size


@pytest.mark.parametrize(
    ("name", "kv_bytes"),
    [("llama-2-7b", 524_288), ("llama-2-13b", 819_200), ("llama-2-70b", 327_680), ("llama-3-8b", 131_072),
     ("llama-3.1-8b", 131_072), ("llama-3.1-70b", 327_680), ("llama-3.1-405b", 516_096), ("qwen2.5-7b", 57_344),
     ("qwen3-8b", 147_456), ("qwen3-32b", 262_144), ("qwen3-30b-a3b", 98_304), ("mixtral-8x7b", 131_072),
     ("deepseek-v3", 70_272), ("kimi-k2", 70_272), ("gemma-3-27b", 507_904), ("gpt-oss-120b", 73_728),
     ("opt-13b", 819_200)],
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
        assert bool(derived_figures(card(kind, name))) == (kind in ("hardware", "model", "head", "tree"))


def test_every_kind_of_card_has_a_record():
    for kind in KINDS:
        marks = getattr(RECORDS[kind], "__metadata__", ())
        records = next((mark.records for mark in marks if isinstance(mark, Tagged)), (RECORDS[kind],))
        assert {record.kind for record in records} == {kind}
        assert all(dataclasses.is_dataclass(record) for record in records)


#: Ten cards drawn at random from all accelerators, models and draft heads (seed 20261129), transcribed from their
#: sources a second time, without sight of the cards.
SECOND_READING = yaml.safe_load((Path(__file__).parent / "second_reading.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SECOND_READING["hardware"])
def test_hardware_agrees_with_a_second_reading(name):
    found, read = card("hardware", name), SECOND_READING["hardware"][name]
    assert found.memory.capacity_bytes == pytest.approx(read["capacity_gb"] * 1e9)
    assert found.memory.bandwidth_bytes_per_second == pytest.approx(read["bandwidth_gb_s"] * 1e9)
    rates = {rate: found.dense_rate.of(rate) / 1e12 for rate in found.dense_rate.known}
    assert rates == pytest.approx(read["dense_tflops"])
    for link, figure in ((found.interconnect, "link_gb_s"), (found.host_link, "host_link_gb_s")):
        assert (link and link.bandwidth_bytes_per_second / 1e9) == pytest.approx(read.get(figure)), figure
    assert found.power_watts == read["power_watts"]
    offers = [[p.price_usd_per_hour, p.provider, p.terms, p.date] for p in found.prices]
    assert offers == read.get("prices", [])


@pytest.mark.parametrize("name", SECOND_READING["models"])
def test_a_model_agrees_with_a_second_reading(name):
    found, read = card("model", name), SECOND_READING["models"][name]
    figures = {
        "layers": found.layers,
        "encoder_layers": found.encoder.layers if found.encoder is not None else None,
        "hidden": found.hidden_size,
        "intermediate": found.mlp.intermediate_size,
        "gated": found.mlp.gated,
        "heads": found.attention.heads,
        "kv_heads": found.attention.kv_heads,
        "head_dim": found.attention.head_dim,
        "vocab": found.vocab_size,
        "tied": found.tied_embeddings,
        "max_positions": found.max_positions,
        "parameters": found.parameters,
    }
    assert {figure: value for figure, value in figures.items() if value is not None} == read


@pytest.mark.parametrize("name", SECOND_READING["heads"])
def test_a_draft_head_agrees_with_a_second_reading(name):
    found = card("head", name)
    assert {
        "hidden": found.hidden_size,
        "intermediate": found.mlp.intermediate_size,
        "heads": found.attention.heads,
        "kv_heads": found.attention.kv_heads,
        "head_dim": found.attention.head_dim,
        "vocab": found.vocab_size,
        "draft_vocab": found.draft_vocab_size,
        "parameters": found.parameters,
    } == SECOND_READING["heads"][name]


#: Read a second time from the vendors' figures and not from the cards: GB, GB/s, dense bf16 TFLOP/s, one-way link GB/s.
VENDORS_FIGURES = {
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


@pytest.mark.parametrize("name", VENDORS_FIGURES)
def test_hardware_agrees_with_its_vendor(name):
    found = card("hardware", name)
    link = found.interconnect.bandwidth_bytes_per_second / 1e9 if found.interconnect else None
    figures = (
        found.memory.capacity_bytes / 1e9,
        found.memory.bandwidth_bytes_per_second / 1e9,
        (found.dense_rate.of("bf16") or found.dense_rate.of("fp16")) / 1e12,
        link,
    )
    assert figures == pytest.approx(VENDORS_FIGURES[name])


@pytest.mark.parametrize("name", library.names("head"))
def test_every_draft_head_drafts_for_its_target(name):
    head = card("head", name)
    devices = 8 if card("model", head.target).attention.heads % 8 == 0 else 4
    rows = specsim.optimal_gamma(
        hardware="b200", target=head.target, draft=name, acceptance="rate=0.7", tensor_parallel=devices, batch_size=1,
        context_length=512, max_gamma=3, all_gammas=True,
    )  # fmt: skip
    assert set(rows.cells("method")) == {head.method}
    assert set(rows.cells("draft")) == {name}
    fits = rows.where(rows["feasible"])
    assert len(fits) == 4
    assert 0 < float(fits["draft_cost_ratio"][1]) < 0.25
    assert float(fits["speedup"][2]) > 1


@pytest.mark.parametrize("name", library.names("drafter"))
def test_every_drafter_drafts(name):
    rows = specsim.optimal_gamma(
        hardware="h100", target="llama-3.1-8b", draft=name, acceptance="rate=0.7", batch_size="1,32",
        context_length="16k", max_gamma=3, all_gammas=True,
    )  # fmt: skip
    assert set(rows.cells("draft")) == {name}
    assert np.isfinite(rows.where(rows["feasible"])["speedup"]).all()
