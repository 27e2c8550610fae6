"""The client: every verb once, whether it blocks or is awaited, and the driver that blocks."""

from __future__ import annotations

import inspect
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from functools import cache
from types import MethodType
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

from perfmodel.client import catalogue, feedback, keeping, learning, measuring, questions, shadowing
from perfmodel.client.errors import NoAnswerError
from perfmodel.client.protocol.messages import Call, Fallback, Page, Reply, Send, Task, Wait
from perfmodel.client.protocol.session import Session
from perfmodel.client.protocol.wire import Transport, Wire

P = ParamSpec("P")
T = TypeVar("T")
Sockets = TypeVar("Sockets")


class _Asks(Generic[P, T]):
    """A method that makes the calls that a function builds, and returns what they answer."""

    def __init__(self, build: Callable[P, Call[T] | Task[T]]) -> None:
        self._build = build

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, client: Awaiting[Any], owner: type
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return _method(self._build, "_answer", client)


class _Lists(Generic[P, T]):
    """A method that iterates over the pages of a list, and fetches each when it is come to."""

    def __init__(self, build: Callable[P, Call[Page[T]]]) -> None:
        self._build = build

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: Awaiting[Any], owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return _method(self._build, "_items", client)


def _method(build: Callable[..., Any], way: str, client: Any) -> Callable[..., Any]:
    function = _function(build, way)
    return function if client is None else MethodType(function, client)


@cache
def _function(build: Callable[..., Any], way: str) -> Callable[..., Any]:
    """Return a method with the name, the words and the parameters of what builds its calls."""

    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, way)(build(*args, **kwargs))

    signature = inspect.signature(build)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    vars(method)["__signature__"] = signature.replace(
        parameters=(own, *signature.parameters.values()), return_annotation=inspect.Signature.empty
    )
    method.__name__, method.__qualname__ = build.__name__, build.__qualname__
    method.__doc__ = build.__doc__
    return method


class Verbs(ABC, Generic[Sockets]):
    """What every client can be asked, and how it asks; see :class:`Client`."""

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
        transport: Sockets | None = None,
    ) -> None:
        self._session = Session(
            url,
            api_key=api_key,
            timeout_s=timeout_s,
            retries=retries,
            fallback=fallback,
            rest_s=rest_s,
            compress_above_bytes=compress_above_bytes,
        )
        self._connect(tls, transport)

    @abstractmethod
    def _connect(self, tls: ssl.SSLContext | None, transport: Sockets | None) -> None:
        """Make what the driver sends over."""

    predict = _Asks(questions.predict)
    matrix = _Asks(questions.matrix)
    curve = _Asks(questions.curve)
    rank = _Asks(questions.rank)
    rank_plans = _Asks(questions.rank_plans)
    explain = _Asks(questions.explain)
    placements = _Asks(questions.placements)
    kernels = _Asks(questions.kernels)
    register_job = _Asks(keeping.register_job)
    job = _Asks(keeping.job)
    jobs = _Lists(keeping.jobs)
    jobs_page = _Asks(keeping.jobs)
    graph = _Asks(keeping.graph)
    graph_json = _Asks(keeping.graph_json)
    graphs = _Lists(keeping.graphs)
    correct_graph = _Asks(keeping.correct_graph)
    upload_graph = _Asks(keeping.upload_graph)
    upload_onnx = _Asks(keeping.upload_onnx)
    observe = _Asks(keeping.observe)
    observations = _Lists(keeping.observations)
    observations_page = _Asks(keeping.observations)
    remove_observations = _Asks(keeping.remove_observations)
    exclude_observations = _Asks(keeping.exclude_observations)
    accept_observations = _Asks(keeping.accept_observations)
    accelerators = _Asks(catalogue.accelerators)
    accelerator = _Asks(catalogue.accelerator)
    put_accelerator = _Asks(catalogue.put_accelerator)
    remove_accelerator = _Asks(catalogue.remove_accelerator)
    put_alias = _Asks(catalogue.put_alias)
    remove_alias = _Asks(catalogue.remove_alias)
    prices = _Asks(catalogue.prices)
    set_price = _Asks(catalogue.set_price)
    remove_price = _Asks(catalogue.remove_price)
    models = _Asks(catalogue.models)
    reload_models = _Asks(catalogue.reload_models)
    model = _Asks(catalogue.model)
    model_differences = _Asks(catalogue.model_differences)
    promote_model = _Asks(catalogue.promote_model)
    rollback_model = _Asks(catalogue.rollback_model)
    collect_models = _Asks(catalogue.collect_models)
    shadow = _Asks(shadowing.shadow)
    start_shadow = _Asks(shadowing.start_shadow)
    refuse_model = _Asks(shadowing.refuse_model)
    drift = _Asks(feedback.drift)
    acknowledge_alarms = _Asks(feedback.acknowledge_alarms)
    drift_campaigns = _Asks(feedback.drift_campaigns)
    accuracy = _Asks(catalogue.accuracy)
    accuracy_points = _Lists(catalogue.accuracy_points)
    begin = _Asks(keeping.begin)
    wait = _Asks(keeping.wait)
    operation = _Asks(keeping.operation)
    remove_operation = _Asks(keeping.remove_operation)
    operations = _Lists(keeping.operations)
    create_campaign = _Asks(measuring.create_campaign)
    campaign = _Asks(measuring.campaign)
    campaigns = _Lists(measuring.campaigns)
    campaign_results = _Lists(measuring.campaign_results)
    cancel_campaign = _Asks(measuring.cancel_campaign)
    wait_for_campaign = _Asks(measuring.wait_for_campaign)
    retrain = _Asks(learning.retrain)
    retraining = _Asks(learning.retraining)
    retrainings = _Lists(learning.retrainings)
    retraining_log = _Asks(learning.retraining_log)
    cancel_retraining = _Asks(learning.cancel_retraining)
    wait_for_retraining = _Asks(learning.wait_for_retraining)
    health = _Asks(catalogue.health)


class Awaiting(Verbs[Sockets]):
    """A client of coroutines; its driver is in :mod:`perfmodel.client.async_client`."""


class Client(Verbs[Transport]):
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

    def _connect(self, tls: ssl.SSLContext | None, transport: Transport | None) -> None:
        self._transport = transport or Wire(tls=tls)

    def ask(self, call: Call[T]) -> T:
        """Make a call of your own, for a route that has no method here.

        Raises
        ------
        NoAnswerError
            No answer came that can be used.
        """
        return self._answer(call)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _items(self, call: Call[Page[T]] | None) -> Iterator[T]:
        while call is not None:
            page = self.ask(call)
            yield from page.items
            call = call.after(page)

    def _answer(self, asked: Call[T] | Task[T]) -> T:
        flow = self._session.flow(asked)
        came: Reply | NoAnswerError | None = None
        while True:
            try:
                step = flow.throw(came) if isinstance(came, NoAnswerError) else flow.send(came)
            except StopIteration as end:
                answer: T = end.value
                return answer
            try:
                came = self._do(step)
            except NoAnswerError as error:
                came = error

    def _do(self, step: Send | Wait) -> Reply | None:
        if isinstance(step, Wait):
            time.sleep(step.seconds)
            return None
        return self._transport.send(step.request, step.timeout_s)
