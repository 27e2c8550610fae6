"""CPU facts are read from a tree like the one Linux shows, and from this machine."""

import os

import pytest

from perfmodel.devices.cpu_facts import model_slug, read_cpu_facts


@pytest.fixture
def linux_tree(tmp_path, monkeypatch):
    """Four threads on two cores of one package: own L2 per core, one L3."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    proc, sys = tmp_path / "proc", tmp_path / "sys"
    proc.mkdir()
    (proc / "cpuinfo").write_text(
        "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Toy(R) CPU @ 2.00GHz\n"
        "cpu MHz\t\t: 2000.000\nflags\t\t: fpu avx2 amx_bf16\n\nprocessor\t: 1\nmodel name\t: X\n"
    )
    (proc / "meminfo").write_text("MemTotal:       1048576 kB\nMemFree: 1 kB\n")
    for cpu in range(4):
        core = cpu % 2
        folder = sys / f"devices/system/cpu/cpu{cpu}"
        for index, (level, kind, size, sharers) in enumerate(
            [
                ("1", "Data", "32K", f"{core},{core + 2}"),
                ("1", "Instruction", "32K", f"{core},{core + 2}"),
                ("2", "Unified", "1M", f"{core},{core + 2}"),
                ("3", "Unified", "16384K", "0-3"),
            ]
        ):
            cache = folder / f"cache/index{index}"
            cache.mkdir(parents=True)
            (cache / "level").write_text(level)
            (cache / "type").write_text(kind)
            (cache / "size").write_text(size)
            (cache / "shared_cpu_list").write_text(sharers)
        (folder / "topology").mkdir()
        (folder / "topology/core_id").write_text(str(core))
        (folder / "topology/physical_package_id").write_text("0")
    return proc, sys


def test_threads_of_a_core_and_shared_caches_count_once(linux_tree):
    proc, sys = linux_tree
    facts = read_cpu_facts(proc=proc, sys=sys)
    assert (facts.core_count, facts.thread_count) == (2, 4)
    # L1 data 2 x 32 KiB, L2 2 x 1 MiB, L3 one of 16 MiB.
    assert facts.cache_bytes_by_level == ((1, 65536), (2, 2 * 2**20), (3, 16 * 2**20))
    assert facts.last_level_cache_bytes == 16 * 2**20
    assert facts.memory_bytes == 2**30
    assert facts.clock_hz == 2e9
    assert facts.vendor == "Intel"
    assert facts.flags == ("avx2", "amx_bf16")
    assert facts.name == "cpu-toy-2c"


def test_a_system_without_these_files_still_has_facts(tmp_path):
    facts = read_cpu_facts(proc=tmp_path, sys=tmp_path)
    assert facts.core_count == facts.thread_count >= 1
    assert facts.memory_bytes > 0
    assert facts.last_level_cache_bytes is None
    assert facts.clock_hz is None
    assert facts.vendor == "unknown"


def test_this_machine():
    facts = read_cpu_facts()
    assert 1 <= facts.core_count <= facts.thread_count
    assert facts.memory_bytes > 2**28
    assert facts.model


@pytest.mark.parametrize(
    ("model", "slug"),
    [
        ("AMD EPYC", "amd-epyc"),
        ("AMD EPYC 7763 64-Core Processor", "amd-epyc-7763"),
        ("Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz", "intel-xeon-e5-2686-v4"),
        ("13th Gen Intel(R) Core(TM) i7-1360P", "13th-gen-intel-core-i7-1360p"),
        ("", "unknown"),
    ],
)
def test_model_slug(model, slug):
    assert model_slug(model) == slug
