"""A pass as its operators."""

from __future__ import annotations

from specsim.cost.attention import attention_operators
from specsim.cost.exchanges import exchange_operators
from specsim.cost.feed_forward import feed_forward_operators
from specsim.cost.operators import Operator, table_operators
from specsim.cost.passes import Pass


def operators(of: Pass) -> tuple[Operator, ...]:
    """Operators of one pass: those of layers, each for all layers that have it, between those that run once.

    What is split over p devices is one device's part. In a pipeline all stages are here, one after another, with the
    sequences that a stage works on at a time.
    """
    embedding, head, sampling = table_operators(of)
    return (
        embedding,
        *attention_operators(of),
        *feed_forward_operators(of),
        head,
        sampling,
        *exchange_operators(of),
    )
