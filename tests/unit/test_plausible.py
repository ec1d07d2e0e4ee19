"""Figures of hardware that parse and cannot be right are refused, with what is wrong about them."""

from __future__ import annotations

import pytest

import specsim
from specsim.catalog import library
from specsim.catalog.cards import card
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


def test_every_shipped_accelerator_passes():
    for name in library.names("hardware"):
        card("hardware", name)
