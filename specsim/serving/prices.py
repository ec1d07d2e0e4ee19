"""What accelerators cost: the user's price, or the middle of the dated offers of a hardware card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median_low

from specsim.specs.hardware import Hardware


@dataclass(frozen=True)
class HourlyPrice:
    """What one accelerator costs.

    Attributes:
        usd_per_hour: The price, None where none is known.
        basis: Where it comes from, in words.
    """

    usd_per_hour: float | None
    basis: str


def price_of(hardware: Hardware, given: Mapping[str, float]) -> HourlyPrice:
    """The price that is given for an accelerator, or the middle one of its card's offers (the lower of two)."""
    if hardware.name in given:
        return HourlyPrice(given[hardware.name], f"{hardware.name} at {given[hardware.name]:g} USD/h, as given")
    offers = [offer.price_usd_per_hour for offer in hardware.prices]
    if not offers:
        return HourlyPrice(None, f"no price of {hardware.name} is known; give one to see what it costs")
    dates = sorted(offer.date for offer in hardware.prices if offer.date is not None)
    when = "" if not dates else f" of {dates[0]}" if dates[0] == dates[-1] else f" of {dates[0]} to {dates[-1]}"
    chosen = median_low(offers)
    if len(offers) == 1:
        return HourlyPrice(chosen, f"{hardware.name} at {chosen:g} USD/h, the one offer{when} on its card")
    told = f"the middle of {len(offers)} offers{when} from {min(offers):g} to {max(offers):g}"
    return HourlyPrice(chosen, f"{hardware.name} at {chosen:g} USD/h, {told}")
