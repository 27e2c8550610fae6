"""Fresh processes for each measurement.

A server process holds the imported libraries and forks a child for each measurement, so that a
child starts at once and carries nothing over from the one before. Whatever happens to the child
(an exception, a crash, too little memory, too much time) ends in a :class:`Failure`.

A device that works by itself is locked for the run alone. The child builds the job first; once the
job has run, the child ends and with it all that it held of the device. Another child finishes what
was recorded. Where the host is the device, one child does everything under the lock.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from typing import Any

from perfmodel.devices.codec import spec_from_dict, spec_to_dict
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import OutOfDeviceMemoryError, PerfModelError
from perfmodel.graph.canonical import to_json
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job, stated_fields
from perfmodel.graph.job_form import stated_job
from perfmodel.profilers.device_lock import device_lock_path, machine_lock
from perfmodel.profilers.measure import finish_job, measure_job, prepare_job, run_job
from perfmodel.profilers.run import MeasureSettings, RecordedRun
from perfmodel.profilers.runtime import open_runtime, works_by_itself
from perfmodel.profilers.wire import measurement_from_json, measurement_to_json
from perfmodel.records import Measurement

_TAIL_CHARACTERS = 800
#: Threads of what goes on beside the run of another job.
THREADS_BESIDE = 1
#: Held by whoever starts a process or asks how one ended: ``multiprocessing`` asks after all of
#: them whenever one is started, and of two who ask at once only one is told.
_CHILDREN = threading.Lock()
#: How often it is looked how much memory a measurement holds, seconds.
_LOOK_S = 0.25
#: How long a measurement that gave its result may take to end by itself, seconds.
_END_S = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Success:
    """A finished measurement."""

    measurement: Measurement
    graph_json: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A measurement that did not come to an end.

    Parameters
    ----------
    kind : str
        ``"error"``, ``"crash"``, ``"timeout"``, ``"out_of_memory"`` (of the device) or
        ``"memory"`` (more of the host's than allowed).
    capacity_bytes : float or None
        Memory of the device that did not suffice.
    timeout_s : float or None
        Time that did not suffice.
    """

    kind: str
    reason: str
    capacity_bytes: float | None = None
    timeout_s: float | None = None

    def record(self, job: Job) -> dict[str, Any]:
        """Return what is kept of it: the job as stated, the kind, the reason and the time."""
        limits = {"capacity_bytes": self.capacity_bytes, "timeout_s": self.timeout_s}
        return {
            "job": stated_fields(job),
            "kind": self.kind,
            "reason": self.reason,
            "failed_at": datetime.now(UTC).isoformat(timespec="seconds"),
            **{name: limit for name, limit in limits.items() if limit is not None},
        }


@dataclass(frozen=True, slots=True)
class _Recording:
    """A pickled :class:`~perfmodel.profilers.run.RecordedRun`: only who finishes it reads it."""

    content: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class _Finished:
    """A :class:`Success` on its way."""

    measurement: bytes
    graph_json: str


class _Says(Enum):
    """What a child says before its answer."""

    WORKS = "works"
    WAITS = "waits"


@dataclass
class _Clock:
    """The time that a measurement has left; it stands while the device is waited for."""

    left_s: float
    runs: bool = False


_Answer = _Finished | Failure | _Recording


class Measuring:
    """A job that is measured in processes of its own, from now on.

    Parameters
    ----------
    settings : MeasureSettings
        ``timeout_s`` leaves out the wait for the device.
    """

    def __init__(self, job: Job, accelerator: AcceleratorSpec, settings: MeasureSettings) -> None:
        self._settings = settings
        self._clock = _Clock(left_s=settings.timeout_s)
        self._form = (stated_fields(job), spec_to_dict(accelerator), settings)
        self._is_ended = False
        self._process: Any = None
        self._outcome: Future[Success | Failure] = Future()
        self._thread = threading.Thread(target=self._measure, daemon=True, name="measuring")
        self._thread.start()

    def outcome(self) -> Success | Failure:
        """Return what came of it, once that is known."""
        return self._outcome.result()

    def end(self) -> None:
        """End it, if it goes on."""
        with _CHILDREN:
            self._is_ended = True
            if (process := self._process) is not None:
                process.kill()
        self._thread.join()

    def _measure(self) -> None:
        try:
            self._outcome.set_result(self._measured())
        except BaseException as error:
            self._outcome.set_exception(error)

    def _measured(self) -> Success | Failure:
        answer = self._answer_of(_measure)
        if isinstance(answer, _Recording):
            answer = self._answer_of(_finish, answer)
        assert not isinstance(answer, _Recording), "it is finished"
        if isinstance(answer, Failure):
            return answer
        return Success(
            measurement=measurement_from_json(answer.measurement), graph_json=answer.graph_json
        )

    def _answer_of(self, work: Callable[..., None], *more: object) -> _Answer:
        """Return what a fresh process answers, or how it ended without."""
        context = get_context("forkserver")
        context.set_forkserver_preload(["perfmodel.profilers.preload"])
        receiver, sender = context.Pipe(duplex=False)
        with receiver, sender:
            args = (sender, *self._form, *more)
            process = context.Process(target=work, args=args, daemon=True)
            with _CHILDREN:
                if self._is_ended:
                    return Failure(kind="error", reason="It was ended from outside.")
                process.start()
                self._process = process
            sender.close()
            try:
                return _told(receiver, process, self._settings, self._clock)
            except EOFError:
                return Failure(kind="crash", reason=_exit_reason(_exit_code(process, _END_S)))
            finally:
                process.kill()
                _exit_code(process)
                self._process = None


def _exit_code(process: Any, patience_s: float | None = None) -> int | None:
    """Wait for the end of a process, and return how it ended."""
    connection.wait([process.sentinel], patience_s)
    with _CHILDREN:
        code: int | None = process.exitcode
    return code


