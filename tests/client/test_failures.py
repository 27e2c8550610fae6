"""A service that is down, slow, limited or answers garbage, for both clients."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from misbehaving import (
    READY,
    Act,
    drip,
    drop,
    drop_halfway,
    misbehaving,
    say,
    speak_no_http,
    stay_silent,
)
from waiting import PATIENCE_S

from perfmodel.client import (
    AsyncClient,
    Call,
    Client,
    NoAnswerError,
    NotAllowedError,
    RefusedError,
    TimedOutError,
    UnavailableError,
    UnreachableError,
    UnreadableAnswerError,
    fail_open,
    fail_open_async,
)

PROBLEM = {"title": "Overloaded", "detail": "64 questions wait.", "status": 503, "new": [1]}

#: Asks a client of one kind for the health of a service.
Ask = Callable[..., Any]


def _blocking(url: Any, **manners: Any) -> Any:
    with Client(url, **manners) as client:
        return client.health()


def _in_coroutine(url: Any, **manners: Any) -> Any:
    async def ask() -> Any:
        async with AsyncClient(url, **manners) as client:
            return await client.health()

    return asyncio.run(ask())


@pytest.fixture(params=[_blocking, _in_coroutine], ids=["blocking", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    asking: Ask = request.param
    return asking


@pytest.fixture
def closed() -> Iterator[str]:
    """An address at which nobody listens, and nobody can begin to."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{kept.getsockname()[1]}"


@pytest.mark.parametrize(
    "act", [say(503, PROBLEM), say(502, b"<html>"), say(502, [1]), say(429), drop, drop_halfway]
)
def test_what_passes_is_tried_again(ask: Ask, act: Act) -> None:
    with misbehaving([act]) as script:
        assert ask(script.url, timeout_s=60.0).status == "ready"
        assert script.times() == 2
        # Both attempts go by one name in the log.
        assert len({one.headers["X-Request-ID"] for one in script.requests}) == 1


def test_retries_come_to_an_end(ask: Ask) -> None:
    with misbehaving([say(503, PROBLEM)] * 9) as script:
        with pytest.raises(UnavailableError, match="64 questions wait") as failure:
            ask(script.url, retries=2, timeout_s=60.0)
        assert script.times() == 3
        assert failure.value.problem.title == "Overloaded"


def test_retry_after_is_kept_to(ask: Ask) -> None:
    with misbehaving([say(429, PROBLEM, {"Retry-After": "1"})]) as script:
        began = time.monotonic()
        assert ask(script.url, timeout_s=60.0).status == "ready"
        assert time.monotonic() - began >= 1.0

    with misbehaving([say(503, PROBLEM, {"Retry-After": "3600"})]) as script:
        # It cannot be ready in time, so nothing is waited for.
        with pytest.raises(UnavailableError) as failure:
            ask(script.url, timeout_s=60.0)
        assert failure.value.retry_after_s == 3600.0
        assert script.times() == 1


@pytest.mark.parametrize("act", [stay_silent, drip])
def test_no_slowness_gets_past_the_time(ask: Ask, act: Act) -> None:
    # Both go on until the client hangs up.
    with misbehaving([act]) as script, pytest.raises(TimedOutError):
        ask(script.url, timeout_s=0.3)


@pytest.mark.parametrize(
    "act",
    [
        say(200, b"<html>not JSON</html>"),
        say(200, {"another": "shape"}),
        say(200, {"status": 7}),
        say(200, b'{"status": NaN}'),
        say(200, b"\x1f\x8bno gzip", {"Content-Encoding": "gzip"}),
        speak_no_http,
    ],
)
def test_garbage_is_no_answer(ask: Ask, act: Act) -> None:
    with misbehaving([act]) as script:
        with pytest.raises(NoAnswerError) as failure:
            ask(script.url, timeout_s=60.0, retries=0)
        assert script.times() == 1
        assert failure.value.request_id


def test_nobody_there(ask: Ask, closed: str) -> None:
    with pytest.raises(UnreachableError):
        ask(closed, timeout_s=60.0, retries=1)


def test_a_refusal_is_not_repeated(ask: Ask) -> None:
    for status, kind in ((403, NotAllowedError), (422, RefusedError)):
        with misbehaving([say(status, PROBLEM)]) as script:
            with pytest.raises(kind) as refusal:
                ask(script.url)
            assert refusal.value.status == status
            assert script.times() == 1


