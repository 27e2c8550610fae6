"""A replay of PyTorch's caching allocator on the lives of a step's allocations.

The rules, as PyTorch documents them:

- sizes are rounded up to 512 bytes;
- up to 1 MiB comes from the small pool, whose segments are 2 MiB; more from the large pool, whose
  segments are 20 MiB, or from 10 MiB on the size rounded up to 2 MiB;
- the smallest free block that is big enough is taken, and split where what is left over is at
  least 512 bytes (small pool) or more than 1 MiB (large pool);
- a freed block merges with free neighbours of its segment; segments are kept.

Left out: several streams, rounding to powers of two, expandable segments, and that free segments
are given back where the device is full.

References
----------
PyTorch documentation, "CUDA semantics", section "Memory management".
"""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np

from perfmodel.placement.memory.liveness import Held, Lifetimes

_ROUNDING = 512
_SMALL = 1 << 20
_SMALL_SEGMENT = 2 << 20
_LARGE_SEGMENT = 20 << 20
_OWN_SEGMENT = 10 << 20
_SEGMENT_ROUNDING = 2 << 20


class Block:
    """A stretch of a segment, free or given out."""

    __slots__ = ("after", "before", "free", "number", "pool", "size")

    def __init__(
        self, number: int, size: int, pool: int, before: Block | None, after: Block | None
    ) -> None:
        self.number = number
        self.size = size
        self.pool = pool
        self.before = before
        self.after = after
        self.free = False


class CachingAllocator:
    """Gives out blocks of segments and counts both.

    Attributes
    ----------
    allocated, reserved : int
        Bytes now given out, and of all segments.
    peak_allocated, peak_reserved : int
        Their highest values.

    Examples
    --------
    >>> memory = CachingAllocator()
    >>> block = memory.allocate(3_000_000)
    >>> memory.allocated, memory.reserved == 20 * 2**20
    (3000320, True)
    """

    def __init__(self) -> None:
        self.allocated = self.reserved = 0
        self.peak_allocated = self.peak_reserved = 0
        self._pools: tuple[list[tuple[int, int, Block]], ...] = ([], [])
        self._made = 0

    def allocate(self, size: int) -> Block:
        """Return a block of at least some bytes (>= 1)."""
        size = -(-size // _ROUNDING) * _ROUNDING
        pool = int(size > _SMALL)
        block = self._cached(size, pool) or self._new_segment(size, pool)
        left = block.size - size
        if left > _SMALL if pool else left >= _ROUNDING:
            self._split(block, size)
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return block

    def free(self, block: Block) -> None:
        """Take back a block from :meth:`allocate`; it stays in its segment."""
        self.allocated -= block.size
        before, after = block.before, block.after
        if before is not None and before.free:
            self._take(before)
            block.size += before.size
            block.before = before.before
            if block.before is not None:
                block.before.after = block
        if after is not None and after.free:
            self._take(after)
            block.size += after.size
            block.after = after.after
            if block.after is not None:
                block.after.before = block
        self._offer(block)

    def _cached(self, size: int, pool: int) -> Block | None:
        free = self._pools[pool]
        position = bisect_left(free, (size,))
        if position == len(free):
            return None
        block = free.pop(position)[2]
        block.free = False
        return block

    def _new_segment(self, size: int, pool: int) -> Block:
        room = segment_bytes(size)
        self.reserved += room
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        self._made += 1
        return Block(self._made, room, pool, None, None)

    def _split(self, block: Block, size: int) -> None:
        self._made += 1
        rest = Block(self._made, block.size - size, block.pool, block, block.after)
        if block.after is not None:
            block.after.before = rest
        block.after, block.size = rest, size
        self._offer(rest)

    def _offer(self, block: Block) -> None:
        block.free = True
        insort(self._pools[block.pool], (block.size, block.number, block))

    def _take(self, block: Block) -> None:
        free = self._pools[block.pool]
        free.pop(bisect_left(free, (block.size, block.number)))
        block.free = False


def segment_bytes(size: int) -> int:
    """Return the bytes of the segment that is asked for when no free block will do.

    Parameters
    ----------
    size : int
        Bytes wanted, rounded.

    Examples
    --------
    >>> [segment_bytes(mib << 20) >> 20 for mib in (1, 3, 11)]
    [2, 20, 12]
    """
    if size <= _SMALL:
        return _SMALL_SEGMENT
    if size < _OWN_SEGMENT:
        return _LARGE_SEGMENT
    return -(-size // _SEGMENT_ROUNDING) * _SEGMENT_ROUNDING


def replay(lives: Lifetimes) -> CachingAllocator:
    """Run the allocations of a step through an allocator and return it."""
    memory = CachingAllocator()
    sizes = np.ceil(lives.size_bytes).astype(np.int64).tolist()
    persistent = (lives.held < Held.GRADIENT) & (lives.size_bytes > 0)
    for position in np.flatnonzero(persistent).tolist():
        memory.allocate(sizes[position])
    living: dict[int, Block] = {}
    for event in _events(lives):
        if event < 0:
            memory.free(living.pop(~event))
        else:
            living[event] = memory.allocate(sizes[event])
    return memory


def _events(lives: Lifetimes) -> list[int]:
    """Return what happens, in order: ``s`` for a birth, ``~s`` for a death.

    Within a node all births come before any death.
    """
    passing = np.flatnonzero((lives.held >= Held.GRADIENT) & (lives.size_bytes > 0))
    when = np.concatenate((2 * lives.birth[passing], 2 * lives.death[passing] + 1))
    what = np.concatenate((passing, ~passing))
    return [int(event) for event in what[np.argsort(when, kind="stable")]]
