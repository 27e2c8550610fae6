"""Measure the planned workloads of a device for as long as there is time, and tell a service."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from perfmodel.client import NotFoundError
from perfmodel.devices.codec import spec_to_dict
from perfmodel.graph.job import Job, stated_fields
from perfmodel.profilers.described import DescribedDevice
from perfmodel.profilers.overlap import Begin
from perfmodel.profilers.profiling import (
    ProfileEvent,
    ProfileReport,
    ResultStore,
    profile_jobs,
)
from perfmodel.profilers.run import MeasureSettings
from perfmodel.profilers.worker import Measuring
from perfmodel.records import StepRecord
from perfmodel.training.probes.probe_candidates import Probe

if TYPE_CHECKING:
    from perfmodel.client import Client
    from perfmodel.client.records import ObservationsTaken

#: A workload that has less time than this left is not begun.
_LEAST_S = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Probed:
    """What came of the planned measurements.

    Parameters
    ----------
    left_over : int
        Planned, but there was no time.
    """

    finished: int
    skipped: int
    failed: int
    left_over: int
    elapsed_s: float


def measure_probes(
    probes: Sequence[Probe],
    *,
    store: ResultStore,
    device: DescribedDevice,
    settings: MeasureSettings,
    budget_s: float,
    on_event: Callable[[ProfileEvent], None] | None = None,
    retry_failed: bool = False,
    retry_noisy: bool = False,
    begin: Begin = Measuring,
    clock_s: Callable[[], float] = time.monotonic,
) -> Probed:
    """Measure workloads one after the other, best first, until the time is spent.

    Parameters
    ----------
    budget_s : float
        Seconds from now on; also bounds the time of each. What takes longer than is left by all
        that is known is not begun.
    """
    begin_s = clock_s()
    done: list[ProfileReport] = []
    for probe in probes:
        left_s = budget_s - (clock_s() - begin_s)
        if left_s < max(_LEAST_S, probe.measuring_s):
            continue
        done.append(
            profile_jobs(
                [probe.job],
                store=store,
                device=device.accelerator,
                settings=replace(settings, timeout_s=min(settings.timeout_s, left_s)),
                on_event=on_event,
                retry_failed=retry_failed,
                retry_noisy=retry_noisy,
                begin=begin,
            )
        )
    return Probed(
        finished=sum(one.finished for one in done),
        skipped=sum(one.skipped for one in done),
        failed=sum(one.failed for one in done),
        left_over=len(probes) - len(done),
        elapsed_s=clock_s() - begin_s,
    )


def tell_service(
    client: Client, device: DescribedDevice, steps: Sequence[StepRecord]
) -> ObservationsTaken:
    """Tell a service of a device and what was measured on it.

    A device that the service does not know is added to its catalogue first. Each step counts
    once, however often it is sent.

    Raises
    ------
    NoAnswerError
        The service cannot be reached, or refuses.
    """
    spec = device.accelerator
    if not _knows(client, spec.name):
        facts = spec_to_dict(spec)
        del facts["name"]
        client.put_accelerator(spec.name, facts)
    return client.observe([_observation(step) for step in steps])


def _knows(client: Client, name: str) -> bool:
    try:
        client.accelerator(name)
    except NotFoundError:
        return False
    return True


def _observation(step: StepRecord) -> dict[str, object]:
    return {
        "job": dict(step.job),
        "placement": f"1x{step.accelerator}",
        "step_time_s": step.step_time_s,
        "key": f"probe/{step.workload_hash}/{step.provenance.measured_at}",
    }


def planned_steps(steps: Sequence[StepRecord], jobs: Sequence[Job]) -> list[StepRecord]:
    """Return the records of the planned jobs, those of other commands left out."""
    planned = [stated_fields(job) for job in jobs]
    return [step for step in steps if dict(step.job) in planned]
