"""Capture the step of a job, in this process or in a child that this one can outlive."""

from __future__ import annotations

from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from threading import Lock
from typing import Any

from perfmodel import errors
from perfmodel.errors import CaptureError, InvalidInputError, PerfModelError
from perfmodel.estimator.step import CapturedStep
from perfmodel.graph.canonical import from_json, to_json
from perfmodel.graph.job import Job
from perfmodel.requests import job_to_dict, parse_job


def capture_in_process(job: Job) -> CapturedStep:
    """Capture a job here and now; imports torch and the library that defines the model.

    Parameters
    ----------
    job : Job
        With a named model or a transformers config.

    Returns
    -------
    CapturedStep

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
        What one capture may take, waiting included.
    """

    def __init__(self, *, timeout_s: float = 60.0) -> None:
        self._timeout_s = timeout_s
        self._lock = Lock()
        self._pool: ProcessPoolExecutor | None = None

    def __call__(self, job: Job) -> CapturedStep:
        """Capture a job; as :func:`capture_in_process`.

        Raises
        ------
        CaptureError
            The child died, or took too long.
        """
        pool, future = self._submit(job)
        try:
            message = future.result(timeout=self._timeout_s)
        except TimeoutError as error:
            self._replace(pool)
            raise CaptureError(
                f"Capturing {job.label} took longer than {self._timeout_s:g} s.", pointer="/job"
            ) from error
        except BrokenProcessPool as error:
            self._replace(pool)
            raise CaptureError(
                f"The process that captured {job.label} died; the model may need more memory than "
                "there is.",
                pointer="/job",
            ) from error
        if "error" in message:
            raise _revived(message)
        return CapturedStep(
            graph=from_json(message["graph"]), tokens_per_sample=message["tokens_per_sample"]
        )

    def close(self) -> None:
        """End the child."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            _kill(pool)

    def _submit(self, job: Job) -> tuple[ProcessPoolExecutor, Future[dict[str, Any]]]:
        with self._lock:
            if self._pool is None:
                # Spawned, not forked: a fork of a process with threads may hang.
                self._pool = ProcessPoolExecutor(
                    max_workers=1, mp_context=get_context("spawn"), initializer=_one_thread
                )
            return self._pool, self._pool.submit(_capture_message, job_to_dict(job))

    def _replace(self, pool: ProcessPoolExecutor) -> None:
        with self._lock:
            if self._pool is pool:
                self._pool = None
        _kill(pool)


def _kill(pool: ProcessPoolExecutor) -> None:
    for process in list((pool._processes or {}).values()):
        process.kill()
    pool.shutdown(wait=False, cancel_futures=True)


def _one_thread() -> None:
    import os

    os.environ["OMP_NUM_THREADS"] = "1"


def _capture_message(job: dict[str, Any]) -> dict[str, Any]:
    """Run in the child. Errors travel as plain values: their constructors differ."""
    try:
        step = capture_in_process(parse_job(job))
    except PerfModelError as error:
        return {
            "error": type(error).__name__,
            "fields": {k: v for k, v in vars(error).items() if not k.startswith("_")},
        }
    return {"graph": to_json(step.graph), "tokens_per_sample": step.tokens_per_sample}


def _revived(message: dict[str, Any]) -> PerfModelError:
    kind = getattr(errors, message["error"], InvalidInputError)
    error: PerfModelError = kind.__new__(kind)
    Exception.__init__(error, message["fields"]["message"])
    vars(error).update(message["fields"])
    return error
