"""Small files as profilers write them, made by hand: two kernels, a copy, round numbers."""

from __future__ import annotations

import io
import json
import sqlite3
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

KERNEL_TRACE = """\
"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",\
"Correlation_Id","Start_Timestamp","End_Timestamp","Workgroup_Size_X","Grid_Size_X"
"KERNEL_DISPATCH","Agent 2",1,3,70,1,33,"void gemm<float>(float*, int)",1,5000,8000,256,256
"KERNEL_DISPATCH","Agent 2",1,3,70,2,34,"ncclDevKernel_AllReduce_Sum_f32(Args)",2,9000,9500,64,64
"""
AGENT_INFO = """\
"Node_Id","Logical_Node_Id","Agent_Type","Cu_Count","Name","Vendor_Name","Product_Name"
0,0,"CPU",64,"AMD EPYC","CPU","AMD EPYC"
4,2,"GPU",304,"gfx942","AMD","AMD Instinct MI300X"
"""
ROCPROF_V1 = """\
"Index","KernelName","gpu-id","queue-id","queue-index","pid","tid","grd","wgp","lds","scr",\
"arch_vgpr","accum_vgpr","sgpr","wave_size","sig","obj","DispatchNs","BeginNs","EndNs",\
"CompleteNs","DurationNs"
0,"axpy(float*, int) [clone .kd]",1,0,0,9,9,64,64,0,0,8,0,16,64,0x0,0x7f,100,1000,1750,1800,750
"""
KERNEL_STATS = """\
"Name","Calls","TotalDurationNs","AverageNs","Percentage"
"gemm(float*)",4,4000,1000.0,80.0
"__amd_rocclr_copyBuffer",2,1000,500.0,20.0
"""
GPU_TRACE = """\
Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),\
Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name
5000,3000,11,2,1,1,64,1,1,24,0,0,,,,,NVIDIA A100-SXM4-80GB (1),1,,7,"void gemm<float>(float*)"
9000,500,12,,,,,,,,,,4.194,8388.6,Pageable,Device,NVIDIA A100-SXM4-80GB (1),1,,7,\
[CUDA memcpy Host-to-Device]
"""
KERNEL_SUMS = """\
Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
80.0,4000,4,1000.0,1000.0,900,1100,50.0,"gemm(float*)"
20.0,1000,10,100.0,100.0,90,110,5.0,"axpy(float*)"
"""
COPY_SUMS = """\
Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation
100.0,600,3,200.0,200.0,200,200,0.0,[CUDA memcpy Host-to-Device]
"""


