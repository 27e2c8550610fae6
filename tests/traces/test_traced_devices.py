"""Devices of traces: by name, by facts, and not at all."""

from __future__ import annotations

import pytest

from perfmodel.traces.traced_devices import traced_device


@pytest.mark.parametrize(
    ("name", "memory_bytes", "cores", "architecture", "accelerator", "guessed"),
    [
        ("AMD Instinct MI300X VF", 205_571_227_648, 304, "gfx94", "MI300X", False),
        ("NVIDIA A100-PG509-200", 42_297_524_224, 108, "8.0", "A100-SXM4-40GB", False),
        ("Tesla V100-DGXS-32GB", 34_084_028_416, 80, "7.0", "V100-SXM2-32GB", False),
        ("", 206_141_652_992, 304, "gfx94", "MI300X", True),
        ("AMD Radeon Graphics", None, 304, "gfx942", "MI300X", True),
        # An MI210 and one die of an MI250 have the same cores and memory.
        ("AMD Radeon Graphics", 68_702_699_520, 104, "gfx90", None, False),
        # An H100 of 96 GB is none of 80 GB, and not alone in having so much.
        ("NVIDIA H100", 102_085_492_736, 132, "9.0", None, False),
        ("Unheard Of 9000", None, None, "", None, False),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 10_000_000_000, 14, "8.0", None, False),
    ],
)
def test_devices_are_found_by_name_and_else_by_facts(
    name: str,
    memory_bytes: int | None,
    cores: int | None,
    architecture: str,
    accelerator: str | None,
    guessed: bool,
) -> None:
    found = traced_device(
        0, name, memory_bytes=memory_bytes, multiprocessors=cores, architecture=architecture
    )
    assert (found.accelerator, found.guessed) == (accelerator, guessed)
