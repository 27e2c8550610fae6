"""Every route and method of the application, with every kind of key and with none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from guarded_service import Guarded, guarded_service
from starlette.routing import BaseRoute
from starlette.types import Message

from service.access.scopes import Scope, Unscoped, rule_of

guarded = pytest.fixture(scope="module")(guarded_service)

#: Answered without a key, and nothing else ever: whether it runs, and the page.
OPEN = {
    (method, path)
    for method in ("GET", "HEAD")
    for path in ("/v2/health/live", "/v2/health/ready", "/", "/favicon.ico")
}
#: Files of the page; the walk puts a name there that none has.
OPEN_FILES = {("GET", "/static/{version}/{name:path}"), ("HEAD", "/static/{version}/{name:path}")}


def endpoints(routes: Sequence[BaseRoute], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield method and path of each route, those of included and mounted applications too."""
    for route in routes:
        contexts = getattr(route, "effective_route_contexts", None)
        if contexts is not None:
            yield from endpoints(list(contexts()), prefix)
            continue
        path = prefix + str(getattr(route, "path", ""))
        below = getattr(route, "routes", None)
        if below:
            yield from endpoints(below, path)
            continue
        # What is mounted and has no routes of its own serves files.
        for method in getattr(route, "methods", None) or ("GET",):
            yield method, path


def every_endpoint(app: FastAPI) -> list[tuple[str, str]]:
    found = set(endpoints(app.routes))
    # Whatever answers GET answers HEAD.
    return sorted(found | {("HEAD", path) for method, path in found if method == "GET"})


def status(client: TestClient, method: str, path: str, headers: dict[str, str]) -> int:
    # A name in place of each path parameter; what the route makes of it does not matter here.
    concrete = "/".join("x" if "{" in part else part for part in path.split("/"))
    response = client.request(method, concrete, headers=headers)
    if method != "HEAD" and response.status_code in (401, 403):
        assert response.headers["content-type"] == "application/problem+json", response.text
        assert response.json()["status"] == response.status_code
    return int(response.status_code)


def test_the_walk_finds_the_routes(guarded: Guarded) -> None:
    found = every_endpoint(guarded.app)
    assert {("POST", "/v1/predict"), ("POST", "/v1/graphs"), ("GET", "/v1/models")} <= set(found)
    assert set(found) >= OPEN | OPEN_FILES | {("GET", "/docs"), ("HEAD", "/openapi.json")}


def test_every_route_has_a_rule(guarded: Guarded) -> None:
    without = [e for e in every_endpoint(guarded.app) if rule_of(*e).needs is Unscoped.UNLISTED]
    assert not without, f"say in service/access/scopes.py what these need: {without}"


def test_without_a_key_only_health_and_the_page_answer(guarded: Guarded) -> None:
    for method, path in every_endpoint(guarded.app):
        found = status(guarded.client, method, path, {})
        if (method, path) in OPEN:
            assert found == 200, f"{method} {path}"
        elif (method, path) in OPEN_FILES:
            assert found == 404, f"{method} {path}"
        else:
            assert found == 401, f"{method} {path} answers {found} to anybody"


def test_a_key_opens_what_its_scope_says_and_nothing_else(
    guarded: Guarded, record_property: Callable[[str, object], None]
) -> None:
    asked = len(every_endpoint(guarded.app)) * (len(Scope) + 1)
    record_property("pairs of route and caller", asked)
    for method, path in every_endpoint(guarded.app):
        needs = rule_of(method, path).needs
        if needs is Unscoped.OPEN:
            continue
        for scope in Scope:
            found = status(guarded.client, method, path, guarded.bearer(scope.value))
            if scope in (needs, Scope.ADMIN):
                assert found not in (401, 403), f"{scope} key, {method} {path}: {found}"
            else:
                assert found == 403, f"{scope} key, {method} {path}: {found}"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_what_does_not_exist_is_told_to_those_with_a_key(guarded: Guarded, method: str) -> None:
    assert status(guarded.client, method, "/v1/nothing", {}) == 401
    assert status(guarded.client, method, "/v1/nothing", guarded.bearer("observe")) == 404


def test_a_method_that_a_route_does_not_take(guarded: Guarded) -> None:
    assert status(guarded.client, "DELETE", "/v1/predict", {}) == 401
    assert status(guarded.client, "DELETE", "/v1/predict", guarded.bearer("predict")) == 405


@pytest.mark.parametrize(
    "path",
    [
        "//v1/models", "/v1//models", "/V1/models", "/v1/models/", "/v1/models/../models",
        "/v1/%6dodels", "/v2/health/live/", "/v2/health/live/../../../v1/models",
        "/v2/health/live%2f..%2f..%2f..%2fv1%2fmodels", "/v1/models;/v2/health/live",
        "/v2/health/ready%00", "*", "/statics", "//static/x/js/app.js",
    ],
)  # fmt: skip
def test_no_spelling_of_a_path_gets_round_the_guard(guarded: Guarded, path: str) -> None:
    assert status_of_raw_path(guarded.app, path) == 401


@pytest.mark.parametrize(
    "path", ["/static/../v1/models", "/static/x/%2e%2e/%2e%2e/v1/models", "/static/x/../page.py"]
)
def test_nothing_but_files_of_the_page_lies_below_them(guarded: Guarded, path: str) -> None:
    assert status_of_raw_path(guarded.app, path) == 404


def status_of_raw_path(app: FastAPI, path: str) -> int:
    """Ask for a path as it is; a client would tidy it up."""
    sent: list[Message] = []

    async def ask() -> None:
        async def receive() -> Message:
            return {"type": "http.request", "body": b""}

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {
            "type": "http", "method": "GET", "path": unquote(path), "raw_path": path.encode(),
            "query_string": b"", "root_path": "", "headers": [], "scheme": "http",
            "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 5), "http_version": "1.1",
        }  # fmt: skip
        await app(scope, receive, send)

    asyncio.run(ask())
    return int(sent[0]["status"])


def test_a_route_that_nobody_listed_is_for_administrators(guarded: Guarded) -> None:
    app = guarded.app

    async def forgotten() -> dict[str, Any]:
        return {"secret": 1}

    app.add_api_route("/v9/forgotten", forgotten, methods=["GET"])
    client = guarded.client
    try:
        assert status(client, "GET", "/v9/forgotten", {}) == 401
        assert status(client, "GET", "/v9/forgotten", guarded.bearer("predict")) == 403
        assert client.get("/v9/forgotten", headers=guarded.bearer("admin")).json() == {"secret": 1}
    finally:
        app.router.routes.pop()
