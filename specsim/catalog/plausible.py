"""Hardware figures that parse and cannot be right: sparse rates given as dense, slips of a unit."""

from __future__ import annotations

from specsim.catalog import library
from specsim.catalog.located import place_of
from specsim.errors import Fault, InputError
from specsim.specs.hardware import Hardware
from specsim.units import RATE

RIDGE_POINTS = (8, 600)
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
    faults = []
    for name in hardware.dense_rate.known:
        message = _sparse(hardware, name) or _implausible(hardware, name)
        if message is not None:
            faults.append(Fault(message, *place_of(document, (*path, "dense_rate", name))))
    if faults:
        raise InputError(faults)


def _sparse(hardware: Hardware, number_format: str) -> str | None:
    """Whether the rate is the sparse one of an accelerator that the catalogue knows under one of the card's names."""
    for name in (hardware.name, *hardware.aliases, hardware.title):
        known = library.known_name("hardware", name)
        if known is None:
            continue
        text = library.read_card("hardware", known).get("dense_rate", {}).get(number_format)
        rate = hardware.dense_rate.of(number_format)
        if text is not None and rate is not None and abs(rate / RATE.parse(text) - 2) < 0.02:
            return f"{RATE.format(rate)} is the rate with 2:4 sparsity; the dense rate of {known} is {text}."
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
        f"with this memory bandwidth it gives {ridge:.3g} operations/byte, and every known accelerator lies between "
        f"{least} and {most}: {cause}?"
    )
