"""Stand before every route: let a request in, or say why not; tell routes whose it is."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from fastapi import Request
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.access.audit import AuditLog, AuditTable
from service.access.browser import body_of_any_page, foreign_host, sent_from_elsewhere
from service.access.keys import ApiKey, KeyStore, digest_of, token_of
from service.access.scopes import Rule, Unscoped, rule_of
from service.access.scopes import Scope as KeyScope
from service.http.bodies import unread_media
from service.http.errors import http_problem, problem_of, problem_response

#: Who asks while there are no keys.
GUEST = "guest"

#: What a caller is told to show; two lines, since a browser asks for a password by the second.
CHALLENGES = (b'Bearer realm="perfmodel"', b'Basic realm="perfmodel"')

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

#: Sent by a browser for what a script asks.
_BY_A_SCRIPT = (b"sec-fetch-dest", b"empty")

#: Callers whose buckets are remembered; one that was forgotten starts full.
MAX_CALLERS = 10_000

#: ``websocket.close`` code of a policy that was violated (RFC 6455, 7.4.1).
_POLICY_VIOLATION = 1008


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
        Identifier of the key, :data:`GUEST` without one, ``""`` on an open route.
    admin : bool
        It does something that is kept in the audit log.
    """

    by: str = ""
    admin: bool = False


