"""Who answers a command: the models of this machine, or a running service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click
from click.core import ParameterSource

from perfmodel.cli.failures import problem
from perfmodel.cli.output import tell
from perfmodel.errors import InvalidInputError
from perfmodel.json_values import as_object

if TYPE_CHECKING:
    from perfmodel.client import Client
    from perfmodel.graph.ir import Graph
    from perfmodel.graph.job import Job


class There:
    """A running service answers."""

    problems: Sequence[str] = ()

    def __init__(self, client: Client) -> None:
        self._client = client

    def predict(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one question."""
        from perfmodel.client import Call
        from perfmodel.client.answers import Estimate

        body = dict(as_object(request, "", what="A request"))
        _refuse_local(_named(body.get("placement")))
        call: Call[Estimate] = Call(method="POST", path="/v1/predict", kind=Estimate, body=body)
        return asdict(self._client.ask(call))

    def compare(self, job: Job, placements: Sequence[str]) -> list[dict[str, Any]]:
        """Answer for each placement."""
        from perfmodel.client import RefusedError

        plain, rows = _plain_job(job), []
        for text in placements:
            try:
                _refuse_local([text])
                found = asdict(self._client.predict(plain, text))
                rows.append({"placement": text, **found})
            except (RefusedError, InvalidInputError) as error:
                rows.append({"placement": text, "error": problem(error)})
        return rows

    def curve(self, job: Job, question: Mapping[str, Any]) -> dict[str, Any]:
        """Answer for growing counts."""
        _refuse_local([question["accelerator"]])
        return asdict(self._client.curve(_plain_job(job), **question))

    def kernels(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Answer for every pair of a kernel and an accelerator."""
        _refuse_local(question["accelerators"])
        return asdict(self._client.kernels(**question))

    def accelerators(self, kind: str) -> list[str]:
        """Those of its catalogue, with an operator's own."""
        known = self._client.accelerators().accelerators
        return [one.name for one in known if kind in ("all", one.kind)]


def _plain_job(job: Job) -> Any:
    from perfmodel.requests import job_to_dict

    return job_to_dict(job)


def _named(placement: object) -> list[str]:
    """Return the text of a placement, or the accelerators of its long form, as far as it is one."""
    if isinstance(placement, str):
        return [placement]
    nodes = placement.get("nodes") if isinstance(placement, Mapping) else None
    listed = nodes if isinstance(nodes, list) else []
    return [str(node.get("accelerator")) for node in listed if isinstance(node, Mapping)]


def _refuse_local(names: Sequence[str]) -> None:
    """Refuse to ask a service about the machine that a command runs on."""
    from perfmodel.devices.catalog import LOCAL_NAMES

    for name in names:
        if name.strip().casefold() in LOCAL_NAMES:
            raise InvalidInputError(
                f"{name!r} is the machine that answers, and a service does. Let this one answer: "
                "leave --service out, and PERFMODEL_URL empty.",
                pointer="/placement",
            )


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


def _models_say_here(settings: Mapping[str, Any]) -> bool:
    """Tell whether ``--models`` lets this machine answer, though a service is named elsewhere.

    Raises
    ------
    InvalidInputError
        The service is named beside it, and is not to be fallen back from.
    """
    context = click.get_current_context()
    stated = {
        name
        for name in ("models", "service")
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    if not settings["service"] or "models" not in stated or settings["fall_back"]:
        return False
    if "service" in stated:
        raise InvalidInputError(
            "--models says with what this machine answers, and --service who does in its place. "
            "Leave one out, or add --fall-back."
        )
    tell(f"With --models this machine answers, and not {settings['service']}.")
    return True


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
    url = None if _models_say_here(settings) else settings["service"]
    if url and graph is not None:
        tell(f"{url} does not know this graph; this machine answers.")
    elif url:
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
            tell(f"{url} does not answer: {error.message} This machine answers.")
    from perfmodel.cli.asking.here import Here, estimator_here

    models = settings["models"]
    return ask(Here(estimator_here(models, graph), models))
