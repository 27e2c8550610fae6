"""Time two jobs on one device: each alone, then both at once, in the same two processes.

Both processes build their step and warm it up. Then the first computes alone while the second
waits, the second alone, and at last both until each has seen enough; what one computes while the
other has already stopped does not count. How two processes share a device is the device's own
doing: the system deals out the cores of a CPU, a GPU lets their kernels run beside each other under
the Multi-Process Service (MPS) and takes turns without it.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.graph.job import Job, stated_fields
from perfmodel.graph.job_form import stated_job
from perfmodel.process_records import NeighbourRecord
from perfmodel.profilers.processes.cpu_use import CpuMeter, CpuUse, other_share
from perfmodel.profilers.processes.device_program import program_on
from perfmodel.profilers.processes.meeting import Meeting
from perfmodel.profilers.processes.provenance import provenance_of
from perfmodel.profilers.processes.repeat_counts import RepeatPolicy, summed_up
from perfmodel.profilers.processes.together import Member, run_together
from perfmodel.profilers.runtime import DeviceRuntime, open_runtime
from perfmodel.profilers.steps.arithmetic import matrix_units

if TYPE_CHECKING:
    from perfmodel.capture.program import Program

#: Where the Multi-Process Service of CUDA talks to its clients, unless the environment says.
_MPS_PIPES = "/tmp/nvidia-mps"


@dataclass(frozen=True, kw_only=True, slots=True)
class SharingSettings:
    """How two jobs are measured beside each other.

    Parameters
    ----------
    device : str
        As :func:`~perfmodel.profilers.runtime.open_runtime` takes it.
    threads : int or None
        CPU threads of each job; None: as many as the device has cores.
    window_s : float
        Least time for which both compute at once.
    timeout_s : float
        Of one pair, the start of processes included.
    """

    device: str = "cpu"
    threads: int | None = None
    policy: RepeatPolicy = RepeatPolicy()
    window_s: float = 2.0
    timeout_s: float = 240.0
    licence: str = "Apache-2.0"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Phase:
    """The steps of one job while it was alone, or while both computed."""

    samples_s: tuple[float, ...]
    use: CpuUse


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    model: str
    family: str
    alone: _Phase
    beside: _Phase


def measure_pair(
    first: Job, second: Job, *, accelerator: AcceleratorSpec, settings: SharingSettings
) -> list[NeighbourRecord]:
    """Time two jobs alone and beside each other.

    Parameters
    ----------
    accelerator : AcceleratorSpec
        The device that both compute on.

    Returns
    -------
    list of NeighbourRecord
        First alone, second alone, first beside second, second beside first.

    Raises
    ------
    MeasurementError
        One of them failed, died or hung.
    """
    jobs = [stated_fields(first), stated_fields(second)]
    threads = settings.threads or accelerator.core_count
    members = [Member(arguments=(position, job, settings, threads)) for position, job in
               enumerate(jobs)]  # fmt: skip
    seen = run_together(_compute, members, timeout_s=settings.timeout_s, what="job")
    alone = [_record(seen, jobs, i, None, accelerator, settings) for i in (0, 1)]
    beside = [_record(seen, jobs, i, jobs[1 - i], accelerator, settings) for i in (0, 1)]
    return [*alone, *beside]


def sharing_of(device: str) -> str:
    """Return how processes share a device: ``"cores"``, ``"mps"`` or ``"time_slicing"``."""
    if device == "cpu":
        return "cores"
    pipes = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", _MPS_PIPES)
    return "mps" if os.path.exists(os.path.join(pipes, "control")) else "time_slicing"


def _record(
    seen: list[_Seen],
    jobs: list[dict[str, Any]],
    subject: int,
    neighbour: Mapping[str, Any] | None,
    accelerator: AcceleratorSpec,
    settings: SharingSettings,
) -> NeighbourRecord:
    one = seen[subject]
    phase = one.alone if neighbour is None else one.beside
    uses = [phase.use] if neighbour is None else [other.beside.use for other in seen]
    return NeighbourRecord(
        job=jobs[subject],
        model=one.model,
        family=one.family,
        neighbour=neighbour,
        accelerator=accelerator.name,
        sharing=sharing_of(settings.device),
        alone_s=None if neighbour is None else statistics.fmean(one.alone.samples_s),
        repeats=summed_up(
            phase.samples_s, settings.policy, other_load=other_share(uses), mean=True
        ),
        provenance=provenance_of(accelerator, licence=settings.licence, threads=settings.threads),
    )


def _compute(
    meeting: Meeting,
    position: int,
    job: Mapping[str, Any],
    settings: SharingSettings,
    threads: int | None,
) -> _Seen:
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    runtime = open_runtime(settings.device)
    described = stated_job(job)
    with matrix_units(described.precision):
        program, model, family = program_on(runtime, described)
        alone, beside = _in_turn(meeting, position, runtime, program, settings)
    return _Seen(model=model, family=family, alone=alone, beside=beside)


def _in_turn(
    meeting: Meeting,
    position: int,
    runtime: DeviceRuntime,
    program: Program,
    settings: SharingSettings,
) -> tuple[_Phase, _Phase]:
    """Compute alone when it is this job's turn, then with all others."""
    alone = None
    for turn in range(meeting.members):
        meeting.wait()
        if turn == position:
            _warm_up(runtime, program, settings.policy)
            alone = _alone(runtime, program, settings)
    meeting.wait()
    beside = _beside(meeting, runtime, program, settings)
    assert alone is not None
    return alone, beside


def _warm_up(runtime: DeviceRuntime, program: Program, policy: RepeatPolicy) -> None:
    for _ in range(policy.warmup):
        _step_s(runtime, program)


def _alone(runtime: DeviceRuntime, program: Program, settings: SharingSettings) -> _Phase:
    meter, samples_s = CpuMeter(), list[float]()
    while not _enough(samples_s, settings):
        samples_s.append(_step_s(runtime, program))
    return _Phase(samples_s=tuple(samples_s), use=meter.use())


def _beside(
    meeting: Meeting, runtime: DeviceRuntime, program: Program, settings: SharingSettings
) -> _Phase:
    """Compute until both have seen enough; the step in which that happened may have been alone."""
    meter, samples_s, finished = CpuMeter(), list[float](), False
    while True:
        step_s = _step_s(runtime, program)
        if meeting.all_finished():
            break
        samples_s.append(step_s)
        if not finished and _enough(samples_s, settings):
            meeting.finish()
            finished = True
    return _Phase(samples_s=tuple(samples_s), use=meter.use())


def _enough(samples_s: list[float], settings: SharingSettings) -> bool:
    if len(samples_s) < settings.policy.least_samples:
        return False
    return sum(samples_s) >= settings.window_s


def _step_s(runtime: DeviceRuntime, program: Program) -> float:
    begin_ns = time.perf_counter_ns()
    program.step()
    runtime.synchronise()
    return (time.perf_counter_ns() - begin_ns) / 1e9
