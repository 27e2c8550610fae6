"""Tell an address of alarms that were opened or have ended."""

from __future__ import annotations

import http.client
import ipaddress
import logging
import socket
import ssl
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from urllib.parse import urlsplit

import orjson

from perfmodel.errors import InvalidInputError, StoreError
from perfmodel.store.feedback import Alarm, AlarmStore
from service.answering.lanes import note_failure

logger = logging.getLogger(__name__)

#: Attempts to tell one change, pauses after each, and what each may take, seconds.
_PAUSES_S = (1.0, 4.0, 0.0)
_ATTEMPT_S = 5.0
#: What is read of an answer.
_MOST_READ = 4_096
_PORTS = {"http": 80, "https": 443}


class Webhook:
    """Sends each change of an alarm as JSON: once, with three attempts, within 20 seconds.

    A change is marked as told before it is sent, so that it is told at most once by all processes
    together; one that no attempt brings through is logged and counted, and not told any more.

    Parameters
    ----------
    url : str
        ``http`` or ``https``. It is connected to by the address that its name was just resolved to,
        and redirections are not followed.
    allows_private : bool
        Whether that may be an address that is not public.
    on_sent : callable
        Is told ``"sent"`` or ``"failed"``.

    Raises
    ------
    InvalidInputError
        The URL is none.
    """

    def __init__(
        self,
        alarms: AlarmStore,
        url: str,
        *,
        allows_private: bool = False,
        on_sent: Callable[[str], None] = lambda outcome: None,
        pauses_s: tuple[float, ...] = _PAUSES_S,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise InvalidInputError(
                f"PERFMODEL_DRIFT_WEBHOOK is an http or https URL; got {url[:80]!r}."
            )
        self._alarms = alarms
        self._is_tls = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port or _PORTS[parts.scheme]
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._allows_private = allows_private
        self._on_sent = on_sent
        self._pauses_s = pauses_s
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="drift-webhook")
        self._telling: Future[None] | None = None

    def tell(self) -> None:
        """Begin to tell what is new; returns at once."""
        if self._telling is None or self._telling.done():
            with suppress(RuntimeError):  # it is closed
                self._telling = self._threads.submit(self._tell_all)
                self._telling.add_done_callback(note_failure)

    def close(self) -> None:
        """Tell nothing more; what is under way goes on for its time."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _tell_all(self) -> None:
        for alarm in self._alarms.to_tell():
            try:
                mine = self._alarms.take_to_tell(alarm)
            except StoreError:
                return  # told at the next look
            if mine:
                self._send(alarm)

    def _send(self, alarm: Alarm) -> None:
        event = {"event": f"alarm.{alarm.state.value}", "alarm": alarm.to_dict()}
        body = orjson.dumps(event)
        problem = ""
        for pause_s in self._pauses_s:
            try:
                status = self._post(body)
            except (OSError, http.client.HTTPException) as error:
                problem = str(error) or type(error).__name__
            else:
                if status < 300:
                    self._on_sent("sent")
                    return
                problem = f"it answered {status}"
            time.sleep(pause_s)
        self._on_sent("failed")
        logger.error("alarm %s (%s) could not be told: %s", alarm.name, alarm.state.value, problem)

    def _post(self, body: bytes) -> int:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_ATTEMPT_S)
        try:
            connection.sock = self._socket()
            connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read(_MOST_READ)
            return response.status
        finally:
            connection.close()

    def _socket(self) -> socket.socket:
        found = socket.create_connection(self._address(), timeout=_ATTEMPT_S)
        if not self._is_tls:
            return found
        return ssl.create_default_context().wrap_socket(found, server_hostname=self._host)

    def _address(self) -> tuple[str, int]:
        """Return the address to connect to: looked at, and not looked up again."""
        found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        addresses = [str(one[4][0]) for one in found]
        for address in addresses:
            if not (self._allows_private or is_public(address)):
                raise OSError(
                    f"{self._host} is {address}, which is not public. "
                    "PERFMODEL_DRIFT_WEBHOOK_PRIVATE=true allows it."
                )
        return addresses[0], self._port


#: Addresses that a gateway turns into those of IPv4 (RFC 6052).
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Tell whether an address is one host of the public network, and so is what it stands for.

    Examples
    --------
    >>> [is_public(one) for one in ("8.8.8.8", "10.0.0.7", "64:ff9b::7f00:1", "224.0.0.1")]
    [True, False, False, False]
    """
    found = ipaddress.ip_address(address)
    if not found.is_global or found.is_multicast or getattr(found, "is_site_local", False):
        return False
    if found.version == 4:
        return True
    within = [found.ipv4_mapped, found.sixtofour, *(found.teredo or ())]
    if found in _TRANSLATED:
        within.append(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF))
    return all(one is None or is_public(str(one)) for one in within)
