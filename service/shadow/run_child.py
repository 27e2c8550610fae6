"""Run the child process that compares, and read what it tells."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson

#: How often it is looked whether somebody wants the child to end, seconds.
_POLL_S = 0.5
#: A child that tells nothing for so long is given up, seconds.
_SILENT_S = 900.0
#: Each library would take as many threads as there are processors.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class ChildFailedError(Exception):
    """A comparison did not end well; says why."""


@contextmanager
def comparing_child(header: Mapping[str, Any]) -> Iterator[ComparingChild]:
    """Start a child; it is gone when the block ends."""
    environment = {**os.environ, **dict.fromkeys(_ONE_THREAD, "1")}
    process = subprocess.Popen(
        [sys.executable, "-m", "service.shadow.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    child = ComparingChild(process)
    try:
        assert process.stdin is not None
        # Not among its arguments, which everybody on the machine can read: it may hold a password.
        process.stdin.write(orjson.dumps({**header, "parent": os.getpid()}) + b"\n")
        process.stdin.close()
        yield child
    finally:
        process.kill()
        process.wait()
        child.close()


class ComparingChild:
    """A child that compares."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._process = process
        self._output = process.stdout
        self._read = b""
        # Not select(): a service may have more files open than that can name.
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._output, selectors.EVENT_READ)

    def close(self) -> None:
        """Read no more."""
        self._ready.close()
        self._output.close()

    def lines(self) -> Iterator[dict[str, Any] | None]:
        """Yield what the child tells, and None now and then while it tells nothing.

        Ends after the line that says that all is done.

        Raises
        ------
        ChildFailedError
            It ended otherwise, or tells nothing any more.
        """
        heard_s = time.monotonic()
        while True:
            line = self._line()
            if line is None:
                if time.monotonic() - heard_s > _SILENT_S:
                    raise ChildFailedError(f"Nothing was compared within {_SILENT_S:g} s.")
                yield None
                continue
            heard_s = time.monotonic()
            told: dict[str, Any] = orjson.loads(line)
            if "problem" in told:
                raise ChildFailedError(told["problem"])
            if "done" in told:
                return
            yield told

    def _line(self) -> bytes | None:
        """Return the next line, or None where there is none yet."""
        while b"\n" not in self._read:
            if not self._ready.select(_POLL_S):
                return None
            came = os.read(self._output.fileno(), 1 << 16)
            if not came:
                status = self._process.wait()
                raise ChildFailedError(
                    f"The process that compares ended with status {status}; its log says why."
                )
            self._read += came
        line, _, self._read = self._read.partition(b"\n")
        return line
