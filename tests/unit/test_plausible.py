"""Figures of hardware that parse and cannot be right are refused, with what is wrong about them."""

from __future__ import annotations

import pytest
from conftest import plain

import specsim
from specsim.catalog import library
from specsim.catalog.cards import card
from specsim.catalog.plausible import unlike_any
from specsim.catalog.strict_yaml import write_yaml
from specsim.errors import InputError


def refused(tmp_path, memory, rate, head=""):
    path = tmp_path / "mine.yaml"
    path.write_text(f"{head}memory: {memory}\ndense_rate:\n  bf16: {rate}\n")
    with pytest.raises(InputError) as caught:
        specsim.optimal_gamma(hardware=str(path), target="llama-3-8b", draft="llama-3.2-1b", acceptance="rate=0.8")
    return str(caught.value).removeprefix(str(tmp_path))


def test_a_sparse_rate_under_a_known_name(tmp_path):
    message = refused(tmp_path, "{capacity: 24 GB, bandwidth: 700 GB/s}", "250 TFLOP/s", head="name: a10\n")
    assert message == (
        "/mine.yaml, line 4, dense_rate.bf16: 250 TFLOP/s is the rate with 2:4 sparsity; "
        "the dense rate of a10 is 125 TFLOP/s."
    )


def test_a_sparse_rate_beside_the_memory_of_a_known_device(tmp_path):
    message = refused(tmp_path, "{capacity: 80 GB, bandwidth: 2039 GB/s}", "624 TFLOP/s", head="name: ours\n")
    assert "624 TFLOP/s is the rate with 2:4 sparsity; the dense rate of a100-80-sxm is 312 TFLOP/s." in message


@pytest.mark.parametrize(
    ("memory", "rate", "words"),
    [
        ("{capacity: 70 GB, bandwidth: 3.35 TB/s}", "1979 TFLOP/s", "590.7 operations/byte"),
        ("{capacity: 70 GB, bandwidth: 3.35 GB/s}", "989.5 TFLOP/s", "a slip of a unit in rate or bandwidth?"),
        ("{capacity: 70 GB, bandwidth: 33.5 TB/s}", "98.95 TFLOP/s", "a slip of a unit?"),
    ],
)
def test_ridge_points_that_no_accelerator_has(tmp_path, memory, rate, words):
    assert words in refused(tmp_path, memory, rate)


def test_every_shipped_accelerator_passes_whatever_its_sources():
    for name in library.names("hardware"):
        assert list(unlike_any(card("hardware", name))) == [], name


def test_a_figure_with_a_source_of_its_own_is_not_doubted(tmp_path):
    """A server with more memory to a channel than any in the catalogue."""
    file = tmp_path / "mine.yaml"
    text = "name: ours\nmemory: {capacity: 6 TB, bandwidth: 460 GB/s}\ndense_rate: {bf16: 5 TFLOP/s}\n"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="If not, name its source"):
        card("hardware", str(file))
    file.write_text(text + "sources: {memory.capacity: as bought}\n", encoding="utf-8")
    assert card("hardware", str(file)).memory.capacity_bytes == 6e12


def test_what_if_axes_over_figures_of_an_accelerator_are_asked_and_not_doubted(tmp_path):
    file = tmp_path / "scenario.yaml"
    file.write_text(
        "hardware: h100\ntarget: llama-3-8b\ndraft: {model: llama-3.2-1b, acceptance: rate=0.8}\n"
        "grid: {batch_size: 1, context_length: 1k, hardware.memory.bandwidth: [3.35 TB/s, 6.7 TB/s]}\n"
    )
    steps = specsim.sweep(file)["plain_step_ms"].tolist()
    assert 1.5 * steps[-1] < steps[0] < 2 * steps[-1]


def test_an_axis_that_makes_a_shipped_card_wrong_is_blamed_itself(tmp_path):
    file = tmp_path / "scenario.yaml"
    file.write_text(
        "hardware: h100\ntarget: llama-3-8b\ndraft: {model: llama-3.2-1b, acceptance: rate=0.8}\n"
        "grid: {batch_size: 1, context_length: 1k, target.model.attention.heads: [32, 33]}\n"
    )
    with pytest.raises(InputError) as caught:
        specsim.sweep(file)
    assert str(caught.value).endswith(
        "scenario.yaml, line 4, grid.target.model.attention.heads: with 33: 8 kv_heads do not divide 33 heads."
    )


