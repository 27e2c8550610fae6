"""Where connections come in, how many a process holds, and what reads them."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import socket
import sys
from typing import Any

from perfmodel.errors import InvalidInputError

#: Files that a process has open at most: a connection is one, and the low default of many systems
#: is meant to be raised by who needs more.
_MOST_FILES = 65_536


def check_free(host: str, port: int, *, hint: str, host_hint: str = "") -> None:
    """Refuse an address that cannot be listened on before anything is loaded.

    Parameters
    ----------
    hint : str
        What to do, for people.
    host_hint : str
        The same where the host is the reason: a name that is not known, or not of this machine.

    Raises
    ------
    InvalidInputError
        With the reason of the operating system.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        elsewhere = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
        raise InvalidInputError(
            f"Cannot listen on {host}:{port}: {error.strerror or error}. "
            f"{(elsewhere and host_hint) or hint}"
        ) from error


def parser() -> Any:
    """Return what uvicorn takes as ``http``: the compiled parser with bounds where it is installed.

    The other one bounds heads by itself.
    """
    if importlib.util.find_spec("httptools") is None:
        return "h11"
    from service.http.bounded_requests import BoundedRequests

    return BoundedRequests


def hold_many_connections() -> None:
    """Raise the number of files that this process may open, as far as the system allows."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
