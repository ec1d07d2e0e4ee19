"""Memory of a replica: blocks of the cache as shares of what weights leave of a device.

Target and drafter keep blocks for every request in flight, and slots for all tokens that a round looks at. A drafter on
devices of its own has a share of theirs; the larger of the two shares counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specsim.cost.memory import Resident, activation_bytes_per_token, sequence_bytes
from specsim.drafting import drafting_of
from specsim.planning.costs import round_of
from specsim.planning.lengths import lengths_of
from specsim.planning.question import Axes, Question
from specsim.serving.requests import Array, IntArray
from specsim.specs.acceptance import Independent


@dataclass(frozen=True, eq=False)
class Cache:
    """What fits on a replica.

    Attributes:
        share_of_blocks: Share of the cache that a request with so many blocks takes, shape (blocks + 1,); infinite
            where nothing is left for a cache.
        block_tokens: Tokens of a block.
        room_bytes: What weights leave of one device of the target for caches, below 0 where they do not fit [bytes].
        draft_bytes: Weights of the drafter on one device of the target [bytes].
        draft_bytes_per_token: Its cache for one token there [bytes].
        limit: ``memory`` where weights do not fit, else empty.
        max_positions: Tokens that a request may have at most.
    """

    share_of_blocks: Array
    block_tokens: int
    room_bytes: float
    draft_bytes: float
    draft_bytes_per_token: float
    limit: str
    max_positions: int

    def blocks(self, tokens: IntArray) -> IntArray:
        """Blocks of requests that keep so many tokens, any shape."""
        return -(-tokens // self.block_tokens)

    def share(self, tokens: IntArray) -> Array:
        """Share of the cache that each of them takes."""
        return self.share_of_blocks[np.minimum(self.blocks(tokens), len(self.share_of_blocks) - 1)]

    def kv_tokens(self, context: float) -> int:
        """Tokens that fit in requests of such a length, all slots counted."""
        tokens = np.array([max(int(context), 1)])
        share = float(self.share(tokens)[0])
        return 0 if not np.isfinite(share) or share <= 0 else int(tokens[0] / share)


def cache_of(question: Question, drafts: bool, slots: int, longest: int, block_tokens: int) -> Cache:
    """The memory of one option.

    Args:
        question: Machine, target and drafter.
        drafts: Whether the drafter is there at all.
        slots: Tokens of a request that a round looks at, at most.
        longest: The longest request, its slots not counted.
        block_tokens: Tokens of a block.

    Raises:
        ValueError: If the question has no machine or no target.
    """
    machine, target = question.machine, question.target
    if machine is None or target is None:
        raise ValueError("a cache needs a machine and a target")
    resident, apart = _residents(question) if drafts else (Resident(), None)
    capacity = np.floor(machine.hardware.memory.capacity_bytes * machine.runtime.memory_utilization)
    room = float(capacity - np.ceil(target.device_weight_bytes) - np.ceil(resident.weight_bytes))
    ends = np.arange(0, longest + slots + block_tokens, block_tokens, dtype=float)
    # The last tokens of a request are its slots: states and windows count them apart.
    new = np.minimum(ends, float(slots))
    before = ends - new
    own = np.ceil(sequence_bytes(target, new, before) + activation_bytes_per_token(target) * new)
    drafted: Array = np.zeros(())
    for model in resident.cached:
        drafted = drafted + np.ceil(sequence_bytes(model, new, before))
    needed = own / target.attention_data_parallel + drafted
    share = needed / room if room > 0 else np.full(needed.shape, np.inf)
    fits = room > 0
    if apart is not None:
        theirs = float(capacity - np.ceil(apart.weight_bytes))
        cached = sum((np.ceil(sequence_bytes(model, new, before)) for model in apart.cached), np.zeros(()))
        share = np.maximum(share, cached / theirs if theirs > 0 else np.inf)
        fits = fits and theirs > 0
    models = [target, *resident.cached, *(apart.cached if apart is not None else ())]
    last = np.broadcast_to(drafted, ends.shape)
    return Cache(
        share_of_blocks=np.where(ends > 0, share, 0.0),
        block_tokens=block_tokens,
        room_bytes=room,
        draft_bytes=float(np.ceil(resident.weight_bytes)),
        draft_bytes_per_token=float(last[-1] / ends[-1]),
        limit="" if fits else "memory",
        max_positions=min(one.model.max_positions for one in models),
    )


def _residents(question: Question) -> tuple[Resident, Resident | None]:
    """What the drafter keeps on the target's devices, and on its own if it has some."""
    axes = Axes.of([1], [1], [1])
    if question.target is None:
        return Resident(), None
    lengths = lengths_of(question.draft, Independent(rate=1.0), axes.gamma[:, 0, 0])
    drafting = drafting_of(question.draft, question.target, round_of(axes, lengths))
    return (drafting.resident, drafting.apart) if drafting is not None else (Resident(), None)
