"""Find the key in the headers of a request."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable


def token_of(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the key that a request shows.

    Three ways, since not every scheduler can set every header: ``Authorization: Bearer KEY``,
    ``X-API-Key: KEY``, and HTTP Basic with the key as the password, which is what a browser asks
    for and what ``https://any:KEY@host`` in the address of a scheduler extender becomes.

    Parameters
    ----------
    headers : iterable of pair of bytes
        Names in lower case, as ASGI hands them over.

    Returns
    -------
    str or None
        None where no key is shown; an empty one counts as none.

    Examples
    --------
    >>> token_of([(b"authorization", b"Bearer abc")]), token_of([(b"x-api-key", b"abc")])
    ('abc', 'abc')
    >>> token_of([(b"authorization", b"Basic dXNlcjphYmM=")])
    'abc'
    """
    for name, value in headers:
        if name == b"authorization":
            return _from_authorization(value)
        if name == b"x-api-key":
            return value.decode("latin-1").strip() or None
    return None


def _from_authorization(value: bytes) -> str | None:
    kind, _, rest = value.decode("latin-1").partition(" ")
    match kind.lower():
        case "bearer":
            return rest.strip() or None
        case "basic":
            return _password(rest.strip())
    return None


def _password(encoded: str) -> str | None:
    try:
        plain = base64.b64decode(encoded, validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    return plain.partition(":")[2] or None
