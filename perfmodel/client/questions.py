"""Questions about throughput, as calls: what each sends, and what it is answered.

Every function here is a method of :class:`~perfmodel.client.Client` and, awaited, of
:class:`~perfmodel.client.AsyncClient`. A job is a mapping as in ``docs/http.md`` or the ``ref`` of
a registered one; a placement is short, ``"8xA100-SXM4-80GB"``, or long. What is None is not sent:
the service then takes its default.

Each but :func:`placements` and :func:`kernels` takes ``pin_model``, ``deadline_ms`` and
``allow_fallback`` as :func:`predict` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from perfmodel.client.answers import (
    Curve,
    Estimate,
    Explanation,
    Kernels,
    Matrix,
    Placements,
    PlanRanking,
    Ranking,
)
from perfmodel.client.forms import (
    AnyJob,
    AnyPlacement,
    Constraints,
    Kernel,
    Network,
    Seen,
    SeenInMatrix,
)
from perfmodel.client.protocol.messages import Call

T = TypeVar("T")


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
    return _question("/v1/predict", Estimate, locals())


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
    return _question("/v1/matrix", Matrix, locals(), tagged=True, large=True)


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
    network, link
        Between hosts, and between the accelerators of a host.
    """
    return _question("/v1/curve", Curve, locals(), tagged=True, large=True)


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
    """
    return _question("/v1/rank", Ranking, locals(), large=True)


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
    body = _stated(locals())
    search = {name: body.pop(name) for name in ("global_batch_size", "most") if name in body}
    return _question("/v1/rank", PlanRanking, {**body, "search": search}, large=True)


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

    The operators are in ``most`` (50) groups of equal ones at most.
    """
    return _question("/v1/explain", Explanation, locals(), large=True)


def placements(placements: Sequence[AnyPlacement]) -> Call[Placements]:
    """Ask how placements are read, and what a job holds by them.

    ``errors`` says what is wrong with those that are not.
    """
    return _question("/v1/placements", Placements, locals(), large=True)


def kernels(kernels: Sequence[Kernel], accelerators: Sequence[str]) -> Call[Kernels]:
    """Ask how long single kernels, and collectives, take by their shape.

    Every pair is answered; ``errors`` says what is wrong with those that are not.
    """
    return _question("/v1/kernels", Kernels, locals(), large=True)


#: What is sent as a list, whatever sequence it is given as.
_LISTS = frozenset({"jobs", "placements", "counts", "observations", "kernels", "accelerators"})


def _question(
    path: str,
    kind: type[T],
    fields: Mapping[str, Any],
    *,
    tagged: bool = False,
    large: bool = False,
) -> Call[T]:
    """Return the call of a question whose arguments are the fields of its body."""
    body = _stated(fields)
    return Call(method="POST", path=path, kind=kind, body=body, tagged=tagged, large=large)


def _stated(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: list(value) if name in _LISTS else value
        for name, value in fields.items()
        if value is not None
    }
