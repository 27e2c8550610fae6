"""What the adapters of Kubernetes share: the nodes, the jobs, and predictions for both."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import cast

from fastapi import Request

from service.adapters.kubernetes.cluster_nodes import NodeCache, source_of
from service.adapters.kubernetes.device_labels import DeviceLabel, DeviceTable
from service.adapters.kubernetes.pods import Pod
from service.adapters.kubernetes.rates import Cell, Device, JobGroups, RateCache
from service.dispatch.dispatcher import Dispatcher
from service.settings import Settings

logger = logging.getLogger(__name__)


class Cluster:
    """Judges the nodes of a cluster for a pod."""

    def __init__(self, dispatcher: Dispatcher, settings: Settings) -> None:
        self.nodes = NodeCache(source_of(settings.kubernetes_nodes))
        self.rates = RateCache(dispatcher)
        self.settings = settings
        self._groups = JobGroups()
        self._dispatcher = dispatcher
        self._catalog = dispatcher.estimator.accelerators
        self._table = DeviceTable(self._catalog, settings.kubernetes_accelerators)
        self._warn_of_unknown()
        # Read before the first question: the first pods deserve scores too.
        self.nodes.refresh()

    def _warn_of_unknown(self) -> None:
        """Say what labels stand for that nobody knows; it may be described later."""
        for value, name in self.settings.kubernetes_accelerators.items():
            if self._table.name(DeviceLabel(key="", value=value)) is None:
                logger.warning(
                    "PERFMODEL_KUBERNETES_ACCELERATORS says that %r is %r, which is no accelerator "
                    "that is known: nothing is predicted for nodes with it",
                    value,
                    name,
                )

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
                self._dispatcher.metrics.answers(route, (cell.basis for cell in cells if cell))
            return cells
        except Exception:
            # Whatever is wrong here, the scheduler goes on without us.
            logger.exception("a pod could not be judged")
            return [None] * len(labels)

    async def judge_nodes(self, pod: Pod, names: Sequence[str], route: str) -> list[Cell | None]:
        """Return what is predicted for a pod on some nodes, as soon as a scheduler wants it."""
        labels = [self.nodes.label(name) for name in names]
        return await self.judge(pod, labels, wait_s=self.settings.kubernetes_wait_s, route=route)

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
        if self._dispatcher.estimator.accelerators is not self._catalog:
            self._catalog = self._dispatcher.estimator.accelerators
            self._table = DeviceTable(self._catalog, self.settings.kubernetes_accelerators)
        return self._table


def cluster_of(request: Request) -> Cluster:
    """Return the cluster of the app that got a request."""
    return cast(Cluster, request.app.state.kubernetes)