def rocprofv3_json() -> dict[str, Any]:
    """Return a run on an MI300X: a product, the call that launched it, a copy of 64 bytes."""
    return {
        "rocprofiler-sdk-tool": [
            {
                "metadata": {"pid": 7, "config": {"output_path": "/tmp"}},
                "agents": [
                    {"id": {"handle": 30}, "type": 1, "node_id": 0, "cu_count": 64, "name": "EPYC"},
                    {"id": {"handle": 31}, "type": 2, "node_id": 1, "gpu_index": 0,
                     "cu_count": 304, "name": "gfx942", "product_name": "AMD Instinct MI300X",
                     "mem_banks": [{"size_in_bytes": 206_141_652_992}]},
                ],
                "strings": {
                    "callback_records": [{"kind": "NONE", "operations": []}],
                    "buffer_records": [
                        {"kind": "NONE", "operations": []},
                        {"kind": "MEMORY_COPY",
                         "operations": ["NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
                    ],
                },
                "kernel_symbols": [
                    {"kernel_id": 5, "kernel_name": "_Z4gemm.kd",
                     "formatted_kernel_name": "gemm(float*)"},
                ],
                "buffer_records": {
                    "kernel_dispatch": [
                        {"correlation_id": {"internal": 9, "external": 0},
                         "start_timestamp": 70_005_000, "end_timestamp": 70_008_000,
                         "dispatch_info": {"agent_id": {"handle": 31}, "kernel_id": 5},
                         "stream_id": {"handle": 2}},
                    ],
                    "hip_api": [
                        {"kind": 5, "operation": 3, "correlation_id": {"internal": 9},
                         "start_timestamp": 70_001_000, "end_timestamp": 70_002_000},
                    ],
                    "memory_copy": [
                        {"kind": 1, "operation": 1, "correlation_id": {"internal": 10},
                         "start_timestamp": 70_009_000, "end_timestamp": 70_009_400,
                         "src_agent_id": {"handle": 30}, "dst_agent_id": {"handle": 31},
                         "bytes": 64},
                    ],
                },
            }
        ]
    }  # fmt: skip


def execution_trace(schema: str = "1.1.0-chakra.0.0.4") -> dict[str, Any]:
    """Return a step with one product of 2 x 3 times 3 x 4, called by a frame."""
    tensors = [[1, 2, 0, 6, 4, "cuda:0"], [3, 4, 0, 12, 4, "cuda:0"]]
    shapes, types = [[2, 3], [3, 4]], ["Tensor(float)", "Tensor(c10::Half)"]
    if schema == "1.0.1":
        product = {
            "name": "aten::mm", "id": 9, "parent": 5, "seq_id": 4, "tid": 1, "inputs": tensors,
            "input_shapes": shapes, "input_types": types, "outputs": [],
            "output_shapes": [[2, 4]], "output_types": ["Tensor(float)"],
        }  # fmt: skip
        frame = {
            "name": "step", "id": 5, "parent": 1, "seq_id": -1, "tid": 1, "inputs": [],
            "input_shapes": [], "input_types": [],
        }  # fmt: skip
    else:
        product = {
            "name": "aten::mm", "id": 9, "ctrl_deps": 5,
            "inputs": {"values": tensors, "shapes": shapes, "types": types},
            "outputs": {"values": [], "shapes": [[2, 4]], "types": ["Tensor(float)"]},
            "attrs": [{"name": "seq_id", "type": "int64", "value": 4},
                      {"name": "tid", "type": "uint64", "value": 1}],
        }  # fmt: skip
        frame = {
            "name": "step", "id": 5, "ctrl_deps": 1, "outputs": {},
            "inputs": {"values": [], "shapes": [], "types": []}, "attrs": [],
        }  # fmt: skip
    return {"schema": schema, "pid": 7, "start_ts": 1, "nodes": [product, frame]}


def varint(value: int) -> bytes:
    """Return a number as protobuf writes it."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def message(fields: Iterable[tuple[int, int | bytes]]) -> bytes:
    """Return a protobuf message of numbers and of bytes."""
    found = b""
    for number, value in fields:
        if isinstance(value, int):
            found += varint(number << 3) + varint(value)
        else:
            found += varint(number << 3 | 2) + varint(len(value)) + value
    return found


def chakra_et() -> bytes:
    """Return a product of 2 x 3 times 3 x 4 that took 20 us, and its kernel of 7 us."""

    def attribute(name: bytes, *value: tuple[int, int | bytes]) -> tuple[int, bytes]:
        return 10, message([(1, name), *value])

    header = message([(2, message([(1, b"schema"), (29, b"1.1.0-chakra.0.0.4")]))])
    arguments = message(
        [(1, b"[[1, 2, 0, 6, 4, 'cuda:0'], [3, 4, 0, 12, 4, 'cuda:0'], True]"),
         (2, b"[[2, 3], [3, 4], []]"), (3, b"['Tensor(float)', 'Tensor(float)', 'Bool']")]
    )  # fmt: skip
    call = message(
        [(1, 4), (2, b"aten::mm(0)"), (3, 4), (7, 20), (8, arguments), (9, b""),
         attribute(b"seq_id", (9, 3)), attribute(b"tid", (13, 1)), attribute(b"is_cpu_op", (27, 1))]
    )  # fmt: skip
    kernel = message(
        [(1, 6), (2, b"sgemm"), (3, 4), (4, varint(4)), (7, 7), attribute(b"is_cpu_op", (27, 0))]
    )
    return b"".join(varint(len(one)) + one for one in (header, call, kernel))


def chakra_json() -> dict[str, Any]:
    """Return a call of 20 us and its kernel of 7 us."""
    call = {"Id": 4, "Name": "aten::mm(0)", "NodeType": 4, "runtime": 20, "is_cpu_op": True}
    kernel = {"Id": 6, "Name": "sgemm", "NodeType": 4, "runtime": 7, "is_cpu_op": False,
              "ctrlDeps": [4]}  # fmt: skip
    return {"workload_graph": [call, kernel]}


def archive(members: Mapping[str, bytes], mode: str = "w:gz") -> bytes:
    """Return a tar archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def zip_archive(members: Mapping[str | zipfile.ZipInfo, bytes]) -> bytes:
    """Return a zip archive."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def xplane() -> bytes:
    """Return a GPU with a kernel of 3 us and a copy of 64 bytes, at 1 us and 5 us after 100 us."""

    def event(number: int, offset_ps: int, duration_ps: int, *stats: bytes) -> bytes:
        fields: list[tuple[int, int | bytes]] = [(1, number), (2, offset_ps), (3, duration_ps)]
        return message([*fields, *((4, stat) for stat in stats)])

    def entry(field: int, key: int, name: bytes) -> tuple[int, bytes]:
        return field, message([(1, key), (2, message([(1, key), (2, name)]))])

    copied = message([(1, 3), (5, b"kind:H2D size:64 dest:0")])
    line = message(
        [(1, 7), (2, b"Stream #7(Kernel)"), (3, 100_000), (4, event(1, 10**6, 3 * 10**6)),
         (4, event(2, 5 * 10**6, 10**6, copied))]
    )  # fmt: skip
    plane = message(
        [(1, 1), (2, b"/device:GPU:0"), (3, line), entry(4, 1, b"loop_add_fusion"),
         entry(4, 2, b"MemcpyH2D"), entry(5, 1, b"core_count"), entry(5, 2, b"memory_size"),
         entry(5, 3, b"memcpy_details"), entry(5, 4, b"device_vendor"),
         entry(5, 5, b"compute_cap_major"), entry(5, 6, b"compute_cap_minor"),
         (6, message([(1, 1), (4, 304)])), (6, message([(1, 2), (4, 206_141_652_992)])),
         (6, message([(1, 4), (5, b"AMD")])), (6, message([(1, 5), (4, 9)])),
         (6, message([(1, 6), (4, 4)]))]
    )  # fmt: skip
    host = message([(2, b"/host:metadata")])
    return message([(1, host), (1, plane)])


ORT_PROFILE: list[dict[str, Any]] = [
    {"cat": "Session", "pid": 1, "tid": 1, "dur": 9, "ts": 1, "ph": "X",
     "name": "model_loading_array", "args": {}},
    {"cat": "Node", "pid": 1, "tid": 1, "dur": 30, "ts": 110, "ph": "X",
     "name": "conv_kernel_time",
     "args": {"op_name": "Conv", "provider": "CPUExecutionProvider",
              "input_type_shape": [{"float": [1, 3, 8, 8]}, {"float": [4, 3, 3, 3]}],
              "output_type_shape": [{"float": [1, 4, 8, 8]}]}},
    {"cat": "Session", "pid": 1, "tid": 1, "dur": 50, "ts": 100, "ph": "X", "name": "model_run",
     "args": {}},
]  # fmt: skip


def nsys_database(path: Path, *statements: str) -> Path:
    """Write an export of nsys: a product launched inside an NVTX range, and a copy; return it.

    Times in ns: range 1000..9000, launch 2000..2400, kernel 5000..8000, copy 8500..9100.
    """
    process, thread = 77 << 24, (77 << 24) + 78
    connection = sqlite3.connect(path)
    connection.executescript(
        f"""
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
        INSERT INTO StringIds VALUES (1, 'void gemm<float>(float*)'), (2, 'cudaLaunchKernel_v7000'),
            (3, 'cudaMemcpyAsync_v3020');
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
            contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
            demangledName INTEGER, shortName INTEGER, gridX INTEGER, graphNodeId INTEGER);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5000, 8000, 0, 1, 7, 11, {process}, 1, 1, 2,
            NULL);
        CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER,
            streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER,
            copyKind INTEGER);
        INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (8500, 9100, 0, 7, 12, {process}, 4096, 1);
        CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER, name TEXT, label TEXT);
        INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1, 'CUDA_MEMCPY_KIND_HTOD', 'Host-to-Device');
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,
            correlationId INTEGER, nameId INTEGER);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (2000, 2400, {thread}, 11, 2),
            (9500, 9600, {thread}, 12, 3);
        CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,
            textId INTEGER, globalTid INTEGER);
        INSERT INTO NVTX_EVENTS VALUES (1000, 9000, 59,
            'aten::mm, seq = 4, sizes = [[2, 3], [3, 4]]', NULL, {thread});
        CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER,
            computeMajor INTEGER, computeMinor INTEGER);
        INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100 80GB HBM3', 85045280768, 132, 9, 0);
        """
    )
    for statement in statements:
        connection.executescript(statement)
    connection.close()
    return path


KERNEL_PRINT = """\
 Time (%)  Total Time (ns)  Instances  Avg (ns)  Name
 --------  ---------------  ---------  --------  ----
    100.0            4,000          4   1,000.0  gemm
