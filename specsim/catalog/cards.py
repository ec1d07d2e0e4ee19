"""Cards of the catalogue as records, and the figures that follow from them."""

from __future__ import annotations

from typing import Any

from specsim.catalog import library
from specsim.catalog.draft_cards import checked_drafter, checked_head
from specsim.catalog.fill import hardware_document
from specsim.catalog.plausible import check_hardware, check_node
from specsim.catalog.validate import validate
from specsim.errors import Place
from specsim.specs.card import Card
from specsim.specs.drafter import Drafter
from specsim.specs.hardware import Hardware, Kernels
from specsim.specs.head import HEADS, Head
from specsim.specs.model import Model
from specsim.specs.node import Node
from specsim.specs.precision import PRECISIONS
from specsim.specs.runtime import Runtime
from specsim.specs.scenario import Scenario
from specsim.specs.served import ServedModel
from specsim.specs.tree import Shape, Tree
from specsim.specs.tree_card import TreeCard

RECORDS: dict[str, Any] = {
    "hardware": Hardware,
    "node": Node,
    "kernels": Kernels,
    "model": Model,
    "head": Head,
    "drafter": Drafter,
    "runtime": Runtime,
    "tree": TreeCard,
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
    if kind in ("head", "drafter"):
        checked: Card = checked_head(document) if kind == "head" else checked_drafter(document)
        return checked
    found: Card = validate(RECORDS[kind], document)
    if isinstance(found, Hardware):
        check_hardware(found, document)
    if isinstance(found, Node):
        check_node(found, document)
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
        return _of_model(found)
    if isinstance(found, TreeCard):
        return figures_of_tree(found.tree)
    if isinstance(found, HEADS):
        return {"own parameters": f"{found.parameters:,}"}
    return {}


def figures_of_tree(shape: Shape) -> dict[str, str]:
    """What follows from a shape."""
    steps = ", ".join(map(str, shape.step_tokens))
    figures = {"verified tokens": f"{shape.nodes}", "levels": f"{shape.depth}", "tokens of each draft step": steps}
    if isinstance(shape, Tree):
        figures["nodes of each level"] = "+".join(map(str, shape.level_counts))
        figures["candidates"] = f"{shape.paths}"
        figures["tokens if verified path by path"] = f"{shape.path_tokens}"
    return figures


def _of_model(model: Model) -> dict[str, str]:
    served = ServedModel(model=model, precision=PRECISIONS["bf16"], kv_precision="bf16")
    figures = {"parameters": f"{model.parameters:,}"}
    if model.experts is not None:
        figures["active parameters"] = f"{model.active_parameters:,}"
        figures["active parameters without input table"] = f"{model.active_parameters_without_embedding:,}"
    figures["parameters read by a pass of one token"] = f"{model.streamed_parameters:,}"
    figures["weights at bf16"] = f"{served.weight_bytes / 1e9:.2f} GB"
    figures["cache per token at bf16"] = f"{served.kv_bytes_per_token:,.0f} bytes"
    if model.sliding_window is not None:
        part = served.kv_bytes_per_token * model.layers_of("full") / model.attention_layers
        figures[f"cache per token beyond the window of {model.sliding_window:,}"] = f"{part:,.0f} bytes"
    if model.linear_attention is not None:
        figures["states of a sequence"] = f"{model.state_bytes:,.0f} bytes, once for every new token"
    return figures
