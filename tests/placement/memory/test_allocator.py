from __future__ import annotations

import numpy as np
import pytest

from perfmodel.placement.memory.allocator import CachingAllocator, replay, segment_bytes
from perfmodel.placement.memory.liveness import Held, Lifetimes

MIB = 1 << 20


def _lives(*rows: tuple[float, int, int, Held]) -> Lifetimes:
    size, birth, death, held = zip(*rows, strict=True)
    return Lifetimes(
        size_bytes=np.array(size, dtype=np.float64),
        birth=np.array(birth),
        death=np.array(death),
        held=np.array(held, dtype=np.int8),
        node_count=max(death) + 1,
        optimizer_start=max(death) + 1,
    )


@pytest.mark.parametrize(
    ("size", "segment"),
    [(512, 2), (MIB, 2), (MIB + 512, 20), (10 * MIB - 512, 20), (10 * MIB, 10), (11 * MIB, 12)],
)
def test_segments_have_the_sizes_of_their_pool(size: int, segment: int) -> None:
    assert segment_bytes(size) == segment * MIB


def test_small_requests_share_a_segment_and_are_rounded() -> None:
    memory = CachingAllocator()
    assert memory.allocate(1) is not None
    assert memory.allocate(513) is not None
    # 512 + 1024 of one segment of 2 MiB.
    assert (memory.allocated, memory.reserved) == (1536, 2 * MIB)


def test_a_free_block_is_used_again_and_the_smallest_that_is_enough() -> None:
    memory = CachingAllocator()
    big, small = memory.allocate(40 * MIB), memory.allocate(30 * MIB)
    assert big is not None and small is not None
    memory.free(big)
    memory.free(small)
    again = memory.allocate(29 * MIB)
    assert again is small  # 29 of 30; one MiB left over is not split off
    assert memory.reserved == 70 * MIB


def test_neighbours_merge_when_both_are_free() -> None:
    memory = CachingAllocator()
    blocks = [memory.allocate(6 * MIB) for _ in range(3)]  # 18 of one segment of 20 MiB
    for block in blocks:
        assert block is not None
        memory.free(block)
    whole = memory.allocate(19 * MIB)
    assert whole is not None
    assert (memory.reserved, memory.allocated) == (20 * MIB, 20 * MIB)


def test_free_segments_are_given_back_before_memory_runs_out() -> None:
    memory = CachingAllocator(limit_bytes=100 * MIB)
    first = memory.allocate(60 * MIB)
    assert first is not None
    memory.free(first)
    # 60 are cached and too small for 80: they go back, then 80 fit.
    assert memory.allocate(80 * MIB) is not None
    assert (memory.reserved, memory.peak_reserved) == (80 * MIB, 80 * MIB)
    assert memory.allocate(40 * MIB) is None


def test_large_blocks_are_not_split_above_the_limit() -> None:
    splitting, whole = CachingAllocator(), CachingAllocator(max_split_bytes=50 * MIB)
    for memory in (splitting, whole):
        block = memory.allocate(100 * MIB)
        assert block is not None
        memory.free(block)
        assert memory.allocate(30 * MIB) is not None
    # Split, 30 come out of the 100; otherwise the 100 are kept for a request of their size.
    assert (splitting.reserved, whole.reserved) == (100 * MIB, 130 * MIB)


def test_a_replay_frees_what_is_dead() -> None:
    # 100 lives through, 40 dies at node 0, 40 comes at node 1 and takes its place.
    lives = _lives(
        (100 * MIB, 0, 1, Held.PARAMETER),
        (40 * MIB, 0, 0, Held.ACTIVATION),
        (40 * MIB, 1, 1, Held.ACTIVATION),
    )
    found = replay(lives, steps=2)
    assert (found.allocated_bytes, found.reserved_bytes) == (140 * MIB, 140 * MIB)
    assert not found.ran_out
    assert replay(lives, limit_bytes=139 * MIB).ran_out


def test_scattered_memory_is_reserved_though_not_allocated() -> None:
    # Two blocks of 30 in segments of their own die; one of 60 fits into neither.
    lives = _lives(
        (30 * MIB, 0, 0, Held.ACTIVATION),
        (30 * MIB, 0, 0, Held.ACTIVATION),
        (60 * MIB, 1, 1, Held.ACTIVATION),
    )
    found = replay(lives)
    assert (found.allocated_bytes, found.reserved_bytes) == (60 * MIB, 120 * MIB)


def test_random_lives_never_overlap_or_leak() -> None:
    random = np.random.default_rng(0)
    memory, living = CachingAllocator(), []
    for _ in range(3000):
        if living and random.random() < 0.5:
            memory.free(living.pop(int(random.integers(len(living)))))
        else:
            block = memory.allocate(int(random.integers(1, 30 * MIB)))
            assert block is not None
            living.append(block)
        assert memory.allocated == sum(block.size for block in living)
        assert memory.allocated <= memory.reserved
    for block in living:
        memory.free(block)
    memory.release_cached()
    # Everything has merged into whole segments, and all of those were given back.
    assert (memory.allocated, memory.reserved) == (0, 0)
