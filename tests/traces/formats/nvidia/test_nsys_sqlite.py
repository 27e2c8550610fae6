"""SQLite exports of Nsight Systems, sound and hostile."""

from __future__ import annotations

import gzip
import itertools
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest
from made_up_profiles import nsys_database

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats import read_only_database
from perfmodel.traces.formats.registry import read_trace
from perfmodel.traces.trace import KernelKind, TracedTensor

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


def test_kernels_know_the_operator_that_launched_them(tmp_path: Path) -> None:
    trace = read_trace(nsys_database(tmp_path / "x.sqlite"))
    assert trace.names[trace.kernels.name[0]] == "void gemm<float>(float*)"
    # Counted from the range, which opens at 1000.
    assert trace.kernels.start_ns.tolist() == [4_000, 7_500]
    assert trace.kernels.duration_ns.tolist() == [3_000, 600]
    assert trace.kernels.launch_start_ns.tolist() == [1_000, 8_500]
    # The launch at 2000 lies in the range, the copy's call at 9500 behind its end.
    assert trace.kernels.operator.tolist() == [0, -1]
    assert trace.kernels.kind.tolist() == [KernelKind.COMPUTE, KernelKind.COPY]
    assert trace.kernels.size_bytes.tolist() == [-1, 4_096]
    assert [(d.index, d.accelerator) for d in trace.devices] == [(0, "H100-SXM5-80GB")]


def test_ranges_of_pytorch_are_operators_with_shapes(tmp_path: Path) -> None:
    trace = read_trace(nsys_database(tmp_path / "x.sqlite"))
    assert trace.name_of(0) == "aten::mm"
    assert trace.operators.sequence.tolist() == [4]
    arguments = trace.arguments_of(0)
    assert arguments is not None
    assert arguments.tensors == tuple(
        TracedTensor(shape=shape, dtype="") for shape in ((2, 3), (3, 4))
    )


def test_whole_graphs_and_sets_of_memory(tmp_path: Path) -> None:
    path = nsys_database(
        tmp_path / "x.sqlite",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, deviceId, streamId, "
        "correlationId, globalPid, graphId);"
        f"INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (9500, 9900, 0, 7, 13, {77 << 24}, 3);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start, end, deviceId, bytes);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (9900, 9950, 0, 16);"
        "INSERT INTO StringIds VALUES (9, 'cudaGraphLaunch_v10000');"
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES "
        f"(9400, 9450, {(77 << 24) + 78}, 13, 9);",
    )
    trace = read_trace(path)
    assert trace.names[trace.kernels.name[1]] == "CUDA graph 3"
    assert trace.kernels.graph.tolist() == [False, True, False, False]
    assert trace.kernels.kind.tolist() == [0, 0, KernelKind.COPY, KernelKind.MEMSET]
    assert trace.kernels.stream.tolist() == [7, 7, 7, -1]


def test_equal_correlation_ids_of_two_processes_are_not_mixed_up(tmp_path: Path) -> None:
    path = nsys_database(
        tmp_path / "x.sqlite",
        f"INSERT INTO {KERNELS} SELECT 6000, 6100, 1, 1, 7, 11, {88 << 24}, 1, 1, 2, NULL;",
    )
    assert read_trace(path).kernels.launch_start_ns.tolist() == [1_000, -1, 8_500]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (f"UPDATE {KERNELS} SET end = 4000", "runs from 5000 to 4000"),
        (f"UPDATE {KERNELS} SET end = 9223372036854775807", "runs from 5000"),
        (f"UPDATE {KERNELS} SET start = 'soon'", "expected a whole number"),
        (f"UPDATE {KERNELS} SET start = NULL", "expected a whole number"),
        (f"UPDATE {KERNELS} SET streamId = -3", "expected a whole number"),
        (f"DROP TABLE {KERNELS}; DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY", "without work of a GPU"),
        # `nsys export --lazy=false` writes tables that hold nothing as well.
        (f"DELETE FROM {KERNELS}; DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY", "without work of a GPU"),
        ("CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY, value TEXT)", "database of nvprof"),
        ("CREATE TABLE OPS (BeginNs INTEGER, EndNs INTEGER)", "database of rocprof"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, statement: str, reason: str) -> None:
    path = nsys_database(tmp_path / "x.sqlite", statement)
    with pytest.raises(InvalidTraceError, match=reason):
        read_trace(path)


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i"


@pytest.mark.parametrize(
    "schema",
    [
        f"CREATE VIEW {KERNELS} AS {ENDLESS} AS start, i AS end FROM n;",
        f"CREATE TABLE {KERNELS} (start, end, a AS (zeroblob(1000000000)));",
        f"CREATE VIRTUAL TABLE {KERNELS} USING fts5(start, end);",
        f"CREATE TABLE {KERNELS} (start, b, end AS (b || b || b || b));",
        f"CREATE TABLE {KERNELS} (start, '--' DEFAULT \"/*\", [/*], end AS (start || start));",
    ],
    ids=["endless view", "computed column", "virtual table", "growing text", "behind quotes"],
)
def test_nothing_that_a_file_could_run_is_run(tmp_path: Path, schema: str) -> None:
    path = tmp_path / "hostile.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(schema)
    connection.close()
    # What ran would be given up, with other words.
    with pytest.raises(InvalidTraceError, match="without work of a GPU"):
        read_trace(path)


