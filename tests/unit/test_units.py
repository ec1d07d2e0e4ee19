"""Quantities: what each spelling means in SI, what is refused and with which words, and how numbers are written."""

from __future__ import annotations

import math

import pytest

from specsim.units import BANDWIDTH, DIMENSIONS, MEMORY, POWER, RATE, TIME, written_name


@pytest.mark.parametrize(
    ("dimension", "text", "si"),
    [
        (MEMORY, "1 B", 1.0),
        (MEMORY, "1 kB", 1e3),
        (MEMORY, "1 KB", 1e3),
        (MEMORY, "1 MB", 1e6),
        (MEMORY, "1 GB", 1e9),
        (MEMORY, "1 TB", 1e12),
        (MEMORY, "1 PB", 1e15),
        (MEMORY, "1 EB", 1e18),
        (MEMORY, "1 KiB", 1024.0),
        (MEMORY, "1 MiB", 1024.0**2),
        (MEMORY, "1 GiB", 1024.0**3),
        (MEMORY, "1 TiB", 1024.0**4),
        (MEMORY, "1 PiB", 1024.0**5),
        (MEMORY, "80GB", 80e9),
        (MEMORY, "  80   GB  ", 80e9),
        (MEMORY, "+80 GB", 80e9),
        (MEMORY, "8e1 GB", 80e9),
        (MEMORY, "8E+1 GB", 80e9),
        (MEMORY, "80. GB", 80e9),
        (MEMORY, ".08 TB", 0.08e12),
        (MEMORY, "5EB", 5e18),
        (BANDWIDTH, "1 GB/s", 1e9),
        (BANDWIDTH, "1 GiB/s", 1024.0**3),
        (BANDWIDTH, "8 Gb/s", 1e9),
        (BANDWIDTH, "8 Gbit/s", 1e9),
        (BANDWIDTH, "8 b/s", 1.0),
        (RATE, "1 FLOP/s", 1.0),
        (RATE, "1 TFLOP/s", 1e12),
        (RATE, "1 TFLOPS", 1e12),
        (RATE, "1 TOP/s", 1e12),
        (RATE, "1 TOPS", 1e12),
        (RATE, "1 PFLOP/s", 1e15),
        (TIME, "1 s", 1.0),
        (TIME, "1 ms", 1e-3),
        (TIME, "1 us", 1e-6),
        (TIME, "1 µs", 1e-6),  # U+00B5, the micro sign
        (TIME, "1 μs", 1e-6),  # U+03BC, the Greek letter
        (TIME, "1 ns", 1e-9),
        (TIME, "0 s", 0.0),
        (POWER, "700 W", 700.0),
        (POWER, "0.7 kW", 700.0),
    ],
)
def test_a_quantity_in_si(dimension, text, si):
    assert dimension.parse(text) == si


def test_a_byte_is_eight_bits():
    assert BANDWIDTH.parse("1 GB/s") / BANDWIDTH.parse("1 Gb/s") == 8


@pytest.mark.parametrize(
    ("dimension", "wrong"),
    [
        (MEMORY, "80"),
        (MEMORY, ""),
        (MEMORY, "GB"),
        (MEMORY, "80 gb"),
        (MEMORY, "80 Gb"),
        (MEMORY, "80 G"),
        (MEMORY, "80 kiB"),
        (MEMORY, "80 GB/s"),
        (MEMORY, "80 GB 3"),
        (MEMORY, "80%"),
        (MEMORY, "80,5 GB"),
        (MEMORY, "80_000 MB"),
        (MEMORY, "0x10 GB"),
        (MEMORY, "-80 GB"),
        (MEMORY, "1e999 GB"),
        (MEMORY, "nan GB"),
        (MEMORY, ".nan GB"),
        (MEMORY, "inf GB"),
        (MEMORY, ". GB"),
        (MEMORY, "1e GB"),
        (MEMORY, "1 2 GB"),
        (MEMORY, "- 1 GB"),
        (MEMORY, "٨٠ GB"),  # digits of another script
        (MEMORY, "８０ GB"),
        (BANDWIDTH, "3.35 TB"),
        (BANDWIDTH, "3.35 TBps"),
        (BANDWIDTH, "3.35 TB/sec"),
        (BANDWIDTH, "3.35 TB/S"),
        (RATE, "989.5 TFLOPs"),
        (RATE, "989.5 TFLOP"),
        (RATE, "989.5 TF"),
        (RATE, "989.5 tflop/s"),
        (TIME, "5 S"),
        (TIME, "5 min"),
        (TIME, "5 msec"),
        (TIME, "-1 ms"),
        (POWER, "700 MW"),
        (POWER, "700 w"),
    ],
)
def test_what_is_no_quantity(dimension, wrong):
    with pytest.raises(ValueError, match=dimension.name):
        dimension.parse(wrong)


