"""Hardware figures that parse and cannot be right: sparse rates given as dense, slips of a unit."""

from __future__ import annotations

from collections.abc import Iterator

from specsim.catalog import library
from specsim.catalog.located import LocatedDict, place_of
from specsim.errors import Fault, InputError
from specsim.specs.hardware import Hardware
from specsim.units import BANDWIDTH, MEMORY, RATE

RIDGE_POINTS = (8, 580)
"""Operations per byte at 16 bits between which every known accelerator lies: 32 (Apple, CPUs) to 560 (TPU v6e)."""


def check_hardware(hardware: Hardware, document: object, path: tuple[str, ...] = ()) -> None:
    """Refuse rates that a datasheet prints with sparsity, and ratios that no accelerator has.

    Args:
        hardware: The card.
        document: The document it was read from, for the places of faults.
        path: Where the card stands in the document.

    Raises:
        InputError: With one fault for every rate that cannot be right.
    """
    twins = list(_same_device(hardware))
    faults = []
    for name in hardware.dense_rate.known:
        message = _sparse(hardware, name, twins) or _implausible(hardware, name)
        if message is not None:
            faults.append(Fault(message, *place_of(document, (*path, "dense_rate", name))))
    if faults:
        raise InputError(faults)


def _same_device(hardware: Hardware) -> Iterator[LocatedDict]:
    """Shipped cards of the same device: by one of its names, or by the same memory under another name."""
    names = {library.known_name("hardware", name) for name in (hardware.name, *hardware.aliases)} - {None}
    if names:
        yield from (library.read_card("hardware", str(name)) for name in names)
        return
    for name in library.names("hardware"):
        card = library.read_card("hardware", name)
        capacity, bandwidth = MEMORY.parse(card["memory"]["capacity"]), BANDWIDTH.parse(card["memory"]["bandwidth"])
        if (
            abs(hardware.memory.capacity_bytes / capacity - 1) < 0.01
            and abs(hardware.memory.bandwidth_bytes_per_second / bandwidth - 1) < 0.01
        ):
            yield card


def _sparse(hardware: Hardware, number_format: str, twins: list[LocatedDict]) -> str | None:
    rate = hardware.dense_rate.of(number_format) or 0.0
    for card in twins:
        text = card["dense_rate"].get(number_format)
        if text is not None and abs(rate / RATE.parse(text) - 2) < 0.02:
            return f"{RATE.format(rate)} is the rate with 2:4 sparsity; the dense rate of {card['name']} is {text}."
    return None


def _implausible(hardware: Hardware, number_format: str) -> str | None:
    if number_format not in ("bf16", "fp16"):
        return None
    ridge = (hardware.dense_rate.of(number_format) or 0.0) / hardware.memory.bandwidth_bytes_per_second
    least, most = RIDGE_POINTS
    if least <= ridge <= most:
        return None
    cause = "a rate with sparsity, or a slip of a unit in rate or bandwidth" if ridge > most else "a slip of a unit"
    return (
        f"with this memory bandwidth it gives {ridge:.4g} operations/byte, and every known accelerator lies between "
        f"{least} and {most}: {cause}?"
    )