@pytest.mark.parametrize(
    ("figure", "wrong", "right"),
    [
        ("memory.capacity", "80 GiB", "80 GB"),
        ("memory.capacity", "800 GB", "80 GB"),
        ("memory.bandwidth", "6.7 TB/s", "3.35 TB/s"),
        ("memory.bandwidth", "335 GB/s", "3.35 TB/s"),
        ("memory.bandwidth", "3.35 GB/s", "3.35 TB/s"),
        ("dense_rate.bf16", "1979 TFLOP/s", "989.5 TFLOP/s"),
        ("dense_rate.fp8", "3958 TFLOP/s", "1979 TFLOP/s"),
        ("dense_rate.int8", "197.9 TOP/s", "1979 TOP/s"),
        ("interconnect.bandwidth", "900 GB/s", "450 GB/s"),
        ("host_link.bandwidth", "126 GB/s", "63 GB/s"),
        ("power", "1400 W", "700 W"),
        ("power", "7 kW", "700 W"),
    ],
)
def test_one_wrong_figure_of_a_known_device_is_named_with_the_right_one(tmp_path, figure, wrong, right):
    """Each slip alone in a copy of the card, which passes without it."""
    document = library.read_card("hardware", "h100-sxm5")
    path = tmp_path / "mine.yaml"
    path.write_text(write_yaml(plain(document)), encoding="utf-8")
    card("hardware", str(path))
    *section, field = figure.split(".")
    holder = document[section[0]] if section else document
    assert holder[field] == right
    holder[field] = wrong
    path.write_text(write_yaml(plain(document)), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        card("hardware", str(path))
    (fault,) = caught.value.faults
    assert fault.path == figure
    assert right in fault.message


@pytest.mark.parametrize(
    ("figures", "path", "words"),
    [
        ("dense_rate: {bf16: 989.5 TFLOP/s, fp8: 3958 TFLOP/s}", "dense_rate.fp8", "4 times the rate of bf16"),
        ("dense_rate: {bf16: 989.5 TFLOP/s, int8: 198 TOP/s}", "dense_rate.int8", "0.2001 times the rate of bf16"),
        ("dense_rate: {bf16: 989.5 TFLOP/s, fp4: 989.5 TFLOP/s}", "dense_rate.fp4", "1 times the rate of bf16"),
        ("dense_rate: {bf16: 989.5 TFLOP/s}\npower: 70 kW", "power", "70000 W for one device"),
        ("dense_rate: {bf16: 989.5 TFLOP/s}\ninterconnect: {bandwidth: 4.5 TB/s}", "interconnect.bandwidth", "faster"),
        ("dense_rate: {bf16: 989.5 TFLOP/s}\nhost_link: {bandwidth: 63 TB/s}", "host_link.bandwidth", "faster"),
    ],
)
def test_ratios_that_no_accelerator_has(tmp_path, figures, path, words):
    file = tmp_path / "mine.yaml"
    file.write_text(f"name: ours\nmemory: {{capacity: 70 GB, bandwidth: 3.35 TB/s}}\n{figures}\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        card("hardware", str(file))
    (fault,) = caught.value.faults
    assert fault.path == path
    assert words in fault.message


@pytest.mark.parametrize("capacity", ["20 GB", "20 TB"])
def test_a_memory_that_is_read_too_fast_or_too_slowly(tmp_path, capacity):
    file = tmp_path / "mine.yaml"
    text = f"name: ours\nmemory: {{capacity: {capacity}, bandwidth: 3.35 TB/s}}\ndense_rate: {{bf16: 989.5 TFLOP/s}}\n"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="reading all of it takes"):
        card("hardware", str(file))


def test_a_larger_memory_under_a_known_name_is_another_part_and_no_slip(tmp_path):
    """V100 is the name of the 16 GB part; the 32 GB part has the same bandwidth."""
    file = tmp_path / "mine.yaml"
    text = "name: v100\nmemory: {capacity: 32 GB, bandwidth: 900 GB/s}\ndense_rate: {fp16: 125 TFLOP/s}\n"
    file.write_text(text, encoding="utf-8")
    assert card("hardware", str(file)).memory.capacity_bytes == 32e9
