"""Decide about one request: let it in, or say why not."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from starlette.routing import Match
from starlette.types import Scope as Request

from service.access.keys import ApiKey, KeyStore, digest_of
from service.access.rate_limit import RateLimiter
from service.access.scopes import Scope, Unscoped, needed
from service.http.errors import http_problem

#: What a caller is told to show; two lines, since a browser asks for a password by the second.
CHALLENGES = (b'Bearer realm="perfmodel"', b'Basic realm="perfmodel"')

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """Why a request is not let in.

    Parameters
    ----------
    content : mapping
        A problem object.
    by : str
        Identifier of the key that was shown; ``""`` if none is known.
    admin : bool
        It would have done something that is kept in the audit log.
    """

    content: Mapping[str, Any]
    headers: tuple[tuple[bytes, bytes], ...] = ()
    by: str = ""
    admin: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A request that is let in.

    Parameters
    ----------
    by : str
        Identifier of the key, ``"guest"`` without one, ``""`` on an open route.
    admin : bool
        It does something that is kept in the audit log.
    """

    by: str = ""
    admin: bool = False


@dataclass(kw_only=True, slots=True)
class Policy:
    """Who may do what.

    As long as no key was ever made, whoever reaches the service over the loopback may do
    everything; requests that came in over any other address are refused unless ``insecure``. From
    the first key on, every request needs one, for as long as this process lives.

    Parameters
    ----------
    required : bool
        Ask for keys even if none was made.
    insecure : bool
        Answer everybody as long as no key was made, whatever the address.
    open_paths : collection of str
        Paths that are answered without a key all the same, for callers that can show none.
    """

    keys: KeyStore
    limiter: RateLimiter
    required: bool = False
    insecure: bool = False
    open_paths: Collection[str] = field(default_factory=frozenset)

    def decide(self, request: Request, path: str) -> Entry | Refusal:
        """Let a request in or not.

        Parameters
        ----------
        path : str
            As the router sees it.
        """
        needs = needed(request["method"], path)
        if needs is Unscoped.OPEN or path in self.open_paths:
            return Entry()
        if self._guarded():
            return self._keyed(request, needs)
        return self._guest(request, needs)

    def _guarded(self) -> bool:
        if not self.required:
            self.required = bool(self.keys.all())
        return self.required

    def _keyed(self, request: Request, needs: Scope | Unscoped) -> Entry | Refusal:
        token = token_of(request["headers"])
        key = self.keys.find(digest_of(token)) if token else None
        if key is None:
            return _unknown(shown=token is not None, challenges=_challenges(request))
        scope = needs if isinstance(needs, Scope) else _scope_of_unlisted(request, key)
        admin = scope is Scope.ADMIN and request["method"] not in _SAFE
        if not key.allows(scope):
            return replace(_forbidden(key, scope), by=key.key_id, admin=admin)
        if request["method"] not in _SAFE and _is_cross_site(request):
            # A browser shows the key that it was once told, whoever makes it ask.
            return replace(_cross_site(), by=key.key_id, admin=admin)
        entry = Entry(by=key.key_id, admin=admin)
        return self._unless_too_many(key.key_id, key.rate_per_s) or entry

    def _guest(self, request: Request, needs: Scope | Unscoped) -> Entry | Refusal:
        address = (request.get("server") or ("",))[0]
        if not self.insecure and _is_beyond_loopback(address):
            return _keyless(address)
        if request["method"] not in _SAFE and _is_cross_site(request):
            return _cross_site()
        admin = needs in (Scope.ADMIN, Unscoped.UNLISTED) and request["method"] not in _SAFE
        caller = (request.get("client") or ("",))[0]
        return self._unless_too_many(caller, None) or Entry(by="guest", admin=admin)

    def _unless_too_many(self, caller: str, rate_per_s: float | None) -> Refusal | None:
        wait_s = self.limiter.wait_s(caller, rate_per_s)
        return _too_many(wait_s) if wait_s else None


@lru_cache(maxsize=256)
def _is_beyond_loopback(address: str) -> bool:
    """Tell whether the address that a request came in on can be reached from elsewhere.

    It is the server's end of the connection, which no header can claim. A name is no address of
    a network: it stands for a socket file or a test.
    """
    try:
        return not ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _is_cross_site(request: Request) -> bool:
    """Tell whether a browser sends a request for a page of somebody else."""
    return (b"sec-fetch-site", b"cross-site") in request["headers"]


def _scope_of_unlisted(request: Request, key: ApiKey) -> Scope:
    """Return what a request needs of which no rule speaks.

    What does not exist needs no more than the key has, so that it is answered with 404 or 405.
    """
    routes = request["app"].router.routes
    exists = any(route.matches(dict(request))[0] is Match.FULL for route in routes)
    return Scope.ADMIN if exists else next(iter(key.scopes))


def _challenges(request: Request) -> Sequence[bytes]:
    """Return what a caller is told to show.

    A script of a page asks its user itself; Basic would make the browser ask as well.
    """
    return CHALLENGES[:1] if (b"sec-fetch-dest", b"empty") in request["headers"] else CHALLENGES


def _unknown(*, shown: bool, challenges: Sequence[bytes]) -> Refusal:
    detail = (
        "The key is not known; it may have been revoked. `perfmodel keys list` shows all."
        if shown
        else "Show a key: 'Authorization: Bearer KEY'. `perfmodel keys create` makes one."
    )
    headers = tuple((b"www-authenticate", challenge) for challenge in challenges)
    return Refusal(content=http_problem(HTTPStatus.UNAUTHORIZED, detail), headers=headers)


def _forbidden(key: ApiKey, needs: Scope) -> Refusal:
    return _refused(
        f"This needs the scope {needs.value!r}; the key {key.key_id} has "
        f"{', '.join(sorted(key.scopes))}."
    )


def _keyless(address: str) -> Refusal:
    return _refused(
        f"The service has no keys and answers the loopback only; this came in on {address}. Make "
        "a key with `perfmodel keys create`, or start it with --insecure."
    )


def _cross_site() -> Refusal:
    return _refused("A page of another site may not send this.")


def _refused(detail: str) -> Refusal:
    return Refusal(content=http_problem(HTTPStatus.FORBIDDEN, detail))


def _too_many(wait_s: float) -> Refusal:
    seconds = math.ceil(wait_s)
    content = http_problem(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"The caller has used up its requests. Try again in {seconds} s.",
        title="Too many requests",
    )
    return Refusal(content=content, headers=((b"retry-after", str(seconds).encode()),))


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
