"""Key and value caches: what a pass writes, what a rejection takes back.

A pass reserves room, writes the keys and values of every layer behind what is committed, and advances. Rolling back is
a new length; after a tree the entries of the accepted path are moved together. Two layouts do the same: one array, or
blocks from a pool that several sequences share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class CacheFull(RuntimeError):
    """A pool has no block left."""


class Cache(Protocol):
    """What a pass needs of a cache."""

    length: int
    """Committed tokens."""

    def reserve(self, count: int) -> None:
        """Make room for so many more tokens.

        Raises:
            CacheFull: If a pool has no block left.
        """

    def write(self, layer: int, keys: Array, values: Array) -> tuple[Array, Array]:
        """Write new entries of a layer, shape (kv_heads, n, D); gives all up to them, (kv_heads, length + n, D)."""

    def advance(self, count: int) -> None:
        """Commit the tokens whose entries were written."""

    def keep(self, start: int, kept: Sequence[int]) -> None:
        """Of the entries from ``start`` on keep those at ``start + kept``, moved together; drop the others."""

    def truncate(self, length: int) -> None:
        """Drop everything behind so many tokens."""


class ContiguousCache:
    """One array for keys and one for values, shape (layers, kv_heads, capacity, D), doubled when it is full."""

    def __init__(self, layers: int, kv_heads: int, head_size: int, dtype: Any, capacity: int = 64) -> None:
        self.length = 0
        self.keys = np.empty((layers, kv_heads, capacity, head_size), dtype=dtype)
        self.values = np.empty_like(self.keys)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.keys.nbytes + self.values.nbytes

    def reserve(self, count: int) -> None:
        """Make room for so many more tokens."""
        layers, kv_heads, capacity, size = self.keys.shape
        needed = self.length + count
        if needed <= capacity:
            return
        for name in ("keys", "values"):
            grown = np.empty((layers, kv_heads, max(needed, 2 * capacity), size), dtype=self.keys.dtype)
            grown[:, :, : self.length] = getattr(self, name)[:, :, : self.length]
            setattr(self, name, grown)

    def write(self, layer: int, keys: Array, values: Array) -> tuple[Array, Array]:
        """Write new entries of a layer; gives all up to them."""
        end = self.length + keys.shape[1]
        self.keys[layer, :, self.length : end] = keys
        self.values[layer, :, self.length : end] = values
        return self.keys[layer, :, :end], self.values[layer, :, :end]

    def advance(self, count: int) -> None:
        """Commit the tokens whose entries were written."""
        self.length += count

    def keep(self, start: int, kept: Sequence[int]) -> None:
        """Of the entries from ``start`` on keep those at ``start + kept``, moved together; drop the others."""
        places = start + np.asarray(kept, dtype=np.int64)
        end = start + len(places)
        if not np.array_equal(places, np.arange(start, end)):
            self.keys[:, :, start:end] = self.keys[:, :, places]
            self.values[:, :, start:end] = self.values[:, :, places]
        self.length = end

    def truncate(self, length: int) -> None:
        """Drop everything behind so many tokens."""
        self.length = min(self.length, length)


class BlockPool:
    """Blocks of key and value entries that sequences take and give back.

    Attributes:
        free: Blocks that nobody holds.
        allocated: Blocks handed out so far, ever.
        returned: Blocks given back so far, ever.
    """

    def __init__(self, blocks: int, block_size: int, layers: int, kv_heads: int, head_size: int, dtype: Any) -> None:
        self.block_size = block_size
        self.keys = np.empty((layers, blocks, block_size, kv_heads, head_size), dtype=dtype)
        self.values = np.empty_like(self.keys)
        self.free = list(reversed(range(blocks)))
        self.allocated = self.returned = 0

    def take(self) -> int:
        """A free block.

        Raises:
            CacheFull: If there is none.
        """
        if not self.free:
            raise CacheFull(f"all {self.keys.shape[1]} blocks of the cache are taken")
        self.allocated += 1
        return self.free.pop()

    def give_back(self, blocks: Sequence[int]) -> None:
        """Return blocks."""
        self.returned += len(blocks)
        self.free.extend(blocks)


class PagedCache:
    """The cache of one sequence as a table of blocks of a pool (Kwon et al. 2023)."""

    def __init__(self, pool: BlockPool) -> None:
        self.pool = pool
        self.length = 0
        self.table: list[int] = []

    @property
    def in_last_block(self) -> int:
        """Tokens in the last block."""
        return self.length - (len(self.table) - 1) * self.pool.block_size if self.table else 0

    def reserve(self, count: int) -> None:
        """Take the blocks that so many more tokens need."""
        while len(self.table) * self.pool.block_size < self.length + count:
            self.table.append(self.pool.take())

    def write(self, layer: int, keys: Array, values: Array) -> tuple[Array, Array]:
        """Write new entries of a layer; gives all up to them, gathered from the blocks."""
        end = self.length + keys.shape[1]
        blocks, offsets = self._places(np.arange(self.length, end))
        found = []
        for store, entries in ((self.pool.keys, keys), (self.pool.values, values)):
            store[layer, blocks, offsets] = entries.transpose(1, 0, 2)
            gathered = store[layer, self.table].reshape(-1, *store.shape[3:])
            found.append(gathered[:end].transpose(1, 0, 2))
        return found[0], found[1]

    def advance(self, count: int) -> None:
        """Commit the tokens whose entries were written."""
        self.length += count

    def keep(self, start: int, kept: Sequence[int]) -> None:
        """Of the entries from ``start`` on keep those at ``start + kept``, moved together; drop the others."""
        source = self._places(start + np.asarray(kept, dtype=np.int64))
        goal = self._places(start + np.arange(len(kept)))
        for store in (self.pool.keys, self.pool.values):
            store[:, goal[0], goal[1]] = store[:, source[0], source[1]]
        self.truncate(start + len(kept))

    def truncate(self, length: int) -> None:
        """Drop everything behind so many tokens, and give back the blocks that are empty then."""
        self.length = min(self.length, length)
        needed = -(-self.length // self.pool.block_size)
        self.pool.give_back(self.table[needed:])
        del self.table[needed:]

    def _places(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        table = np.array(self.table, dtype=np.int64)
        return table[positions // self.pool.block_size], positions % self.pool.block_size
