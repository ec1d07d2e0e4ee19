"""Figures that parse and cannot be right: sparse rates given as dense, figures of a pair, slips of a unit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from specsim.catalog import library
from specsim.catalog.located import LocatedDict, place_of
from specsim.errors import Fault, InputError, nearest, shown
from specsim.specs.hardware import Hardware
from specsim.specs.head import Eagle3Head, EagleHead, MedusaHeads, MtpModule
from specsim.specs.node import Node
from specsim.units import BANDWIDTH, MEMORY, POWER, RATE, Dimension

RIDGE_POINTS = (8, 580)
"""Operations per byte at 16 bits between which every known accelerator lies: 32 (Apple, CPUs) to 560 (TPU v6e)."""

NARROW_RATES = {"fp8": (0.9, 2.1), "int8": (0.45, 4.1), "fp4": (1.9, 8.1)}
"""Rates in that of 16 bits between which every known accelerator lies: fp8 1 or 2, int8 0.5 (V100) to 4 (GeForce), fp4
4 (Blackwell, MI355X) or 8 (GeForce)."""

MILLISECONDS_TO_READ = (8, 5000)
"""Capacity / bandwidth between which every known accelerator lies: 18 ms (V100) to 1.7 s (CPUs)."""

WATTS = (5, 4000)


def check_hardware(hardware: Hardware, document: object, path: tuple[str, ...] = ()) -> None:
    """Refuse figures that stand for something else on a known device, and ratios that no accelerator has.

    Args:
        hardware: The card.
        document: The document it was read from, for the places of faults.
        path: Where the card stands in the document.

    Raises:
        InputError: With one fault for every figure that cannot be right.
    """
    # What is known of the device says more than a ratio, and often explains it. Who names a source has looked twice.
    twins = list(_same_device(hardware))
    found = list(_beside_twins(hardware, twins)) or [f for f in unlike_any(hardware) if not _has_source(hardware, f[0])]
    if found:
        raise InputError([Fault(message, *place_of(document, (*path, *field))) for field, message in found])


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


_FASTER = "no link is faster than the device's own memory: a slip of a unit? If not, name its source under sources."

_Found = tuple[tuple[str, ...], str]

_PAIR = "the figure of two devices"
_SLIPS = {10.0: "ten times", 0.1: "a tenth of", 1000.0: "a thousand times", 0.001: "a thousandth of"}


def _beside_twins(hardware: Hardware, twins: list[LocatedDict]) -> Iterator[_Found]:
    """Figures that are a telling multiple of what a shipped card of the same device has."""
    memory = hardware.memory
    figures: list[tuple[tuple[str, ...], float | None, Dimension, dict[float, str]]] = [
        (("memory", "capacity"), memory.capacity_bytes, MEMORY, {2.0**30 / 1e9: "counted in GiB"}),
        (("memory", "bandwidth"), memory.bandwidth_bytes_per_second, BANDWIDTH, {2.0: _PAIR}),
        (("power",), hardware.power_watts, POWER, {2.0: _PAIR}),
    ]
    figures += [
        (("dense_rate", name), hardware.dense_rate.of(name), RATE, {2.0: "the rate with 2:4 sparsity"})
        for name in hardware.dense_rate.known
    ]
    for field, link in (("interconnect", hardware.interconnect), ("host_link", hardware.host_link)):
        if link is not None:
            both = {2.0: "the figure of both directions together"}
            figures.append(((field, "bandwidth"), link.bandwidth_bytes_per_second, BANDWIDTH, both))
    for path, value, dimension, causes in figures:
        for card in twins:
            known = _written(card, path)
            if known is None or value is None:
                continue
            right = dimension.parse(known)
            for factor, cause in causes.items():
                if abs(value / right / factor - 1) < 0.01:
                    what = "dense rate" if path[0] == "dense_rate" else path[-1]
                    yield path, f"{dimension.format(value)} is {cause}; the {what} of {card['name']} is {known}."
            for factor, words in _SLIPS.items():
                if abs(value / right / factor - 1) < 0.05:
                    yield path, f"{dimension.format(value)} is {words} the {known} of {card['name']}: a slip of a unit?"


def _written(card: LocatedDict, path: tuple[str, ...]) -> str | None:
    found: Any = card
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return found if isinstance(found, str) else None


def _has_source(hardware: Hardware, field: tuple[str, ...]) -> bool:
    return any(".".join(field[:depth]) in hardware.sources for depth in range(1, len(field) + 1))


def unlike_any(hardware: Hardware) -> Iterator[_Found]:
    """Ratios of a card's own figures that no accelerator has."""
    memory, rates, sixteen = hardware.memory, hardware.dense_rate, hardware.rate_of_16_bits
    for name in rates.known:
        rate, field = rates.of(name) or 0.0, ("dense_rate", name)
        if name in ("bf16", "fp16"):
            ridge = rate / memory.bandwidth_bytes_per_second
            sparse = "a rate with sparsity, or a slip of a unit in rate or bandwidth"
            cause = sparse if ridge > RIDGE_POINTS[1] else "a slip of a unit"
            told = f"with this memory bandwidth it gives {ridge:.4g} operations/byte"
            yield from _outside(field, ridge, RIDGE_POINTS, told, cause)
        elif name in NARROW_RATES and sixteen is not None:
            ratio = rate / (rates.of(sixteen) or rate)
            cause = "a rate with sparsity, or a slip of a unit"
            yield from _outside(
                field, ratio, NARROW_RATES[name], f"it is {ratio:.4g} times the rate of {sixteen}", cause
            )
    seconds = memory.capacity_bytes / memory.bandwidth_bytes_per_second
    told, cause = (
        f"reading all of it takes {round(seconds * 1e3, 2):,g} ms at this bandwidth",
        "a slip of a unit in either",
    )
    yield from _outside(("memory", "capacity"), seconds * 1e3, MILLISECONDS_TO_READ, told, cause)
    if hardware.power_watts is not None:
        told = f"{hardware.power_watts:g} W for one device"
        yield from _outside(("power",), hardware.power_watts, WATTS, told, "a slip of a unit")
    for link_field, link in (("interconnect", hardware.interconnect), ("host_link", hardware.host_link)):
        if link is not None and link.bandwidth_bytes_per_second > memory.bandwidth_bytes_per_second:
            yield (link_field, "bandwidth"), _FASTER


