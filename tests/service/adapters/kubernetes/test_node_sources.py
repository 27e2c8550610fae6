"""Snapshots of a cluster: from a file, from an API server, through the cache."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cluster_bodies import A100, H100, T4, node

from perfmodel.errors import InvalidInputError
from service.adapters.kubernetes.cluster_nodes import (
    ClusterSource,
    FileSource,
    NodeCache,
    source_of,
)

FLAVOR = {"metadata": {"name": "fast"}, "spec": {"nodeLabels": {"nvidia.com/gpu.product": H100}}}
NODES = [node("n1", H100), node("n2", T4), node("n3", None)]


class ApiServer(BaseHTTPRequestHandler):
    """Answers lists as an API server does: two nodes a page, flavours of one version only."""

    tokens: list[str | None] = []

    def do_GET(self) -> None:
        self.tokens.append(self.headers.get("Authorization"))
        path, _, query = self.path.partition("?")
        if path == "/api/v1/nodes" and "continue=more%2F1" in query:
            self._send(200, {"kind": "NodeList", "metadata": {}, "items": NODES[2:]})
        elif path == "/api/v1/nodes":
            page = {"metadata": {"continue": "more/1"}, "items": NODES[:2]}
            self._send(200, {"kind": "NodeList", **page})
        elif path == "/apis/kueue.x-k8s.io/v1beta1/resourceflavors":
            self._send(200, {"kind": "ResourceFlavorList", "metadata": {}, "items": [FLAVOR]})
        else:
            self._send(404, {"kind": "Status", "code": 404})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def api_server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), ApiServer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_api_server_is_read_page_by_page(api_server: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token\n")
    cache = NodeCache(ClusterSource(api_server, account=tmp_path))
    cache.refresh(wait=True)
    assert [label.value for label in cache.labels()] == [H100, T4]
    assert cache.label("n3") is None
    flavors = cache.flavors()
    assert flavors["fast"] is not None
    assert flavors["fast"].value == H100
    assert set(ApiServer.tokens) == {"Bearer a-token"}


def test_a_file_is_read_as_kubectl_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    items = [*NODES, {"kind": "ResourceFlavor", **FLAVOR}]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    cache = NodeCache(FileSource(path))
    cache.refresh(wait=True)
    assert len(cache.labels()) == 2
    assert list(cache.flavors()) == ["fast"]


def test_a_source_that_fails_leaves_what_was_known(tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    now = [0.0]
    cache = NodeCache(FileSource(path), every_s=30.0, clock=lambda: now[0])
    cache.see([node("n9", A100)])
    for content in (None, "{", '"text"', '{"kind": "Status", "code": 403}'):
        if content is not None:
            path.write_text(content)
        cache.refresh(wait=True)
        now[0] += 31.0
        assert cache.label("n9") is not None


def test_a_snapshot_is_read_again_only_when_it_is_old(tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps({"items": NODES[:1]}))
    now = [0.0]
    cache = NodeCache(FileSource(path), every_s=30.0, clock=lambda: now[0])
    cache.refresh(wait=True)
    path.write_text(json.dumps({"items": NODES[1:]}))
    cache.refresh(wait=True)
    assert cache.label("n1") is not None
    now[0] = 30.0
    cache.refresh(wait=True)
    # A node that left the cluster is forgotten with the snapshot that held it.
    assert cache.label("n1") is None
    assert cache.label("n2") is not None


def test_settings_name_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    assert source_of("") is None
    assert isinstance(source_of("nodes.json"), FileSource)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(InvalidInputError, match="runs in no cluster"):
        source_of("cluster")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    assert isinstance(source_of("cluster"), ClusterSource)
