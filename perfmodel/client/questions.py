"""Questions about throughput, as calls: what each sends, and what it is answered.

Every function here is a method of :class:`~perfmodel.client.Client` and, awaited, of
:class:`~perfmodel.client.AsyncClient`. A job is a mapping as in ``docs/http.md`` or the ``ref`` of
a registered one; a placement is short, ``"8xA100-SXM4-80GB"``, or long. What is None is not sent:
the service then takes its default.

Each takes ``pin_model``, ``deadline_ms`` and ``allow_fallback`` as :func:`predict` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perfmodel.client.answers import Curve, Estimate, Matrix, PlanRanking, Ranking
from perfmodel.client.explanations import Explanation
from perfmodel.client.forms import (
    AnyJob,
    AnyPlacement,
    Constraints,
    Network,
    Seen,
    SeenInMatrix,
)
from perfmodel.client.messages import Call


def predict(
    job: AnyJob,
    placement: AnyPlacement,
    *,
    observations: Sequence[Seen] | None = None,
    pin_model: str | None = None,
    deadline_ms: float | None = None,
    allow_fallback: bool | None = None,
) -> Call[Estimate]:
    """Ask what throughput a job will reach on a placement.

    Parameters
    ----------
    observations : sequence of mapping or None
        Measured steps of the job that count for this answer alone.
    pin_model : str or None
        The one version that may answer, or ``analytical``; None: the one that serves.
    deadline_ms : float or None
        How long the service may take; then its analytical model answers, and says so.
    allow_fallback : bool or None
        False: rather no answer than one of the analytical model.
    """
    body = _stated(
        job=job,
        placement=placement,
        observations=_list(observations),
        pin_model=pin_model,
        deadline_ms=deadline_ms,
        allow_fallback=allow_fallback,
    )
    return Call(method="POST", path="/v1/predict", kind=Estimate, body=body)


def matrix(
    jobs: Sequence[AnyJob],
    placements: Sequence[AnyPlacement],
    *,
    observations: Sequence[SeenInMatrix] | None = None,
    pin_model: str | None = None,
    deadline_ms: float | None = None,
    allow_fallback: bool | None = None,
) -> Call[Matrix]:
    """Ask about every pair of some jobs and some placements, answered by one model version.

    A bad job costs its row, a bad placement its column: ``Matrix.problem`` says why. An answer that
    has not changed is not sent again.
    """
    body = _stated(
        jobs=list(jobs),
        placements=list(placements),
        observations=_list(observations),
        pin_model=pin_model,
        deadline_ms=deadline_ms,
        allow_fallback=allow_fallback,
    )
    return Call(method="POST", path="/v1/matrix", kind=Matrix, body=body, tagged=True, large=True)


def curve(
    job: AnyJob,
    accelerator: str,
    *,
    counts: Sequence[int] | None = None,
    most: int | None = None,
    accelerators_per_host: int | None = None,
    network: str | Network | None = None,
    link: str | None = None,
    zero_stage: int | None = None,
    observations: Sequence[Seen] | None = None,
    pin_model: str | None = None,
    deadline_ms: float | None = None,
    allow_fallback: bool | None = None,
) -> Call[Curve]:
    """Ask for a job's throughput over the number of accelerators, data parallel.

    Parameters
    ----------
    counts : sequence of int or None
        None: 1, 2, 4, ... up to ``most`` (64).
    accelerators_per_host : int or None
        Hosts are filled one by one (8).
    network : str, mapping or None
        Between hosts.
    link : str or None
        Between the accelerators of a host.
    pin_model, deadline_ms, allow_fallback
        As of :func:`predict`.
    """
    body = _stated(
        job=job,
        accelerator=accelerator,
        counts=_list(counts),
        most=most,
        accelerators_per_host=accelerators_per_host,
        network=network,
        link=link,
        zero_stage=zero_stage,
        observations=_list(observations),
        pin_model=pin_model,
        deadline_ms=deadline_ms,
        allow_fallback=allow_fallback,
    )
    return Call(method="POST", path="/v1/curve", kind=Curve, body=body, tagged=True, large=True)


def rank(
    job: AnyJob,
    placements: Sequence[AnyPlacement],
    *,
    by: str | None = None,
    most: int | None = None,
    constraints: Constraints | None = None,
    prices: Mapping[str, float] | None = None,
    observations: Sequence[Seen] | None = None,
    pin_model: str | None = None,
    deadline_ms: float | None = None,
    allow_fallback: bool | None = None,
) -> Call[Ranking]:
    """Ask which placements are best.

    Parameters
    ----------
    by : str or None
        ``throughput``, ``goodput``, ``cost`` or ``energy``.
    most : int or None
        How many of the best (10).
    prices : mapping of str to float or None
        Of one accelerator and hour; they stand over those that the service keeps.
    pin_model, deadline_ms, allow_fallback
        As of :func:`predict`.
    """
    body = _stated(
        job=job,
        placements=list(placements),
        by=by,
        most=most,
        constraints=constraints,
        prices=prices,
        observations=_list(observations),
        pin_model=pin_model,
        deadline_ms=deadline_ms,
        allow_fallback=allow_fallback,
    )
    return Call(method="POST", path="/v1/rank", kind=Ranking, body=body, large=True)


def rank_plans(
    job: AnyJob,
    placement: AnyPlacement,
    *,
    global_batch_size: int | None = None,
    most: int | None = None,
    pin_model: str | None = None,
    deadline_ms: float | None = None,
    allow_fallback: bool | None = None,
) -> Call[PlanRanking]:
    """Ask which parallel plans of a transformer are best on some hardware."""
    body = _stated(
        job=job,
        placement=placement,
        search=_stated(global_batch_size=global_batch_size, most=most),
        pin_model=pin_model,
        deadline_ms=deadline_ms,
        allow_fallback=allow_fallback,
    )
    return Call(method="POST", path="/v1/rank", kind=PlanRanking, body=body, large=True)


def explain(
    job: AnyJob,
    placement: AnyPlacement,
    *,
    most: int | None = None,
    observations: Sequence[Seen] | None = None,
    pin_model: str | None = None,
    deadline_ms: float | None = None,
    allow_fallback: bool | None = None,
) -> Call[Explanation]:
    """Ask why an answer is what it is: operators, roofline, and every factor on the way.

    Parameters
    ----------
    most : int or None
        How many groups of equal operators (50).
    pin_model, deadline_ms, allow_fallback
        As of :func:`predict`.
    """
    body = _stated(
        job=job,
        placement=placement,
        most=most,
        observations=_list(observations),
        pin_model=pin_model,
        deadline_ms=deadline_ms,
        allow_fallback=allow_fallback,
    )
    return Call(method="POST", path="/v1/explain", kind=Explanation, body=body, large=True)


def _stated(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _list(values: Sequence[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)
