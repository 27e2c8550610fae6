"""The asynchronous client: the same answers, in process and over a socket, many at once."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from misbehaving import Script, misbehaving
from waiting import PATIENCE_S

from perfmodel.client import AsyncClient, Client, RefusedError
from perfmodel.client.forms import Job
from perfmodel.errors import MissingExtraError

JOB: Job = {"model": "timm/resnet18", "mode": "training", "batch_size": 64}


async def _all(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


def test_both_clients_have_the_same_methods() -> None:
    def methods(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(value).parameters)
            for name, value in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert methods(Client) == methods(AsyncClient)
    assert len(methods(Client)) > 20


def test_answers_in_process_are_those_over_a_socket(app: FastAPI, service: Client) -> None:
    async def ask() -> None:
        transport = httpx.ASGITransport(app)
        async with AsyncClient("http://perfmodel", transport=transport) as client:
            assert await client.predict(JOB, "8xT4") == service.predict(JOB, "8xT4")
            jobs = [JOB, {**JOB, "batch_size": 0}]
            assert await client.matrix(jobs, ["T4"]) == service.matrix(jobs, ["T4"])
            assert await client.curve(JOB, "T4") == service.curve(JOB, "T4")
            for batch_size in (201, 202, 203):
                await client.register_job({**JOB, "batch_size": batch_size})
            assert await _all(client.jobs(limit=2)) == list(service.jobs())
            step_time_s = (await client.predict(JOB, "L4")).step_time_s
            seen = [
                {"job": JOB, "placement": "L4", "step_time_s": 2 * step_time_s, "key": f"a-{n}"}
                for n in range(3)
            ]
            assert (await client.observe(seen, batch=2)).accepted == 3
            ref = (await client.register_job(JOB)).ref
            assert (await client.exclude_observations(job=ref, key="a-1")).changed == 1
            assert (await client.accept_observations(job=ref, key="a-1")).changed == 1
            assert (await client.remove_observations(job=ref)).removed == 3
            with pytest.raises(RefusedError):
                await client.job("0")

    asyncio.run(ask())


def test_many_questions_at_once(url: str) -> None:
    async def ask() -> list[float]:
        async with AsyncClient(url, timeout_s=60.0) as client:
            found = await asyncio.gather(
                *(client.predict({**JOB, "batch_size": 1 + n % 5}, "T4") for n in range(40))
            )
            return [one.step_time_s for one in found]

    times = asyncio.run(ask())
    assert times[:5] * 8 == times
    assert len(set(times)) == 5


def test_waiting_holds_nobody_up_and_can_be_given_up() -> None:
    may_end = threading.Event()

    async def ask(script: Script) -> None:
        async with AsyncClient(script.url, timeout_s=60.0, retries=0) as client:
            slow = asyncio.create_task(client.health())
            while not script.times():
                await asyncio.sleep(0.01)
            assert (await client.health()).status == "ready"
            assert not slow.done()
            slow.cancel()
            with pytest.raises(asyncio.CancelledError):
                await slow
            assert (await client.health()).status == "ready"

    with misbehaving([lambda handler: may_end.wait(PATIENCE_S)]) as script:
        asyncio.run(asyncio.wait_for(ask(script), PATIENCE_S))
        may_end.set()


def test_without_httpx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "httpx", None)
    with pytest.raises(MissingExtraError, match=r"perfmodel\[client\]"):
        AsyncClient("http://127.0.0.1:8000")
