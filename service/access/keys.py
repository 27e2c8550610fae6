"""Keys: secrets that a caller shows, of which only a hash is kept."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from perfmodel.errors import InvalidInputError, UnknownNameError, UnknownWordError
from service.access.scopes import Scope

#: Starts every key, so that a scanner of leaked secrets can recognise one.
PREFIX = "pmk"

_SECRET_BYTES = 32
_NAME = re.compile(r"[\w.@-][\w .@-]{0,63}", re.ASCII)


class UnknownKeyError(UnknownNameError):
    """No key of that identifier."""

    kind = "key"


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiKey:
    """What is kept of a key.

    Parameters
    ----------
    key_id : str
        Names the key in lists, logs and audits; is no secret.
    name : str
        Whose it is, for people.
    digest : str
        SHA-256 of the whole key, hexadecimal.
    rate_per_s : float or None
        Requests a second that it may send; None: what the service grants everybody.
    created_at : str
        UTC, ISO 8601.
    revoked_at : str or None
        UTC, ISO 8601; a revoked key stays in the list.
    """

    key_id: str
    name: str
    digest: str
    scopes: frozenset[Scope]
    created_at: str
    rate_per_s: float | None = None
    revoked_at: str | None = None

    def allows(self, scope: Scope) -> bool:
        """Tell whether the key may do something."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


class KeyStore(Protocol):
    """Where keys are kept.

    :meth:`find` and :meth:`all` are asked for every request and never wait for a network.
    """

    def find(self, digest: str) -> ApiKey | None:
        """Return the key with a digest that is not revoked, or None."""
        ...

    def all(self) -> Sequence[ApiKey]:
        """Return every key, the oldest first, revoked ones included."""
        ...

    def add(self, key: ApiKey) -> None:
        """Keep a key; it is safe on disk when this returns."""
        ...

    def revoke(self, key_id: str) -> ApiKey:
        """Make a key worthless.

        Raises
        ------
        UnknownKeyError
            There is no such key.
        """
        ...


def new_key(
    name: str, scopes: Collection[str], *, created_at: str, rate_per_s: float | None = None
) -> tuple[str, ApiKey]:
    """Make a key.

    The secret holds 256 random bits, which nobody can try out; a slow hash, as passwords need it,
    would cost every request and protect nothing more.

    Parameters
    ----------
    name : str
        Whose it is: up to 64 letters, digits, spaces and ``.@_-``.
    rate_per_s : float or None
        Requests a second, > 0.

    Returns
    -------
    tuple of str and ApiKey
        The key itself, which is shown once and kept nowhere, and what is kept of it.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"The name {name!r} of a key must be 1 to 64 letters, digits, spaces or '.@_-'.",
            pointer="/name",
        )
    if rate_per_s is not None and not 0 < rate_per_s < float("inf"):
        raise InvalidInputError(
            f"The rate of a key must be above 0 requests a second; got {rate_per_s}.",
            pointer="/rate_per_s",
        )
    key_id = secrets.token_hex(4)
    token = f"{PREFIX}_{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    return token, ApiKey(
        key_id=key_id,
        name=name,
        digest=digest_of(token),
        scopes=parse_scopes(scopes),
        rate_per_s=rate_per_s,
        created_at=created_at,
    )


def digest_of(token: str) -> str:
    """Return what is kept of a key in place of the key: its SHA-256, hexadecimal."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def parse_scopes(words: Collection[str]) -> frozenset[Scope]:
    """Read scopes."""
    known = [scope.value for scope in Scope]
    if not words:
        raise InvalidInputError(
            f"A key needs a scope: {', '.join(known)}.", pointer="/scopes", allowed=known
        )
    for word in words:
        if word not in known:
            raise UnknownWordError(word, field="scope", known=known, pointer="/scopes")
    return frozenset(Scope(word) for word in words)


def token_of(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the key that a request shows.

    Three ways, since not every scheduler can set every header: ``Authorization: Bearer KEY``,
    ``X-API-Key: KEY``, and HTTP Basic with the key as the password, which is what a browser asks
    for and what ``https://any:KEY@host`` in the address of a scheduler extender becomes.

    An empty one counts as none.

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