"""


def rocprof_json() -> str:
    """Return results.json of rocprof: a call on the host, two kernels and a copy."""
    names = {1: "1 COPY", 2: "0 CPU HIP API", 6: "2 GPU0", 7: "3 GPU1"}
    events: list[dict[str, Any]] = [{}]
    for process, name in names.items():
        events.append({"args": {"name": name}, "ph": "M", "pid": process, "name": "process_name"})
    for process, name, begin_ns, end_ns in (
        (2, "hipLaunchKernel", 100_000, 105_000), (6, "axpy(float*)", 110_000, 120_500),
        (7, "axpy(float*)", 111_000, 121_000), (1, "CopyHostToDevice", 130_000, 140_000),
    ):  # fmt: skip
        times = {"BeginNs": str(begin_ns), "EndNs": str(end_ns), "stream-id": "1"}
        events.append(
            {"ph": "X", "pid": str(process), "tid": "0", "name": name,
             "ts": str(begin_ns // 1000), "dur": str((end_ns - begin_ns) // 1000), "args": times}
        )  # fmt: skip
    return json.dumps({"traceEvents": events, "otherData": {"HSA-Agent": "gfx90a"}})


def rocpd_database(path: Path, *statements: str) -> Path:
    """Write a database of rocprofv3: a kernel launched by a call, and a copy; return it.

    Times in ns: launch 2000..2400, kernel 5000..8000, copy 8500..9100.
    """
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE rocpd_string_a1 (id INTEGER PRIMARY KEY, guid TEXT, string TEXT);
        INSERT INTO rocpd_string_a1 VALUES (1, 'a1', 'hipLaunchKernel'),
            (2, 'a1', 'MEMORY_COPY_HOST_TO_DEVICE'), (3, 'a1', 'hipGraphLaunch');
        CREATE TABLE rocpd_info_agent_a1 (id INTEGER PRIMARY KEY, type TEXT, absolute_index INTEGER,
            type_index INTEGER, name TEXT, product_name TEXT, extdata JSONB);
        INSERT INTO rocpd_info_agent_a1 VALUES (1, 'CPU', 0, 0, 'EPYC', 'AMD EPYC', '{}'),
            (2, 'GPU', 1, 0, 'gfx942', 'AMD Instinct MI300X', '{"cu_count": 304}');
        CREATE TABLE rocpd_info_kernel_symbol_a1 (id INTEGER PRIMARY KEY, kernel_name TEXT,
            display_name TEXT);
        INSERT INTO rocpd_info_kernel_symbol_a1 VALUES (5, '_Z4axpyPf.kd', 'axpy(float*)');
        CREATE TABLE rocpd_event_a1 (id INTEGER PRIMARY KEY, category_id INTEGER,
            stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER);
        INSERT INTO rocpd_event_a1 VALUES (1, 1, 40, NULL, 0), (2, 2, 40, NULL, 0),
            (3, 3, 41, NULL, 0);
        CREATE TABLE rocpd_region_a1 (id INTEGER PRIMARY KEY, tid INTEGER, start BIGINT,
            "end" BIGINT, name_id INTEGER, event_id INTEGER);
        INSERT INTO rocpd_region_a1 VALUES (1, 1, 2000, 2400, 1, 1);
        CREATE TABLE rocpd_kernel_dispatch_a1 (id INTEGER PRIMARY KEY, agent_id INTEGER,
            kernel_id INTEGER, queue_id INTEGER, stream_id INTEGER, start BIGINT, "end" BIGINT,
            event_id INTEGER);
        INSERT INTO rocpd_kernel_dispatch_a1 VALUES (1, 2, 5, 1, 3, 5000, 8000, 2);
        CREATE TABLE rocpd_memory_copy_a1 (id INTEGER PRIMARY KEY, start BIGINT, "end" BIGINT,
            name_id INTEGER, dst_agent_id INTEGER, src_agent_id INTEGER, size INTEGER,
            queue_id INTEGER, stream_id INTEGER, event_id INTEGER);
        INSERT INTO rocpd_memory_copy_a1 VALUES (1, 8500, 9100, 2, 2, 1, 4096, NULL, 3, 3);
        """
    )
    for statement in statements:
        connection.executescript(statement)
    connection.close()
    return path


