"""The client that blocks."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

from perfmodel.client import catalogue, keeping, operations, questions
from perfmodel.client.errors import NoAnswerError
from perfmodel.client.messages import Call, Fallback, Flow, Page, Reply, Send, Task, Wait
from perfmodel.client.retrying import Retrying
from perfmodel.client.session import Manners, Session
from perfmodel.client.verbs import bound_like
from perfmodel.client.wire import Transport, Wire

P = ParamSpec("P")
T = TypeVar("T")


def _asks(build: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    """Make a method of a call."""

    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.ask(build(*args, **kwargs))

    return bound_like(build, method)


def _works(build: Callable[P, Task[T]]) -> Callable[Concatenate[Client, P], T]:
    """Make a method of several calls."""

    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._drive(self._session.task(build(*args, **kwargs)))

    return bound_like(build, method)


def _lists(build: Callable[P, Call[Page[T]]]) -> Callable[Concatenate[Client, P], Iterator[T]]:
    """Make a method of the pages of a list, which fetches each when it is come to."""

    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        call: Call[Page[T]] | None = build(*args, **kwargs)
        while call is not None:
            page = self.ask(call)
            yield from page.items
            call = call.after(page)

    return bound_like(build, method)


class Client:
    """A service, asked over HTTP; needs nothing but the standard library, safe among threads.

    >>> with Client("http://127.0.0.1:8000", api_key="pmk_...") as service:  # doctest: +SKIP
    ...     found = service.predict(
    ...         {"model": "timm/resnet50", "mode": "training", "batch_size": 64}, "8xT4")
    ...     found.throughput.samples_per_second

    Parameters
    ----------
    url : str or sequence of str
        ``"http://127.0.0.1:8000"``. Of several hosts that share a database, the next is asked where
        one fails.
    timeout_s : float
        For a whole call: all attempts, and the waits between them.
    retries : int
        How often a request is sent again after 429, 502, 503, 504 or a connection that fails; with
        exponential back-off and jitter, never before ``Retry-After``.
    fallback : callable or None
        Is given a call that the service did not answer, and returns JSON as the service would have,
        or None. What the service refuses as wrong goes past it.
    rest_s : float
        After a call without an answer, how long none is made: callers then wait for nothing.
    compress_above_bytes : int or None
        Longer bodies are sent compressed; None: none are.
    tls : ssl.SSLContext or None
        For certificates of an authority of your own.
    transport : Transport or None
        In the place of connections.

    Raises
    ------
    InvalidInputError
        A URL that is none.
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
        transport: Transport | None = None,
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
        self._transport = transport or Wire(tls=tls)

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

    def ask(self, call: Call[T]) -> T:
        """Make a call of your own, for a route that has no method here.

        Raises
        ------
        NoAnswerError
            No answer came that can be used.
        """
        return self._drive(self._session.answer(call))

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _drive(self, flow: Flow[T]) -> T:
        reply, failure = None, None
        while True:
            try:
                step = flow.send(reply) if failure is None else flow.throw(failure)
            except StopIteration as end:
                answer: T = end.value
                return answer
            reply, failure = None, None
            try:
                reply = self._do(step)
            except NoAnswerError as error:
                failure = error

    def _do(self, step: Send | Wait) -> Reply | None:
        if isinstance(step, Wait):
            time.sleep(step.seconds)
            return None
        return self._transport.send(step.request, step.timeout_s)