def _told(receiver: Connection, process: Any, settings: MeasureSettings, clock: _Clock) -> _Answer:
    clock.runs = False
    while True:
        if clock.runs and (broken := _broken_limit(receiver, process, settings, clock)):
            return broken
        said: _Says | _Answer = receiver.recv()
        if isinstance(said, _Says):
            clock.runs = said is _Says.WORKS
            continue
        # What ends by itself gives back what the system keeps for it, such as semaphores.
        _exit_code(process, _END_S)
        return said


def _broken_limit(
    receiver: Connection, process: Any, settings: MeasureSettings, clock: _Clock
) -> Failure | None:
    """Wait for a word; return the limit that the measurement broke meanwhile, if any."""
    limit_bytes = settings.memory_limit_bytes
    deadline_s = time.monotonic() + clock.left_s
    while (left_s := deadline_s - time.monotonic()) > 0:
        if receiver.poll(left_s if limit_bytes is None else min(_LOOK_S, left_s)):
            clock.left_s = deadline_s - time.monotonic()
            return None
        if limit_bytes is not None and (used := _resident_bytes(process.pid)) > limit_bytes:
            reason = f"It held {used / 1e9:.3g} GB of memory; {limit_bytes / 1e9:.3g} are allowed."
            return Failure(kind="memory", reason=reason)
    return Failure(
        kind="timeout",
        reason=f"No result within {settings.timeout_s:g} s.",
        timeout_s=settings.timeout_s,
    )


def _resident_bytes(process_id: int) -> int:
    import psutil

    try:
        return int(psutil.Process(process_id).memory_info().rss)
    except psutil.Error:  # it has just ended, which the pipe will say
        return 0


def _exit_reason(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        name = signal.Signals(-exit_code).name
        hint = " (too little memory?)" if name == "SIGKILL" else ""
        return f"The process was ended by {name}{hint}."
    return f"The process ended with status {exit_code} and without a result."


def _measure(
    sender: Connection,
    job: Mapping[str, Any],
    accelerator: Mapping[str, Any],
    settings: MeasureSettings,
) -> None:
    """Be the process that measures."""
    asked = (stated_job(job), spec_from_dict(accelerator), settings)
    work = _recorded if works_by_itself(settings.device) else _measured
    # The device is held until there is nothing left but to end, which gives back its memory.
    with ExitStack() as turn:
        _answer(sender, lambda: work(sender, turn, *asked))


def _finish(
    sender: Connection,
    job: Mapping[str, Any],
    accelerator: Mapping[str, Any],
    settings: MeasureSettings,
    recording: _Recording,
) -> None:
    """Be the process that finishes what another has recorded."""
    asked = (stated_job(job), spec_from_dict(accelerator), settings)
    _answer(sender, lambda: _finished(sender, recording, *asked))


def _recorded(
    sender: Connection,
    turn: ExitStack,
    job: Job,
    accelerator: AcceleratorSpec,
    settings: MeasureSettings,
) -> _Recording:
    """Build a job beside others, and run it alone on its device."""
    sender.send(_Says.WORKS)
    prepared = prepare_job(job, settings, threads=THREADS_BESIDE)
    turn.enter_context(_turn(sender, settings))
    run = run_job(prepared, job, accelerator, open_runtime(settings.device))
    return _Recording(pickle.dumps(run))


def _finished(
    sender: Connection,
    recording: _Recording,
    job: Job,
    accelerator: AcceleratorSpec,
    settings: MeasureSettings,
) -> _Finished:
    import torch

    sender.send(_Says.WORKS)
    torch.set_num_threads(THREADS_BESIDE)
    run: RecordedRun = pickle.loads(recording.content)
    return _to_send(*finish_job(run, job, accelerator, settings))


def _measured(
    sender: Connection,
    turn: ExitStack,
    job: Job,
    accelerator: AcceleratorSpec,
    settings: MeasureSettings,
) -> _Finished:
    """Do everything alone on the host, which is the device."""
    turn.enter_context(_turn(sender, settings))
    return _to_send(*measure_job(job, accelerator, settings))


@contextmanager
def _turn(sender: Connection, settings: MeasureSettings) -> Iterator[None]:
    sender.send(_Says.WAITS)
    with machine_lock(settings.lock_path or device_lock_path(settings.device)):
        sender.send(_Says.WORKS)
        yield


def _answer(sender: Connection, work: Callable[[], _Answer]) -> None:
    """Do the work of a child, and send what comes of it."""
    end_with_parent(lambda: os._exit(1))
    _silence()
    try:
        answer = work()
    except OutOfDeviceMemoryError as error:
        capacity = error.capacity_bytes
        answer = Failure(kind="out_of_memory", reason=str(error), capacity_bytes=capacity)
    except PerfModelError as error:
        answer = Failure(kind="error", reason=str(error))
    except Exception as error:  # a model's own code may raise anything
        tail = traceback.format_exc()[-_TAIL_CHARACTERS:]
        answer = Failure(kind="error", reason=f"{type(error).__name__}: {error}\n{tail}")
    sender.send(answer)
    sender.close()


def _to_send(measurement: Measurement, graph: Graph) -> _Finished:
    return _Finished(
        measurement=measurement_to_json(measurement), graph_json=to_json(graph).decode()
    )


def _silence() -> None:
    """Send what libraries print to nowhere; our own lines stay readable."""
    warnings.simplefilter("ignore")
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        sys.stdout.flush()
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)


def end_with_parent(end: Callable[[], object]) -> None:
    """End this process as is said when its parent is killed, so that the machine is free again."""
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        connection.wait([parent.sentinel])
        end()

    threading.Thread(target=watch, daemon=True, name="end-with-parent").start()
