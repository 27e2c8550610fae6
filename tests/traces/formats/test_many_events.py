"""A trace of ten million events would be read in the memory that long traces are promised."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import made_traces as made

#: Frames of Python and flows, which are passed over, are most of a trace with stacks: 98 of a
#: hundred events here. A call and its kernel are the others.
FRAMES, FLOWS, ROUNDS = 78, 20, 10_000
#: Libraries and the pieces that are read take 120. What is left is 80 bytes for each of a million
#: events: ten times as many stay below 1 GiB, and to keep each takes many times as much.
MOST_MIB = 200
READ = """
import sys
from pathlib import Path
from perfmodel.traces.formats.registry import read_trace
trace = read_trace(Path(sys.argv[1]))
# Not ru_maxrss, which remembers the process that this one was forked from.
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
taken_kib = int(status["VmHWM"].split()[0])
joined = int((trace.kernels.operator >= 0).sum())
print(len(trace.operators), len(trace.kernels), joined, int(trace.kernels.duration_ns.sum()),
      trace.complete, taken_kib / 1024)
"""


def _round(number: int) -> list[made.Event]:
    """Return a hundred events: a call, the kernel that names it, frames and flows around them."""
    at = 100.0 * number
    frame = {"ph": "X", "cat": "python_function", "name": "f", "pid": 1, "tid": 1, "ts": at,
             "dur": 1}  # fmt: skip
    flow = {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": number, "pid": 1, "tid": 1, "ts": at}
    called = made.call("aten::add", at, 10.0, External_id=number + 1)
    ran = made.kernel("add", number, at + 20.0, 5.0) | {
        "args": {"device": 0, "stream": 7, "External id": number + 1}
    }
    return [called, ran, *[frame] * FRAMES, *[flow] * FLOWS]


def test_a_million_events_are_read_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    with path.open("w") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [')
        for number in range(ROUNDS):
            file.write("," if number else "")
            file.write(json.dumps(_round(number), separators=(",", ":"))[1:-1])
        file.write("]}")
    run = subprocess.run(
        [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True
    )
    path.unlink()
    calls, kernels, joined, time_ns, complete, mib = run.stdout.split()
    assert [int(calls), int(kernels), int(joined)] == [ROUNDS] * 3
    # 5 us each.
    assert (int(time_ns), complete) == (ROUNDS * 5_000, "True")
    assert float(mib) < MOST_MIB