def pftrace(
    *, number: int = 9, process: int = 100, extra: Iterable[tuple[int, int | bytes]] = ()
) -> bytes:
    """Return rocprofv3's trace for Perfetto: the product and the copy of :func:`rocprofv3_json`.

    Words of the first packets are numbers in the others; the copy writes its own, as
    ``rocpd convert`` does.
    """
    keys = [b"begin_ns", b"end_ns", b"corr_id", b"agent", b"queue"]
    names = [b"hipLaunchKernel", b"gemm(float*)"]
    categories = [b"hip_api", b"kernel_dispatch"]
    track = 1000 + process

    def words(field: int, texts: list[bytes]) -> list[tuple[int, int | bytes]]:
        return [(field, message([(1, at), (2, text)])) for at, text in enumerate(texts, start=1)]

    def packet(*fields: tuple[int, int | bytes]) -> tuple[int, bytes]:
        return 1, message([(3, 0), (10, 7), *fields])

    def noted(start_ns: int, end_ns: int, correlation: int) -> list[tuple[int, int | bytes]]:
        values = enumerate((start_ns, end_ns, correlation), start=1)
        return [(4, message([(1, key), (3, value)])) for key, value in values]

    def begins(word: int, *more: tuple[int, int | bytes]) -> tuple[int, int | bytes]:
        return 11, message([(3, word), (9, 1), (10, word), (11, track), *more])

    def own(key: bytes, value: int | bytes) -> tuple[int, bytes]:
        return 4, message([(10, key), (3 if isinstance(value, int) else 6, value)])

    interned = message([*words(1, categories), *words(2, names), *words(3, keys)])
    kernel = [(4, message([(1, 4), (6, b"GPU-0")])), (4, message([(1, 5), (3, 2)]))]
    copy = [
        own(b"begin_ns", 70_009_000), own(b"end_ns", 70_009_400), own(b"corr_id", 10),
        own(b"src_agent", b"CPU-0"), own(b"dst_agent", b"GPU-0"), own(b"copy_bytes", 64),
        own(b"stream_id", 3),
    ]  # fmt: skip
    return message(
        [
            packet((60, message([(1, process)]))),
            packet((13, 1), (12, interned), (60, message([(1, track), (5, process)]))),
            packet((8, 5), begins(1, *noted(70_001_000, 70_002_000, number))),
            packet((8, 5), (11, message([(9, 2), (11, track)]))),
            packet((8, 5), begins(2, *noted(70_005_000, 70_008_000, 9), *kernel)),
            packet((11, message([(22, b"memory_copy"), (9, 1), (11, track),
                                 (23, b"MEMORY_COPY_HOST_TO_DEVICE"), *copy]))),
            packet((11, message([(9, 4), (11, track)]))),
            *(packet(field) for field in extra),
        ]
    )  # fmt: skip


