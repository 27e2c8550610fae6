"""What is known of the nodes of a cluster: their labels, as they were last seen."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from service.adapters.kubernetes.device_labels import DeviceLabel, device_label, label_of
from service.adapters.kubernetes.fields import part

logger = logging.getLogger(__name__)

#: Nodes kept at most; twice the largest cluster that Kubernetes is made for, and room for leavers.
_MOST_NODES = 20_000


class NodeSource(Protocol):
    """Where a whole snapshot of the cluster comes from."""

    def read(self) -> list[Mapping[str, Any]]:
        """Return v1.Node and Kueue ResourceFlavor objects; may wait for a network.

        Raises
        ------
        OSError, ValueError
            It cannot be had now.
        """


class NodeCache:
    """Accelerator labels by node; fed by requests that carry nodes and by snapshots.

    Nothing here waits: a snapshot that has become old is read again by a thread of its own while
    the old one goes on answering, and one that cannot be read leaves the old one in place.

    Parameters
    ----------
    source : NodeSource or None
        None: only what requests carry is known.
    every_s : float
        Age from which a snapshot is read again.
    clock : callable
        Seconds, monotonic.
    """

    def __init__(
        self,
        source: NodeSource | None = None,
        *,
        every_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._every_s = every_s
        self._clock = clock
        self._nodes: dict[str, DeviceLabel | None] = {}
        self._flavors: dict[str, DeviceLabel | None] = {}
        self._read_at: float | None = None
        self._reading = threading.Lock()

    def label(self, name: str) -> DeviceLabel | None:
        """Return the label of a node's accelerator; None where it has none or is not known."""
        return self._nodes.get(name)

    def labels(self) -> tuple[DeviceLabel, ...]:
        """Return the different labels of all known nodes, in a fixed order."""
        found = {label for label in tuple(self._nodes.values()) if label is not None}
        return tuple(sorted(found, key=lambda label: (label.key, label.value, str(label))))

    def flavors(self) -> dict[str, DeviceLabel | None]:
        """Return the label of the nodes of each Kueue flavour; None where it names no device."""
        return dict(self._flavors)

    def see(self, nodes: Iterable[Mapping[str, Any]]) -> list[str]:
        """Learn nodes that a request carries; returns their names in order."""
        names = []
        for node in nodes:
            name = part(node, "metadata").get("name")
            if isinstance(name, str):
                names.append(name)
                self._nodes[name] = device_label(node)
        while len(self._nodes) > _MOST_NODES:
            self._nodes.pop(next(iter(self._nodes)))
        return names

    def refresh(self, *, wait: bool = False) -> None:
        """Read the snapshot again if it is old.

        Parameters
        ----------
        wait : bool
            False returns at once; a thread reads.
        """
        if self._source is None or not self._is_old() or not self._reading.acquire(blocking=False):
            return
        if wait:
            self._read()
        else:
            threading.Thread(target=self._read, name="nodes", daemon=True).start()

    def _is_old(self) -> bool:
        return self._read_at is None or self._clock() - self._read_at >= self._every_s

    def _read(self) -> None:
        try:
            assert self._source is not None
            self._replace(self._source.read())
        except (OSError, ValueError) as error:
            logger.warning("the nodes of the cluster could not be read: %s", error)
        finally:
            # After a failure too: a source that is down is not asked on every request.
            self._read_at = self._clock()
            self._reading.release()

    def _replace(self, objects: list[Mapping[str, Any]]) -> None:
        nodes: dict[str, DeviceLabel | None] = {}
        flavors: dict[str, DeviceLabel | None] = {}
        for item in objects:
            name = str(part(item, "metadata").get("name"))
            if item.get("kind") == "ResourceFlavor":
                flavors[name] = label_of(part(item, "spec", "nodeLabels"))
            else:
                nodes[name] = device_label(item)
        self._nodes, self._flavors = nodes, flavors
