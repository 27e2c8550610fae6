"""A child that does a retraining, seen from outside: its lines, its memory, its end."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Self

import orjson
import psutil

from perfmodel.child_modules import module_command, module_environment
from perfmodel.retraining.workplace import Workplace
from perfmodel.store.retraining.retraining_records import Retraining

#: Lines of its errors that are kept for the log.
_TAIL_LINES = 20


class ChildProcess:
    """Does a retraining in a process group of its own.

    It may be killed at any moment: the next one goes on from the last finished phase.
    """

    def __init__(self, claim: Retraining, place: Workplace) -> None:
        order = {"claim": asdict(claim), "place": place.to_dict()}
        self._process = subprocess.Popen(
            module_command("perfmodel.retraining.child"),
            env=module_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._lines: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        self._errors: deque[str] = deque(maxlen=_TAIL_LINES)
        self._threads = [
            threading.Thread(target=target, daemon=True)
            for target in (self._read_lines, self._read_errors)
        ]
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # its end is told otherwise
            self._process.stdin.write(orjson.dumps(order) + b"\n")
            self._process.stdin.flush()
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def lines(self, wait_s: float) -> list[Mapping[str, Any]]:
        """Return what it has said since; waits for something to be said."""
        found = []
        with suppress(queue.Empty):
            found.append(self._lines.get(timeout=wait_s))
            while True:
                found.append(self._lines.get_nowait())
        return found

    def has_ended(self) -> bool:
        """Tell whether it has ended; all that it said can then be read."""
        if self._process.poll() is None:
            return False
        for thread in self._threads:
            thread.join(5.0)
        return True

    def how_it_ended(self) -> str:
        """Return what ended it, for one that did not say so itself."""
        code = self._process.returncode
        tail = f" Its last words: {' / '.join(self._errors)}" if self._errors else ""
        if code is not None and code < 0:
            return f"The process was ended by {signal.Signals(-code).name}.{tail}"
        return f"The process ended with status {code} and without a result.{tail}"

    def memory_bytes(self) -> int:
        """Return what it and those that it started hold of the memory, shared pages once."""
        try:
            own = psutil.Process(self._process.pid)
            processes = [own, *own.children(recursive=True)]
        except psutil.Error:
            return 0
        return sum(_held_bytes(process) for process in processes)

    def kill(self) -> None:
        """End it, and all that it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for thread in self._threads:
            thread.join(5.0)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(orjson.JSONDecodeError):  # of one that was killed while it wrote
                self._lines.put(orjson.loads(line))

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if text := line.decode(errors="replace").strip():
                self._errors.append(text)


def _held_bytes(process: psutil.Process) -> int:
    try:
        held = process.memory_full_info()
        return int(getattr(held, "pss", held.rss))
    except psutil.Error:  # it has just ended
        return 0
