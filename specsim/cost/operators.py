"""An operator of a pass: what one device computes, reads and sends, as arrays.

One multiply-add is two operations. Weights are read once per pass. The cache is read once per sequence, however
many new tokens look at it; what the new tokens themselves add to it counts among the activations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from specsim.cost.passes import Array, Pass
from specsim.specs.precision import SIXTEEN_BITS, Module, Precision

OperatorKind = Literal["matrix", "attention", "lookup", "exchange"]
Pattern = Literal["all_reduce", "gather", "all_to_all", "transfer"]

NOTHING = np.zeros(())
"""No operations, no bytes: broadcasts against everything."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Operator:
    """All runs of one operator in a pass, on one device.

    Attributes:
        name: What it is called in a transformer layer.
        kind: ``matrix`` product, ``attention`` over the cache or over a state, ``lookup`` of rows, or ``exchange``
            of messages between devices.
        runs: How often it runs: once a layer, or once.
        operations: Arithmetic.
        rows: Rows of one matrix product.
        narrow: The number format of the weights of a matrix product, None where they have 16 bits.
        stored_bytes: Weights, and cached keys and values and states, that are read [bytes].
        activation_bytes: Activations and logits that are read and written [bytes].
        message_bytes: What is joined, gathered or sent: the whole of it, or one device's part of an ``all_to_all``
            [bytes].
        pattern: Form of the exchange.
        group: Devices that take part in it.
    """

    name: str
    kind: OperatorKind
    runs: int
    operations: Array = field(default_factory=lambda: NOTHING)
    rows: Array = field(default_factory=lambda: NOTHING)
    narrow: Precision | None = None
    stored_bytes: Array = field(default_factory=lambda: NOTHING)
    activation_bytes: Array = field(default_factory=lambda: NOTHING)
    message_bytes: Array = field(default_factory=lambda: NOTHING)
    pattern: Pattern = "all_reduce"
    group: int = 1


def matrix(
    of: Pass,
    name: str,
    module: Module,
    runs: int,
    shape: tuple[float, float],
    tokens: Array,
    small_parameters: float = 0,
    moved_values: float | None = None,
) -> Operator:
    """The product of all tokens with one matrix of a module.

    Args:
        of: The pass.
        name: Name of the operator.
        module: The part of the model that the matrix belongs to.
        runs: How many layers have it.
        shape: Rows and columns of the matrix on one device.
        tokens: Tokens that are multiplied with it.
        small_parameters: Biases and norms that are read beside it.
        moved_values: Values of one token that go in and come out; a row and a column of the matrix if None, and more
            where each head has a matrix of its own.
    """
    inputs, outputs = shape
    precision = of.served.precision
    weight_bytes = inputs * outputs * precision.bytes_of(module) + small_parameters * SIXTEEN_BITS
    return Operator(
        name=name,
        kind="matrix",
        runs=runs,
        operations=2 * inputs * outputs * runs * tokens,
        rows=tokens,
        narrow=precision if precision.narrow and module in precision.modules else None,
        stored_bytes=np.asarray(weight_bytes * runs),
        activation_bytes=(moved_values or inputs + outputs) * runs * SIXTEEN_BITS * tokens,
    )


def table_operators(of: Pass) -> tuple[Operator, Operator, Operator]:
    """Looking up the rows of the new tokens, the output head, and sampling from its logits."""
    model = of.served.model
    hidden, columns = model.hidden_size, model.vocab_size / of.served.tensor_parallel
    return (
        Operator(
            name="embedding", kind="lookup", runs=1, activation_bytes=2 * hidden * SIXTEEN_BITS * of.tokens
        ),
        matrix(of, "head", "head", 1, (hidden, columns), of.outputs, model.norm_parameters),
        Operator(name="sampling", kind="lookup", runs=1, activation_bytes=columns * SIXTEEN_BITS * of.outputs),
    )  # fmt: skip
