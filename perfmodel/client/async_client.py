"""The client of coroutines."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from perfmodel.client import catalogue, keeping, operations, questions
from perfmodel.client.async_wire import AsyncWire
from perfmodel.client.errors import NoAnswerError
from perfmodel.client.messages import Call, Fallback, Flow, Page, Reply, Send, Task, Wait
from perfmodel.client.retrying import Retrying
from perfmodel.client.session import Manners, Session
from perfmodel.client.verbs import bound_like

if TYPE_CHECKING:
    import httpx

P = ParamSpec("P")
T = TypeVar("T")


def _asks(
    build: Callable[P, Call[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """Make a method of a call."""

    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.ask(build(*args, **kwargs))

    return bound_like(build, method)


def _works(
    build: Callable[P, Task[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """Make a method of several calls."""

    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._drive(self._session.task(build(*args, **kwargs)))

    return bound_like(build, method)


def _lists(
    build: Callable[P, Call[Page[T]]],
) -> Callable[Concatenate[AsyncClient, P], AsyncIterator[T]]:
    """Make a method of the pages of a list, which fetches each when it is come to."""

    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        call: Call[Page[T]] | None = build(*args, **kwargs)
        while call is not None:
            page = await self.ask(call)
            for item in page.items:
                yield item
            call = call.after(page)

    return bound_like(build, method)


class AsyncClient:
    """A service, asked over HTTP from coroutines; as :class:`~perfmodel.client.Client`, awaited.

    >>> async with AsyncClient("http://127.0.0.1:8000") as service:  # doctest: +SKIP
    ...     found = await service.predict(
    ...         {"model": "timm/resnet50", "mode": "training", "batch_size": 64}, "8xT4")

    Lists are iterated with ``async for``. Needs the extra ``client`` (httpx).

    Parameters
    ----------
    url, api_key, timeout_s, retries, fallback, rest_s, compress_above_bytes, tls
        As of :class:`~perfmodel.client.Client`.
    transport : httpx.AsyncBaseTransport or None
        In the place of sockets, such as ``httpx.ASGITransport``.

    Raises
    ------
    InvalidInputError
        A URL that is none.
    MissingExtraError
        httpx is not installed.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        api_key: str | None = None,
        timeout_s: float = 10.0,
        retries: int = 2,
        fallback: Fallback | None = None,
        rest_s: float = 0.0,
        compress_above_bytes: int | None = 64 * 1024,
        tls: ssl.SSLContext | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        manners = Manners(
            api_key=api_key,
            timeout_s=timeout_s,
            retrying=Retrying(most=retries),
            fallback=fallback,
            rest_s=rest_s,
            compress_above_bytes=compress_above_bytes,
        )
        self._session = Session(url, manners)
        self._transport = AsyncWire(tls=tls, transport=transport)

    predict = _asks(questions.predict)
    matrix = _asks(questions.matrix)
    curve = _asks(questions.curve)
    rank = _asks(questions.rank)
    rank_plans = _asks(questions.rank_plans)
    explain = _asks(questions.explain)
    register_job = _asks(keeping.register_job)
    job = _asks(keeping.job)
    jobs = _lists(keeping.jobs)
    jobs_page = _asks(keeping.jobs)
    graph = _asks(keeping.graph)
    graph_json = _asks(keeping.graph_json)
    graphs = _lists(keeping.graphs)
    upload_graph = _asks(keeping.upload_graph)
    upload_onnx = _asks(keeping.upload_onnx)
    observe = _works(keeping.observe)
    observations = _lists(keeping.observations)
    observations_page = _asks(keeping.observations)
    accelerators = _asks(catalogue.accelerators)
    accelerator = _asks(catalogue.accelerator)
    put_accelerator = _asks(catalogue.put_accelerator)
    remove_accelerator = _asks(catalogue.remove_accelerator)
    put_alias = _asks(catalogue.put_alias)
    remove_alias = _asks(catalogue.remove_alias)
    prices = _asks(catalogue.prices)
    set_price = _asks(catalogue.set_price)
    remove_price = _asks(catalogue.remove_price)
    models = _asks(catalogue.models)
    reload_models = _asks(catalogue.reload_models)
    accuracy = _asks(catalogue.accuracy)
    accuracy_points = _lists(catalogue.accuracy_points)
    begin = _works(operations.begin)
    wait = _works(operations.wait)
    operation = _asks(operations.operation)
    remove_operation = _asks(operations.remove_operation)
    operations = _lists(operations.operations)
    health = _asks(catalogue.health)

    async def ask(self, call: Call[T]) -> T:
        """Make a call of your own, for a route that has no method here.

        Raises
        ------
        NoAnswerError
            No answer came that can be used.
        """
        return await self._drive(self._session.answer(call))

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _drive(self, flow: Flow[T]) -> T:
        reply, failure = None, None
        while True:
            try:
                step = flow.send(reply) if failure is None else flow.throw(failure)
            except StopIteration as end:
                answer: T = end.value
                return answer
            reply, failure = None, None
            try:
                reply = await self._do(step)
            except NoAnswerError as error:
                failure = error

    async def _do(self, step: Send | Wait) -> Reply | None:
        if isinstance(step, Wait):
            await asyncio.sleep(step.seconds)
            return None
        return await self._transport.send(step.request, step.timeout_s)
