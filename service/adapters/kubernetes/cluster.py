"""What the adapters of Kubernetes share: the nodes, the jobs, and predictions for both."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import cast

from fastapi import Request

from service.adapters.kubernetes.device_labels import DeviceLabel, DeviceTable
from service.adapters.kubernetes.job_lookup import JobGroups, JobLookup
from service.adapters.kubernetes.node_cache import NodeCache
from service.adapters.kubernetes.node_sources import source_of
from service.adapters.kubernetes.pods import Pod
from service.adapters.kubernetes.rates import Cell, Device, RateBook
from service.desk import Desk
from service.settings import Settings

logger = logging.getLogger(__name__)


class Cluster:
    """Judges the nodes of a cluster for a pod.

    Parameters
    ----------
    lookup : callable
        Returns where registered jobs are kept, or None.
    """

    def __init__(
        self,
        desk: Desk,
        settings: Settings,
        lookup: Callable[[], JobLookup | None] = lambda: None,
    ) -> None:
        self.nodes = NodeCache(source_of(settings.kubernetes_nodes))
        self.rates = RateBook(desk, lookup)
        self.settings = settings
        self._groups = JobGroups()
        self._desk = desk
        self._catalog = desk.estimator.accelerators
        self._table = DeviceTable(self._catalog, settings.kubernetes_accelerators)
        # Read before the first question: the first pods deserve scores too.
        self.nodes.refresh()

    async def judge(
        self,
        pod: Pod,
        labels: Sequence[DeviceLabel | None],
        *,
        wait_s: float,
        route: str | None = None,
    ) -> list[Cell | None]:
        """Return what is predicted for a pod on nodes with some labels; never raises.

        Parameters
        ----------
        labels : sequence of DeviceLabel or None
            One for each node; None for a node of which nothing is known.
        wait_s : float
            How long to wait for a job that is new.
        route : str or None
            Where the answers are counted, one a node; None: nobody gets them.

        Returns
        -------
        list of Cell or None
            None where nothing is predicted: a pod without a job or an accelerator, an unknown
            model, a node without a label.
        """
        try:
            cells = await self._judge(pod, labels, wait_s)
            if route is not None:
                self._desk.metrics.answers(route, (cell.basis for cell in cells if cell))
            return cells
        except Exception:
            # Whatever is wrong here, the scheduler goes on without us.
            logger.exception("a pod could not be judged")
            return [None] * len(labels)

    async def _judge(
        self, pod: Pod, labels: Sequence[DeviceLabel | None], wait_s: float
    ) -> list[Cell | None]:
        name = self._groups.job_of(pod)
        if not name or pod.request is None:
            return [None] * len(labels)
        devices = self._devices(pod, set(labels))
        cells = await self.rates.cells(name, set(devices.values()), wait_s=wait_s)
        by_label = {label: cells.get(device) for label, device in devices.items()}
        return [by_label.get(label) if label else None for label in labels]

    def _devices(self, pod: Pod, labels: set[DeviceLabel | None]) -> dict[DeviceLabel, Device]:
        assert pod.request is not None
        found = {}
        for label in labels:
            name = label and self.table.name(label, pod.request)
            if label and name:
                found[label] = Device(name=name, count=pod.request.count)
        return found

    @property
    def table(self) -> DeviceTable:
        """Labels to accelerators; follows the catalogue when that is edited."""
        if self._desk.estimator.accelerators is not self._catalog:
            self._catalog = self._desk.estimator.accelerators
            self._table = DeviceTable(self._catalog, self.settings.kubernetes_accelerators)
        return self._table


def ratios(cells: Sequence[Cell | None], *, may_exclude: bool = True) -> list[float | None]:
    """Return the throughput of each cell over that of the best one on which the job fits.

    Parameters
    ----------
    may_exclude : bool
        False takes no notice of memory.

    Returns
    -------
    list of float or None
        0 where it does not fit, None where nothing is predicted.
    """
    rates = [
        None if cell is None else cell.samples_per_second * (cell.fits or not may_exclude)
        for cell in cells
    ]
    best = max((rate for rate in rates if rate is not None), default=0.0)
    return [None if rate is None else rate / best if best > 0 else 0.0 for rate in rates]


def cluster_of(request: Request) -> Cluster:
    """Return the cluster of the app that got a request."""
    return cast(Cluster, request.app.state.kubernetes)
