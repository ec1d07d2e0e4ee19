"""An accelerator as its datasheet gives it, and what kernels reach on its device family."""

from __future__ import annotations

import dataclasses
from typing import Literal

from specsim.errors import Contradiction
from specsim.specs.card import Card
from specsim.specs.fields import (
    Bytes,
    BytesPerSecond,
    Count,
    Date,
    Fraction,
    OperationsPerSecond,
    Seconds,
    UsdPerHour,
    Watts,
    record,
)


@record
class Memory:
    """Device memory: the marketed capacity and the peak bandwidth."""

    capacity_bytes: Bytes
    bandwidth_bytes_per_second: BytesPerSecond
    type: str = ""


@record
class DenseRates:
    """Peak rates WITHOUT sparsity, per device; a format that is absent cannot be computed there."""

    fp32_operations_per_second: OperationsPerSecond | None = None
    tf32_operations_per_second: OperationsPerSecond | None = None
    fp16_operations_per_second: OperationsPerSecond | None = None
    bf16_operations_per_second: OperationsPerSecond | None = None
    fp8_operations_per_second: OperationsPerSecond | None = None
    int8_operations_per_second: OperationsPerSecond | None = None
    fp4_operations_per_second: OperationsPerSecond | None = None

    def of(self, number_format: str) -> float | None:
        """Rate of a number format such as ``bf16`` [operations/s], None where it cannot be computed."""
        rate: float | None = getattr(self, f"{number_format}_operations_per_second")
        return rate

    @property
    def known(self) -> list[str]:
        """Number formats that can be computed."""
        return [
            f.name.removesuffix("_operations_per_second")
            for f in dataclasses.fields(self)
            if getattr(self, f.name) is not None
        ]

    def __post_init__(self) -> None:
        if not self.known:
            raise Contradiction("At least one dense rate is needed, such as bf16: 989.5 TFLOP/s.")


@record
class Link:
    """A link to other devices or to the host; bandwidth of ONE direction, per device."""

    bandwidth_bytes_per_second: BytesPerSecond
    type: str = ""


@record
class Kernels(Card):
    """What kernels reach on a device family.

    Attributes:
        memory_efficiency: Share of the peak bandwidth that a matrix product reaches (e_m).
        attention_memory_efficiency: The same for attention over the cache (e_a).
        compute_efficiency: Share of the dense peak that a large matrix product reaches (e_c).
        memory_efficiency_8bit: Share of the bandwidth that products in 8 and 4 bits reach; as of 16 if absent.
        attention_memory_efficiency_8bit: Share of the bandwidth with a cache of 8 bits; as with 16 if absent.
        several_rows_efficiency: Share of e_m left where a product has several rows: libraries on a CPU rearrange a
            matrix before they multiply it with more than one.
        compute_efficiency_8bit: Share of the dense peak of 8 and 4 bits; as of 16 if absent.
        weight_only_8bit_efficiency: Share of e_m left where weights of 8 bits are widened on the way.
        weight_only_4bit_efficiency: The same for weights of 4 bits; in between by the number of bits.
        link_efficiency: Share of the one-way link bandwidth that an all-reduce reaches (e_l).
        matrix_overhead_seconds: Fixed cost of one matrix product (t_op) [s].
        attention_overhead_seconds: Fixed cost of one attention call (t_attn0) [s].
    """

    kind: Literal["kernels"] = "kernels"
    memory_efficiency: Fraction
    attention_memory_efficiency: Fraction
    compute_efficiency: Fraction
    memory_efficiency_8bit: Fraction | None = None
    attention_memory_efficiency_8bit: Fraction | None = None
    compute_efficiency_8bit: Fraction | None = None
    several_rows_efficiency: Fraction = 1.0
    weight_only_8bit_efficiency: Fraction = 1.0
    weight_only_4bit_efficiency: Fraction = 1.0
    link_efficiency: Fraction = 1.0
    matrix_overhead_seconds: Seconds = 0.0
    attention_overhead_seconds: Seconds = 0.0


@record
class Price:
    """What one device costs, as offered on a date.

    Attributes:
        price_usd_per_hour: Price of one device; the lowest where a range was published.
        highest_price_usd_per_hour: The other end of the range.
        provider: Who offered it, and where that was read.
        terms: On demand, spot, community, ...
        date: Day or month of the offer; absent where it was not said.
    """

    price_usd_per_hour: UsdPerHour
    highest_price_usd_per_hour: UsdPerHour | None = None
    provider: str
    terms: str = ""
    date: Date | None = None

    def __post_init__(self) -> None:
        if self.highest_price_usd_per_hour is not None and self.highest_price_usd_per_hour < self.price_usd_per_hour:
            raise Contradiction("It is below the price that it is the other end of.", "highest_price")


@record
class Hardware(Card):
    """One accelerator: the datasheet, the kernels of its family, and prices.

    Attributes:
        matrix_rows: Rows that its matrix unit takes at once; products of fewer rows take as long.
    """

    kind: Literal["hardware"] = "hardware"
    vendor: str = ""
    memory: Memory
    dense_rate: DenseRates
    matrix_rows: Count = 1
    interconnect: Link | None = None
    host_link: Link | None = None
    power_watts: Watts | None = None
    prices: tuple[Price, ...] = ()
    kernels: Kernels

    @property
    def rate_of_16_bits(self) -> str | None:
        """The number format of 16 bits that products run in, None if there is none."""
        return next((name for name in ("bf16", "fp16") if self.dense_rate.of(name) is not None), None)
