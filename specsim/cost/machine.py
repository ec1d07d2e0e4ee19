"""An accelerator in its node under a runtime: the effective rates that times are made of."""

from __future__ import annotations

from dataclasses import dataclass, replace

from specsim.cost.operators import Operator
from specsim.specs.hardware import Hardware, Kernels, Link
from specsim.specs.node import DEVICES_WITHOUT_A_NODE, Node
from specsim.specs.precision import PRECISIONS, Precision
from specsim.specs.runtime import Runtime

_FOUR_BITS = PRECISIONS["int4-w4a16-g128"].weight_bits
"""Bits of the weights from which the efficiency of 4-bit kernels was measured, scales included."""


@dataclass(frozen=True, eq=False)
class Machine:
    """Accelerators of one kind under one runtime.

    Attributes:
        node: How they are wired; as many as in one server, by the link of the hardware card, if None.
    """

    hardware: Hardware
    runtime: Runtime
    node: Node | None = None

    @property
    def of_drafts(self) -> Machine:
        """The machine as the passes of a drafter find it."""
        layer = self.runtime.draft_layer_overhead_seconds
        if layer is None:
            return self
        return replace(self, runtime=replace(self.runtime, layer_overhead_seconds=layer))

    @property
    def kernels(self) -> Kernels:
        """The efficiencies in force: the runtime's own, or those of the device family."""
        return self.runtime.kernels or self.hardware.kernels

    def rate_of(self, precision: Precision) -> str | None:
        """The dense rate at which products with such weights run here, by its name; None if there is none.

        A format of narrow activations that the hardware cannot compute runs weight-only, at the rate of 16 bits.
        """
        if not precision.narrow:
            return precision.rate
        return self.hardware.rate_of_16_bits if self.is_weight_only(precision) else precision.rate

    def is_weight_only(self, precision: Precision) -> bool:
        """Whether weights of such a format are widened to 16 bits on their way into a product here."""
        computed = precision.narrow_activations and self.hardware.dense_rate.of(precision.rate) is not None
        return precision.narrow and not computed

    def compute_efficiency(self, rate: str | None) -> float:
        """Share of a dense rate, by its name, that large matrix products reach."""
        kernels = self.kernels
        narrow = None if rate in ("fp32", "bf16", "fp16") else kernels.compute_efficiency_8bit
        return narrow or kernels.compute_efficiency

    def attention_memory_efficiency(self, kv_bytes_per_value: float) -> float:
        """Share of the bandwidth that attention reaches over a cache of so wide values."""
        kernels = self.kernels
        narrow = kernels.attention_memory_efficiency_8bit if kv_bytes_per_value < 2 else None
        return narrow or kernels.attention_memory_efficiency

    def matrix_memory_efficiency(self, narrow: Precision | None) -> float:
        """Share of the bandwidth that a matrix product reaches with weights of a narrow format, or of 16 bits."""
        kernels = self.kernels
        if narrow is None:
            return kernels.memory_efficiency
        if not self.is_weight_only(narrow):
            return kernels.memory_efficiency_8bit or kernels.memory_efficiency
        share = min(max((narrow.weight_bits - _FOUR_BITS) / (8 - _FOUR_BITS), 0.0), 1.0)
        least, most = kernels.weight_only_4bit_efficiency, kernels.weight_only_8bit_efficiency
        return kernels.memory_efficiency * (least + share * (most - least))

    def operations_per_second(self, operator: Operator, precision: Precision) -> float:
        """What large runs of an operator reach in a model of such a precision [operations/s].

        Raises:
            ValueError: If the hardware has no dense rate for it.
        """
        sixteen = self.hardware.rate_of_16_bits if precision.narrow else precision.rate
        name = sixteen if operator.narrow is None else self.rate_of(operator.narrow)
        rate = None if name is None else self.hardware.dense_rate.of(name)
        if rate is None:
            raise ValueError(f"{self.hardware.name} has no dense rate for {precision.name}")
        return self.compute_efficiency(name) * rate

    def bytes_per_second(self, operator: Operator, kv_bytes_per_value: float) -> float:
        """What an operator reaches of the memory's bandwidth [bytes/s]."""
        efficiency = (
            self.attention_memory_efficiency(kv_bytes_per_value)
            if operator.kind == "attention"
            else self.matrix_memory_efficiency(operator.narrow)
        )
        return efficiency * self.hardware.memory.bandwidth_bytes_per_second

    @property
    def node_devices(self) -> int:
        """Devices that are linked inside one node."""
        return DEVICES_WITHOUT_A_NODE if self.node is None else self.node.devices

    @property
    def _link(self) -> Link | None:
        own = self.node.link if self.node is not None else None
        return own or self.hardware.interconnect or self.hardware.host_link

    def link_bytes_per_second(self, devices: int) -> float:
        """What a collective of so many devices of one node reaches of a device's one-way link [bytes/s]."""
        own = self.node.link_efficiency if self.node is not None else None
        efficiency = self.kernels.link_efficiency if own is None else own
        if self.node is not None and self.node.topology == "mesh":
            efficiency *= (devices - 1) / (self.node.devices - 1)
        return efficiency * (self._link.bandwidth_bytes_per_second if self._link is not None else float("nan"))

    @property
    def link_latency_seconds(self) -> float:
        """What the link inside a node adds to the latency of the runtime [s]."""
        return 0.0 if self.node is None else self.node.link_latency_seconds

    @property
    def network_bytes_per_second(self) -> float:
        """What a collective reaches of the one-way bandwidth between nodes, per device [bytes/s]."""
        if self.node is None or self.node.network is None:
            return float("nan")
        return self.node.network_efficiency * self.node.network.bandwidth_bytes_per_second

    @property
    def network_latency_seconds(self) -> float:
        """What the network between nodes adds to the latency of the runtime [s]."""
        return 0.0 if self.node is None else self.node.network_latency_seconds

    @property
    def host_bytes_per_second(self) -> float:
        """What weights that are streamed from the host reach of its link [bytes/s]."""
        link = self.hardware.host_link
        return self.runtime.host_link_efficiency * (
            link.bandwidth_bytes_per_second if link is not None else float("nan")
        )
