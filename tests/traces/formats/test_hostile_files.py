"""Small files that would be large in memory: refused in little memory."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from made_up_profiles import ORT_PROFILE, archive, execution_trace, rocprofv3_json
from slowest import Slowest

#: Empty lists take twenty times their text; packed, a hundred KB hold ten million of them.
LISTS = b"[" + b"[]," * (10 * 2**20) + b"[]]"
MOST_MIB = 512
READ = """
import resource, sys, time
from pathlib import Path
from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.registry import read_trace
import perfmodel.traces.formats.xplane, perfmodel.traces.formats.archives
begun_s = time.process_time()
before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_trace(Path(sys.argv[1]))
    print("hostile, but sound and read")
except InvalidTraceError as error:
    print(error.message[:300])
took_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
print(took_kib / 1024, time.process_time() - begun_s)
"""


def _with_lists(document: object, key: str) -> bytes:
    """Return a packed document with the lists in place of a member."""
    text = json.dumps(document).encode()
    return gzip.compress(text.replace(json.dumps(key).encode(), b'"lists": ' + LISTS + b', "x"'), 1)


HOSTILE: dict[str, Callable[[], bytes]] = {
    "rocprofv3": lambda: _with_lists(rocprofv3_json(), "dispatch_info"),
    "rocprofv3, passed over": lambda: _with_lists(rocprofv3_json(), "pid"),
    "execution trace": lambda: _with_lists(execution_trace(), "ctrl_deps"),
    "onnxruntime": lambda: _with_lists(ORT_PROFILE, "op_name"),
    "trtexec": lambda: gzip.compress(b'[{"count": 1}, ' + LISTS, 1),
    "table": lambda: gzip.compress(b"Kernel_Name,GPU_ID\n" + b"x" * 60 * 2**20, 1),
    "archive": lambda: archive({"t.json": gzip.decompress(HOSTILE["execution trace"]())}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_small_file_takes_little_memory(tmp_path: Path, name: str, slowest: Slowest) -> None:
    """Memory that a process took at most can be told of a fresh one alone."""
    path = tmp_path / "hostile"
    path.write_bytes(HOSTILE[name]())
    assert path.stat().st_size < 2 * 2**20
    run = subprocess.run(
        [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True
    )
    reason, figures = run.stdout.strip().rsplit("\n", 1)
    mib, seconds = map(float, figures.split())
    assert "hostile" in reason
    assert mib < MOST_MIB, reason
    slowest.note(seconds)
