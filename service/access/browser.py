"""Requests that a browser sends for a page of somebody else.

A page may make the browser of its reader ask any server that the reader can reach. It cannot read
the answers of another origin, unless its own name is made to stand for the address of that server
(DNS rebinding), and what it writes arrives whether it may read the answer or not.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from urllib.parse import urlsplit

#: Of a request, by names in lower case.
Headers = Mapping[bytes, bytes]

#: Bodies that a browser sends for any page without asking the server first (Fetch, 2.2.2).
_SIMPLE = (b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data")

#: What pages ask for themselves, and what the reader typed.
_OWN = (b"same-origin", b"none")

#: What says where a request goes to and where it is from; no browser sends one of them twice.
_ONCE = frozenset({b"host", b"origin", b"sec-fetch-site"})

_ELSEWHERE = "A page of another site may not send this."


def foreign_host(
    sent: Sequence[tuple[bytes, bytes]], own: str, hosts: Collection[str]
) -> str | None:
    """Return why the host that a request names is none of this server, or None.

    Names and addresses of the loopback are, the address that it came in on, and what was
    configured. A page whose name was made to stand for this server names itself. What says where a
    request goes to and where it is from is sent once: who reads the first and who the last of two
    would not agree.

    Parameters
    ----------
    sent : sequence of pairs
        All headers, as they were sent.
    own : str
        The address that the request came in on; no header can claim it.
    hosts : collection of str
        Configured names, without a port, in lower case; ``*`` is any name.
    """
    told = [pair for pair in sent if pair[0] in _ONCE]
    once = dict(told)
    if len(once) < len(told):
        return "A request has one host and comes from one place; these headers name several."
    header = once.get(b"host")
    if header is None or "*" in hosts:
        return None  # no browser leaves it out
    stated = header.decode("latin-1")
    name = _name_of(stated)
    # A page has a name; whoever wrote the address that the request came in on wrote no name.
    if _is_loopback(name) or name in hosts or name == own:
        return None
    return (
        f"This service does not answer to the host {stated[:100]!r}: without keys it answers to "
        "localhost, and to names that PERFMODEL_HOSTS lists."
    )


def sent_from_elsewhere(headers: Headers, hosts: Collection[str], *, strictly: bool) -> str | None:
    """Return why a request that changes something may come from a page of another site, or None.

    Parameters
    ----------
    strictly : bool
        Nobody showed a key: another origin of the same site is refused as well.
    """
    site = headers.get(b"sec-fetch-site")
    allowed = _OWN if strictly else (*_OWN, b"same-site")
    if site is not None and site not in allowed:
        return _ELSEWHERE
    origin = headers.get(b"origin")
    if origin is not None and (site is None or strictly) and not _is_own(origin, headers, hosts):
        return _ELSEWHERE
    return None


def body_of_any_page(headers: Headers) -> str | None:
    """Return the type of a body where it is one that any page may send unasked, or None.

    Of a browser that says where its page is from, that counts; of one that does not, this is left.
    """
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind not in _SIMPLE or b"origin" in headers or b"sec-fetch-site" in headers:
        return None
    return kind.decode("latin-1")


def _is_own(origin: bytes, headers: Headers, hosts: Collection[str]) -> bool:
    host = headers.get(b"host", b"").decode("latin-1").lower()
    try:
        parts = urlsplit(origin.decode("latin-1").lower())
        return parts.netloc == host or (parts.hostname or "") in hosts
    except ValueError:
        return False


@lru_cache(maxsize=256)
def _name_of(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


@lru_cache(maxsize=256)
def _is_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return _is_address(name) and ipaddress.ip_address(name.partition("%")[0]).is_loopback


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
