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
    memory.allocate(1)
    memory.allocate(513)
    # 512 + 1024 of one segment of 2 MiB.
    assert (memory.allocated, memory.reserved) == (1536, 2 * MIB)


def test_a_free_block_is_used_again_and_the_smallest_that_is_enough() -> None:
    memory = CachingAllocator()
    big, small = memory.allocate(40 * MIB), memory.allocate(30 * MIB)
    memory.free(big)
    memory.free(small)
    again = memory.allocate(29 * MIB)
    assert again is small  # 29 of 30; one MiB left over is not split off
    assert memory.reserved == 70 * MIB


def test_neighbours_merge_when_both_are_free() -> None:
    memory = CachingAllocator()
    blocks = [memory.allocate(6 * MIB) for _ in range(3)]  # 18 of one segment of 20 MiB
    for block in blocks:
        memory.free(block)
    memory.allocate(19 * MIB)
    assert (memory.reserved, memory.allocated) == (20 * MIB, 20 * MIB)


def test_a_replay_frees_what_is_dead() -> None:
    # 100 lives through, 40 dies at node 0, 40 comes at node 1 and takes its place.
    lives = _lives(
        (100 * MIB, 0, 1, Held.PARAMETER),
        (40 * MIB, 0, 0, Held.ACTIVATION),
        (40 * MIB, 1, 1, Held.ACTIVATION),
    )
    found = replay(lives)
    assert (found.peak_allocated, found.peak_reserved) == (140 * MIB, 140 * MIB)


def test_scattered_memory_is_reserved_though_not_allocated() -> None:
    # Two blocks of 30 in segments of their own die; one of 60 fits into neither.
    lives = _lives(
        (30 * MIB, 0, 0, Held.ACTIVATION),
        (30 * MIB, 0, 0, Held.ACTIVATION),
        (60 * MIB, 1, 1, Held.ACTIVATION),
    )
    found = replay(lives)
    assert (found.peak_allocated, found.peak_reserved) == (60 * MIB, 120 * MIB)


def test_random_lives_never_overlap_or_leak() -> None:
    random = np.random.default_rng(0)
    memory, living = CachingAllocator(), []
    for _ in range(3000):
        if living and random.random() < 0.5:
            memory.free(living.pop(int(random.integers(len(living)))))
        else:
            block = memory.allocate(int(random.integers(1, 30 * MIB)))
            living.append(block)
        assert memory.allocated == sum(block.size for block in living)
        assert memory.allocated <= memory.reserved
    for block in living:
        memory.free(block)
    assert memory.allocated == 0
    # Everything has merged into whole segments, which serve requests of their size again.
    before = memory.reserved
    memory.allocate(20 * MIB)
    assert memory.reserved == before
