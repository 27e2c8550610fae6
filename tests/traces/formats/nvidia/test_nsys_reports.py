"""Reports of nsys stats."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_profiles import COPY_SUMS, GPU_TRACE, KERNEL_SUMS

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.registry import read_trace
from perfmodel.traces.trace import KernelKind, Trace

LAUNCHES = """\
API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),Kernel Dur (ns),\
Total Dur (ns),PID,TID,DevId,API Function,GridXYZ,BlockXYZ,Kernel Name
1000,200,1200,300,1500,700,1200,7,7,0,cudaLaunchKernel,2 1 1,64 1 1,gemm
"""
NOTICES = "NOTICE: Existing SQLite export found\n\nProcessing [x.sqlite] with [trace.py]...\n"


def _read(folder: Path, text: str) -> Trace:
    path = folder / "report.csv"
    path.write_text(text)
    return read_trace(path)


def test_a_timeline_with_notices_before_it(tmp_path: Path) -> None:
    trace = _read(tmp_path, NOTICES + GPU_TRACE)
    assert trace.kernels.start_ns.tolist() == [0, 4_000]
    assert trace.kernels.duration_ns.tolist() == [3_000, 500]
    assert trace.kernels.kind.tolist() == [KernelKind.COMPUTE, KernelKind.COPY]
    # 4.194 MB are rounded: not taken for bytes.
    assert trace.kernels.size_bytes.tolist() == [-1, -1]
    assert [(d.index, d.accelerator) for d in trace.devices] == [(1, "A100-SXM4-80GB")]


def test_sizes_in_bytes_are_read(tmp_path: Path) -> None:
    report = GPU_TRACE.replace("Bytes (MB)", "Bytes (B)").replace("4.194", "4194304")
    assert _read(tmp_path, report).kernels.size_bytes.tolist() == [-1, 4_194_304]


@pytest.mark.parametrize(("unit", "factor"), [("us", 10**3), ("ms", 10**6), ("sec", 10**9)])
def test_units_stand_in_the_header(tmp_path: Path, unit: str, factor: int) -> None:
    trace = _read(tmp_path, GPU_TRACE.replace("Duration (ns)", f"Duration ({unit})"))
    assert trace.kernels.duration_ns.tolist() == [3_000 * factor, 500 * factor]


def test_older_versions_write_units_out(tmp_path: Path) -> None:
    header = GPU_TRACE.replace("Start (ns)", "Start(sec)").replace("Duration (ns)",
                                                                   "Duration(nsec)")  # fmt: skip
    trace = _read(tmp_path, header.replace("5000,", "0.000005,").replace("9000,", "0.000009,"))
    assert trace.kernels.start_ns.tolist() == [0, 4_000]


def test_sums_of_kernels_and_copies_in_one_file(tmp_path: Path) -> None:
    trace = _read(tmp_path, KERNEL_SUMS + "\n" + COPY_SUMS)
    assert trace.kernels.calls.tolist() == [4, 10, 3]
    assert trace.kernels.duration_ns.tolist() == [4_000, 1_000, 600]
    assert trace.kernels.kind.tolist() == [0, 0, KernelKind.COPY]
    assert trace.notes == ("Sums without a timeline: idle time and overlap are not known.",)


def test_what_a_timeline_tells_is_not_added_up_again(tmp_path: Path) -> None:
    trace = _read(tmp_path, GPU_TRACE + "\n" + KERNEL_SUMS)
    assert trace.kernels.duration_ns.tolist() == [3_000, 500]
    assert "is left out" in trace.notes[0]


def test_launches_of_kernels(tmp_path: Path) -> None:
    trace = _read(tmp_path, LAUNCHES)
    assert trace.kernels.launch_start_ns.tolist() == [0]
    assert trace.kernels.launch_duration_ns.tolist() == [200]
    assert trace.kernels.start_ns.tolist() == [500]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (KERNEL_SUMS.replace("Instances", "Num Calls"), "calls on the host"),
        ("Total (MB),Count,Avg (MB),Operation\n1.0,1,1.0,[CUDA memset]\n", "sums sizes"),
        ("Time (%),Total Time (ns),Instances,Style,Range\n", "ranges of NVTX"),
        ("Name,Process,Thread,Trace Type,Event Type,Timestamp (ns)\n", "pipit"),
        (GPU_TRACE.replace("Duration (ns)", "Duration (fortnights)"), "unknown unit"),
        (GPU_TRACE.replace("3000", "-3000"), "expected a time >= 0"),
        (GPU_TRACE.replace("3000", "NaN"), "expected a time >= 0"),
        (GPU_TRACE.replace("3000", "1e400"), "a spreadsheet has rounded it"),
        (GPU_TRACE[:-60], "cut or damaged"),
    ],
)
def test_other_reports_are_refused_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(InvalidTraceError, match=reason):
        _read(tmp_path, text)


PRINT = """\
[5/8] Executing 'cuda_api_sum' stats report

 Time (%)  Total Time (ns)  Num Calls  Avg (ns)        Name
 --------  ---------------  ---------  --------  ----------------
    100.0            9,000          4   2,250.0  cudaLaunchKernel

