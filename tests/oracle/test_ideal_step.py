"""The ideal plain step of Llama-3-8B bf16 on one H100, against the sum of its operators worked by hand.

Rates are the datasheet's: 3.35 TB/s and 989.5 TFLOP/s; every operator takes the larger of its two limits.
"""

from __future__ import annotations

import numpy as np
import pytest
from conftest import question_of

from specsim.cost.breakdown import operators
from specsim.cost.passes import Pass
from specsim.cost.roofline import pass_time

BANDWIDTH, RATE = 3.35e12, 989.5e12
LAYERS, HIDDEN, VOCABULARY, INTERMEDIATE = 32, 4096, 128_256, 14_336
QUERIES, KEYS = 32 * 128, 8 * 128


def by_hand(batch, context):
    """Seconds of one plain step: weights and activations of 2 bytes, one multiply-add as two operations."""

    def matrix(rows, columns, extra=0):
        moved = 2 * (rows * columns + extra) + 2 * batch * (rows + columns)
        return max(moved / BANDWIDTH, 2 * rows * columns * batch / RATE)

    cache = 2 * 2 * KEYS * batch * context
    new = 2 * batch * (QUERIES + KEYS + KEYS + QUERIES)
    attention = max((cache + new) / BANDWIDTH, 4 * QUERIES * batch * (context + 1) / RATE)
    layer = (
        matrix(HIDDEN, QUERIES + 2 * KEYS, extra=HIDDEN)  # with the norm before attention
        + attention
        + matrix(QUERIES, HIDDEN)
        + matrix(HIDDEN, 2 * INTERMEDIATE, extra=HIDDEN)  # with the norm before the feed-forward part
        + matrix(INTERMEDIATE, HIDDEN)
    )
    lookups = 2 * batch * (2 * HIDDEN + VOCABULARY) / BANDWIDTH  # embedding in and out; logits read once to sample
    return LAYERS * layer + matrix(HIDDEN, VOCABULARY, extra=HIDDEN) + lookups


@pytest.fixture
def ideal():
    return question_of("h100-sxm5", "ideal", "llama-3-8b", "llama-3.2-1b")


@pytest.mark.parametrize(
    ("batch", "context", "floor_ms"),
    [(1, 1024, 4.52), (256, 1024, 14.74), (256, 8192, 86.5)],
)
def test_ideal_step_is_the_sum_worked_by_hand(ideal, batch, context, floor_ms):
    one = Pass(ideal.target, np.asarray(float(batch)), np.ones(()), np.asarray(float(context)))
    seconds = float(pass_time(one, ideal.machine).seconds)
    assert seconds == pytest.approx(by_hand(batch, context), rel=1e-12)
    # The bare floor: weights but for the input table, and the cache, over the bandwidth; at most 3 % below.
    floor = (2 * 7_504_924_672 + batch * context * 131_072) / BANDWIDTH
    assert floor * 1e3 == pytest.approx(floor_ms, abs=0.05)
    assert floor <= seconds <= 1.03 * floor


def test_operators_read_every_weight_once_but_for_the_input_table(ideal):
    one = Pass(ideal.target, np.ones(()), np.ones(()), np.zeros(()))
    assert sum(float(o.stored_bytes) for o in operators(one)) == 2 * ideal.target.model.streamed_parameters


@pytest.mark.parametrize("tokens", [1, 5, 64])
def test_operations_are_two_per_weight_and_token(ideal, tokens):
    one = Pass(ideal.target, np.ones(()), np.asarray(float(tokens)), np.zeros(()))
    matrices = sum(float(o.operations) for o in operators(one) if o.kind == "matrix")
    norms = (2 * LAYERS + 1) * HIDDEN
    assert matrices == 2 * tokens * (ideal.target.model.streamed_parameters - norms)


def test_attention_looks_at_the_cache_and_at_new_tokens_before(ideal):
    """Token i of 5 attends to 100 + i tokens: 515 in all; four operations for each pair of values."""
    one = Pass(ideal.target, np.asarray(2.0), np.asarray(5.0), np.asarray(100.0))
    attention = next(o for o in operators(one) if o.kind == "attention")
    assert float(attention.operations) == 4 * QUERIES * 2 * sum(100 + i for i in range(1, 6)) * LAYERS
