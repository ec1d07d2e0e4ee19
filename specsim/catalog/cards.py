"""Cards of the catalogue as records, and the figures that follow from them."""

from __future__ import annotations

from typing import Any

from specsim.catalog import library
from specsim.catalog.plausible import check_hardware
from specsim.catalog.resolve import hardware_document
from specsim.catalog.validate import validate
from specsim.errors import Place
from specsim.specs.card import Card
from specsim.specs.hardware import Hardware, Kernels
from specsim.specs.model import Model, ServedModel
from specsim.specs.precision import PRECISIONS
from specsim.specs.runtime import Runtime
from specsim.specs.scenario import Scenario

RECORDS: dict[str, type[Any]] = {
    "hardware": Hardware,
    "kernels": Kernels,
    "model": Model,
    "runtime": Runtime,
    "scenario": Scenario,
}


def card(kind: str, name: str, asked_at: Place | None = None) -> Card:
    """A card by catalogue name, alias or path.

    Raises:
        InputError: If there is no such card or it has faults.
    """
    document = library.read_card(kind, name, asked_at)
    if kind == "hardware":
        document = hardware_document(document)
    found: Card = validate(RECORDS[kind], document)
    if isinstance(found, Hardware):
        check_hardware(found, document)
    return found


def derived_figures(found: Card) -> dict[str, str]:
    """What follows from a card, name to value with its unit."""
    if isinstance(found, Hardware):
        bandwidth = found.memory.bandwidth_bytes_per_second
        return {
            f"ridge point at {name}": f"{(found.dense_rate.of(name) or 0) / bandwidth:.0f} operations/byte"
            for name in found.dense_rate.known
        }
    if isinstance(found, Model):
        served = ServedModel(model=found, precision=PRECISIONS["bf16"], kv_precision="bf16")
        return {
            "parameters": f"{found.parameters:,}",
            "parameters read by every pass": f"{found.streamed_parameters:,}",
            "weights at bf16": f"{served.weight_bytes / 1e9:.2f} GB",
            "cache per token at bf16": f"{served.kv_bytes_per_token:,.0f} bytes",
        }
    return {}
