"""Snapshots of a cluster: from a file, or from the API server of the cluster one runs in."""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from service.adapters.kubernetes.fields import parts
from service.adapters.kubernetes.node_cache import NodeSource

#: Where a pod finds the account that it runs under.
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PAGE = 500
#: Pages of one list; more is a server that repeats itself.
_MOST_PAGES = 100
_FLAVORS = ("v1beta2", "v1beta1")


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
        """Return the objects of the file.

        Raises
        ------
        OSError, ValueError
            No such file, or not JSON.
        """
        return _items(orjson.loads(self._path.read_bytes()), str(self._path))


class ClusterSource:
    """The API server, asked with the service account of a pod.

    The account may ``list`` nodes and, where Kueue is used, ``resourceflavors.kueue.x-k8s.io``.

    Parameters
    ----------
    url : str
        Of the API server.
    account : Path
        Folder with ``token`` and ``ca.crt``; both are read anew each time, since they change.
    timeout_s : float
        For each page.
    """

    def __init__(self, url: str, *, account: Path = _ACCOUNT, timeout_s: float = 10.0) -> None:
        self._url = url.rstrip("/")
        self._account = account
        self._timeout_s = timeout_s

    @classmethod
    def of_this_cluster(cls) -> ClusterSource:
        """Return the source of the cluster that this process runs in.

        Raises
        ------
        ValueError
            It runs in none.
        """
        host, port = (os.environ.get(f"KUBERNETES_SERVICE_{word}") for word in ("HOST", "PORT"))
        if not host:
            raise ValueError(
                "KUBERNETES_SERVICE_HOST is not set: this process runs in no cluster. Name a file "
                "with nodes instead."
            )
        host = f"[{host}]" if ":" in host else host
        return cls(f"https://{host}:{port or 443}")

    def read(self) -> list[Mapping[str, Any]]:
        """Return all nodes and flavours, page by page.

        Raises
        ------
        OSError, ValueError
            The API server does not answer, refuses, or answers with something else.
        """
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
