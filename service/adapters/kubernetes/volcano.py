"""Volcano's extender dialect: ``prioritize``, ``predicate``, ``jobEnqueueable``, sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

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
from service.adapters.kubernetes.scores import NEUTRAL_PERCENT, percent_score, ratios
from service.http.bodies import json_of, json_response
from service.http.documentation import json_body, problems

router = APIRouter(prefix="/kubernetes/volcano", tags=["kubernetes"])

#: Volcano's codes of a status: it may be scheduled; it may not, and preemption changes nothing.
_SUCCESS, _UNRESOLVABLE = 0, 3
#: Volcano's votes on a job: permit, reject, or leave it to others.
_ABSTAIN = 0
#: How long a prediction may take that a session has asked for in advance.
_IN_ADVANCE_S = 60.0

_TASK: dict[str, Any] = {
    "UID": "t1", "Job": "default/train", "Name": "train-0", "Namespace": "default",
    "Pod": {
        "metadata": POD_EXAMPLE["metadata"],
        "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
    },
}  # fmt: skip
_NODES: list[dict[str, Any]] = [
    {
        "Name": name,
        "Node": {"metadata": {"name": name, "labels": {"nvidia.com/gpu.product": product}}},
    }
    for name, product in (("n1", "NVIDIA-H100-80GB-HBM3"), ("n2", "Tesla-T4"))
]


class PrioritizeResponse(BaseModel):
    """Scores of nodes for Volcano."""

    nodeScore: dict[str, float]  # noqa: N815
    errorMessage: str  # noqa: N815


class PredicateResponse(BaseModel):
    """Whether a node will do for Volcano; the text is empty where it does."""

    status: str
    code: int


class JobEnqueueableResponse(BaseModel):
    """A vote for Volcano: 1 permits, -1 rejects, 0 abstains."""

    status: Literal[-1, 0, 1]


class SessionResponse(BaseModel):
    """Nothing."""


def _body(what: str, example: Mapping[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "description": f"{what} of Volcano's extender plugin."}
    return json_body(schema, {"one": example})


def task_pod(task: Any) -> Pod:
    """Return the pod of a TaskInfo."""
    return read_pod(part({"Pod": field(task, "Pod")}, "Pod") if isinstance(task, dict) else {})


def _nodes(args: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the NodeInfos of a request; Go writes null for none."""
    nodes = field(args, "nodes")
    if not isinstance(nodes, list) and not (nodes is None and "nodes" in args):
        raise InvalidInputError(
            f"PrioritizeRequest has a list 'nodes'; got {shown(nodes)}.", pointer="/nodes"
        )
    return parts(args, "nodes")


def _see(cluster: Cluster, infos: Sequence[Any]) -> list[str]:
    """Remember the nodes of NodeInfos; returns their names."""
    names = []
    for info in infos:
        if not isinstance(info, dict):
            continue
        node = field(info, "Node")
        cluster.nodes.see([node] if isinstance(node, dict) else [])
        name = field(info, "Name") or part(node, "metadata").get("name")
        if isinstance(name, str):
            names.append(name)
    return names


@router.post(
    "/prioritize",
    summary="Scores of nodes for a task, 0 to 100, for Volcano",
    responses={200: {"model": PrioritizeResponse}, **problems(400, 413, 415, 422)},
    openapi_extra=_body("PrioritizeRequest", {"task": _TASK, "nodes": _NODES}),
)
async def prioritize(request: Request) -> Response:
    """Score each node by the throughput of the task's job there, in percent of the best."""
    cluster = cluster_of(request)
    args = as_object(await json_of(request), "PrioritizeRequest")
    pod = task_pod(as_object_field(args, "task", "PrioritizeRequest"))
    names = _see(cluster, _nodes(args))
    cells = await cluster.judge_nodes(pod, names, f"{router.prefix}/prioritize")
    shares = ratios(cells, may_exclude=pod.may_exclude)
    scores = {
        name: NEUTRAL_PERCENT if share is None else percent_score(share)
        for name, share in zip(names, shares, strict=True)
    }
    # An empty map is an answer; a missing one is an error to Volcano.
    return json_response({"nodeScore": scores, "errorMessage": ""})


