"""The kube-scheduler extender: ``filter`` and ``prioritize``.

Answers have the names and the form that the scheduler decodes: ``Nodes`` where it sent nodes,
``NodeNames`` where it sent names. What is not known scores the same on every node and excludes
none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field, RootModel

from perfmodel.errors import InvalidInputError
from perfmodel.json_values import shown
from service.adapters.kubernetes.cluster import Cluster, cluster_of
from service.adapters.kubernetes.fields import (
    as_object,
    as_object_field,
    field,
    part,
    parts,
)
from service.adapters.kubernetes.pods import POD_EXAMPLE, Pod, read_pod
from service.adapters.kubernetes.rates import Cell
from service.adapters.kubernetes.scores import NEUTRAL, extender_score, ratios
from service.http.bodies import json_of, json_response
from service.http.documentation import json_body, problems

router = APIRouter(prefix="/kubernetes/scheduler", tags=["kubernetes"])

ARGS_EXAMPLE: dict[str, Any] = {
    "Pod": POD_EXAMPLE,
    "Nodes": {
        "metadata": {},
        "items": [
            {"metadata": {"name": name, "labels": {"nvidia.com/gpu.product": product}}}
            for name, product in (("n1", "NVIDIA-H100-80GB-HBM3"), ("n2", "Tesla-T4"))
        ],
    },
    "NodeNames": None,
}

BODY = json_body(
    {"type": "object", "description": "ExtenderArgs of kube-scheduler."},
    {"two nodes": ARGS_EXAMPLE},
)


class HostPriority(BaseModel):
    """The score of one node."""

    Host: str
    Score: Annotated[int, Field(ge=0, le=10)]


class HostPriorityList(RootModel[list[HostPriority]]):
    """Scores of all candidates, in the order in which they came."""


class ExtenderFilterResult(BaseModel):
    """Which candidates are left, in the form of the request, and why others are not."""

    Nodes: dict[str, Any] | None
    NodeNames: list[str] | None
    FailedNodes: dict[str, str]
    FailedAndUnresolvableNodes: dict[str, str]
    Error: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Args:
    """What the scheduler sent.

    Parameters
    ----------
    nodes : mapping or None
        The v1.NodeList that came; None: names came.
    """

    pod: Pod
    names: list[str]
    nodes: Mapping[str, Any] | None


def read_args(body: Any, cluster: Cluster) -> Args:
    """Read ExtenderArgs; nodes that come along are remembered.

    Raises
    ------
    InvalidInputError
        There is no pod, or there are neither nodes nor names: to leave no node of none would read
        as that the pod fits nowhere.
    """
    args = as_object(body, "ExtenderArgs")
    pod = read_pod(as_object_field(args, "Pod", "ExtenderArgs"))
    names = field(args, "NodeNames")
    if names is not None:
        cluster.nodes.refresh()
        return Args(pod=pod, names=_names(names), nodes=None)
    nodes = as_object_field(args, "Nodes", "ExtenderArgs without NodeNames")
    return Args(pod=pod, names=cluster.nodes.see(parts(nodes, "items")), nodes=nodes)


def _names(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise InvalidInputError(
            f"NodeNames is a list of names; got {shown(value)}.", pointer="/NodeNames"
        )
    return value


def host_priorities(args: Args, cells: Sequence[Cell | None]) -> list[dict[str, Any]]:
    """Return a HostPriorityList: every candidate once, with its score."""
    shares = ratios(cells, may_exclude=args.pod.may_exclude)
    return [
        {"Host": name, "Score": NEUTRAL if share is None else extender_score(share)}
        for name, share in zip(args.names, shares, strict=True)
    ]


def filter_result(args: Args, cells: Sequence[Cell | None]) -> dict[str, Any]:
    """Return an ExtenderFilterResult in the form of the request.

    A node without the memory is named twice: among those that no preemption can help, and among
    the failed ones for schedulers that read only these.
    """
    failed = {
        name: cell.shortage
        for name, cell in zip(args.names, cells, strict=True)
        if cell is not None and not cell.fits and args.pod.may_exclude
    }
    passed: Callable[[str], bool] = lambda name: name not in failed  # noqa: E731
    return {
        "Nodes": None if args.nodes is None else _kept(args.nodes, passed),
        "NodeNames": [n for n in args.names if passed(n)] if args.nodes is None else None,
        "FailedNodes": failed,
        "FailedAndUnresolvableNodes": failed,
        "Error": "",
    }


def _kept(nodes: Mapping[str, Any], passed: Callable[[str], bool]) -> dict[str, Any]:
    items = [
        node for node in parts(nodes, "items") if passed(str(part(node, "metadata").get("name")))
    ]
    rest = {key: value for key, value in nodes.items() if key.casefold() != "items"}
    return {**rest, "items": items}


@router.post(
    "/prioritize",
    summary="Scores of nodes for a pod, 0 to 10, for kube-scheduler",
    responses={200: {"model": HostPriorityList}, **problems(400, 413, 415, 422)},
    openapi_extra=BODY,
)
async def prioritize(request: Request) -> Response:
    """Score each candidate by the throughput that its job is predicted to reach there."""
    cluster = cluster_of(request)
    args = read_args(await json_of(request), cluster)
    cells = await cluster.judge_nodes(args.pod, args.names, f"{router.prefix}/prioritize")
    return json_response(host_priorities(args, cells))


@router.post(
    "/filter",
    summary="Nodes on which a pod's job fits into memory, for kube-scheduler",
    responses={200: {"model": ExtenderFilterResult}, **problems(400, 413, 415, 422)},
    openapi_extra=BODY,
)
async def filter_nodes(request: Request) -> Response:
    """Leave out the candidates on which the job is predicted to run out of memory."""
    cluster = cluster_of(request)
    args = read_args(await json_of(request), cluster)
    cells = await cluster.judge_nodes(args.pod, args.names, f"{router.prefix}/filter")
    return json_response(filter_result(args, cells))
