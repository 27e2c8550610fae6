"""The nodes of a cluster: their labels as they were last seen, and where they are read from."""

from __future__ import annotations

import json
import logging
import os
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import orjson

from perfmodel.errors import InvalidInputError
from service.adapters.kubernetes.device_labels import DeviceLabel, device_label, label_of
from service.adapters.kubernetes.fields import part, parts

logger = logging.getLogger(__name__)

#: Nodes kept at most; twice the largest cluster that Kubernetes is made for, and room for leavers.
_MOST_NODES = 20_000
#: Where a pod finds the account that it runs under.
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PAGE = 500
#: Pages of one list; more is a server that repeats itself.
_MOST_PAGES = 100
_FLAVORS = ("v1beta2", "v1beta1")


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
        """Read the snapshot again if it is old."""
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


class FileSource:
    """A file that ``kubectl get nodes,resourceflavors -o json`` wrote.

    Parameters
    ----------
    path : Path
        Holds a List of Nodes and, where Kueue is used, ResourceFlavors.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[Mapping[str, Any]]:
        """Return the objects of the file."""
        return _items(orjson.loads(self._path.read_bytes()), str(self._path))


class ClusterSource:
    """The API server, asked with the service account of a pod.

    The account may ``list`` nodes and, where Kueue is used, ``resourceflavors.kueue.x-k8s.io``.

    Parameters
    ----------
    account : Path
        Folder with ``token`` and ``ca.crt``; both are read anew each time, since they change.
    """

    def __init__(self, url: str, *, account: Path = _ACCOUNT, timeout_s: float = 10.0) -> None:
        self._url = url.rstrip("/")
        self._account = account
        self._timeout_s = timeout_s

    @classmethod
    def of_this_cluster(cls) -> ClusterSource:
        """Return the source of the cluster that this process runs in."""
        host, port = (os.environ.get(f"KUBERNETES_SERVICE_{word}") for word in ("HOST", "PORT"))
        if not host:
            raise InvalidInputError(
                "PERFMODEL_KUBERNETES_NODES is 'cluster', but KUBERNETES_SERVICE_HOST is not set: "
                "this process runs in no cluster. Name a file with nodes instead."
            )
        host = f"[{host}]" if ":" in host else host
        return cls(f"https://{host}:{port or 443}")

    def read(self) -> list[Mapping[str, Any]]:
        """Return all nodes and flavours, page by page."""
        nodes = self._list("/api/v1/nodes")
        return [*nodes, *self._flavors()]

    def _flavors(self) -> list[Mapping[str, Any]]:
        for version in _FLAVORS:
            try:
                found = self._list(f"/apis/kueue.x-k8s.io/{version}/resourceflavors")
            except urllib.error.HTTPError as error:
                error.close()
                # Kueue is not installed in this version, or the account may not look.
                if error.code not in (403, 404):
                    raise
            else:
                return [{**flavor, "kind": "ResourceFlavor"} for flavor in found]
        return []

    def _list(self, path: str) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        token = ""
        for _ in range(_MOST_PAGES):
            more = f"&continue={urllib.parse.quote(token, safe='')}" if token else ""
            page = self._get(f"{path}?limit={_PAGE}{more}")
            found += _items(page, path)
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return found
        raise ValueError(f"{path} has no end")

    def _get(self, path: str) -> dict[str, Any]:
        headers = {"Accept": "application/json"}
        token = self._account / "token"
        if token.is_file():
            headers["Authorization"] = f"Bearer {token.read_text(encoding='utf-8').strip()}"
        request = urllib.request.Request(self._url + path, headers=headers)
        with urllib.request.urlopen(
            request, timeout=self._timeout_s, context=self._context()
        ) as response:
            page: dict[str, Any] = json.load(response)
        return page

    def _context(self) -> ssl.SSLContext | None:
        authority = self._account / "ca.crt"
        if not self._url.startswith("https:"):
            return None
        return ssl.create_default_context(cafile=str(authority) if authority.is_file() else None)


def _items(listed: Any, where: str) -> list[Mapping[str, Any]]:
    """Return the objects of a list; what is no list must not pass for an empty cluster."""
    if not isinstance(listed, dict) or not isinstance(listed.get("items"), list):
        raise ValueError(f"{where} is no list of objects")
    return parts(listed, "items")


def source_of(setting: str) -> NodeSource | None:
    """Return the source that a setting names.

    Parameters
    ----------
    setting : str
        ``"cluster"``, the path of a file, or ``""`` for none.
    """
    if not setting:
        return None
    return ClusterSource.of_this_cluster() if setting == "cluster" else FileSource(Path(setting))
