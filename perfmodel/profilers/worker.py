"""One fresh process per measurement.

A server process holds the imported libraries and forks a child for each measurement, so that a
child starts at once and carries nothing over from the one before. Whatever happens to the child
(an exception, a crash, too little memory, too much time) ends in a :class:`Failure`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import orjson

from perfmodel.devices.codec import spec_from_dict, spec_to_dict
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import OutOfDeviceMemoryError, PerfModelError
from perfmodel.graph.canonical import to_json
from perfmodel.graph.job import Job, stated_fields
from perfmodel.graph.job_form import stated_job
from perfmodel.profilers.measure import measure_job
from perfmodel.profilers.run import MeasureSettings
from perfmodel.profilers.wire import measurement_from_json, measurement_to_json
from perfmodel.records import Measurement

_TAIL_CHARACTERS = 800
#: Variables that say which accelerators a process may see.
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
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


def measure_in_fresh_process(
    job: Job, accelerator: AcceleratorSpec, settings: MeasureSettings
) -> Success | Failure:
    """Measure a job in a process of its own, alone on the machine.

    Parameters
    ----------
    settings : MeasureSettings
        ``timeout_s`` counts from the moment the machine is ours.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(["perfmodel.profilers.preload"])
    receiver, sender = context.Pipe(duplex=False)
    with receiver:
        process = context.Process(
            target=_child,
            args=(sender, stated_fields(job), spec_to_dict(accelerator), settings),
            daemon=True,
        )
        process.start()
        sender.close()
        try:
            return _outcome(receiver, process, settings)
        finally:
            process.kill()
            process.join()


@contextmanager
def machine_lock(
    path: Path | None = None, *, on_wait: Callable[[], None] | None = None
) -> Iterator[None]:
    """Hold the machine alone; waits for whoever holds it.

    The kernel lets the lock go when the process ends, however it ends.

    Parameters
    ----------
    path : Path, optional
        Lock file; by default that of the processor.
    on_wait : callable, optional
        Called where somebody else holds it, before waiting.
    """
    file = _opened(path or device_lock_path("cpu"))
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if on_wait is not None:
                on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _opened(path: Path) -> int:
    """Open a lock file, which another user of the machine may have made: reading is enough."""
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        file = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
    with contextlib.suppress(PermissionError):  # somebody else was quicker
        os.fchmod(file, 0o644)
    return file


def device_lock_path(device: str) -> Path:
    """Return the file that is locked by whoever measures a device of this machine.

    Parameters
    ----------
    device : str
        As :func:`~perfmodel.profilers.runtime.open_runtime` takes it. An accelerator is told apart
        as the variables say that hide others from this process; recordings lock the processor.

    Examples
    --------
    >>> device_lock_path("cpu").name
    'perfmodel-cpu.lock'
    """
    word, _, rest = device.partition(":")
    name = "cpu"
    if word not in ("cpu", "replay"):
        index = int(rest) if rest.isdigit() else 0
        visible = next((v for v in map(os.environ.get, _VISIBLE) if v), "")
        cards = [card.strip() for card in visible.split(",")]
        name = f"gpu-{cards[index] if visible and index < len(cards) else index}"
    return Path(tempfile.gettempdir()) / f"perfmodel-{name}.lock"


def _outcome(receiver: Connection, process: Any, settings: MeasureSettings) -> Success | Failure:
    try:
        receiver.recv_bytes()  # the machine is ours from here on
        broken = _broken_limit(receiver, process, settings)
        if broken is not None:
            return broken
        message = orjson.loads(receiver.recv_bytes())
        # What ends by itself gives back what the system keeps for it, such as semaphores.
        process.join(_END_S)
    except EOFError:
        process.join(_END_S)
        return Failure(kind="crash", reason=_exit_reason(process.exitcode))
    if "failed" in message:
        return Failure(**message["failed"])
    return Success(
        measurement=measurement_from_json(message["measurement"]), graph_json=message["graph"]
    )


def _broken_limit(receiver: Connection, process: Any, settings: MeasureSettings) -> Failure | None:
    """Wait for a result; return the limit that the measurement broke meanwhile, if any."""
    limit_bytes = settings.memory_limit_bytes
    deadline_s = time.monotonic() + settings.timeout_s
    while (left_s := deadline_s - time.monotonic()) > 0:
        if receiver.poll(left_s if limit_bytes is None else min(_LOOK_S, left_s)):
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


def _child(
    sender: Connection,
    job: Mapping[str, Any],
    accelerator: Mapping[str, Any],
    settings: MeasureSettings,
) -> None:
    end_with_parent(lambda: os._exit(1))
    _silence()
    with machine_lock(settings.lock_path or device_lock_path(settings.device)):
        sender.send_bytes(b"{}")
        sender.send_bytes(orjson.dumps(_result(job, accelerator, settings)))
    sender.close()


def _result(
    job: Mapping[str, Any], accelerator: Mapping[str, Any], settings: MeasureSettings
) -> dict[str, Any]:
    try:
        measurement, graph = measure_job(stated_job(job), spec_from_dict(accelerator), settings)
    except OutOfDeviceMemoryError as error:
        capacity = error.capacity_bytes
        return _failed("out_of_memory", str(error), capacity_bytes=capacity)
    except PerfModelError as error:
        return _failed("error", str(error))
    except Exception as error:  # a model's own code may raise anything
        tail = traceback.format_exc()[-_TAIL_CHARACTERS:]
        return _failed("error", f"{type(error).__name__}: {error}\n{tail}")
    return {
        "measurement": measurement_to_json(measurement).decode(),
        "graph": to_json(graph).decode(),
    }


def _failed(kind: str, reason: str, **more: Any) -> dict[str, Any]:
    return {"failed": {"kind": kind, "reason": reason, **more}}


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
