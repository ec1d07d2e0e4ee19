"""Named number formats of weights, cache and arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from specsim.specs.fields import Kind


@dataclass(frozen=True)
class Precision:
    """How weights are stored and with which rate products are computed.

    Attributes:
        name: The name users write.
        weight_bytes: Bytes a weight, scales included.
        rate: The dense rate of the hardware card that products run at.
    """

    name: str
    weight_bytes: float
    rate: str


ACTIVATION_BYTES = 2.0
"""Bytes of one activation or logit: 16 bits between operators whatever the weights are stored in."""

PRECISIONS = {
    precision.name: precision
    for precision in (
        Precision("bf16", 2.0, "bf16"),
        Precision("fp16", 2.0, "fp16"),
    )
}

KV_BYTES = {"bf16": 2.0, "fp16": 2.0}
"""Bytes of one cached value by the name of its format."""


def _read_precision(value: object) -> Precision:
    if not isinstance(value, str) or value not in PRECISIONS:
        raise ValueError(f"a precision, one of {', '.join(PRECISIONS)}")
    return PRECISIONS[value]


PrecisionName = Annotated[
    Precision, Kind(_read_precision, lambda precision: precision.name, {"enum": list(PRECISIONS)})
]
