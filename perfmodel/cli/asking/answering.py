"""Who answers a command: the models of this machine, or a running service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from perfmodel.cli.output import tell

if TYPE_CHECKING:
    from perfmodel.graph.ir import Graph
    from perfmodel.graph.job import Job

T = TypeVar("T")

#: Seconds that a service has for one question; a model that it never saw is captured first.
_TIMEOUT_S = 120.0


class Answers(Protocol):
    """Answers questions with plain JSON values."""

    @property
    def problems(self) -> Sequence[str]:
        """What is wrong with the installation that answers, for people."""

    def predict(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer the body of ``POST /v1/predict`` as that does."""

    def compare(self, job: Job, placements: Sequence[str]) -> list[dict[str, Any]]:
        """Return a row a placement: an answer, or why there is none, as ``error``."""

    def curve(self, job: Job, question: Mapping[str, Any]) -> dict[str, Any]:
        """Answer as ``POST /v1/curve`` does.

        Parameters
        ----------
        question : mapping
            ``accelerator``, ``most``, ``accelerators_per_host``, ``network`` and ``zero_stage``.
        """

    def kernels(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Answer the body of ``POST /v1/kernels`` as that does."""

    def accelerators(self, kind: str) -> list[str]:
        """Return the names of all accelerators of a kind, or of ``all`` kinds."""


def answered(
    settings: Mapping[str, Any], ask: Callable[[Answers], T], graph: Graph | None = None
) -> T:
    """Return the answer of the service that a command names, or else of this machine.

    Parameters
    ----------
    settings : mapping
        ``service``, ``key``, ``fall_back`` and ``models`` of a command.
    ask : callable
        Asks whoever answers; may be called a second time.
    graph : Graph or None
        What is asked about, where that is a graph of this machine, which no service knows.

    Raises
    ------
    NoAnswerError
        The service did not answer, and nobody asked to fall back.
    """
    url = settings["service"]
    if url and graph is not None:
        tell(f"{url} does not know this graph; this machine answers.")
    elif url:
        from perfmodel.cli.asking.there import There
        from perfmodel.client import Client, NoAnswerError, RefusedError

        tell(f"Asking {url}.")
        try:
            with Client(url, api_key=settings["key"], timeout_s=_TIMEOUT_S, retries=1) as client:
                return ask(There(client))
        except RefusedError:
            raise
        except NoAnswerError as error:
            if not settings["fall_back"]:
                tell("With --fall-back this machine answers where the service does not.")
                raise
            tell(f"{url} does not answer ({error.message}); this machine does.")
    from perfmodel.cli.asking.here import Here, estimator_here

    return ask(Here(estimator_here(settings["models"], graph)))
