"""What fits: weights, caches and activations against the memory of one device."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from specsim.cost.machine import Machine
from specsim.cost.passes import Array
from specsim.specs.precision import SIXTEEN_BITS
from specsim.specs.served import ServedModel

LIMITS = np.array(["", "memory", "kv_cache", "position"], dtype=object)
"""What can stand against an operating point, in the order of the codes of ``Fit.limit``."""


@dataclass(frozen=True, eq=False)
class Fit:
    """Whether operating points fit on one device; arrays over the points.

    Attributes:
        needed_bytes: Weights and caches of all models, with a slot for every token of a round, and activations [bytes].
        draft_bytes: Part of that which the drafter takes, weights and cache [bytes].
        limit: 0 where it fits, else an index into ``LIMITS``.
        excess_bytes: By how much the memory is exceeded, 0 where it suffices; the larger excess of the target's devices
            and those that the drafter has to itself [bytes].
        apart_excess_bytes: The same of the drafter's own devices alone [bytes].
        max_batch_size: Most sequences of this context and draft length that fit.
    """

    needed_bytes: Array
    draft_bytes: Array
    limit: NDArray[np.int8]
    excess_bytes: Array
    max_batch_size: Array
    apart_excess_bytes: Array = field(default_factory=lambda: np.zeros(()))


@dataclass(frozen=True)
class Resident:
    """What a drafter keeps on a device of the target.

    Attributes:
        weight_bytes: Its weights on one device [bytes].
        cached: Models that keep a cache of their own for every sequence.
    """

    weight_bytes: float = 0.0
    cached: tuple[ServedModel, ...] = ()


def fit(
    target: ServedModel,
    drafter: Resident,
    sequences: Array,
    tokens_per_sequence: Array,
    context_length: Array,
    machine: Machine,
    new_positions: Array | None = None,
) -> Fit:
    """Hold weights, caches and activations against the memory of a device, and sequences against positions.

    Every sequence keeps ``context_length + tokens_per_sequence`` tokens in the cache of every model; where only one
    token is new nothing is drafted, and the drafter is not there. New tokens take as many positions, unless said
    otherwise: tokens of one level of a tree share theirs.
    """
    # Whole bytes from here on, so that sums over any number of sequences are whole too.
    capacity = np.floor(machine.hardware.memory.capacity_bytes * machine.runtime.memory_utilization)
    slots = context_length + (tokens_per_sequence if new_positions is None else new_positions)
    groups = target.attention_data_parallel
    own = sequence_bytes(target, tokens_per_sequence, context_length)
    own = np.ceil(own + activation_bytes_per_token(target) * tokens_per_sequence)
    weights = np.ceil(target.device_weight_bytes)
    drafts = tokens_per_sequence > 1
    of_draft: Array = np.zeros(())
    for model in drafter.cached:
        of_draft = of_draft + np.ceil(sequence_bytes(model, tokens_per_sequence, context_length))
    of_draft = np.where(drafts, of_draft, 0.0)
    draft_weights: Array = np.where(drafts, np.ceil(drafter.weight_bytes), 0.0)
    positions = [served.model.max_positions for served in (target, *drafter.cached)]
    most_slots: Array = np.where(drafts, float(min(positions)), float(positions[0]))
    fullest = np.ceil(sequences / groups)
    caches = sequences * (own + of_draft) if groups == 1 else fullest * own + sequences * of_draft
    needed = (weights + draft_weights) + caches
    beyond = slots > most_slots
    without_cache = np.where(weights + draft_weights > capacity, np.int8(1), np.int8(2))
    # The larger code says more; arithmetic on codes is many times faster than choosing by a mask.
    limit = np.maximum((needed > capacity) * without_cache, beyond * np.int8(3))
    room = np.maximum(capacity - weights - draft_weights, 0.0)
    return Fit(
        needed_bytes=needed,
        draft_bytes=draft_weights + sequences * of_draft,
        limit=limit,
        excess_bytes=np.maximum(needed - capacity, 0.0) if limit.any() else np.zeros(()),
        max_batch_size=np.where(beyond, 0.0, _most_sequences(room, own, of_draft, groups)),
    )


def with_apart(
    found: Fit,
    drafter: Resident,
    sequences: Array,
    tokens_per_sequence: Array,
    context_length: Array,
    machine: Machine,
    new_positions: Array | None = None,
) -> Fit:
    """What fits besides on the devices that a drafter has to itself; where nothing is drafted, everything does."""
    capacity = np.floor(machine.hardware.memory.capacity_bytes * machine.runtime.memory_utilization)
    cache: Array = np.zeros(())
    for model in drafter.cached:
        cache = cache + np.ceil(sequence_bytes(model, tokens_per_sequence, context_length))
    room, drafts = capacity - np.ceil(drafter.weight_bytes), tokens_per_sequence > 1
    most_slots = min(served.model.max_positions for served in drafter.cached)
    beyond = context_length + (tokens_per_sequence if new_positions is None else new_positions) > most_slots
    without_cache = np.int8(1 if room < 0 else 2)
    limit = np.maximum((sequences * cache > room) * without_cache, beyond * np.int8(3))
    most = np.where(beyond, 0.0, np.floor(np.maximum(room, 0.0) / np.maximum(cache, 1.0)))
    excess = np.maximum(sequences * cache - room, 0.0) * drafts
    return replace(
        found,
        limit=np.maximum(found.limit, limit * drafts),
        excess_bytes=np.maximum(found.excess_bytes, excess),
        max_batch_size=np.minimum(found.max_batch_size, np.where(drafts, most, np.inf)),
        apart_excess_bytes=excess,
    )


def _most_sequences(room: Array, own: Array, of_draft: Array, groups: int) -> Array:
    """The largest batch B for which ceil(B / groups) x own + B x of_draft is within the room."""
    most = np.floor(room / (own / groups + of_draft))
    if groups == 1:
        return most
    # So many fit if every group is full; beyond, one group has a sequence more, and then only drafts take room.
    full = np.floor(most / groups) * groups
    left = room - (full / groups + 1) * own
    with_one_more = np.floor(left / np.where(of_draft > 0, of_draft, 1.0))
    return np.where(left >= 0, np.clip(with_one_more, full, most), full)


def sequence_bytes(served: ServedModel, tokens_per_sequence: Array, context_length: Array) -> Array:
    """Cache of one sequence on one device, with a slot for each new token [bytes].

    A layer with a window keeps what the window reaches and the new tokens. A layer with a state keeps one state for
    each new token, since a rejected one cannot be taken out again. Cross-attention keeps the source.
    """
    model = served.model
    per_layer = served.cached_values_per_device * served.kv_bytes_per_value
    found = model.layers_of("full") * per_layer * (context_length + tokens_per_sequence)
    if model.sliding_window is not None:
        kept = np.minimum(context_length, model.sliding_window - 1.0) + tokens_per_sequence
        found = found + model.layers_of("sliding") * per_layer * kept
    if model.linear_attention is not None:
        found = found + model.state_bytes / served.attention_shards * tokens_per_sequence
    if model.encoder is not None:
        found = found + model.layers * per_layer * served.source_tokens
    return np.asarray(found / served.pipeline_parallel)


def activation_bytes_per_token(served: ServedModel) -> float:
    """What the widest operator keeps of one token on one device: two hidden states and what it makes [bytes]."""
    model, p = served.model, served.tensor_parallel
    widths = [model.vocab_size / p]
    if model.mlp is not None:
        widths.append(model.mlp.up_width / p)
    if model.experts is not None:
        widths.append(2 * model.experts.intermediate_size * model.experts.top_k / p)
    return SIXTEEN_BITS * (2 * model.hidden_size + max(widths))
