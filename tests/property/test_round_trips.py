"""What is written reads back: quantities, YAML, records, resolved scenarios."""

from __future__ import annotations

import math
from functools import lru_cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import specsim
from specsim.catalog import library
from specsim.catalog.cards import RECORDS, card
from specsim.catalog.dump import document_of
from specsim.catalog.resolve import read_scenario, resolve
from specsim.catalog.strict_yaml import parse_yaml, plain_value, write_yaml
from specsim.catalog.validate import validate
from specsim.specs.attention import GroupedAttention
from specsim.specs.feed_forward import Mlp
from specsim.specs.hardware import DenseRates, Hardware, Kernels, Link, Memory
from specsim.specs.model import Model
from specsim.specs.runtime import Runtime
from specsim.units import BANDWIDTH, DIMENSIONS, MEMORY, POWER, RATE, TIME

ROUND_TRIPS = settings(max_examples=200, deadline=None)

# --- quantities

by_name = pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda dimension: dimension.suffix.strip("_"))
positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
quantities = st.floats(min_value=0, max_value=1e23, exclude_min=True)


@by_name
@ROUND_TRIPS
@given(value=positive)
@example(value=5e-324)
@example(value=1.7976931348623157e308)
@example(value=0.1 + 0.2)
@example(value=2.0**35)
@example(value=1e22)
def test_a_quantity_that_is_written_reads_back_as_the_identical_number(dimension, value):
    assert dimension.parse(dimension.format(value)) == value


@by_name
def test_zero_is_written_and_read(dimension):
    assert dimension.parse(dimension.format(0.0)) == 0.0


@by_name
@ROUND_TRIPS
@given(number=st.floats(min_value=1e-3, max_value=1e6), data=st.data())
def test_every_unit_reads_as_its_size(dimension, number, data):
    unit = data.draw(st.sampled_from(sorted(dimension.scales)))
    space = data.draw(st.sampled_from(["", " ", "  "]))
    assert dimension.parse(f"{number!r}{space}{unit}") == number * dimension.scales[unit]


@by_name
@ROUND_TRIPS
@given(text=st.text(max_size=12))
def test_any_text_is_a_quantity_or_a_reason(dimension, text):
    try:
        value = dimension.parse(text)
    except ValueError as error:
        value, reason = 0.0, str(error)
    else:
        reason = dimension.name
    assert math.isfinite(value)
    assert value >= 0
    assert reason.startswith(dimension.name)


