"""Processes that are forked from one without threads, whatever runs in the one that tests.

A process that is forked while a thread of another test holds a lock of SQLite waits for it forever.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from waiting import PATIENCE_S

_TESTS = Path(__file__).parent


class CleanForks:
    """Forks a process for each call of what a program does.

    Parameters
    ----------
    program : Path
        Ends with ``fork_on_demand(work)``.
    """

    def __init__(self, program: Path) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Of one thread: whatever limits threads loads torch for it in each of them otherwise.
            env={
                **os.environ,
                "PYTHONPATH": f"{_TESTS}:{_TESTS.parent}",
                "OMP_NUM_THREADS": "1",
            },
            text=True,
        )

    def run(self, *args: object) -> int | None:
        """Return how a process ended that did the work with these; None: it did not end."""
        assert self._parent.stdin is not None and self._parent.stdout is not None
        print(json.dumps(args, default=str), file=self._parent.stdin, flush=True)
        ended: int | None = json.loads(self._parent.stdout.readline())
        return ended

    def __enter__(self) -> CleanForks:
        return self

    def __exit__(self, *_: object) -> None:
        self._parent.communicate(timeout=PATIENCE_S)


def fork_on_demand(work: Callable[..., Any]) -> None:
    """Do the work in a process of its own for each line of arguments, and say how it ended."""
    context = multiprocessing.get_context("fork")
    for line in sys.stdin:
        child = context.Process(target=work, args=json.loads(line))
        child.start()
        child.join(PATIENCE_S)
        print(json.dumps(child.exitcode), flush=True)
        child.kill()
