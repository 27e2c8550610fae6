"""A device that works by itself, made up: what measures is forked from a server that has it.

Each phase of each job says in ``PHASES/log`` that it has begun, and whether the lock of the device
is free then; it waits as long as ``PHASES/hold-<phase>-<batch>`` is there. With
``PHASES/fail-<phase>-<batch>`` it is killed, or raises what the file says.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import torch

from perfmodel.devices.drivers.device_facts import DeviceFacts
from perfmodel.graph.job import Job
from perfmodel.profilers import measure, worker
from perfmodel.profilers.runtime import DeviceRuntime, MemoryPeak, StepTime
from perfmodel.profilers.runtime.cpu import CpuRuntime
from perfmodel.profilers.runtime.replay import Recording, ReplayRuntime
from perfmodel.profilers.steps import pytorch
from perfmodel.zoo import resolve

#: Where a test follows the phases; whoever looks at this module without it meets the real devices.
PHASES = Path(os.environ.get("PHASES", ""))
LOCK = PHASES / "device.lock"
_BUILD, _CAPTURE, _TIME = resolve.build_bundle, resolve.capture_job, pytorch.time_steps
_PREPARED: list[Job] = []


def _is_free() -> bool:
    with LOCK.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _passes(phase: str, job: Job) -> None:
    name = f"{phase}-{job.batch_size}"
    with (PHASES / "log").open("a") as log:
        threads = torch.get_num_threads()
        log.write(f"{name} {'free' if _is_free() else 'held'} {threads} {os.getpid()}\n")
    while (PHASES / f"hold-{name}").exists():
        time.sleep(0.01)
    failing = PHASES / f"fail-{name}"
    if failing.exists() and failing.read_text() == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if failing.exists():
        raise RuntimeError(failing.read_text())


def _prepared(job: Job, *, device: str = "meta") -> Any:
    if device == "cpu":  # a capture builds the model as well, on no device
        _PREPARED.append(job)
        _passes("prepare", job)
    return _BUILD(job, device=device)


def _finished(job: Job) -> Any:
    _passes("finish", job)
    return _CAPTURE(job)


def _timed(*args: Any, **options: Any) -> Any:
    _passes("run", _PREPARED[-1])
    return _TIME(*args, **options)


def _opened(device: str) -> DeviceRuntime:
    if device == "cpu":
        return CpuRuntime()
    return ReplayRuntime(
        Recording(
            facts=DeviceFacts(name="NVIDIA L4", backend="cuda", memory_bytes=24e9),
            steps=[StepTime(wall_s=0.010, device_s=0.008)],
            memory=[MemoryPeak(allocated_bytes=1e9, reserved_bytes=2e9, method="allocator")],
        )
    )


def be_there() -> None:
    """Put the device in the place of those of this machine, in this process and its children."""
    for owner, name, made in (
        (resolve, "build_bundle", _prepared), (resolve, "capture_job", _finished),
        (pytorch, "time_steps", _timed), (worker, "open_runtime", _opened),
        (measure, "open_runtime", _opened), (ReplayRuntime, "asynchronous", True),
    ):  # fmt: skip
        setattr(owner, name, made)


if "PHASES" in os.environ:
    for _name in (
        "torch._dynamo", "torch.profiler", "perfmodel.capture.torch", "perfmodel.zoo.moved",
    ):  # fmt: skip
        importlib.import_module(_name)  # once, and not in each process that is forked
    be_there()
