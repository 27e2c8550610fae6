"""What pages of other sites can make a browser do to a service without keys: nothing."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from asking import Service
from chromium import Tab, browser
from guarded_service import make_app
from running import running

from service.access.browser import body_of_any_page, foreign_host, sent_from_elsewhere

HOSTS = frozenset({"perfmodel.example"})
JSON = {"content-type": "application/json"}


def stated(**headers: str) -> dict[bytes, bytes]:
    return {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("127.0.0.1:8000", True),
        ("localhost:8000", True),
        ("LOCALHOST", True),
        ("[::1]:8000", True),
        ("app.localhost", True),
        ("127.8.8.8", True),
        ("perfmodel.example:8000", True),
        ("evil.example:8000", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("evil.example@localhost.evil.example", False),
        ("192.0.2.1", False),
        ("", False),
        ("[", False),
    ],
)
def test_only_names_of_the_loopback_and_configured_ones_are_answered(
    host: str, is_own: bool
) -> None:
    assert (foreign_host([(b"host", host.encode())], "127.0.0.1", HOSTS) is None) is is_own


def test_the_address_that_a_request_came_in_on_is_no_name() -> None:
    assert foreign_host([(b"host", b"192.0.2.1:8000")], "192.0.2.1", HOSTS) is None
    assert foreign_host([], "127.0.0.1", HOSTS) is None  # HTTP/1.0
    assert foreign_host([(b"host", b"any.example")], "127.0.0.1", frozenset({"*"})) is None


OWN = {"host": "localhost:8000"}


@pytest.mark.parametrize(
    ("headers", "strict", "keyed"),
    [
        ({"origin": "http://localhost:8000", "sec_fetch_site": "same-origin"}, True, True),
        ({"origin": "http://localhost:8000"}, True, True),
        ({"origin": "https://perfmodel.example"}, True, True),
        ({"content_type": "application/json"}, True, True),
        ({"content_type": "application/octet-stream"}, True, True),
        ({}, True, True),
        ({"origin": "http://localhost:3000", "sec_fetch_site": "same-site"}, False, True),
        ({"origin": "http://localhost:3000"}, False, False),
        ({"origin": "http://evil.example"}, False, False),
        ({"origin": "null"}, False, False),
        ({"origin": "http://[", "sec_fetch_site": "same-origin"}, False, True),
        ({"origin": "http://evil.example", "sec_fetch_site": "cross-site"}, False, False),
        ({"sec_fetch_site": "cross-site"}, False, False),
    ],
)
def test_who_may_write(headers: dict[str, str], strict: bool, keyed: bool) -> None:
    for strictly, may in ((True, strict), (False, keyed)):
        found = sent_from_elsewhere(stated(**OWN, **headers), HOSTS, strictly=strictly)
        assert (found is None) is may, (strictly, found)


@pytest.mark.parametrize(
    "kind", ["text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_bodies_of_old_browsers_are_not_read(kind: str) -> None:
    assert body_of_any_page(stated(content_type=kind)) == kind.partition(";")[0]
    assert body_of_any_page(stated(content_type=kind, sec_fetch_site="same-origin")) is None
    assert body_of_any_page(stated(content_type="application/json")) is None


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(make_app(tmp_path_factory.mktemp("open"))) as url:
        yield Service(url)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    rule = "--host-resolver-rules=MAP *.test 127.0.0.1"
    with browser(tmp_path_factory.mktemp("chromium"), rule) as tab:
        yield tab


@contextmanager
def attacker(folder: Path) -> Iterator[int]:
    """Serve an empty page on a port of its own."""
    (folder / "index.html").write_text("<!doctype html><title>harmless</title>")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


REGISTRATION = json.dumps({"job": {"model": "timm/resnet18", "mode": "training", "batch_size": 3}})

_ASK = """
(async () => {{
  const answer = await fetch({path!r}, {{method: {method!r}, body: {body},
    headers: {{'content-type': 'application/json'}}}});
  return [answer.status, await answer.text()];
}})()
"""


def jobs_of(service: Service) -> list[Any]:
    found: list[Any] = service.ask("/v1/jobs")["jobs"]
    return found


def test_a_name_that_was_rebound_reads_and_writes_nothing(tab: Tab, service: Service) -> None:
    port = service.url.rpartition(":")[2]
    # As after the rebinding: the page's own origin now leads to the service.
    tab.open(f"http://rebound.test:{port}/")
    body = json.dumps(REGISTRATION)
    for path, method, sent in (
        ("/v1/jobs", "POST", body),
        ("/v1/jobs", "GET", "undefined"),
        ("/v1/models", "GET", "undefined"),
        ("/metrics", "GET", "undefined"),
        ("/v1/observations?key=x", "DELETE", "undefined"),
    ):
        status, text = tab.run(_ASK.format(path=path, method=method, body=sent))
        assert status == 403 and "does not answer to the host" in text, (path, status)
    assert jobs_of(service) == []


_WRITE = """
(async () => {{
  const url = {url!r}, body = {body};
  const types = ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', ''];
  for (const type of types) {{
    await fetch(url, {{method: 'POST', mode: 'no-cors', body: new Blob([body], {{type}})}})
      .catch(() => 0);
  }}
  await fetch(url, {{method: 'POST', body, headers: {{'content-type': 'application/json'}}}})
    .catch(() => 0);
  navigator.sendBeacon(url, body);
  const frame = document.body.appendChild(document.createElement('iframe'));
  frame.name = 'target';
  const form = document.body.appendChild(document.createElement('form'));
  Object.assign(form, {{method: 'POST', action: url, enctype: 'text/plain', target: 'target'}});
  const field = form.appendChild(document.createElement('input'));
  field.name = body.slice(0, -1) + ', "x": "';
  field.value = '"}}';
  form.submit();
  await new Promise((done) => setTimeout(done, 500));
  return await fetch(url).then(() => 'read', () => 'not read');
}})()
"""


@pytest.mark.parametrize("host", ["other.test", "localhost", "127.0.0.1"])
def test_pages_of_other_origins_write_nothing(
    tab: Tab, service: Service, tmp_path: Path, host: str
) -> None:
    with attacker(tmp_path) as port:
        # Another site, and another port of the same machine, whose pages are no less foreign.
        tab.open(f"http://{host}:{port}/")
        script = _WRITE.format(url=f"{service.url}/v1/jobs", body=json.dumps(REGISTRATION))
        assert tab.run(script) == "not read"
    assert jobs_of(service) == []


def test_the_page_of_the_service_itself_may_write(tab: Tab, service: Service) -> None:
    tab.open(f"{service.url}/")
    asked = _ASK.format(path="/v1/jobs", method="POST", body=json.dumps(REGISTRATION))
    status, text = tab.run(asked)
    assert status == 201, text
    assert len(jobs_of(service)) == 1


def test_what_says_where_a_request_is_from_is_said_once() -> None:
    once = [(b"host", b"localhost"), (b"origin", b"http://localhost"), (b"accept", b"a")]
    assert foreign_host([*once, (b"accept", b"b")], "", HOSTS) is None
    for name in (b"host", b"origin"):
        # Whichever of the two is read: the other one may be what a page sent.
        assert foreign_host([*once, (name, b"elsewhere.example")], "", HOSTS)
