"""What members of a measurement do in tests: answer, fail, die, hang, leave children behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from waiting import until

from perfmodel.profilers.processes.meeting import Meeting


def answer(meeting: Meeting, value: int) -> tuple[int, tuple[int, ...]]:
    """Return the value and the processors that this process may use."""
    meeting.wait()
    return value, tuple(sorted(os.sched_getaffinity(0)))


def fail(meeting: Meeting, position: int) -> None:
    """Fail in the second member; the first waits for it."""
    if position == 1:
        raise ValueError("no such thing")
    meeting.wait()


def die(meeting: Meeting, position: int) -> None:
    """Kill the second member; the first waits for it."""
    if position == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    meeting.wait()


def hang(meeting: Meeting, position: int, told: str) -> int:
    """Hang in the second member, which has a child; the first answers once it does."""
    if position == 0:
        until(lambda: Path(told).exists() and len(Path(told).read_text().split()) == 2)
        return 0
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(told).write_text(f"{os.getpid()} {child.pid}")
    time.sleep(600)
    return 1
