"""A process that captures for this one: what goes wrong with one job stays with it."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from perfmodel.child_modules import module_command, module_environment

#: A capture takes 0.1 to 5 s; one that takes this long hangs.
_MOST_SECONDS = 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureFailure:
    """Why a job has no sketch.

    Parameters
    ----------
    reason : str
        Class of the error; ``"crashed"`` or ``"took too long"`` where the worker ended.
    """

    label: str
    reason: str
    message: str


class CaptureChild:
    """A child process, started when needed and again after a crash; computes on one thread.

    It ends with the process that started it, which keeps the other end of its input.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def capture(self, label: str, job: Mapping[str, Any]) -> bytes | CaptureFailure:
        """Return the sketch of a job, as :func:`~perfmodel.store.sketches.packed` returns it.

        Parameters
        ----------
        job : mapping
            From :func:`~perfmodel.graph.job.job_to_dict`; one that no job may be is a failure.
        """
        child = self._started()
        timer = threading.Timer(_MOST_SECONDS, child.kill)
        started = time.monotonic()
        timer.start()
        try:
            answer = _asked(child, job)
        finally:
            timer.cancel()
        if answer is None:
            self.close()
            late = time.monotonic() - started >= _MOST_SECONDS
            reason = "took too long" if late else "crashed"
            answer = reason, f"the worker ended with exit code {child.returncode}"
        if isinstance(answer, bytes):
            return answer
        error, message = answer
        return CaptureFailure(label=label, reason=error, message=message)

    def close(self) -> None:
        """End the child, whatever state it is in."""
        if self._child is None:
            return
        self._child.kill()
        self._child.communicate()
        self._child = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            self._child = subprocess.Popen(
                module_command("perfmodel.training.captures.capture_worker"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=module_environment({"OMP_NUM_THREADS": "1"}),
            )
        return self._child


def _asked(
    child: subprocess.Popen[bytes], job: Mapping[str, Any]
) -> bytes | tuple[str, str] | None:
    """Return the sketch, or class and message of an error; None where the child has ended."""
    assert child.stdin is not None and child.stdout is not None
    try:
        child.stdin.write(orjson.dumps(job) + b"\n")
        child.stdin.flush()
    except BrokenPipeError:
        return None
    line = child.stdout.readline()
    if not line:
        return None
    answer = orjson.loads(line)
    if answer["error"]:
        return answer["error"], answer["message"]
    content = child.stdout.read(answer["size"])
    return content if len(content) == answer["size"] else None