def _outside(
    field: tuple[str, ...], ratio: float, bounds: tuple[float, float], told: str, cause: str
) -> Iterator[_Found]:
    least, most = bounds
    if not least <= ratio <= most:
        known = f"every accelerator of the catalogue lies between {least:g} and {most:g}"
        yield field, f"{told}, and {known}: {cause}? If not, name its source under sources."


def check_node(node: Node, document: object, path: tuple[str, ...] = ()) -> None:
    """Refuse links of a node that stand for something else, and accelerators that are not in the catalogue.

    Raises:
        InputError: With one fault for every figure that cannot be right.
    """
    found: list[tuple[tuple[str | int, ...], str]] = []
    links = [node.link.bandwidth_bytes_per_second] if node.link is not None else []
    for index, built in enumerate(node.hardware):
        name = library.known_name("hardware", built)
        if name is None:
            close = nearest(library.comparable(built), library.names("hardware"), list_all_up_to=0)
            found.append((("hardware", index), f"no accelerator is called {shown(built)}. {close}".strip()))
            continue
        written = _written(library.read_card("hardware", name), ("interconnect", "bandwidth"))
        if written is not None and node.link is None:
            links.append(BANDWIDTH.parse(written))
        if written is not None and node.link is not None and abs(links[0] / BANDWIDTH.parse(written) - 2) < 0.02:
            both = f"{BANDWIDTH.format(links[0])} is the figure of both directions together"
            found.append((("link", "bandwidth"), f"{both}; that of {name} is {written} in one."))
    if node.network is not None and links and node.network.bandwidth_bytes_per_second > max(links):
        told = "the network between nodes is faster than the link inside them: bytes for bits?"
        if "network" not in node.sources:
            found.append((("network", "bandwidth"), f"{told} If not, name its source under sources."))
    if found:
        raise InputError([Fault(message, *place_of(document, (*path, *field))) for field, message in found])


def check_head(head: EagleHead | Eagle3Head | MedusaHeads | MtpModule, document: object) -> None:
    """Refuse a draft head that does not fit its target.

    Raises:
        InputError: With one fault for every figure that contradicts the target's card.
    """
    name = library.known_name("model", head.target)
    if name is None:
        close = nearest(library.comparable(head.target), library.names("model"), list_all_up_to=0)
        message = f"no model is called {shown(head.target)}. {close}".strip()
        raise InputError(Fault(message, *place_of(document, ("target",))))
    target = library.read_card("model", name)
    wide = isinstance(head, Eagle3Head)
    figures = {"vocab_size": "vocab_size", "target_hidden_size" if wide else "hidden_size": "hidden_size"}
    faults = [
        Fault(f"expected {target[of_target]}, as {name} has, found {getattr(head, own)}.", *place_of(document, (own,)))
        for own, of_target in figures.items()
        if getattr(head, own) != target[of_target]
    ]
    if faults:
        raise InputError(faults)