@pytest.mark.parametrize("bare", [80, 80.0, True, None, [], {}, math.nan, b"80 GB"], ids=repr)
def test_only_text_can_carry_a_unit(bare):
    with pytest.raises(ValueError, match=r'^an amount of memory with its unit, such as "80 GB"$'):
        MEMORY.parse(bare)


@pytest.mark.parametrize(
    ("dimension", "text", "message"),
    [
        (MEMORY, "80 GB/s", 'an amount of memory with its unit, such as "80 GB"; GB/s is a unit of a bandwidth'),
        (BANDWIDTH, "3 TB", 'a bandwidth with its unit, such as "3.35 TB/s"; TB is a unit of an amount of memory'),
        (RATE, "3 W", 'a dense rate of operations with its unit, such as "989.5 TFLOP/s"; W is a unit of a power'),
        (TIME, "3 GB", 'a duration with its unit, such as "0.5 ms"; GB is a unit of an amount of memory'),
        (TIME, "3 sec", 'a duration with its unit, such as "0.5 ms"; known units are s, ms, us, ns'),
        (TIME, "-3 s", 'a duration that is finite and not negative, such as "0.5 ms"'),
        (POWER, "3", 'a power with its unit, such as "700 W"; known units are W, kW'),
    ],
)  # fmt: skip
def test_the_words_for_what_is_wrong(dimension, text, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        dimension.parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda dimension: dimension.suffix)
def test_the_units_offered_in_messages_are_known_and_few(dimension):
    units = dimension.main_units()
    assert set(units) <= set(dimension.scales)
    assert 1 <= len(units) <= 11
    assert dimension.parse(dimension.example) > 0


@pytest.mark.parametrize(
    ("dimension", "value", "text"),
    [
        (MEMORY, 80e9, "80 GB"),
        (MEMORY, 2.0**35, "32 GiB"),
        (MEMORY, 1.0, "1 B"),
        (MEMORY, 131072.0, "128 KiB"),
        (BANDWIDTH, 3.35e12, "3.35 TB/s"),
        (BANDWIDTH, 450e9, "450 GB/s"),
        (RATE, 989.5e12, "989.5 TFLOP/s"),
        (RATE, 1979e12, "1979 TFLOP/s"),
        (TIME, 0.0, "0 s"),
        (TIME, 27e-6, "27 us"),
        (TIME, 0.125e-3, "0.125 ms"),  # 125 us would not read back as the identical number
        (TIME, 1.0, "1 s"),
        (POWER, 700, "700 W"),
    ],
)
def test_a_quantity_is_written_short(dimension, value, text):
    assert dimension.format(value) == text
    assert dimension.parse(text) == value


def test_no_suffix_of_a_field_ends_in_another():
    suffixes = [dimension.suffix for dimension in DIMENSIONS]
    assert not [(one, other) for one in suffixes for other in suffixes if one != other and one.endswith(other)]


@pytest.mark.parametrize(
    ("field", "written"),
    [
        ("capacity_bytes", "capacity"),
        ("bandwidth_bytes_per_second", "bandwidth"),
        ("bf16_operations_per_second", "bf16"),
        ("layer_overhead_seconds", "layer_overhead"),
        ("power_watts", "power"),
        ("layers", "layers"),
        ("tokens_per_round", "tokens_per_round"),
    ],
)
def test_a_field_is_written_without_the_unit_that_its_value_carries(field, written):
    assert written_name(field) == written
