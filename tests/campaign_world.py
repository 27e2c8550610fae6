"""Campaigns on a device that is made up: what a measurement finds is said beforehand."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from made_measurements import when_asked

from perfmodel.campaigns.device import CampaignDevice
from perfmodel.campaigns.entering import enter_campaign
from perfmodel.campaigns.events import WorkEvent
from perfmodel.campaigns.policy import CampaignPolicy
from perfmodel.campaigns.work import CampaignWorker, WorkOptions
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.graph.canonical import to_json
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.graph.job import Job, stated_fields
from perfmodel.profilers.run import MeasureSettings
from perfmodel.profilers.worker import Failure, Success
from perfmodel.records import Measurement, Provenance, StepRecord
from perfmodel.store.campaigns import CampaignStore, TaskStore
from perfmodel.store.campaigns.campaign_records import Task
from perfmodel.store.profiles import ProfileStore
from perfmodel.store.sql.connections import Connections
from perfmodel.types import Phase, Role

SPEC = AcceleratorSpec(
    name="gpu-test",
    kind="gpu",
    vendor="any",
    architecture="any",
    form_factor="any",
    year=None,
    peak_flops={"fp32": 1e13},
    memory_bytes=8e9,
    bandwidth_bytes_per_s=1e12,
)
REFERENCE = Job(model="zoo/mlp", batch_size=1_000)

_GRAPH = Graph(
    nodes=(Node(op="relu", phase=Phase.FORWARD, inputs=(0,), outputs=(1,), name="act"),),
    tensors=tuple(
        Tensor(shape=(1, 4), dtype="float32", role=role, storage=storage)
        for storage, role in enumerate((Role.INPUT, Role.ACTIVATION))
    ),
)


def jobs(count: int) -> list[Job]:
    """Return jobs that differ in their batch: 1, 2, ..."""
    return [Job(model="zoo/mlp", batch_size=size) for size in range(1, count + 1)]


def success(job: Job, spec: AcceleratorSpec, *, step_time_s: float, threads: int) -> Success:
    """Return what a measurement of a job would have found."""
    form = stated_fields(job)
    step = StepRecord(
        workload_hash=hashlib.sha256(repr((form, spec.name)).encode()).hexdigest(),
        graph_hash=_GRAPH.content_hash,
        model=str(job.model),
        family="mlp",
        job=form,
        accelerator=spec.name,
        mode=job.mode,
        batch_size=job.batch_size,
        precision=job.precision,
        memory_format=job.memory_format,
        compiler=job.compiler,
        step_time_s=step_time_s,
        samples_s=(step_time_s,),
        low_s=step_time_s,
        high_s=step_time_s,
        spread=0.0,
        noisy=False,
        warmup_steps=1,
        peak_memory_bytes=None,
        provenance=Provenance(
            accelerator={"name": spec.name},
            software={"torch": "2.0"},
            measured_at="2026-01-01T00:00:00+00:00",
            source="perfmodel 0",
            threads=threads,
        ),
    )
    return Success(measurement=Measurement(step=step), graph_json=to_json(_GRAPH).decode())


@dataclass
class Bench:
    """Measures jobs by saying what it was told.

    Parameters
    ----------
    log : Path or None
        Each job that is begun is written here, whatever happens to the process.
    step_time_s : callable
        Of a job, and of how many were measured before.
    failures : dict of int to Failure
        By batch size.
    """

    log: Path | None = None
    step_time_s: Callable[[Job, int], float] = lambda job, number: 0.001 * job.batch_size
    failures: dict[int, Failure] = field(default_factory=dict)
    before: Callable[[Job], None] = lambda job: None
    begun: list[Job] = field(default_factory=list)

    def __call__(
        self, job: Job, spec: AcceleratorSpec, settings: MeasureSettings
    ) -> Success | Failure:
        """Measure a job."""
        self.before(job)
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(f"{job.batch_size}\n")
        self.begun.append(job)
        if job.batch_size in self.failures:
            return self.failures[job.batch_size]
        time_s = self.step_time_s(job, len(self.begun) - 1)
        return success(job, spec, step_time_s=time_s, threads=settings.threads)


@dataclass
class CampaignWorld:
    """A database, a folder of records and a device.

    Parameters
    ----------
    url : str
        Of a database of the newest schema.
    """

    url: str
    folder: Path
    device: CampaignDevice = field(
        default_factory=lambda: CampaignDevice(spec=SPEC, host="here", device="gpu:90")
    )
    events: list[WorkEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.connections = Connections(self.url)
        self.campaigns = CampaignStore(self.connections)
        self.profiles = ProfileStore(self.folder / "profiles")

    def close(self) -> None:
        """Give back every connection."""
        self.connections.close()

    def enter(
        self, of: Sequence[Job], *, accelerators: Sequence[str] = ("any",), **policy: Any
    ) -> str:
        """Enter a campaign."""
        entered = enter_campaign(
            self.campaigns, of, policy=CampaignPolicy(**policy), accelerators=accelerators
        )
        return entered.name

    def worker(
        self, bench: Any, *, device: CampaignDevice | None = None, **options: Any
    ) -> CampaignWorker:
        """Return a worker; one that is killed has lost its task soon."""
        settings = MeasureSettings(threads=1)
        options.setdefault("beside", 0)
        given = WorkOptions(settings=settings, lease_s=options.pop("lease_s", 30.0), poll_s=0.02)
        return CampaignWorker(
            self.connections,
            self.profiles,
            device or self.device,
            replace(given, **options),
            begin=when_asked(bench),
            on_event=self.events.append,
        )

    def tasks(self, campaign: str) -> list[Task]:
        """Return the tasks of a campaign in the order in which they are begun."""
        return self.campaigns.all_tasks(campaign)

    def states(self, campaign: str) -> list[str]:
        """Return where they stand."""
        return [task.state.value for task in self.tasks(campaign)]

    @property
    def task_store(self) -> TaskStore:
        """Gives tasks to workers."""
        return TaskStore(self.connections)