[6/8] Executing 'cuda_gpu_kern_sum' stats report

 Time (%)  Total Time (ns)  Instances  Avg (ns)              Name
 --------  ---------------  ---------  --------  --------------------------
     80.0            4,000          4   1,000.0  gemm(float *, const float *
     20.0            1,000      1,000       1.0  a<int, 2>(const float *, i\N{HORIZONTAL ELLIPSIS}

Generated:
"""


def test_a_print_for_people(tmp_path: Path) -> None:
    trace = _read(tmp_path, PRINT)
    assert [trace.names[name] for name in trace.kernels.name] == [
        "gemm(float *, const float *", "a<int, 2>(const float *, i\N{HORIZONTAL ELLIPSIS}",
    ]  # fmt: skip
    assert trace.kernels.duration_ns.tolist() == [4_000, 1_000]
    assert trace.kernels.calls.tolist() == [4, 1_000]
    assert any("cut by nsys" in note for note in trace.notes)


def test_a_print_of_several_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidTraceError, match="several runs"):
        _read(tmp_path, PRINT + PRINT)


def test_a_print_of_the_host_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidTraceError, match="sums calls on the host"):
        _read(tmp_path, PRINT[: PRINT.index("[6/8]")])


HOST_SUMS = "Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n" + "50.0,900,3,300.0,poll\n" * 200


def test_tables_of_the_host_before_those_of_the_device_are_left_out(tmp_path: Path) -> None:
    trace = _read(tmp_path, HOST_SUMS + "\n" + KERNEL_SUMS)
    assert trace.kernels.calls.tolist() == [4, 10]
    assert any("Num Calls" in note for note in trace.notes)


def test_calls_in_a_sum_over_calls_and_device_are_left_out(tmp_path: Path) -> None:
    report = (
        "Time (%),Total Time (ns),Instances,Avg (ns),Category,Operation\n"
        "60.0,6000,3,2000.0,CUDA_API,cudaLaunchKernel\n"
        "30.0,3000,3,1000.0,CUDA_KERNEL,gemm\n"
        "10.0,1000,1,1000.0,MEMORY_OPER,[CUDA memcpy Host-to-Device]\n"
    )
    trace = _read(tmp_path, report)
    assert [trace.names[name] for name in trace.kernels.name] == [
        "gemm", "[CUDA memcpy Host-to-Device]",
    ]  # fmt: skip


def test_means_over_executions_become_sums(tmp_path: Path) -> None:
    header = "PID,TID,DevId,Count,QCount,TAvg (us),AAvg (us),QAvg (us),KAvg (us),Kernel Name\n"
    trace = _read(tmp_path, header + "7,7,1,4,4,9.0,3.0,1.0,5.5,gemm\n")
    # 4 times 5.5 us.
    assert trace.kernels.duration_ns.tolist() == [22_000]
    assert (trace.kernels.calls.tolist(), trace.kernels.device.tolist()) == ([4], [1])


def test_reports_of_versions_before_2022(tmp_path: Path) -> None:
    copies = "Time(%),Total Time,Operations,Average,Minimum,Maximum,Operation\n"
    trace = _read(tmp_path, copies + "100.0,5000,2,2500.0,2000,3000,[CUDA memcpy HtoD]\n")
    # Without a unit times are nanoseconds.
    assert (trace.kernels.duration_ns.tolist(), trace.kernels.calls.tolist()) == ([5_000], [2])


@pytest.mark.parametrize("delimiter", ["\t", ";"])
def test_tables_with_other_delimiters(tmp_path: Path, delimiter: str) -> None:
    trace = _read(tmp_path, KERNEL_SUMS.replace(",", delimiter))
    assert trace.kernels.calls.tolist() == [4, 10]


def test_thousands_may_be_parted(tmp_path: Path) -> None:
    header = "Time (%);Total Time (us);Instances;Name\n"
    trace = _read(tmp_path, header + "100.0;1,234.5;1,000;gemm\n")
    assert trace.kernels.duration_ns.tolist() == [1_234_500]
    trace = _read(tmp_path, header + "100,0;1234,5;1000;gemm\n")
    assert trace.kernels.duration_ns.tolist() == [1_234_500]
    with pytest.raises(InvalidTraceError, match="a spreadsheet has rounded it"):
        _read(tmp_path, header + "100.0;9e999999;1000;gemm\n")
    with pytest.raises(InvalidTraceError, match="expected a time"):
        _read(tmp_path, header + "100.0;9e-999999999999999999999;1000;gemm\n")


def test_starts_that_a_spreadsheet_has_rounded_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidTraceError, match="'1.23457E\\+12'.*a spreadsheet has rounded it"):
        _read(tmp_path, GPU_TRACE.replace("5000,", "1.23457E+12,"))
    # As other programs write small fractions.
    small = GPU_TRACE.replace("Start (ns)", "Start (s)").replace("5000,", "5e-06,")
    assert _read(tmp_path, small).kernels.start_ns[0] == 0


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid", "lists calls on the host"),
        ("NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Kernel Name", "every range"),
        ("Range,Style,Total Proj Time (ns),Total Range Time (ns)", "no kernels"),
        ("Name,Projected Start (ns),Projected Duration (ns),Style,RangeId", "no kernels"),
        ("Time (%),Total Time (ns),Instances,Avg (ns),Range", "NVTX on the host"),
        ("Time (%),Total Time (ns),Instances,Avg (ns),Source,Name", "MPI"),
        ("Time (%),Total Time (ns),Count,Avg (ns),Name", "regions on the host"),
        ("Total,Operations,Average,Minimum,Maximum,Operation", "sizes"),
    ],
)
def test_reports_without_times_of_the_device_are_refused(
    tmp_path: Path, header: str, reason: str
) -> None:
    with pytest.raises(InvalidTraceError, match=reason):
        _read(tmp_path, header + "\n" + ",".join("1" for _ in header.split(",")) + "\n")


def test_pairs_that_pipit_made_of_a_timeline(tmp_path: Path) -> None:
    report = (
        "Name,streamId,type,bytes,Trace Type,Event Type,Timestamp (ns),_matching_timestamp\n"
        "gemm,7,kernel,,gpu_trace,Enter,5000,8000\n"
        "gemm,7,kernel,,gpu_trace,Leave,8000,5000\n"
        "CUDA_MEMCPY_KIND_DTOH,7,x,2048,gpu_trace,Enter,9000,9500\n"
        "CUDA_MEMCPY_KIND_DTOH,7,x,2048,gpu_trace,Leave,9500,9000\n"
    )
    trace = _read(tmp_path, report)
    assert trace.kernels.start_ns.tolist() == [0, 4_000]
    assert trace.kernels.duration_ns.tolist() == [3_000, 500]
    assert trace.kernels.kind.tolist() == [KernelKind.COMPUTE, KernelKind.COPY]
    assert trace.kernels.size_bytes.tolist() == [-1, 2_048]


@pytest.mark.parametrize(
    ("text", "total_ns"),
    [
        # The share has one digit behind its comma, so that commas part fractions.
        ("Time (%);Total Time (us);Instances;Name\n60,0;1.600,125;3;gemm\n", 1_600_125),
        ('Time (%),Total Time (us),Instances,Name\n"60,0","600,125",3,gemm\n', 600_125),
        ("Time (%);Total Time (us);Instances;Name\n60.0;600.125;3;gemm\n", 600_125),
        ('Time (%),Total Time (ns),Instances,Name\n60.0,"600,125",3,gemm\n', 600_125),
        ("Total Time (ns);Instances;Name\n600125;3;gemm\n", 600_125),
    ],
)
def test_numbers_are_read_in_the_language_that_they_are_written_in(
    tmp_path: Path, text: str, total_ns: int
) -> None:
    path = tmp_path / "sums.csv"
    path.write_text(text)
    assert read_trace(path).kernels.duration_ns.tolist() == [total_ns]


@pytest.mark.parametrize("number", ["600,125", "600.125"])
def test_numbers_that_may_be_two_are_refused(tmp_path: Path, number: str) -> None:
    path = tmp_path / "sums.csv"
    path.write_text(f"Total Time (us);Instances;Name\n{number};3;gemm\n")
    with pytest.raises(InvalidTraceError, match=f"the number '{number}' up to row 1"):
        read_trace(path)


@pytest.mark.parametrize(
    "rows",
    [
        # The first time is read as thousands, and the second says that commas part fractions.
        ["1,234\t3\tgemm", "2,5\t3\tcopy"],
        # Both marks part fractions: one of the numbers is no number of this language.
        ["2,5\t3\tgemm", "1.5\t3\tcopy"],
    ],
)
def test_numbers_of_two_languages_in_one_table_are_refused(tmp_path: Path, rows: list[str]) -> None:
    path = tmp_path / "sums.tsv"
    path.write_text("\n".join(["Total Time (us)\tInstances\tName", *rows, ""]))
    with pytest.raises(InvalidTraceError, match="which is a fraction or thousands"):
        read_trace(path)