@router.post(
    "/predicate",
    summary="Whether a task's job fits into the memory of a node, for Volcano",
    responses={200: {"model": PredicateResponse}, **problems(400, 413, 415, 422)},
    openapi_extra=_body("PredicateRequest", {"task": _TASK, "node": _NODES[0]}),
)
async def predicate(request: Request) -> Response:
    """Refuse a node on which the job is predicted to run out of memory."""
    cluster = cluster_of(request)
    args = as_object(await json_of(request), "PredicateRequest")
    pod = task_pod(as_object_field(args, "task", "PredicateRequest"))
    node = field(args, "node")
    names = _see(cluster, [node] if isinstance(node, dict) else [])
    cells = await cluster.judge_nodes(pod, names, f"{router.prefix}/predicate")
    refused = [cell for cell in cells if cell and not cell.fits and pod.may_exclude]
    # The text of the error has the name "status" on Volcano's wire.
    if refused:
        return json_response({"status": refused[0].shortage, "code": _UNRESOLVABLE})
    return json_response({"status": "", "code": _SUCCESS})


@router.post(
    "/jobEnqueueable",
    summary="A vote on a job that abstains, for Volcano",
    responses={200: {"model": JobEnqueueableResponse}, **problems(400, 413, 415, 422)},
    openapi_extra=_body("JobEnqueueableRequest", {"job": {"UID": "default/train"}}),
)
async def job_enqueueable(request: Request) -> Response:
    """Leave the decision to the other plugins: a queue is no matter of throughput."""
    as_object(await json_of(request), "JobEnqueueableRequest")
    return json_response({"status": _ABSTAIN})


@router.post(
    "/onSessionOpen",
    summary="The snapshot of a cycle, for Volcano",
    responses={200: {"model": SessionResponse}, **problems(400, 413, 415, 422)},
    openapi_extra=_body(
        "OnSessionOpenRequest",
        {"Jobs": {"j1": {"Tasks": {"t1": _TASK}}}, "Nodes": {"n1": _NODES[0]}, "Queues": {}},
    ),
)
async def on_session_open(request: Request) -> Response:
    """Remember the nodes and predict the jobs of a cycle before its tasks are asked about."""
    cluster = cluster_of(request)
    session = as_object(await json_of(request), "OnSessionOpenRequest")
    nodes = field(session, "Nodes")
    _see(cluster, list(nodes.values()) if isinstance(nodes, dict) else [])
    _predict_in_advance(request, cluster, _pods_of(field(session, "Jobs")))
    return json_response({})


@router.post(
    "/onSessionClose",
    summary="The end of a cycle, for Volcano",
    responses={200: {"model": SessionResponse}},
    openapi_extra=_body("OnSessionCloseRequest", {}),
)
async def on_session_close(request: Request) -> Response:
    """Do nothing; nothing is kept for a cycle alone."""
    return json_response({})


def _pods_of(jobs: Any) -> list[Pod]:
    """Return the different pods of the tasks of some JobInfos."""
    found: dict[Pod, None] = {}
    for job in jobs.values() if isinstance(jobs, dict) else ():
        tasks = field(job, "Tasks") if isinstance(job, dict) else None
        for task in tasks.values() if isinstance(tasks, dict) else ():
            found[task_pod(task)] = None
    return list(found)


def _predict_in_advance(request: Request, cluster: Cluster, pods: list[Pod]) -> None:
    """Predict one pod after the other, unless the pods of an earlier cycle are not through."""
    state = request.app.state
    running: asyncio.Task[None] | None = getattr(state, "volcano_session", None)
    if running is not None and not running.done():
        return

    async def predict() -> None:
        for pod in pods:
            await cluster.judge(pod, cluster.nodes.labels(), wait_s=_IN_ADVANCE_S)

    # Kept, since the event loop itself holds tasks only weakly.
    state.volcano_session = asyncio.get_running_loop().create_task(predict())
