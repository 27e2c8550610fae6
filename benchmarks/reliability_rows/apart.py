"""A row in a process of its own: what crashes, hangs or leaves things behind stops no other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import psutil
from reliability_rows.row import Found, NotHereError, Result, Row, Verdict

ROOT = Path(__file__).resolve().parents[2]
#: Lines of a row that failed that are worth showing.
_LAST = 12
#: What a row may import: the project, what lies beside this room, and the tests.
_PATHS = (ROOT, ROOT / "benchmarks", ROOT / "tests")
#: For a child: measure and write down what was found.
_CHILD = """
import sys
from reliability_rows.apart import measure_here
measure_here(sys.argv[1], int(sys.argv[2]), sys.argv[3])
"""


def measure_here(name: str, count: int, path: str) -> None:
    """Measure a row, and write what was found to a file."""
    from reliability_rows.table import ROWS

    row = next(one for one in ROWS if one.name == name)
    try:
        found: object = asdict(row.measure(count))
    except NotHereError as error:
        found = {"not_here": str(error)}
    Path(path).write_text(json.dumps(found), encoding="utf-8")


def measured_apart(row: Row, count: int) -> Result:
    """Measure a row in a process of its own, and end what it leaves behind."""
    load, began = os.getloadavg()[0], time.monotonic()
    at = datetime.now(UTC).isoformat(timespec="minutes")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # a database server that is started by root is another user
        verdict, measured = _run(row, count, Path(folder))
    return Result(
        name=row.name, verdict=verdict, measured=measured, count=count,
        took_s=round(time.monotonic() - began, 1), load=round(load, 1),
        cores=os.cpu_count() or 1, at=at,
    )  # fmt: skip


def _run(row: Row, count: int, folder: Path) -> tuple[Verdict, str]:
    written, said = folder / "found.json", folder / "said"
    command = [sys.executable, "-c", _CHILD, row.name, str(count), str(written)]
    paths = os.pathsep.join(str(path) for path in _PATHS)
    with said.open("wb") as file:
        child = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT, start_new_session=True,
            env={**os.environ, "PYTHONPATH": paths, "TMPDIR": str(folder)},
        )  # fmt: skip
        try:
            code = child.wait(row.limit_s)
        except subprocess.TimeoutExpired:
            return Verdict.FAILED, f"gave up after {row.limit_s:g} s"
        finally:
            _end(child)
    if code or not written.exists():
        last = said.read_text(errors="replace").strip().splitlines()[-_LAST:]
        print("\n".join(last), file=sys.stderr)
        return Verdict.FAILED, f"broke off ({code}): {last[-1][:200] if last else 'no word'}"
    return _judged(json.loads(written.read_text(encoding="utf-8")))


def _judged(found: dict) -> tuple[Verdict, str]:
    if "not_here" in found:
        return Verdict.NOT_RUN, found["not_here"]
    kept = Found(**found)
    return (Verdict.HELD if kept.held else Verdict.MISSED), kept.measured


def _end(child: subprocess.Popen) -> None:
    """End a row and everything that it started."""
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(child.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                process.kill()
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