@pytest.mark.parametrize(
    ("dimension", "spellings"),
    [
        (BANDWIDTH, ("3.35 TB/s", "3350 GB/s", "3.35e12 B/s", "3350000 MB/s", "26.8 Tb/s", "26.8 Tbit/s", "3.35TB/s")),
        (BANDWIDTH, ("450 GB/s", "3600 Gb/s", "3600 Gbit/s", "0.45 TB/s")),
        (BANDWIDTH, ("1 GiB/s", "1024 MiB/s", "1073741824 B/s")),
        (MEMORY, ("80 GB", "80e9 B", "0.08 TB", "80000 MB", " 80  GB ", "+80 GB")),
        (MEMORY, ("32 GiB", "34359738368 B", "32768 MiB", "0.03125 TiB")),
        (MEMORY, ("5 kB", "5 KB", "5000 B")),
        (MEMORY, ("5 KiB", "5120 B")),
        (RATE, ("989.5 TFLOP/s", "989.5 TFLOPS", "0.9895 PFLOP/s", "989.5 TOP/s", "989.5 TOPS", "989500 GFLOP/s")),
        (TIME, ("0.5 ms", "500 us", "500 µs", "500 μs", "5e-4 s", "500000 ns", ".5 ms")),
        (POWER, ("700 W", "0.7 kW")),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else value.suffix.strip("_"),
)
def test_spellings_of_one_quantity_agree(dimension, spellings):
    first, *others = [dimension.parse(text) for text in spellings]
    assert others == pytest.approx([first] * len(others), rel=1e-15, abs=0)


# --- YAML

tricky = st.sampled_from(
    ["1e9", "4.8e12", "no", "yes", "on", "off", "null", "~", "", "010", "0x1F", "0o17", "1:30", ".inf", "-.INF", ".nan",
     "true", "False", "a: b", "a #b", "#", ":", "-", "- a", "?", "<<", "=", "{}", "[a]", "*a", "&a", "!a", "%a", "@a",
     "`", "'", '"', "|", ">", " a ", "a\n", "\na", "a\tb", "\t", "80 GB", "2001-01-01", "µs", "日本", "\u2028", "\x85",
     "\ufeff", "\ufeffa", "\x7f", "\x00", "\x1b[31m", "\U0001f600", "\\", "1_000", "+1", "1.", ".5", "+.5e-3", "...",
     "---", "x" * 200, "y " * 100]
)  # fmt: skip
texts = st.one_of(st.text(max_size=30), tricky)
names = texts.filter(lambda text: text.strip() and text.isprintable())
numbers = st.one_of(st.integers(), st.integers(-(10**200), 10**200), st.floats(allow_nan=False))
values = st.recursive(
    st.one_of(texts, numbers, st.booleans()),
    lambda below: st.one_of(st.lists(below, max_size=4), st.dictionaries(texts, below, max_size=4)),
    max_leaves=15,
)


def same(one, other):
    """Equal in value and in type, all the way down: 1, 1.0 and True are three things."""
    if isinstance(one, dict):
        return isinstance(other, dict) and list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and repr(one) == repr(other)


@ROUND_TRIPS
@given(document=st.dictionaries(texts, values, max_size=5))
@example(document={"<<": {"a": 1}})
@example(document={"a": 1.0, "b": 1, "c": True, "d": "1", "e": 1e22, "f": -0.0, "g": float("inf")})
@example(document={"a": [[], {}, [[]], ""]})
def test_a_document_that_is_written_reads_back_unchanged(document):
    assert same(document, parse_yaml(write_yaml(document), "x.yaml"))


@ROUND_TRIPS
@given(text=texts)
def test_text_stays_text_in_every_position(text):
    document = {"value": text, "list": [text], "mapping": {text: text}}
    assert same(document, parse_yaml(write_yaml(document), "x.yaml"))


@ROUND_TRIPS
@given(text=st.text(max_size=20))
def test_a_plain_scalar_always_has_a_meaning(text):
    assert isinstance(plain_value(text), str | int | float | bool | None)


@given(number=st.floats(allow_nan=False))
def test_a_float_reads_back_as_the_identical_float(number):
    assert same({"a": number}, parse_yaml(write_yaml({"a": number}), "x.yaml"))


# --- records

CARDS = [(kind, name) for kind in RECORDS if kind != "scenario" for name in library.names(kind)]


def through_yaml(record):
    """The record after it was written as a document, as YAML text, read and validated."""
    document = document_of(record)
    assert validate(type(record), document) == record
    return validate(type(record), parse_yaml(write_yaml(document), "x.yaml"))


@pytest.mark.parametrize(("kind", "name"), CARDS, ids=lambda value: str(value))
def test_a_shipped_card_reads_back(kind, name):
    found = card(kind, name)
    assert through_yaml(found) == found


fractions = st.floats(min_value=1e-9, max_value=1)
factors = st.floats(min_value=1, max_value=1e6)
seconds = st.floats(min_value=0, max_value=1e23)
counts = st.integers(1, 10**9)
heads = st.sampled_from([(1, 1), (32, 8), (64, 64), (71, 1)])
card_fields = {
    "name": names,
    "title": texts,
    "notes": texts,
    "aliases": st.lists(texts, max_size=3).map(tuple),
    "sources": st.dictionaries(texts, texts, max_size=3),
    "assumptions": st.dictionaries(texts, texts, max_size=3),
}
kernels = st.builds(
    Kernels,
    **card_fields,
    memory_efficiency=fractions,
    attention_memory_efficiency=fractions,
    compute_efficiency=fractions,
    link_efficiency=fractions,
    matrix_overhead_seconds=seconds,
    attention_overhead_seconds=seconds,
)
links = st.builds(Link, bandwidth_bytes_per_second=quantities, type=texts)
optional_rates = {
    f"{name}_operations_per_second": st.none() | quantities for name in ("fp32", "tf32", "fp16", "fp8", "int8", "fp4")
}
hardware = st.builds(
    Hardware,
    **card_fields,
    vendor=texts,
    memory=st.builds(Memory, capacity_bytes=quantities, bandwidth_bytes_per_second=quantities, type=texts),
    dense_rate=st.builds(DenseRates, bf16_operations_per_second=quantities, **optional_rates),
    interconnect=st.none() | links,
    host_link=st.none() | links,
    power_watts=st.none() | quantities,
    kernels=kernels,
)
attention = st.builds(
    lambda pair, **more: GroupedAttention(heads=pair[0], kv_heads=pair[1], **more),
    heads,
    head_dim=counts,
    qkv_bias=st.booleans(),
    output_bias=st.booleans(),
)
models = st.builds(
    Model,
    **card_fields,
    layers=counts,
    hidden_size=counts,
    vocab_size=counts,
    max_positions=counts,
    attention=attention,
    mlp=st.builds(Mlp, intermediate_size=counts, gated=st.booleans(), bias=st.booleans()),
    tied_embeddings=st.booleans(),
    norm=st.sampled_from(["rmsnorm", "layernorm"]),
    learned_position_rows=st.integers(0, 10**6),
)
runtimes = st.builds(
    Runtime,
    **card_fields,
    aggregation=st.sampled_from(["operator", "step"]),
    corner=st.sampled_from(["smooth", "sharp"]),
    attention_operations=st.booleans(),
    activations=st.booleans(),
    kernels=st.none() | kernels,
    layer_overhead_seconds=seconds,
    step_overhead_seconds=seconds,
    round_overhead_seconds=seconds,
    draft_step_overhead_seconds=seconds,
    all_reduce_latency_seconds=seconds,
    tree_factor=factors,
    memory_utilization=fractions,
)
RECORD_TRIPS = settings(max_examples=50, deadline=None)


@RECORD_TRIPS
@given(record=hardware)
def test_any_hardware_reads_back(record):
    assert through_yaml(record) == record


@RECORD_TRIPS
@given(record=models)
def test_any_model_reads_back(record):
    assert through_yaml(record) == record


@RECORD_TRIPS
@given(record=runtimes)
def test_any_runtime_reads_back(record):
    assert through_yaml(record) == record


# --- scenarios

NAMES_ON_AN_AXIS = ("specinfer-offloaded",)
"""An axis of names stays as it is written."""


@lru_cache
def resolved(name):
    """The resolved text of a shipped scenario."""
    return specsim.resolve(name)


@pytest.mark.parametrize("name", library.names("scenario"))
def test_a_resolved_scenario_resolves_to_the_same_scenarios(name):
    original = read_scenario(library.find("scenario", name))
    again = resolve(parse_yaml(resolved(name), "resolved.yaml"))
    assert again.scenarios == original.scenarios


@pytest.mark.parametrize("name", library.names("scenario"))
def test_resolving_a_second_time_changes_no_letter(name, tmp_path):
    path = tmp_path / "resolved.yaml"
    path.write_text(resolved(name), encoding="utf-8")
    assert specsim.resolve(path) == resolved(name)


@pytest.mark.parametrize("name", [n for n in library.names("scenario") if n not in NAMES_ON_AN_AXIS])
def test_a_resolved_scenario_needs_no_catalogue(name, monkeypatch):
    text = resolved(name)

    def nothing(*arguments):
        pytest.fail(f"asked the catalogue for {arguments}")

    # Cards are compared with known ones, which fills nothing in.
    for check in ("check_hardware", "check_node", "_check_built_from"):
        monkeypatch.setattr(f"specsim.catalog.resolve.{check}", lambda *_: None)
    monkeypatch.setattr(library, "find", nothing)
    assert resolve(parse_yaml(text, "resolved.yaml")).scenarios