#: What makes version 4.1 of a database of rocprofv3: rows name a track.
ROCPD_4_1 = """
    CREATE TABLE rocpd_track_a1 (id INTEGER PRIMARY KEY, tid INTEGER, agent_id INTEGER,
        queue_id INTEGER, stream_id INTEGER);
    INSERT INTO rocpd_track_a1 VALUES (1, 1, NULL, NULL, NULL), (2, 1, 2, 1, 3);
    ALTER TABLE rocpd_region_a1 RENAME COLUMN tid TO track_id;
    ALTER TABLE rocpd_kernel_dispatch_a1 RENAME COLUMN agent_id TO track_id;
    ALTER TABLE rocpd_kernel_dispatch_a1 DROP COLUMN queue_id;
    ALTER TABLE rocpd_kernel_dispatch_a1 DROP COLUMN stream_id;
    ALTER TABLE rocpd_memory_copy_a1 DROP COLUMN queue_id;
    ALTER TABLE rocpd_memory_copy_a1 DROP COLUMN stream_id;
    ALTER TABLE rocpd_memory_copy_a1 ADD COLUMN track_id INTEGER DEFAULT 2;
"""
#: And version 4.0: timestamps have a table of their own. Ids go down as times go up.
ROCPD_4_0 = (
    ROCPD_4_1
    + """
    CREATE TABLE rocpd_timestamp_a1 (id INTEGER PRIMARY KEY, value BIGINT, track_id INTEGER);
    INSERT INTO rocpd_timestamp_a1 SELECT 10000 - time, time, 1 FROM (
        SELECT start AS time FROM rocpd_region_a1 UNION SELECT "end" FROM rocpd_region_a1
        UNION SELECT start FROM rocpd_kernel_dispatch_a1
        UNION SELECT "end" FROM rocpd_kernel_dispatch_a1
        UNION SELECT start FROM rocpd_memory_copy_a1 UNION SELECT "end" FROM rocpd_memory_copy_a1);
"""
    + "".join(
        f"""
    ALTER TABLE rocpd_{table}_a1 RENAME COLUMN start TO start_id;
    ALTER TABLE rocpd_{table}_a1 RENAME COLUMN "end" TO end_id;
    UPDATE rocpd_{table}_a1 SET start_id = 10000 - start_id, end_id = 10000 - end_id;
    """
        for table in ("region", "kernel_dispatch", "memory_copy")
    )
)


