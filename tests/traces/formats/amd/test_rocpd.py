"""Databases of rocprofv3."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_profiles import ROCPD_4_0, ROCPD_4_1, rocpd_database

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.registry import read_trace
from perfmodel.traces.trace import KernelKind

DISPATCHES = "rocpd_kernel_dispatch_a1"


@pytest.mark.parametrize("version", ["", ROCPD_4_1, ROCPD_4_0], ids=["3", "4.1", "4.0"])
def test_kernels_copies_and_what_launched_them(tmp_path: Path, version: str) -> None:
    trace = read_trace(rocpd_database(tmp_path / "x.db", version))
    kernels = trace.kernels
    assert trace.format == "rocpd"
    assert [trace.names[name] for name in kernels.name] == [
        "axpy(float*)", "MEMORY_COPY_HOST_TO_DEVICE",
    ]  # fmt: skip
    # Counted from the kernel, the earliest work.
    assert kernels.duration_ns.tolist() == [3_000, 600]
    assert (kernels.start_ns[1] - kernels.start_ns[0]).item() == 3_500
    # The copy's event has no call.
    assert (kernels.start_ns[0] - kernels.launch_start_ns[0]).item() == 3_000
    assert kernels.launch_start_ns[1] == -1
    assert kernels.kind.tolist() == [KernelKind.COMPUTE, KernelKind.COPY]
    assert kernels.size_bytes.tolist() == [-1, 4_096]
    assert (kernels.device.tolist(), kernels.stream.tolist()) == ([0, 0], [3, 3])
    assert [(d.index, d.accelerator, d.multiprocessors) for d in trace.devices] == [
        (0, "MI300X", 304)
    ]


def test_kernels_of_a_graph_are_told(tmp_path: Path) -> None:
    path = rocpd_database(tmp_path / "x.db", "UPDATE rocpd_region_a1 SET name_id = 3")
    assert read_trace(path).kernels.graph.tolist() == [True, False]


def test_events_are_found_whatever_order_an_index_has(tmp_path: Path) -> None:
    path = rocpd_database(
        tmp_path / "x.db",
        "UPDATE rocpd_event_a1 SET stack_id = 99 - stack_id WHERE id = 3;"
        "INSERT INTO rocpd_event_a1 VALUES (9, 1, 7, NULL, 0);"
        "CREATE INDEX stacks ON rocpd_event_a1 (stack_id);",
    )
    assert read_trace(path).kernels.launch_start_ns.tolist()[1] == -1
    assert read_trace(path).kernels.launch_duration_ns.tolist()[0] == 400


def test_equal_stacks_of_two_processes_are_not_mixed_up(tmp_path: Path) -> None:
    tables = ("string", "info_agent", "info_kernel_symbol", "event", "kernel_dispatch")
    copied = [f"CREATE TABLE rocpd_{t}_b2 AS SELECT * FROM rocpd_{t}_a1;" for t in tables]
    trace = read_trace(rocpd_database(tmp_path / "x.db", *copied))
    launched = [start >= 0 for start in trace.kernels.launch_start_ns.tolist()]
    assert (len(trace.devices), launched) == (1, [True, False, False])


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (f'UPDATE {DISPATCHES} SET "end" = 4000', "ends 1000 ns before it starts"),
        (f"UPDATE {DISPATCHES} SET start = 'soon'", "expected a whole number"),
        (f"DELETE FROM {DISPATCHES}; DELETE FROM rocpd_memory_copy_a1", "nothing that a GPU did"),
        (f"ALTER TABLE {DISPATCHES} RENAME COLUMN start TO start_id", "rocpd convert"),
        (f"DROP TABLE {DISPATCHES}", "rocpd convert"),
        (
            f"{ROCPD_4_0} DELETE FROM rocpd_timestamp_a1 WHERE value = 8000",
            "'None' in a column 'end'",
        ),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, statement: str, reason: str) -> None:
    path = rocpd_database(tmp_path / "x.db", statement)
    with pytest.raises(InvalidTraceError, match=reason):
        read_trace(path)
