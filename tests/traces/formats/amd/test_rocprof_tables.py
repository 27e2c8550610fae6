"""Tables of rocprof, rocprofv3 and rocprofiler-compute."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_profiles import AGENT_INFO, KERNEL_STATS, KERNEL_TRACE, ROCPROF_V1

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.registry import read_trace
from perfmodel.traces.trace import KernelKind

COPIES = """\
"Kind","Direction","Stream_Id","Source_Agent_Id","Destination_Agent_Id","Correlation_Id",\
"Start_Timestamp","End_Timestamp"
"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE",0,"Agent 0","Agent 2",3,4000,4600
"MEMORY_COPY","MEMORY_COPY_DEVICE_TO_HOST",0,"Agent 2","Agent 0",4,9600,9700
"""
COUNTERS = """\
Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Kernel_Name,Start_Timestamp,End_Timestamp,SQ_WAVES
0,2,1,9,9,64,"axpy(float*)",100,160,4
"""
SYSTEM = """\
workload_name,rocm_version,gpu_model,gpu_arch,cu_per_gpu
axpy,6.0.2,MI300X_A1,gfx942,304
"""


def _written(folder: Path, **files: str) -> Path:
    """Write files, named by their words, and return the first."""
    paths = [folder / f"{name}.csv" for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.write_text(text)
    return paths[0]


def test_kernel_trace_with_its_agents_and_copies(tmp_path: Path) -> None:
    path = _written(
        tmp_path, x_kernel_trace=KERNEL_TRACE, x_agent_info=AGENT_INFO, x_memory_copy_trace=COPIES
    )
    trace = read_trace(path)
    # 8000 - 5000, 9500 - 9000, 4600 - 4000, 9700 - 9600; the first starts 1000 ns after the copy.
    assert trace.kernels.duration_ns.tolist() == [3000, 500, 600, 100]
    assert trace.kernels.start_ns.tolist() == [1000, 5000, 0, 5600]
    kinds = [KernelKind.COMPUTE, KernelKind.COLLECTIVE, KernelKind.COPY, KernelKind.COPY]
    assert trace.kernels.kind.tolist() == kinds
    assert trace.kernels.stream.tolist() == [3, 3, -1, -1]
    # What goes to the host comes from the device.
    assert trace.kernels.device.tolist() == [2, 2, 2, 2]
    device = trace.device(2)
    assert device is not None
    assert (device.accelerator, device.multiprocessors) == ("MI300X", 304)


def test_a_table_without_agents_beside_it_has_devices_without_names(tmp_path: Path) -> None:
    trace = read_trace(_written(tmp_path, kernel_trace=KERNEL_TRACE))
    assert [(device.index, device.accelerator) for device in trace.devices] == [(2, None)]


def test_agents_may_be_counted_by_their_type(tmp_path: Path) -> None:
    """``--agent-index type-relative``: the second GPU of a machine with one CPU."""
    two = AGENT_INFO.replace(
        '4,2,"GPU"', '3,1,"GPU",110,"gfx90a","AMD","AMD Instinct MI250X"\n4,2,"GPU"'
    )
    path = _written(
        tmp_path, x_kernel_trace=KERNEL_TRACE.replace("Agent 2", "GPU 1"), x_agent_info=two
    )
    trace = read_trace(path)
    assert trace.kernels.device.tolist() == [1, 1]
    assert [(device.index, device.accelerator) for device in trace.devices] == [(1, "MI300X")]


def test_empty_lines_are_passed_over(tmp_path: Path) -> None:
    """rocprofv2 ends its header with two line breaks."""
    header, row = ROCPROF_V1.strip().split("\n")
    trace = read_trace(_written(tmp_path, results=f"{header}\n\n{row}\n\n{row}\n\n"))
    assert trace.kernels.duration_ns.tolist() == [750, 750]


def test_handles_of_agents_are_numbered(tmp_path: Path) -> None:
    path = _written(tmp_path, kernel_trace=KERNEL_TRACE.replace('"Agent 2"', "139690710949888"))
    assert read_trace(path).kernels.device.tolist() == [0, 0]


def test_rocprof_v1_names_its_columns_otherwise(tmp_path: Path) -> None:
    trace = read_trace(_written(tmp_path, results=ROCPROF_V1))
    assert trace.kernels.duration_ns.tolist() == [750]
    assert trace.kernels.device.tolist() == [1]
    assert not trace.notes


def test_counters_are_noted_and_the_machine_beside_is_read(tmp_path: Path) -> None:
    trace = read_trace(_written(tmp_path, pmc_perf=COUNTERS, sysinfo=SYSTEM))
    assert "SQ_WAVES" in trace.notes[0]
    assert trace.devices[0].accelerator == "MI300X"
    assert trace.software["rocm"] == "6.0.2"


def test_sums_stand_for_several_calls(tmp_path: Path) -> None:
    trace = read_trace(_written(tmp_path, results_stats=KERNEL_STATS))
    assert trace.kernels.calls.tolist() == [4, 2]
    assert trace.kernels.start_ns.tolist() == [-1, -1]
    assert trace.kernels.kind.tolist() == [KernelKind.COMPUTE, KernelKind.COPY]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (KERNEL_TRACE.replace("5000", "8.1097E+14"), "a spreadsheet has rounded it"),
        (KERNEL_TRACE.replace("8000", "4000"), "ends 1000 ns before it starts"),
        (KERNEL_TRACE.replace("8000", "-8000"), "expected a whole number >= 0"),
        (KERNEL_TRACE.replace("8000", "nan"), "expected a whole number >= 0"),
        (KERNEL_TRACE.replace("8000", "9" * 19), "expected one from 0 to 2^62"),
        (KERNEL_TRACE[:-20], "the file is cut or damaged"),
        (KERNEL_TRACE.replace('"void gemm', 'x"void "gemm'), "cells in row 1"),
        (KERNEL_TRACE + '"' + "\n" * 400, "a row of more than 100 lines"),
        (KERNEL_TRACE + "a" * 2**21, "a line of more than 1 MiB"),
        (COUNTERS.replace("Start_Timestamp", "Begin"), "not when they ran"),
        (KERNEL_TRACE.replace('"Workgroup_Size_X"', '"Counter_Name"'), "each dispatch once"),
        (KERNEL_STATS.replace("gemm(float*)", "hipLaunchKernel"), "calls on the host"),
        (SYSTEM, "describes the machine"),
        (AGENT_INFO, "describes the devices"),
        ("device,HBMBw,FP32Flops\n0,1.0,2.0\n", "peaks that rocprofiler-compute measured"),
        ('"Domain","Function","Start_Timestamp"\n', "lists calls on the host"),
        (COPIES, "lists copies alone"),
        ('"Kind","Operation","Agent_Id","Allocation_Size","Start_Timestamp"\n', "allocations"),
        ('"Sample_Timestamp","Exec_Mask","Dispatch_Id","Instruction"\n', "samples instructions"),
        ('"Kind","Operation","Agent_Id","Alloc_Flags","Start_Timestamp"\n', "scratch memory"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_with_the_reason(
    tmp_path: Path, text: str, reason: str
) -> None:
    with pytest.raises(InvalidTraceError, match=reason.replace("^", r"\^")):
        read_trace(_written(tmp_path, table=text))


def test_what_is_no_kernel_bears_the_name_of_its_operation(tmp_path: Path) -> None:
    """rocprofv2 lists copies beside kernels, without a name of a kernel."""
    text = (
        "Domain,Operation,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID\n"
        "HIP_OPS_DOMAIN,HIP_OP_ID_DISPATCH,gemm,100,160,1\n"
        "HIP_OPS_DOMAIN,HIP_OP_ID_COPY,,200,230,2\n"
    )
    trace = read_trace(_written(tmp_path, hip_activity=text))
    assert [trace.names[name] for name in trace.kernels.name] == ["gemm", "HIP_OP_ID_COPY"]
    assert trace.kernels.kind.tolist() == [KernelKind.COMPUTE, KernelKind.COPY]
    assert not trace.notes
