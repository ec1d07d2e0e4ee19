"""How accelerators are wired: inside a node, and from node to node."""

from __future__ import annotations

from typing import Annotated, Literal

from specsim.errors import Contradiction
from specsim.specs.card import Card
from specsim.specs.fields import Count, Fraction, Seconds, choice, record
from specsim.specs.hardware import Link

DEVICES_WITHOUT_A_NODE = 8
"""So many accelerators stand in one server as a rule; more need a node card to say how they are wired."""


@record
class Node(Card):
    """A server, or a domain of servers whose devices are linked alike.

    Attributes:
        hardware: Accelerators that it is built from, by catalogue name; any if none is named.
        devices: Accelerators in it.
        link: Between accelerators inside it, one direction, per device; that of the hardware card if absent.
        topology: ``switch`` gives every group the whole link of each device; in a ``mesh`` every pair has a link of its
            own, and a group of g of n devices has (g - 1) / (n - 1) of each device's.
        link_efficiency: Share of it that a collective reaches; that of the kernels if absent.
        link_latency_seconds: What a collective inside it takes beyond the latency of the runtime [s].
        network: Between nodes, one direction, per device; nodes cannot be joined if absent.
        network_efficiency: Share of it that a collective reaches.
        network_latency_seconds: What a collective between nodes takes beyond the latency of the runtime [s].
    """

    kind: Literal["node"] = "node"
    hardware: tuple[str, ...] = ()
    devices: Count
    link: Link | None = None
    topology: Annotated[str, choice("switch", "mesh")] = "switch"
    link_efficiency: Fraction | None = None
    link_latency_seconds: Seconds = 0.0
    network: Link | None = None
    network_efficiency: Fraction = 1.0
    network_latency_seconds: Seconds = 0.0

    def __post_init__(self) -> None:
        if self.topology == "mesh" and self.devices == 1:
            raise Contradiction("A mesh joins two devices at least.", "devices")
        if self.network is None and (self.network_latency_seconds or self.network_efficiency < 1):
            field = "network_latency" if self.network_latency_seconds else "network_efficiency"
            raise Contradiction("This says nothing without a network.", field)
