"""Refuse to listen where strangers come by, unless there is a lock on the door."""

from __future__ import annotations

import ipaddress
import socket

from perfmodel.errors import InvalidInputError
from service.access.keys import KeyStore


def check_binding(host: str, keys: KeyStore, *, insecure: bool = False) -> None:
    """Refuse an address beyond the loopback while there is no key.

    Parameters
    ----------
    host : str
        Name or address to listen on.
    insecure : bool
        Listen all the same.

    Raises
    ------
    InvalidInputError
        What to do about it.

    Examples
    --------
    >>> from service.access.key_file import KeyFile
    >>> check_binding("127.0.0.1", KeyFile("/nowhere/keys.json"))
    """
    if insecure or is_loopback(host) or any(key.revoked_at is None for key in keys.all()):
        return
    raise InvalidInputError(
        f"Listening on {host} would let anybody in: there are no keys. Make one with "
        "`perfmodel keys create NAME --scope predict`, listen on 127.0.0.1, or say --insecure."
    )


def is_loopback(host: str) -> bool:
    """Tell whether every address that a name stands for is on the loopback."""
    try:
        found = socket.getaddrinfo(
            host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError:
        # Nobody can listen there; the server says so.
        return False
    addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
    return all(ipaddress.ip_address(address).is_loopback for address in addresses)
