"""A pass as its operators."""

from __future__ import annotations

from specsim.cost.attention import attention_operators
from specsim.cost.exchanges import exchange_operators
from specsim.cost.feed_forward import feed_forward_operators
from specsim.cost.operators import Operator, matrix, table_operators
from specsim.cost.passes import Pass


def operators(of: Pass) -> tuple[Operator, ...]:
    """Operators of one pass: what stands beside its layers, and those of layers, each for all layers that have it.

    What is split over p devices is one device's part. In a pipeline all stages are here, one after another, with the
    sequences that a stage works on at a time.
    """
    shards = of.served.tensor_parallel
    beside = tuple(
        matrix(
            of, p.name, p.module, p.count, (p.inputs, p.outputs / shards), of.tokens, p.small_parameters,
            p.inputs if p.summed else None,
        )
        for p in of.projections
    )  # fmt: skip
    if of.bare:
        return beside
    embedding, head, sampling = table_operators(of)
    return (
        embedding,
        *beside,
        *attention_operators(of),
        *feed_forward_operators(of),
        head,
        sampling,
        *exchange_operators(of),
    )
