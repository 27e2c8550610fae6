"""Stand before every route: nothing is answered that :class:`Policy` did not let in."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.access.audit import AuditLog, AuditTable
from service.access.policy import Policy, Refusal
from service.http.errors import problem_response

#: ``websocket.close`` code of a policy that was violated (RFC 6455, 7.4.1).
_POLICY_VIOLATION = 1008


class Access:
    """ASGI middleware: 401, 403 or 429 for what may not pass, an audit line for what an admin did.

    Whose request it is stands in ``scope["caller"]``: the identifier of the key, ``"guest"``
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
            await _refuse(decision, scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the life of the application pass and nothing else: there are no other routes."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})

    def _audited(self, by: str, scope: Scope, send: Send) -> Send:
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
                )
            await send(message)

        return noting


def path_in_app(scope: Scope) -> str:
    """Return the path that the router compares: without the root path of a proxy."""
    path: str = scope["path"]
    root = scope.get("root_path", "")
    below = path.removeprefix(root)
    return below if below in ("", path) or below.startswith("/") else path


async def _refuse(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    response = problem_response(refusal.content)
    response.raw_headers.extend(refusal.headers)
    await response(scope, receive, send)
