"""A running service as the one who answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from perfmodel.cli.failures import problem
from perfmodel.errors import InvalidInputError

if TYPE_CHECKING:
    from perfmodel.client import Client
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

        _refuse_local(_named(request.get("placement")))
        call: Call[Estimate] = Call(
            method="POST", path="/v1/predict", kind=Estimate, body=dict(request)
        )
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
