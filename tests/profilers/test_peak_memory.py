"""Peak resident memory of this process."""

import numpy as np

from perfmodel.profilers.runtime.cpu import PeakMemory


def test_the_peak_holds_what_was_allocated_and_freed_again() -> None:
    memory = PeakMemory()
    memory.reset()
    # 96 MiB, touched: above 32 MiB the allocator always asks for fresh pages, whatever earlier
    # tests have left in its lists.
    block = np.ones(96 * 2**20 // 8)
    del block
    peak = memory.peak_bytes()
    assert peak is not None
    assert 92 * 2**20 < peak < 192 * 2**20


def test_a_reset_forgets_an_earlier_peak() -> None:
    memory = PeakMemory()
    block = np.ones(64 * 2**20 // 8)
    del block
    memory.reset()
    peak = memory.peak_bytes()
    assert peak is not None
    if memory.method == "hwm_since_reset":
        assert peak < 40 * 2**20
