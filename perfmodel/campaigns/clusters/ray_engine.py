"""The workers of a campaign on a Ray cluster, each placed by the accelerator that it measures.

Every slot of the cluster (an accelerator of a node, or the processor of one without any) gets a
worker as a Ray task, which takes tasks from the database as any worker does. When a node dies, its
worker dies with it; what it ran comes back when its lease has run out, and a worker of another node
takes it on. A node that joins gets workers of its own. Ray repeats nothing by itself.

Reference: Ray, accelerators and custom resources,
https://docs.ray.io/en/latest/ray-core/scheduling/accelerators.html.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from perfmodel.campaigns.device import CampaignDevice, local_device
from perfmodel.campaigns.events import WorkEvent, WorkEventKind, WorkReport
from perfmodel.campaigns.work import CampaignWorker, WorkOptions
from perfmodel.errors import MeasurementError, MissingExtraError
from perfmodel.profilers.overlap import Begin
from perfmodel.profilers.worker import Measuring
from perfmodel.store.campaigns import CampaignStore
from perfmodel.store.campaigns.campaign_records import TaskState
from perfmodel.store.profiles import ProfileStore
from perfmodel.store.sql.connections import Connections

#: What Ray calls accelerators of any vendor.
_GPU = "GPU"
#: How often it is looked what became of workers and nodes, seconds.
_LOOK_S = 1.0
#: A slot whose workers were lost so often is left alone.
_MOST_LOSSES = 5


@dataclass(frozen=True, kw_only=True)
class RayEngine:
    """How workers run on a Ray cluster.

    Parameters
    ----------
    database : str
        URL, as the nodes reach it.
    folder : Path
        Of the records, on each node; they may share it.
    options : WorkOptions
        Of each worker; without a campaign they work on all.
    address : str or None
        Of the cluster; None: the one of the environment, or else one of this machine alone.
    device : callable
        Describes, on a node, the device that its worker measures: ``"gpu"``, or ``"cpu"``.
    """

    database: str
    folder: Path
    options: WorkOptions
    address: str | None = None
    device: Callable[[str], CampaignDevice] = local_device
    begin: Begin = Measuring

    def run(self, on_event: Callable[[WorkEvent], None] = lambda event: None) -> WorkReport:
        """Work until every worker has found that nothing is left for its device.

        Raises
        ------
        MissingExtraError
            Ray is not installed.
        MeasurementError
            Workers on every slot have failed, with the last reason.
        """
        ray = _ray()
        begun_here = not ray.is_initialized()
        if begun_here:
            ray.init(address=self.address, log_to_driver=False)
        try:
            return _Workers(ray, self, on_event).run()
        finally:
            if begun_here:
                ray.shutdown()


@dataclass(frozen=True, kw_only=True)
class _Slot:
    """A place for a worker: the n-th accelerator of a node, or its processor."""

    node: str
    number: int
    gpus: int


class _Workers:
    """Keeps a worker on every slot until nothing is left for it."""

    def __init__(self, ray: Any, engine: RayEngine, on_event: Callable[[WorkEvent], None]) -> None:
        self._ray = ray
        self._engine = engine
        self._tell = on_event
        self._running: dict[Any, _Slot] = {}
        self._ended: set[_Slot] = set()
        self._losses: Counter[_Slot] = Counter()
        self._connections = Connections(engine.database)
        self._shown_counts: Mapping[TaskState, int] = {}
        self._counts: Counter[str] = Counter()
        self._failure: str | None = None

    def run(self) -> WorkReport:
        begin_s = time.monotonic()
        try:
            while self._start():
                ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=_LOOK_S)
                for worker in ready:
                    self._collect(worker)
                self._show()
        finally:
            self._connections.close()
        if self._failure is not None and not self._counts["came_to_an_end"]:
            raise MeasurementError(
                f"No worker on the Ray cluster came to its end; the last one: {self._failure}. "
                "What was finished stays; start it again when that is mended."
            )
        names = ("finished", "held", "failed", "superseded")
        counted = {name: self._counts[name] for name in names}
        return WorkReport(**counted, elapsed_s=time.monotonic() - begin_s)

    def _start(self) -> bool:
        """Put a worker on every slot that has none and may need one; False when all have ended."""
        taken = {*self._running.values(), *self._ended}
        for slot in _slots(self._ray):
            if slot not in taken:
                self._running[self._worker_on(slot)] = slot
        return bool(self._running)

    def _worker_on(self, slot: _Slot) -> Any:
        strategies = import_module("ray.util.scheduling_strategies")
        here = strategies.NodeAffinitySchedulingStrategy(node_id=slot.node, soft=False)
        work = self._ray.remote(_work).options(
            num_cpus=0 if slot.gpus else 1,
            num_gpus=slot.gpus,
            max_retries=0,
            scheduling_strategy=here,
        )
        self._say(f"a worker begins on {_shown(slot)}")
        return work.remote(replace(self._engine, address=None), "gpu" if slot.gpus else "cpu")

    def _collect(self, worker: Any) -> None:
        slot = self._running.pop(worker)
        try:
            self._counts.update(self._ray.get(worker))
            self._counts["came_to_an_end"] += 1
            self._ended.add(slot)
        except self._ray.exceptions.RayError as error:
            self._losses[slot] += 1
            if self._losses[slot] >= _MOST_LOSSES:
                self._ended.add(slot)
            self._failure = str(error).strip().splitlines()[-1]
            self._say(f"the worker on {_shown(slot)} was lost: {self._failure}")

    def _show(self) -> None:
        """Say how far the campaign is, where that has changed."""
        name = self._engine.options.campaign
        if name is None:
            return
        counts = CampaignStore(self._connections).counts(name)
        if counts.by_state != self._shown_counts:
            self._shown_counts = counts.by_state
            self._tell(
                WorkEvent(
                    kind=WorkEventKind.CLUSTER, campaign=name, text=f"{counts.workers} workers"
                )
            )

    def _say(self, text: str) -> None:
        self._tell(WorkEvent(kind=WorkEventKind.CLUSTER, text=text))


def _work(engine: RayEngine, device: str) -> dict[str, int]:
    """Be a worker, on a node."""
    connections = Connections(engine.database)
    try:
        worker = CampaignWorker(
            connections,
            ProfileStore(engine.folder),
            engine.device(device),
            engine.options,
            begin=engine.begin,
        )
        report = worker.run()
    finally:
        connections.close()
    return {
        "finished": report.finished, "held": report.held, "failed": report.failed,
        "superseded": report.superseded,
    }  # fmt: skip


def _slots(ray: Any) -> Iterator[_Slot]:
    for node in ray.nodes():
        if not node["Alive"]:
            continue
        gpus = int(node["Resources"].get(_GPU, 0))
        for number in range(max(1, gpus)):
            yield _Slot(node=node["NodeID"], number=number, gpus=1 if gpus else 0)


def _shown(slot: _Slot) -> str:
    device = f"GPU {slot.number}" if slot.gpus else "the processor"
    return f"{device} of node {slot.node[:8]}"


def _ray() -> Any:
    try:
        return import_module("ray")
    except ModuleNotFoundError as error:
        raise MissingExtraError("A campaign on a Ray cluster", extra="ray") from error


def left_over(connections: Connections, campaign: str) -> dict[str, int]:
    """Return how many tasks still wait, by what may measure them: nothing in the cluster did."""
    waiting = [
        task.accelerator
        for task in CampaignStore(connections).all_tasks(campaign)
        if task.state is TaskState.WAITING
    ]
    return dict(Counter(waiting))
