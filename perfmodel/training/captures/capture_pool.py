"""Capture many jobs in worker processes; what goes wrong with one job stays with it."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from perfmodel.graph.job import Job
from perfmodel.graph.job_form import job_to_dict
from perfmodel.predictors.folds import Progress

#: A capture takes 0.1 to 5 s; one that takes this long hangs.
_MOST_SECONDS = 600.0
#: Jobs of one model that a worker takes at a time.
_MOST_AT_ONCE = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureFailure:
    """Why a job has no sketch.

    Parameters
    ----------
    label : str
        The job, for people.
    reason : str
        Class of the error; ``"crashed"`` or ``"took too long"`` where the worker ended.
    """

    label: str
    reason: str
    message: str


class CapturePool:
    """Worker processes that put sketches into a folder.

    Jobs of one model go to one worker, a few at a time: its code is then loaded, and a model that
    takes long does not keep one worker busy after all others have finished.

    Parameters
    ----------
    folder : Path
        Where the sketches go, see :class:`~perfmodel.store.sketches.SketchFiles`.
    workers : int
        Processes, >= 1; each computes on one thread.
    """

    def __init__(self, folder: Path, *, workers: int, progress: Progress | None = None) -> None:
        self.folder = folder
        self.workers = workers
        self.progress = progress

    def run(self, jobs: Mapping[str, Job]) -> dict[str, CaptureFailure]:
        """Capture jobs.

        Parameters
        ----------
        jobs : mapping of str to Job
            By the key to keep the sketch under.

        Returns
        -------
        dict of str to CaptureFailure
            By key, of those that could not be captured.
        """
        groups: dict[str, list[str]] = {}
        for key, job in jobs.items():
            groups.setdefault(job.label, []).append(key)
        todo: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
        for keys in groups.values():
            for start in range(0, len(keys), _MOST_AT_ONCE):
                todo.put(keys[start : start + _MOST_AT_ONCE])
        run = _Run(dict(jobs), todo, self.progress)
        threads = [
            threading.Thread(target=run.work, args=(_Worker(self.folder),), daemon=True)
            for _ in range(min(self.workers, todo.qsize()))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for problem in run.problems:
            raise problem
        return run.failures


class _Run:
    """What the threads of one run share; each owns a worker process."""

    def __init__(
        self,
        jobs: dict[str, Job],
        todo: queue.SimpleQueue[list[str]],
        progress: Progress | None,
    ) -> None:
        self.jobs = jobs
        self.failures: dict[str, CaptureFailure] = {}
        self.problems: list[BaseException] = []
        self._todo = todo
        self._progress = progress
        self._done = 0
        self._lock = threading.Lock()

    def work(self, worker: _Worker) -> None:
        """Take models until none is left."""
        try:
            while True:
                for key in self._todo.get_nowait():
                    self._finish(key, worker.capture(key, self.jobs[key]))
        except queue.Empty:
            pass
        except BaseException as problem:
            self.problems.append(problem)
        finally:
            worker.close()

    def _finish(self, key: str, failure: CaptureFailure | None) -> None:
        with self._lock:
            self._done += 1
            if failure is not None:
                self.failures[key] = failure
            if self._progress is not None and self._done % 200 == 0:
                self._progress(f"captured {self._done} of {len(self.jobs)} steps")


class _Worker:
    """One child process, started when needed and again after a crash."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._child: subprocess.Popen[bytes] | None = None

    def capture(self, key: str, job: Job) -> CaptureFailure | None:
        child = self._started()
        assert child.stdin is not None and child.stdout is not None
        timer = threading.Timer(_MOST_SECONDS, child.kill)
        started = time.monotonic()
        timer.start()
        try:
            child.stdin.write(orjson.dumps({"key": key, "job": job_to_dict(job)}) + b"\n")
            child.stdin.flush()
            line = child.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            timer.cancel()
        if not line:
            self.close()
            late = time.monotonic() - started >= _MOST_SECONDS
            reason = "took too long" if late else "crashed"
            message = f"the worker ended with exit code {child.returncode}"
            return CaptureFailure(label=job.label, reason=reason, message=message)
        answer = orjson.loads(line)
        if not answer["error"]:
            return None
        return CaptureFailure(label=job.label, reason=answer["error"], message=answer["message"])

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
                [
                    sys.executable,
                    "-m",
                    "perfmodel.training.captures.capture_worker",
                    str(self._folder),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        return self._child
