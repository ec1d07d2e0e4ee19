"""Named number formats of weights, cache and arithmetic.

Bits of a weight include its scales. What a format leaves alone stays at 16 bits: norms, biases and positions always,
and the modules that the usual quantisers of the format leave out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from specsim.specs.fields import Kind

Module = Literal["attention", "mlp", "experts", "router", "head", "embedding", "small"]
"""Parts of a model that formats tell apart; ``small`` is norms, biases, convolutions and tables of positions."""

SIXTEEN_BITS = 2.0
"""Bytes of an activation, a logit, or a weight that a format leaves alone."""


@dataclass(frozen=True)
class Precision:
    """How weights are stored and with which rate products are computed.

    Attributes:
        name: The name users write.
        weight_bits: Bits a weight, scales included.
        rate: The dense rate of the hardware card that products run at; ``16bit`` is bf16 where the hardware has it
            and fp16 elsewhere.
        modules: What is stored in this format; the rest has 16 bits.
    """

    name: str
    weight_bits: float
    rate: str
    modules: frozenset[Module]

    def bytes_of(self, module: Module) -> float:
        """Bytes of one weight of a module."""
        return self.weight_bits / 8 if module in self.modules else SIXTEEN_BITS

    @property
    def narrow(self) -> bool:
        """Whether weights have fewer than 16 bits."""
        return self.weight_bits < 16

    @property
    def narrow_activations(self) -> bool:
        """Whether products take activations of fewer than 16 bits, where the hardware has such a rate."""
        return self.narrow and self.rate not in ("16bit", "bf16", "fp16")


_LINEAR: frozenset[Module] = frozenset({"attention", "mlp", "experts"})
_WITH_HEAD: frozenset[Module] = _LINEAR | {"head"}
_WITH_TABLES: frozenset[Module] = _WITH_HEAD | {"embedding"}
_FEED_FORWARD: frozenset[Module] = frozenset({"mlp", "experts"})
_EVERYTHING: frozenset[Module] = _WITH_TABLES | {"router", "small"}
_NOTHING: frozenset[Module] = frozenset()

PRECISIONS = {
    precision.name: precision
    for precision in (
        # Everything has 32 bits, also what other formats leave at 16.
        Precision("fp32", 32.0, "fp32", _EVERYTHING),
        Precision("bf16", 16.0, "bf16", _NOTHING),
        Precision("fp16", 16.0, "fp16", _NOTHING),
        # One fp32 scale for a block of 128 x 128 weights (DeepSeek-V3); a scale for a channel takes no more.
        Precision("fp8-w8a8", 8 + 32 / 128**2, "fp8", _LINEAR),
        Precision("fp8-w8a16", 8 + 32 / 128**2, "16bit", _LINEAR),
        Precision("int8-w8a8", 8.0, "int8", _LINEAR),
        # Scales for a channel are left out (under 0.2 %); the head is quantised too, as in gpt-fast.
        Precision("int8-w8a16", 8.0, "16bit", _WITH_HEAD),
        # GPTQ and AWQ: a 16-bit scale and a 4-bit zero point for 128 weights.
        Precision("int4-w4a16-g128", 4 + (16 + 4) / 128, "16bit", _LINEAR),
        # OCP microscaling: 32 weights share a scale of 8 bits. Feed-forward weights only and activations of 16 bits,
        # as gpt-oss is published and served.
        Precision("mxfp4", 4 + 8 / 32, "16bit", _FEED_FORWARD),
        # 16 weights share a scale of 8 bits.
        Precision("nvfp4", 4 + 8 / 16, "fp4", _LINEAR),
        # Blocks of GGUF files by their layout in ggml; tables are quantised, products run on 16-bit values.
        Precision("q8_0", (32 * 8 + 16) / 32, "16bit", _WITH_TABLES),
        Precision("q6_k", 210 * 8 / 256, "16bit", _WITH_TABLES),
        Precision("q5_k", 176 * 8 / 256, "16bit", _WITH_TABLES),
        Precision("q4_k", 144 * 8 / 256, "16bit", _WITH_TABLES),
        Precision("q4_1", (32 * 4 + 32) / 32, "16bit", _WITH_TABLES),
        Precision("q4_0", (32 * 4 + 16) / 32, "16bit", _WITH_TABLES),
    )
}

KV_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0}
"""Bytes of one cached value by the name of its format; scales are too few to count."""


def _read_precision(value: object) -> Precision:
    if isinstance(value, str) and value in PRECISIONS:
        return PRECISIONS[value]
    meant = [name for name in PRECISIONS if isinstance(value, str) and name.startswith(f"{value}-")]
    hint = f" ({' or '.join(meant)}: weights and activations apart)" if meant else ""
    raise ValueError(f"a precision, one of {', '.join(PRECISIONS)}{hint}")


PrecisionName = Annotated[
    Precision, Kind(_read_precision, lambda precision: precision.name, {"enum": list(PRECISIONS)})
]
