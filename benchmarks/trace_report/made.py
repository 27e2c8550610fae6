"""A made trace of any size, and what it costs to read."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_HEAD = (
    '{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"NVIDIA H100 80GB HBM3",'
    '"totalGlobalMem":85018279936,"numSms":132,"computeMajor":9,"computeMinor":0}],'
    '"traceEvents":[\n'
)
#: A call, the call of the runtime that it makes, the arrow between that and the kernel, the kernel.
_GROUP = (
    '{{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":{ts}.125,"dur":8.5,"args":'
    '{{"External id":{i},"Input Dims":[[{rows},64],[64,64]],"Input type":["float","float"]}}}},\n'
    '{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{ts}.5,'
    '"dur":4.1,"args":{{"External id":{i},"correlation":{i}}}}},\n'
    '{{"ph":"s","id":{i},"pid":1,"tid":1,"ts":{ts}.5,"cat":"ac2g","name":"ac2g"}},\n'
    '{{"ph":"X","cat":"kernel","name":"sgemm_{kind}","pid":0,"tid":7,"ts":{ts}.75,"dur":7.25,'
    '"args":{{"External id":{i},"device":0,"stream":7,"correlation":{i}}}}}'
)
#: Reads a trace in a process of its own and prints what that took. The most memory is that of
#: this program; what ``getrusage`` tells counts the process that started it as well.
_READ = """
import json, sys, time
from pathlib import Path
from perfmodel.traces.formats.registry import read_trace
before = time.perf_counter()
trace = read_trace(Path(sys.argv[1]))
print(json.dumps({
    "seconds": time.perf_counter() - before,
    "memory_bytes": next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    ),
    "kernels": len(trace.kernels),
    "joined": int((trace.kernels.operator >= 0).sum()),
}))
"""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What reading a made trace took."""

    size_bytes: int
    events: int
    kernels: int
    joined: int
    seconds: float
    memory_bytes: int


def write_made_trace(path: Path, groups: int) -> None:
    """Write a trace of so many groups of four events, each 10 us after the one before."""
    with path.open("w", encoding="ascii") as out:
        out.write(_HEAD)
        for begin in range(0, groups, 10_000):
            end = min(begin + 10_000, groups)
            lines = (
                _GROUP.format(ts=1_000_000 + 10 * i, i=i, rows=1 + i % 50, kind=i % 7)
                for i in range(begin + 1, end + 1)
            )
            out.write((",\n" if begin else "") + ",\n".join(lines))
        out.write("\n]}\n")


def reading_of_made_trace(path: Path, groups: int) -> Reading:
    """Write a trace and read it in a process of its own."""
    write_made_trace(path, groups)
    run = subprocess.run(
        [sys.executable, "-c", _READ, str(path)], capture_output=True, text=True, check=True
    )
    found = json.loads(run.stdout)
    return Reading(size_bytes=path.stat().st_size, events=4 * groups, **found)
