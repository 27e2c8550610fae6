"""Capture jobs in a child process that this one can outlive."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import orjson

from perfmodel import errors
from perfmodel.child_modules import module_command, module_environment
from perfmodel.errors import CaptureBudgetError, CaptureError, InvalidInputError, PerfModelError
from perfmodel.estimator.jobs.capture_terms import LOOK_S, AbandonedError, CaptureBudget, CaptureUse
from perfmodel.estimator.jobs.captured_step import CapturedStep
from perfmodel.estimator.jobs.step_facts import facts_from
from perfmodel.graph.canonical import from_json
from perfmodel.graph.job import Job
from perfmodel.requests import job_to_dict

#: What a child may take to load its libraries; no budget pays for that.
_START_S = 120.0


class Captured(NamedTuple):
    """A captured step, and what its capture took."""

    step: CapturedStep
    use: CaptureUse


class CaptureChild:
    """Captures jobs in one child process, started when first needed.

    A capture holds Python's lock for most of a second; in a child it holds up nobody. A child
    that dies or takes too long is replaced, and only the job it worked on fails. It reads no file
    but those of the installed libraries, and opens no connection (:mod:`.confinement`).
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._child: subprocess.Popen[bytes] | None = None

    def capture(
        self, job: Job, budget: CaptureBudget, goes_on: Callable[[], bool] = lambda: True
    ) -> Captured:
        """Capture a job; as :func:`~perfmodel.estimator.jobs.capture.capture_in_process`.

        Parameters
        ----------
        goes_on : callable
            Asked now and then; where it says no, the child is ended.

        Raises
        ------
        CaptureBudgetError
            It takes more than its budget.
        CaptureError
            The child died.
        AbandonedError
            It was not to go on.
        """
        request = {"job": job_to_dict(job), "budget": asdict(budget)}
        with self._lock:
            try:
                answer, canonical, kept = self._ask(
                    orjson.dumps(request) + b"\n", budget.time_s, goes_on
                )
            except TimeoutError:
                self.close()
                raise _over_time(job, budget) from None
            except AbandonedError:
                self.close()
                raise
            except OSError as error:
                self.close()
                raise CaptureError(
                    f"Capturing {job.label} did not end well: {error}", pointer="/job"
                ) from error
        if "error" in answer:
            raise _revived(answer)
        facts = facts_from(kept)
        read = partial(from_json, canonical, bounded=False)
        step = CapturedStep(
            graph=facts.graph(read) if facts else read(),
            tokens_per_sample=answer["tokens_per_sample"],
            canonical=canonical,
            packed_facts=kept if facts else None,
            facts=facts,
        )
        return Captured(step, CaptureUse(**answer["used"]))

    def _ask(
        self, request: bytes, time_s: float, goes_on: Callable[[], bool]
    ) -> tuple[dict[str, Any], bytes, bytes]:
        """Send one line; read a line of JSON and as many bytes as it says, of graph and facts."""
        if self._child is None or self._child.poll() is not None:
            self.close()
            self._child = _start()
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write(request)
        self._child.stdin.flush()
        reader = _Reader(self._child.stdout.fileno(), goes_on)
        reader.line(until_s=time.monotonic() + _START_S)
        until_s = time.monotonic() + time_s
        answer: dict[str, Any] = orjson.loads(reader.line(until_s=until_s))
        size = answer.get("size_bytes", 0)
        content = reader.exactly(size + answer.get("facts_bytes", 0), until_s=until_s)
        if answer["ends"]:
            self.close()
        return answer, content[:size], content[size:]

    def close(self) -> None:
        """End the child; another one is started when needed."""
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
    """Reads from a pipe until a deadline, or until it shall not go on."""

    def __init__(self, descriptor: int, goes_on: Callable[[], bool]) -> None:
        self._descriptor = descriptor
        self._goes_on = goes_on
        self._buffer = bytearray()

    def line(self, *, until_s: float) -> bytes:
        """Return everything up to the next line end."""
        while b"\n" not in self._buffer:
            self._more(until_s)
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return line

    def exactly(self, count: int, *, until_s: float) -> bytes:
        """Return so many bytes."""
        while len(self._buffer) < count:
            self._more(until_s)
        return bytes(self._buffer)

    def _more(self, until_s: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._descriptor, selectors.EVENT_READ)
            while not selector.select(max(0.0, min(LOOK_S, until_s - time.monotonic()))):
                if time.monotonic() >= until_s:
                    raise TimeoutError("it took too long.")
                if not self._goes_on():
                    raise AbandonedError("Nobody waits for it, and others wait for its process.")
        data = os.read(self._descriptor, 1 << 20)
        if not data:
            raise ConnectionError("its process died; the model may need more memory than there is.")
        self._buffer += data


def _start() -> subprocess.Popen[bytes]:
    # It needs nothing of what this process was told, passwords of databases least of all.
    inherited = {name: v for name, v in os.environ.items() if not name.startswith("PERFMODEL_")}
    return subprocess.Popen(
        module_command("perfmodel.estimator.captures.capture_worker"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=module_environment({"OMP_NUM_THREADS": "1"}, inherited=inherited),
        # Ctrl-C in the terminal is for the parent, which then ends the child.
        start_new_session=True,
    )


def _over_time(job: Job, budget: CaptureBudget) -> CaptureBudgetError:
    return CaptureBudgetError(
        f"Capturing {job.label} took too long: more than its budget of {budget.time_s:g} s. State "
        "more in capture_budget, as far as this service allows it, or capture the model on your "
        "side and register its graph.",
        pointer="/job",
    )


def _revived(answer: dict[str, Any]) -> PerfModelError:
    """Return the error that the child described; constructors differ, so it is filled directly."""
    kind = getattr(errors, answer["error"], InvalidInputError)
    error: PerfModelError = kind.__new__(kind)
    Exception.__init__(error, answer["fields"]["message"])
    vars(error).update(answer["fields"])
    return error
