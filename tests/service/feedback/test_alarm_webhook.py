"""Alarms are told to an address: at most once a change, not for long, and to nobody inside."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from waiting import PATIENCE_S

from perfmodel.errors import InvalidInputError
from perfmodel.store.feedback import Alarm, AlarmState, AlarmStore
from perfmodel.store.feedback.keeper_lease import KeeperLease, Keeping
from perfmodel.store.sql.connections import Connections
from perfmodel.store.sql.migrate import migrate
from service.feedback.alarm_webhook import Webhook, is_public

ALARM = Alarm(
    name="a1", kind="accelerator", value="T4", state=AlarmState.OPEN, shift=0.25, count=9,
    since_observation=3, opened_observation=12, since="", opened_at="",
)  # fmt: skip


class Listener:
    """A server that answers with the statuses it is told, then with 200."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self.statuses: list[int] = []
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # its name is given
                body = self.rfile.read(int(self.headers["Content-Length"]))
                listener.heard.append(json.loads(body))
                status = listener.statuses.pop(0) if listener.statuses else 200
                self.send_response(status)
                if status == 307:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://localhost:{self._server.server_port}/alarms?team=a"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()
    yield found
    found.close()


@pytest.fixture
def alarms(tmp_path: object) -> Iterator[tuple[AlarmStore, Keeping]]:
    connections = Connections(f"sqlite:///{tmp_path}/alarms.db")
    migrate(connections)
    keeping = KeeperLease(connections).take("me", lease_s=60.0)
    assert keeping is not None
    store = AlarmStore(connections)
    store.write(keeping, [ALARM])
    yield store, keeping
    connections.close()


def _told(webhook: Webhook) -> None:
    webhook.tell()
    assert webhook._telling is not None
    webhook._telling.result(PATIENCE_S)


def test_each_change_is_told_once_by_all_processes_together(
    alarms: tuple[AlarmStore, Keeping], listener: Listener
) -> None:
    store, keeping = alarms
    outcomes: list[str] = []
    processes = [
        Webhook(store, listener.url, allows_private=True, on_sent=outcomes.append) for _ in range(2)
    ]
    for webhook in 2 * processes:
        _told(webhook)
    (told,) = listener.heard
    assert told["event"] == "alarm.open"
    assert (told["alarm"]["id"], told["alarm"]["value"]) == ("a1", "T4")
    store.write(keeping, [replace(ALARM, state=AlarmState.ENDED)])
    for webhook in 2 * processes:
        _told(webhook)
    assert [one["event"] for one in listener.heard] == ["alarm.open", "alarm.ended"]
    assert outcomes == ["sent", "sent"]


def test_it_is_tried_three_times_and_then_given_up(
    alarms: tuple[AlarmStore, Keeping], listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    store, keeping = alarms
    outcomes: list[str] = []
    webhook = Webhook(
        store, listener.url, allows_private=True, on_sent=outcomes.append, pauses_s=(0.0, 0.0, 0.0)
    )
    listener.statuses = [500, 307]
    _told(webhook)
    assert len(listener.heard) == 3 and outcomes == ["sent"]
    store.write(keeping, [replace(ALARM, state=AlarmState.ENDED)])
    listener.statuses = [500, 503, 404]
    with caplog.at_level(logging.ERROR):
        _told(webhook)
        _told(webhook)
    assert len(listener.heard) == 6 and outcomes == ["sent", "failed"]
    assert "a1 (ended) could not be told: it answered 404" in caplog.text


@pytest.mark.parametrize(
    "url",
    ["http://localhost:{port}/", "http://127.0.0.1:{port}/", "http://[::1]:{port}/",
     "http://10.0.0.7/", "http://169.254.169.254/latest", "http://0.0.0.0:{port}/"],
)  # fmt: skip
def test_addresses_that_are_not_public_are_refused_unless_they_are_allowed(
    alarms: tuple[AlarmStore, Keeping],
    listener: Listener,
    url: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = listener.url.rpartition(":")[2].partition("/")[0]
    webhook = Webhook(alarms[0], url.format(port=port), pauses_s=(0.0,))
    with caplog.at_level(logging.ERROR):
        _told(webhook)
    assert listener.heard == []
    assert "not public" in caplog.text and "PERFMODEL_DRIFT_WEBHOOK_PRIVATE" in caplog.text


@pytest.mark.parametrize("url", ["ftp://example.com/", "example.com", "http://", "file:///etc"])
def test_what_is_no_url_is_refused_at_the_start(
    alarms: tuple[AlarmStore, Keeping], url: str
) -> None:
    with pytest.raises(InvalidInputError, match="PERFMODEL_DRIFT_WEBHOOK"):
        Webhook(alarms[0], url)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "0.0.0.0", "100.64.0.1", "169.254.169.254", "198.18.0.1", "224.0.0.1",
        "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fec0::1", "fc00::1", "ff02::1",
        # Other ways to write 127.0.0.1 and 169.254.169.254 for those who translate addresses.
        "::ffff:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::",
        "2002:a9fe:a9fe::1", "2001:0:7f00:1::",
    ],
)  # fmt: skip
def test_an_address_that_stands_for_a_private_one_is_private(address: str) -> None:
    assert not is_public(address)


def test_addresses_of_the_network_are_public() -> None:
    for address in ("8.8.8.8", "2001:4860:4860::8888", "64:ff9b::808:808", "2002:808:808::1"):
        assert is_public(address), address