class RateLimiter:
    """Grants requests at a steady rate, with some in one go.

    A bucket holds at most ``b`` tokens and gains ``r`` a second; each request takes one, so that
    over any time ``t`` a caller gets at most ``b + r t`` requests. One limiter counts in one
    process: with ``n`` workers a caller may get ``n`` times as much.

    Parameters
    ----------
    rate_per_s : float
        For callers without a rate of their own; 0: no limit.
    burst_s : float
        Seconds of its rate that a caller may use at once: ``b = max(1, r * burst_s)``.

    Examples
    --------
    >>> limiter = RateLimiter(rate_per_s=2, burst_s=1, clock=lambda: 0.0)
    >>> [limiter.wait_s("a") for _ in range(3)]
    [0.0, 0.0, 0.5]
    """

    def __init__(
        self,
        *,
        rate_per_s: float = 0.0,
        burst_s: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate_per_s = rate_per_s
        self._burst_s = burst_s
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, caller: str, rate_per_s: float | None = None) -> float:
        """Take a token of a caller.

        Returns
        -------
        float
            0: granted. Else the seconds until a token will be there; none was taken.
        """
        rate = self._rate_per_s if rate_per_s is None else rate_per_s
        if rate <= 0:
            return 0.0
        now = self._clock()
        full = max(1.0, rate * self._burst_s)
        tokens, seen_at = self._buckets.get(caller, (full, now))
        tokens = min(full, tokens + rate * (now - seen_at))
        granted = tokens >= 1.0
        self._buckets[caller] = (tokens - 1.0 if granted else tokens, now)
        self._buckets.move_to_end(caller)
        if len(self._buckets) > MAX_CALLERS:
            self._buckets.popitem(last=False)
        return 0.0 if granted else (1.0 - tokens) / rate


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
    hosts : collection of str
        Names besides those of the loopback by which the service is called, in lower case.
    """

    keys: KeyStore
    limiter: RateLimiter
    required: bool = False
    insecure: bool = False
    open_paths: Collection[str] = field(default_factory=frozenset)
    hosts: Collection[str] = field(default_factory=frozenset)

    def decide(self, request: Scope, path: str) -> Entry | Refusal:
        """Let a request in or not."""
        rule = rule_of(request["method"], path)
        if rule.needs is Unscoped.OPEN or path in self.open_paths:
            return Entry(admin=rule.audited)
        self.required = self.required or bool(self.keys.all())
        if self.required:
            return self._keyed(request, rule)
        return self._guest(request, path, rule)

    def _keyed(self, request: Scope, rule: Rule) -> Entry | Refusal:
        headers, writes = request["headers"], request["method"] not in _SAFE
        token = token_of(headers)
        key = self.keys.find(digest_of(token)) if token else None
        if key is None:
            return _unknown(shown=token is not None, is_script=_BY_A_SCRIPT in headers)
        needs = rule.needs
        scope = needs if isinstance(needs, KeyScope) else _scope_of_unlisted(request, key)
        admin = rule.audited or (writes and scope is KeyScope.ADMIN)
        if not key.allows(scope):
            return _forbidden(
                f"This needs the scope {scope.value!r}; the key {key.key_id} has "
                f"{', '.join(sorted(key.scopes))}.",
                by=key.key_id,
                admin=admin,
            )
        # A browser shows the key that it was once told, whoever makes it ask.
        stated = dict(headers) if writes else {}
        foreign = sent_from_elsewhere(stated, self.hosts, strictly=False) if writes else None
        if foreign:
            return _forbidden(foreign, by=key.key_id, admin=admin)
        wait_s = self.limiter.wait_s(key.key_id, key.rate_per_s)
        return _too_many(wait_s) if wait_s else Entry(by=key.key_id, admin=admin)

    def _guest(self, request: Scope, path: str, rule: Rule) -> Entry | Refusal:
        address = (request.get("server") or ("",))[0]
        if not self.insecure and _is_beyond_loopback(address):
            return _forbidden(
                "The service has no keys and answers the loopback only; this came in on "
                f"{address}. Make a key with `perfmodel keys create`, or start it with --insecure."
            )
        writes = request["method"] not in _SAFE
        foreign = foreign_host(request["headers"], address, self.hosts)
        headers = dict(request["headers"]) if writes else {}
        if foreign is None and writes:
            foreign = sent_from_elsewhere(headers, self.hosts, strictly=True)
        if foreign:
            return _forbidden(foreign)
        kind = body_of_any_page(headers) if writes else None
        if kind:
            return Refusal(content=problem_of(unread_media(kind, *_media_of(path))))
        wait_s = self.limiter.wait_s((request.get("client") or ("",))[0])
        if wait_s:
            return _too_many(wait_s)
        admin = writes and rule.needs in (KeyScope.ADMIN, Unscoped.UNLISTED)
        return Entry(by=GUEST, admin=rule.audited or admin)


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


def _media_of(path: str) -> tuple[str, ...]:
    """Return what bodies are: questions, and files of ONNX."""
    files = ("application/octet-stream",) if path == "/v1/graphs" else ()
    return ("application/json", *files)


def _scope_of_unlisted(request: Scope, key: ApiKey) -> KeyScope:
    """Return what a request needs of which no rule speaks.

    What does not exist needs no more than the key has, so that it is answered with 404 or 405.
    """
    routes = request["app"].router.routes
    exists = any(route.matches(dict(request))[0] is Match.FULL for route in routes)
    return KeyScope.ADMIN if exists else next(iter(key.scopes))


def _unknown(*, shown: bool, is_script: bool) -> Refusal:
    """Refuse a request without a key that counts.

    A script of a page asks its user itself; Basic would make the browser ask as well.
    """
    detail = (
        "The key is not known; it may have been revoked. `perfmodel keys list` shows all."
        if shown
        else "Show a key: 'Authorization: Bearer KEY'. `perfmodel keys create` makes one."
    )
    challenges = CHALLENGES[:1] if is_script else CHALLENGES
    headers = tuple((b"www-authenticate", challenge) for challenge in challenges)
    return Refusal(content=http_problem(HTTPStatus.UNAUTHORIZED, detail), headers=headers)


def _forbidden(detail: str, *, by: str = "", admin: bool = False) -> Refusal:
    return Refusal(content=http_problem(HTTPStatus.FORBIDDEN, detail), by=by, admin=admin)


def _too_many(wait_s: float) -> Refusal:
    seconds = math.ceil(wait_s)
    content = http_problem(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"The caller has used up its requests. Try again in {seconds} s.",
        title="Too many requests",
    )
    return Refusal(content=content, headers=((b"retry-after", str(seconds).encode()),))


class Access:
    """ASGI middleware: 401, 403 or 429 for what may not pass, an audit line for what an admin did.

    Whose request it is stands in ``scope["caller"]``: the identifier of the key, :data:`GUEST`
    without one, ``""`` where nobody asked.
    """

    def __init__(self, app: ASGIApp, *, policy: Policy, audit: AuditLog | AuditTable) -> None:
        self._app = app
        self._policy = policy
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        decision = self._policy.decide(scope, path_in_app(scope))
        scope["caller"] = decision.by
        if decision.admin:
            send = self._audited(decision.by, scope, send)
        if isinstance(decision, Refusal):
            response = problem_response(decision.content)
            stated = {name for name, _ in decision.headers}
            kept = [pair for pair in response.raw_headers if pair[0] not in stated]
            response.raw_headers = [*kept, *decision.headers]
            await response(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the life of the application pass and nothing else: there are no other routes."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})

    def _audited(self, by: str, scope: Scope, send: Send) -> Send:
        # What was taken back, say: that stands in no path.
        query = scope.get("query_string", b"").decode("ascii", "replace")
        stated = {"query": query} if query else {}

        async def noting(message: Message) -> None:
            # Before the answer goes out: what was acknowledged is in the log.
            if message["type"] == "http.response.start":
                await asyncio.to_thread(
                    self._audit.append,
                    f"{scope['method']} {scope['path']}",
                    by=by,
                    status=message["status"],
                    request_id=scope.get("request_id"),
                    client=(scope.get("client") or (None,))[0],
                    **stated,
                )
            await send(message)

        return noting


def path_in_app(scope: Scope) -> str:
    """Return the path that the router compares: without the root path of a proxy."""
    path: str = scope["path"]
    root = scope.get("root_path", "")
    below = path.removeprefix(root)
    return below if below in ("", path) or below.startswith("/") else path


def caller_of(request: Request) -> str:
    """Return the identifier of the key that was shown; :data:`GUEST` of somebody without one."""
    return str(request.scope.get("caller") or GUEST)


def is_administrator(request: Request) -> bool:
    """Tell whether everything may be done: by a key of that scope, or because there are no keys.

    Who comes in by an open path is nobody in particular, whatever key is shown.
    """
    caller = request.scope.get("caller", "")
    if caller == GUEST:
        return True
    keys: KeyStore = request.app.state.keys
    return any(key.key_id == caller and key.allows(KeyScope.ADMIN) for key in keys.all())


def owner_shown(request: Request) -> str | None:
    """Return whose things alone a caller is shown; None for an administrator, who sees all."""
    return None if is_administrator(request) else caller_of(request)
