"""Peak resident memory of this process."""

import numpy as np

from perfmodel.profilers.peak_memory import PeakMemory


def test_the_peak_holds_what_was_allocated_and_freed_again() -> None:
    memory = PeakMemory()
    memory.reset()
    block = np.ones(32 * 2**20 // 8)  # 32 MiB, touched
    del block
    peak = memory.peak_bytes()
    assert peak is not None
    assert 28 * 2**20 < peak < 128 * 2**20


def test_a_reset_forgets_an_earlier_peak() -> None:
    memory = PeakMemory()
    block = np.ones(64 * 2**20 // 8)
    del block
    memory.reset()
    peak = memory.peak_bytes()
    assert peak is not None
    if memory.method == "hwm_since_reset":
        assert peak < 40 * 2**20
