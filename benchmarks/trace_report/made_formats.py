"""Made files of any size in the formats of further profilers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

#: Writes a file of about so many bytes and returns how many events it holds.
Writer = Callable[[Path, int], int]

_BEGIN_NS = 10**15
_TABLES = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
    contextId INTEGER, greenContextId INTEGER, streamId INTEGER, correlationId INTEGER,
    globalPid INTEGER, demangledName INTEGER, shortName INTEGER, mangledName INTEGER,
    launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER, gridX INTEGER,
    gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER,
    staticSharedMemory INTEGER, dynamicSharedMemory INTEGER, localMemoryPerThread INTEGER,
    localMemoryTotal INTEGER, gridId INTEGER, sharedMemoryExecuted INTEGER, graphNodeId INTEGER,
    sharedMemoryLimitConfig INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER,
    globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER,
    callchainId INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,
    textId INTEGER, globalTid INTEGER);
"""
#: A kernel, the call that launched it, and a quarter of a range, as SQLite packs them.
_ROW_BYTES = 147
_CSV_HEADER = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",'
    '"Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size",'
    '"VGPR_Count","Workgroup_Size_X","Grid_Size_X"\n'
)


def write_nsys_sqlite(path: Path, size_bytes: int) -> int:
    """Write kernels, each launched by a call, four of them inside of a range of NVTX."""
    kernels = size_bytes // _ROW_BYTES
    process = 77 << 24
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = OFF")
        database.executescript(_TABLES)
        names = ((i, f"void kernel_{i}<float>(float*, int)") for i in range(1, 500))
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", names)
        database.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 1, NULL, 7, ?, ?, ?, ?, ?, 1, "
            "0, 32, 128, 1, 1, 256, 1, 1, 0, 4096, 0, 90000000, ?, 0, NULL, 0)",
            (
                (t, t + 5_000, i + 1, process, i % 499 + 1, i % 499 + 1, i % 499 + 1, i + 1)
                for i, t in _times(kernels)
            ),
        )
        database.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, 3, 0, NULL)",
            ((t - 4_000, t - 3_000, process + 78, i + 1) for i, t in _times(kernels)),
        )
        database.executemany(
            "INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, NULL, ?)",
            (
                (t - 5_000, t + 28_000, f"aten::addmm, seq = {i}, sizes = [[64], [64, 512], "
                 "[512, 64], [], []]", process + 78)
                for i, t in _times(kernels) if i % 4 == 0
            ),
        )  # fmt: skip
    database.close()
    return 2 * kernels + (kernels + 3) // 4


def write_rocprofv3_json(path: Path, size_bytes: int) -> int:
    """Write dispatches of one GPU."""
    agent = {"id": {"handle": 31}, "type": 2, "node_id": 1, "gpu_index": 0, "cu_count": 304,
             "name": "gfx942", "product_name": "AMD Instinct MI300X"}  # fmt: skip
    symbols = [{"kernel_id": i, "formatted_kernel_name": f"kernel_{i}(float*)"} for i in range(500)]
    sized, axis = {"x": 512, "y": 1, "z": 1}, '"size":184,"kind":11,"operation":2,"thread_id":908'
    head = {"agents": [agent], "kernel_symbols": symbols}
    count = 0
    with path.open("w", encoding="ascii") as out:
        out.write('{"rocprofiler-sdk-tool":[' + json.dumps(head)[:-1])
        out.write(',"buffer_records":{"kernel_dispatch":[')
        while out.tell() < size_bytes:
            for i, start_ns in _times(10_000, count):
                launch = {"agent_id": {"handle": 31}, "queue_id": {"handle": 16}, "dispatch_id": i,
                          "kernel_id": i % 500, "workgroup_size": sized,
                          "grid_size": sized}  # fmt: skip
                out.write(
                    f'{"," if i else ""}{{{axis},"correlation_id":{{"internal":{i},"external":0}},'
                    f'"start_timestamp":{start_ns},"end_timestamp":{start_ns + 5_000},'
                    f'"dispatch_info":{json.dumps(launch)},"stream_id":{{"handle":3}}}}'
                )
            count += 10_000
        out.write("]}}]}")
    return count


def write_rocprofv3_csv(path: Path, size_bytes: int) -> int:
    """Write dispatches of one GPU as a table."""
    count = 0
    with path.open("w", encoding="ascii") as out:
        out.write(_CSV_HEADER)
        while out.tell() < size_bytes:
            for i, start_ns in _times(10_000, count):
                out.write(
                    f'"KERNEL_DISPATCH","Agent 2",1,0,70,{i},33,"void at::native::vectorized_'
                    f'elementwise_kernel<4, at::native::op{i % 300}>(int, float*)",{i},{start_ns},'
                    f"{start_ns + 5_000},0,0,12,256,65536\n"
                )
            count += 10_000
    return count


def write_execution_trace(path: Path, size_bytes: int) -> int:
    """Write products in frames, of fifty shapes."""
    count = 0
    with path.open("w", encoding="ascii") as out:
        out.write('{"schema":"1.0.3-chakra.0.0.4","pid":1,"nodes":[')
        while out.tell() < size_bytes:
            for i in range(count, count + 10_000):
                out.write(("," if i else "") + json.dumps(_node(i)))
            count += 10_000
        out.write("]}")
    return count


def _node(number: int) -> dict[str, object]:
    tensor = [number, number, 0, 64, 4, "cuda:0"]
    shapes = [[1 + number % 50, 64], [64, 64]]
    types = ["Tensor(float)", "Tensor(float)"]
    schema = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
    return {
        "id": number + 2, "name": "aten::mm", "ctrl_deps": max(number // 10 * 10 + 1, 1),
        "inputs": {"values": [tensor, tensor], "shapes": shapes, "types": types},
        "outputs": {"values": [tensor], "shapes": shapes[:1], "types": types[:1]},
        "attrs": [{"name": "seq_id", "type": "int64", "value": number},
                  {"name": "tid", "type": "uint64", "value": 1},
                  {"name": "op_schema", "type": "string", "value": schema}],
    }  # fmt: skip


def _times(count: int, begin: int = 0) -> Iterator[tuple[int, int]]:
    """Yield numbers and starts, 9 us after each other."""
    return ((i, _BEGIN_NS + 9_000 * i) for i in range(begin, begin + count))


#: By the name of the format.
WRITERS: Mapping[str, Writer] = {
    "nsys-sqlite": write_nsys_sqlite,
    "rocprofv3-json": write_rocprofv3_json,
    "rocprof": write_rocprofv3_csv,
    "pytorch-execution-trace": write_execution_trace,
}