def test_a_database_that_is_slow_to_search_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names without an index are searched from the beginning for each kernel."""
    rows = 3_000
    path = nsys_database(
        tmp_path / "slow.sqlite",
        "DROP TABLE StringIds; CREATE TABLE StringIds (id INTEGER, value TEXT);",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT "
        f"{rows}) INSERT INTO StringIds SELECT i, 'k' FROM n;",
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {rows}) "
        f"INSERT INTO {KERNELS} SELECT 5000, 6000, 0, 1, 7, 1, 0, i, i, 1, NULL FROM n;",
    )
    # A tenth of a second of the processor passes from each look at its clock to the next; 1 s is
    # allowed, and half a second for each MiB of the file, which has less than one.
    looks = itertools.count()
    clock = SimpleNamespace(thread_time=lambda: 0.1 * next(looks))
    monkeypatch.setattr(read_only_database, "time", clock)
    with pytest.raises(InvalidTraceError, match="takes longer to read"):
        read_trace(path)
    assert 10 < next(looks) < 18


def test_a_packed_database_is_to_be_unpacked(tmp_path: Path) -> None:
    packed = tmp_path / "x.sqlite.gz"
    packed.write_bytes(gzip.compress(nsys_database(tmp_path / "x.sqlite").read_bytes()))
    with pytest.raises(InvalidTraceError, match="unpack it first"):
        read_trace(packed)


def test_a_file_cut_in_half_is_refused(tmp_path: Path) -> None:
    path = nsys_database(tmp_path / "x.sqlite")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InvalidTraceError, match="no sound SQLite database"):
        read_trace(path)


def test_kinds_of_copies_are_known_where_the_export_does_not_spell_them_out(tmp_path: Path) -> None:
    path = nsys_database(tmp_path / "x.sqlite", "DROP TABLE ENUM_CUDA_MEMCPY_OPER")
    trace = read_trace(path)
    assert trace.names[trace.kernels.name[1]] == "[CUDA memcpy HtoD]"


def test_words_in_comments_of_a_table_are_no_computed_columns(tmp_path: Path) -> None:
    path = nsys_database(
        tmp_path / "x.sqlite",
        f"DROP TABLE {KERNELS}; CREATE TABLE {KERNELS} ( -- GENERATED by the exporter\n"
        "start INTEGER, /* as (ns) */ end INTEGER, demangledName INTEGER DEFAULT 'as (id)');"
        f"INSERT INTO {KERNELS} VALUES (5000, 8000, 1);",
    )
    assert read_trace(path).kernels.duration_ns.tolist() == [3_000, 600]


@pytest.mark.parametrize("end", ["NULL", "0", "-1"])
def test_ranges_that_are_never_closed_are_left_out(tmp_path: Path, end: str) -> None:
    trace = read_trace(nsys_database(tmp_path / "x.sqlite", f"UPDATE NVTX_EVENTS SET end = {end}"))
    assert len(trace.operators) == 0
    assert trace.notes == ("1 ranges of NVTX are never closed; left out.",)


def test_devices_of_exports_before_2021(tmp_path: Path) -> None:
    path = nsys_database(
        tmp_path / "x.sqlite",
        "DROP TABLE TARGET_INFO_GPU; CREATE TABLE TARGET_INFO_CUDA_GPU (deviceId INT, name TEXT, "
        "numMultiprocessors INT, computeCapabilityMajor INT, computeCapabilityMinor INT);"
        "INSERT INTO TARGET_INFO_CUDA_GPU VALUES (0, 'Tesla V100-SXM2-16GB', 80, 7, 0);",
    )
    device = read_trace(path).device(0)
    assert device is not None
    assert (device.accelerator, device.architecture) == ("V100-SXM2-16GB", "7.0")


def test_ranges_whose_thread_is_not_told_are_read(tmp_path: Path) -> None:
    trace = read_trace(
        nsys_database(tmp_path / "x.sqlite", "UPDATE NVTX_EVENTS SET globalTid = NULL")
    )
    assert trace.operators.thread.tolist() == [0]


def test_kernels_of_a_graph_are_known_without_the_call_that_launched_it(tmp_path: Path) -> None:
    path = nsys_database(
        tmp_path / "x.sqlite",
        f"UPDATE {KERNELS} SET graphNodeId = 4294967296;DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME;",
    )
    assert read_trace(path).kernels.graph.tolist() == [True, False]


def test_devices_that_processes_count_for_themselves_are_told_apart(tmp_path: Path) -> None:
    """Each of two processes sees a GPU of its own as its first (CUDA_VISIBLE_DEVICES)."""
    other = 78 << 24
    path = nsys_database(
        tmp_path / "two.sqlite",
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT start, end, 0, 1, 7, correlationId, "
        f"{other}, 1, 1, 2, NULL FROM CUPTI_ACTIVITY_KIND_KERNEL; "
        "INSERT INTO TARGET_INFO_GPU VALUES (3, 'NVIDIA A10', 24146608128, 72, 8, 6); "
        "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INT, cudaId INT, pid INT); "
        "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0, 77), (3, 0, 78);",
    )
    trace = read_trace(path)
    # Two kernels and the copy of the first process.
    assert trace.kernels.device.tolist() == [0, 3, 0]
    assert [one.index for one in trace.devices] == [0, 3]
