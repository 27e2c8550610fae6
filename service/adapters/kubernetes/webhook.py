"""The mutating admission webhook: AdmissionReview v1 in, a JSON patch out.

What is admitted is never refused here. An object that names no job, or a job that is not known
yet, passes as it is.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping
from typing import Any, Literal

import orjson
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.json_values import shown
from service.adapters.kubernetes.affinity import (
    ALLOWED,
    LEAST_SHARE,
    allowed_flavors,
    exclusions,
    least_share,
    merged,
    preferences,
    rank,
)
from service.adapters.kubernetes.cluster import Cluster, cluster_of
from service.adapters.kubernetes.fields import as_object, part
from service.adapters.kubernetes.pods import (
    EXCLUDE,
    JOB,
    JOB_REF,
    POD_EXAMPLE,
    Pod,
    Template,
    escaped,
    pod_templates,
    read_pod,
)
from service.adapters.kubernetes.rates import read_job
from service.http.bodies import json_of, json_response
from service.http.documentation import json_body, problems

logger = logging.getLogger(__name__)

router = APIRouter(prefix="/kubernetes/admission", tags=["kubernetes"])

#: Where answers are counted.
_ROUTE = "/kubernetes/admission/mutate"

#: What was predicted, for people; says too that a template was patched before.
PREDICTED = "perfmodel/predicted"
#: Said of an annotation that cannot be read.
_LEFT_OUT = "perfmodel: the annotation {0} is left out. {1}"
#: Annotations that pods need from the object they are made by.
_HANDED_DOWN = (JOB, JOB_REF, EXCLUDE)

_EXAMPLE: dict[str, Any] = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "operation": "CREATE",
        "object": {"apiVersion": "v1", "kind": "Pod", **POD_EXAMPLE},
    },
}
_BODY = json_body({"type": "object", "description": "AdmissionReview, v1."}, {"a pod": _EXAMPLE})

_Operations = list[dict[str, Any]]


class AdmissionResponse(BaseModel):
    """What is to be done with an object; the patch is base64 of a JSON patch."""

    uid: str
    allowed: bool
    patchType: Literal["JSONPatch"] | None = None  # noqa: N815
    patch: str | None = None
    warnings: list[str] = []


class AdmissionAnswer(BaseModel):
    """An AdmissionReview with a response."""

    apiVersion: str  # noqa: N815
    kind: Literal["AdmissionReview"]
    response: AdmissionResponse


@router.post(
    "/mutate",
    summary="Node affinity for pods, flavours for Kueue's Workloads",
    responses={200: {"model": AdmissionAnswer}, **problems(400, 413, 415, 422)},
    openapi_extra=_BODY,
)
async def mutate(request: Request) -> Response:
    """Patch what is created so that schedulers prefer the accelerators that suit it."""
    review = as_object(await json_of(request), "An AdmissionReview")
    asked = part(review, "request")
    uid = asked.get("uid")
    if not isinstance(uid, str):
        raise InvalidInputError("An AdmissionReview needs request.uid.", pointer="/request/uid")
    cluster = cluster_of(request)
    cluster.nodes.refresh()
    operations, warnings = await _patch(cluster, asked)
    return json_response(_answer(review, uid, operations, warnings))


def _answer(
    review: Mapping[str, Any], uid: str, operations: _Operations, warnings: list[str]
) -> dict[str, Any]:
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if operations:
        patch = base64.b64encode(orjson.dumps(operations)).decode("ascii")
        response |= {"patchType": "JSONPatch", "patch": patch}
    if warnings:
        response["warnings"] = warnings
    return {
        "apiVersion": review.get("apiVersion") or "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": response,
    }


async def _patch(cluster: Cluster, asked: Mapping[str, Any]) -> tuple[_Operations, list[str]]:
    """Return the patch of an object and what its creator should read; never raises."""
    item = part(asked, "object")
    # The templates of what exists cannot be changed.
    if not item or asked.get("operation", "CREATE") != "CREATE":
        return [], []
    try:
        if item.get("kind") == "Workload":
            return await _workload_patch(cluster, item)
        operations: _Operations = []
        warnings: list[str] = []
        for template in pod_templates(item):
            await _template_patch(cluster, item, template, operations, warnings)
        return operations, list(dict.fromkeys(warnings))
    except Exception:
        # Whatever is wrong here, the object is admitted as it is.
        logger.exception("an object could not be patched")
        return [], []


async def _template_patch(
    cluster: Cluster,
    item: Mapping[str, Any],
    template: Template,
    operations: _Operations,
    warnings: list[str],
) -> None:
    above = part(item, "metadata", "annotations")
    pod = read_pod(template.pod, above)
    own = part(template.pod, "metadata", "annotations")
    if PREDICTED in own or pod.request is None:
        return
    labels = cluster.nodes.labels()
    wait_s = cluster.settings.kubernetes_admission_wait_s
    cells = await cluster.judge(pod, labels, wait_s=wait_s, route=_ROUTE)
    warnings += _unreadable(pod)
    ranking = rank(labels, cells, may_exclude=pod.may_exclude)
    annotations = {k: above[k] for k in _HANDED_DOWN if k in above and k not in own}
    if ranking.cells:
        annotations[PREDICTED] = ranking.says
    if ranking.cells and not ranking.shares:
        warnings.append(f"perfmodel: this job may fit on no accelerator here: {ranking.says}")
    operations += _annotate(template, annotations)
    preferred, excluded = preferences(ranking), exclusions(ranking)
    if preferred or excluded:
        affinity = merged(part(template.pod, "spec", "affinity"), preferred, excluded)
        at = f"{template.pointer}/spec/affinity"
        # "add" takes the place of a member that is there already.
        operations.append({"op": "add", "path": at, "value": affinity})


def _annotate(template: Template, annotations: Mapping[str, str]) -> _Operations:
    """Return the operations that add annotations, whatever of the way to them is missing."""
    if not annotations:
        return []
    metadata = template.pod.get("metadata")
    at = f"{template.pointer}/metadata"
    if not isinstance(metadata, dict):
        return [{"op": "add", "path": at, "value": {"annotations": dict(annotations)}}]
    if not isinstance(metadata.get("annotations"), dict):
        return [{"op": "add", "path": f"{at}/annotations", "value": dict(annotations)}]
    return [
        {"op": "add", "path": f"{at}/annotations/{escaped(name)}", "value": value}
        for name, value in annotations.items()
    ]


async def _workload_patch(
    cluster: Cluster, item: Mapping[str, Any]
) -> tuple[_Operations, list[str]]:
    """Return the patch of a Kueue Workload.

    Its sets of pods are left alone: Kueue compares them with the job that they came from.
    """
    above = part(item, "metadata", "annotations")
    known = cluster.nodes.flavors()
    if ALLOWED in above or not known:
        return [], []
    wait_s = cluster.settings.kubernetes_admission_wait_s
    pods = [read_pod(template.pod, above) for template in pod_templates(item)]
    judged = [
        await cluster.judge(pod, list(known.values()), wait_s=wait_s, route=_ROUTE)
        for pod in pods
        if pod.request is not None and pod.may_exclude
    ]
    warnings = list(dict.fromkeys(text for pod in pods for text in _unreadable(pod)))
    least = least_share(above)
    if least is None:
        got = shown(above[LEAST_SHARE])
        warnings.append(_LEFT_OUT.format(LEAST_SHARE, f"A share is from 0 to 1; got {got}."))
    allowed = allowed_flavors(list(known), judged, least=least or 0.0)
    if allowed is None:
        return [], warnings
    whole = Template(pointer="", pod=item)
    return _annotate(whole, {ALLOWED: ",".join(allowed)}), warnings


def _unreadable(pod: Pod) -> list[str]:
    """Say what is wrong with the job of a pod to whoever creates it."""
    if pod.job.text is None:
        return []
    try:
        read_job(pod.job.text)
    except PerfModelError as error:
        return [_LEFT_OUT.format(JOB, error)]
    return []