def small_files(folder: Path) -> dict[str, bytes]:
    """Return a small sound file of each format by the format's name."""
    database = nsys_database(folder / "small.sqlite")
    layers = {"Layers": [{"Name": "conv", "LayerType": "Convolution", "Inputs": []}]}
    profile = [{"count": 2}, {"name": "conv", "timeMs": 0.5, "averageMs": 0.25}]
    times = [
        {"startEnqMs": 0.5, "endEnqMs": 0.6, "startComputeMs": 1.0, "endComputeMs": 2.0,
         "computeMs": 1.0}
    ]  # fmt: skip
    texts = {
        "onnxruntime": json.dumps(ORT_PROFILE),
        "rocprofv3-json": json.dumps(rocprofv3_json()),
        "rocprof-json": rocprof_json(),
        "pytorch-execution-trace": json.dumps(execution_trace()),
        "trtexec": json.dumps(profile),
        "nsys-stats": GPU_TRACE,
        "rocprof": KERNEL_TRACE,
        "rocprof-stats": KERNEL_STATS,
        "chakra, json": json.dumps(chakra_json()),
        "pytorch-execution-trace, 1.0.1": json.dumps(execution_trace("1.0.1")),
        "trtexec, times": json.dumps(times),
        "trtexec, layers": json.dumps(layers),
        "nsys-stats, sums": KERNEL_SUMS,
        "rocprof, v1": ROCPROF_V1,
        "nsys-text": KERNEL_PRINT,
    }
    return {
        **{name: text.encode() for name, text in texts.items()},
        "chakra": chakra_et(),
        "xplane": xplane(),
        "pftrace": pftrace(),
        "rocpd": rocpd_database(folder / "small.db").read_bytes(),
        "rocpd, 4.0": rocpd_database(folder / "small4.db", ROCPD_4_0).read_bytes(),
        "tar": archive({"trace.json": json.dumps(execution_trace()).encode(), "kernel.py": b""}),
        "nsys-sqlite": database.read_bytes(),
    }