def test_another_host_is_asked_where_one_fails(ask: Ask, closed: str) -> None:
    with misbehaving([]) as script:
        assert ask([closed, script.url], timeout_s=60.0).status == "ready"


def test_a_fallback_answers_what_the_service_does_not(ask: Ask, closed: str) -> None:
    asked: list[Call[Any]] = []

    def fallback(call: Call[Any]) -> Any:
        asked.append(call)
        return {"status": "from elsewhere"} if len(asked) == 1 else None

    down = {"timeout_s": 60.0, "retries": 0, "fallback": fallback}
    assert ask(closed, **down).status == "from elsewhere"
    assert asked[0].path == "/v2/health/ready"
    with pytest.raises(UnreachableError):
        ask(closed, **down)
    with misbehaving([say(422, PROBLEM)]) as script, pytest.raises(RefusedError):
        ask(script.url, **down)
    assert len(asked) == 2


def test_a_key_and_news_of_later_versions_do_no_harm(ask: Ask) -> None:
    with misbehaving([say(200, {**READY, "since": 3, "status": "ready"})]) as script:
        assert ask(script.url, api_key="pmk_x").status == "ready"
        assert script.requests[0].headers["Authorization"] == "Bearer pmk_x"


def test_a_key_may_be_the_password_of_the_url(ask: Ask) -> None:
    with misbehaving([say(200, {**READY, "status": "ready"})]) as script:
        assert ask(script.url.replace("://", "://any:pmk%5Fx@")).status == "ready"
        assert script.requests[0].headers["Authorization"] == "Bearer pmk_x"


@pytest.mark.parametrize("act", [say(503), drop, say(200, b"?"), say(422, PROBLEM)])
def test_fail_open_returns_the_default(act: Act, caplog: pytest.LogCaptureFixture) -> None:
    with misbehaving([act]) as script, Client(script.url, timeout_s=60.0, retries=0) as client:
        assert fail_open(client.health, None) is None
        assert "without an answer" in caplog.text
        found = fail_open(client.health, None)
        assert found is not None
        assert found.status == "ready"


def test_fail_open_returns_the_default_when_the_time_is_up() -> None:
    with (
        misbehaving([stay_silent]) as script,
        Client(script.url, timeout_s=0.3, retries=0) as hasty,
        Client(script.url, timeout_s=60.0, retries=0) as patient,
    ):
        assert fail_open(hasty.health, None) is None
        found = fail_open(patient.health, None)
        assert found is not None
        assert found.status == "ready"


def test_fail_open_of_a_coroutine(closed: str) -> None:
    async def ask() -> list[Any]:
        async with AsyncClient(closed, timeout_s=60.0, retries=0) as client:
            return [await fail_open_async(client.health(), "default")]

    assert asyncio.run(ask()) == ["default"]


def test_a_silent_service_is_left_alone_for_a_while() -> None:
    with (
        misbehaving([drop, drop]) as script,
        Client(script.url, retries=0, rest_s=3600.0, timeout_s=60.0) as client,
        Client(script.url, retries=0, rest_s=0.3, timeout_s=60.0) as sooner,
    ):
        for _ in range(3):
            with pytest.raises(UnreachableError):
                client.health()
        assert script.times() == 1
        with pytest.raises(UnreachableError):
            sooner.health()
        time.sleep(0.35)
        assert sooner.health().status == "ready"


def test_a_connection_is_used_again_and_replaced_when_it_was_closed() -> None:
    closing = say(headers={"Connection": "close"})
    with (
        misbehaving([say(), say(), closing]) as script,
        Client(script.url, retries=0, timeout_s=PATIENCE_S) as client,
    ):
        for _ in range(4):
            client.health()
        ports = [one.client_address[1] for one in script.requests]
        assert ports[0] == ports[1] == ports[2] != ports[3]
    # One that was kept and is dead by now costs nothing but a new one.
    with (
        misbehaving([say(), drop]) as script,
        Client(script.url, retries=0, timeout_s=PATIENCE_S) as client,
    ):
        assert [client.health().status for _ in range(2)] == ["ready", "ready"]
        assert script.times() == 3


def test_too_long_an_answer_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfmodel.client.protocol.wire.MAX_BYTES", 100)
    with (
        misbehaving([say(200, b" " * 101)]) as script,
        Client(script.url, timeout_s=PATIENCE_S) as client,
        pytest.raises(UnreadableAnswerError, match="longer"),
    ):
        client.health()
