"""Capture the step of a job, in this process or in a child that this one can outlive."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import time
from functools import partial
from threading import Lock
from typing import Any

import orjson

from perfmodel import errors
from perfmodel.errors import CaptureError, InvalidInputError, PerfModelError
from perfmodel.estimator.jobs.captured_step import CapturedStep
from perfmodel.estimator.jobs.step_facts import facts_from
from perfmodel.graph.canonical import from_json
from perfmodel.graph.job import Job
from perfmodel.requests import job_to_dict


def capture_in_process(job: Job) -> CapturedStep:
    """Capture a job here and now; imports torch and the library that defines the model.

    Parameters
    ----------
    job : Job
        With a named model or a transformers config.

    Raises
    ------
    InvalidInputError
        As :func:`perfmodel.zoo.resolve.capture_job`.
    MissingExtraError
        torch or the model's library is not installed.
    """
    try:
        from perfmodel.capture.torch import capture
    except ModuleNotFoundError as error:
        raise errors.MissingExtraError("Capturing a named model", extra="train") from error
    from perfmodel.zoo.resolve import build_bundle, program_of, source_of

    bundle = build_bundle(job)
    graph = capture(program_of(bundle, job), source=source_of(bundle, job))
    return CapturedStep(graph=graph, tokens_per_sample=bundle.tokens_per_sample)


class CaptureChild:
    """Captures jobs in one child process, started when first needed.

    A capture holds Python's lock for most of a second; in a child it holds up nobody. A child
    that dies or takes too long is replaced, and only the job it worked on fails.

    Parameters
    ----------
    timeout_s : float
        What one capture may take, the start of the child included.
    """

    def __init__(self, *, timeout_s: float = 60.0) -> None:
        self._timeout_s = timeout_s
        self._lock = Lock()
        self._child: subprocess.Popen[bytes] | None = None

    def __call__(self, job: Job) -> CapturedStep:
        """Capture a job; as :func:`capture_in_process`.

        Raises
        ------
        CaptureError
            The child died, or took too long.
        """
        with self._lock:
            try:
                answer, canonical, kept = self._ask(orjson.dumps(job_to_dict(job)) + b"\n")
            except (OSError, TimeoutError) as error:
                self._kill()
                raise CaptureError(
                    f"Capturing {job.label} did not end well: {error}", pointer="/job"
                ) from error
        if "error" in answer:
            raise _revived(answer)
        facts = facts_from(kept)
        read = partial(from_json, canonical, bounded=False)
        return CapturedStep(
            graph=facts.graph(read) if facts else read(),
            tokens_per_sample=answer["tokens_per_sample"],
            canonical=canonical,
            packed_facts=kept if facts else None,
            facts=facts,
        )

    def close(self) -> None:
        """End the child."""
        self._kill()

    def _ask(self, request: bytes) -> tuple[dict[str, Any], bytes, bytes]:
        """Send one line; read a line of JSON and as many bytes as it says, of graph and facts."""
        if self._child is None or self._child.poll() is not None:
            self._kill()
            self._child = _start()
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write(request)
        self._child.stdin.flush()
        reader = _Reader(self._child.stdout.fileno(), time.monotonic() + self._timeout_s)
        answer: dict[str, Any] = orjson.loads(reader.line())
        size = answer.get("size_bytes", 0)
        content = reader.exactly(size + answer.get("facts_bytes", 0))
        return answer, content[:size], content[size:]

    def _kill(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class _Reader:
    """Reads from a pipe until a deadline."""

    def __init__(self, descriptor: int, deadline: float) -> None:
        self._descriptor = descriptor
        self._deadline = deadline
        self._buffer = bytearray()

    def line(self) -> bytes:
        """Return everything up to the next line end."""
        while b"\n" not in self._buffer:
            self._more()
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return line

    def exactly(self, count: int) -> bytes:
        """Return so many bytes."""
        while len(self._buffer) < count:
            self._more()
        return bytes(self._buffer)

    def _more(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._descriptor, selectors.EVENT_READ)
            if not selector.select(max(0.0, self._deadline - time.monotonic())):
                raise TimeoutError("it took too long.")
        data = os.read(self._descriptor, 1 << 20)
        if not data:
            raise ConnectionError("its process died; the model may need more memory than there is.")
        self._buffer += data


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "perfmodel.estimator.jobs.capture_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        # Ctrl-C in the terminal is for the parent, which then ends the child.
        start_new_session=True,
    )


def _revived(answer: dict[str, Any]) -> PerfModelError:
    """Return the error that the child described; constructors differ, so it is filled directly."""
    kind = getattr(errors, answer["error"], InvalidInputError)
    error: PerfModelError = kind.__new__(kind)
    Exception.__init__(error, answer["fields"]["message"])
    vars(error).update(answer["fields"])
    return error
