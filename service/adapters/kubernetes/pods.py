"""What a pod says of itself, and the pods that an object will make: itself, or its templates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from service.adapters.kubernetes.fields import part, parts, whole_quantity

#: The job as JSON, as in ``POST /v1/predict``.
JOB = "perfmodel/job"
#: Reference of a registered job.
JOB_REF = "perfmodel/job-ref"
#: ``"never"`` keeps predictions of memory from excluding nodes for this pod.
EXCLUDE = "perfmodel/exclude"

#: Labels that name the job of a pod that carries no annotation, most specific first.
NAME_LABELS = (
    "training.kubeflow.org/job-name",
    "batch.kubernetes.io/job-name",
    "job-name",
    "volcano.sh/job-name",
    "ray.io/cluster",
    "kueue.x-k8s.io/pod-group-name",
    "kueue.x-k8s.io/job-name",
)

#: Resources that count accelerators; NVIDIA's MIG slices have one for each profile.
RESOURCES = (
    "nvidia.com/gpu", "nvidia.com/gpu.shared", "amd.com/gpu", "google.com/tpu",
    "habana.ai/gaudi", "huawei.com/Ascend910", "gpu.intel.com/xe", "gpu.intel.com/i915",
)  # fmt: skip
#: A pod that names its job, for OpenAPI.
POD_EXAMPLE: dict[str, Any] = {
    "metadata": {
        "name": "train-0",
        "annotations": {JOB: '{"model":"timm/resnet50","mode":"training","batch_size":64}'},
    },
    "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
}

#: Custom resources nest their templates a few levels deep; deeper than this is no template.
_DEEPEST = 10

_MIG = re.compile(r"nvidia\.com/mig-(?P<profile>\d+g\.\d+gb)(?:\.\w+)*")


@dataclass(frozen=True, kw_only=True, slots=True)
class JobName:
    """How a pod names its job: by its JSON, by a reference, or by neither.

    Parameters
    ----------
    ref : str or None
        Reference of a registered job; counts where there is no JSON.
    """

    text: str | None = None
    ref: str | None = None

    def __bool__(self) -> bool:
        return self.text is not None or self.ref is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """Accelerators of one node that a pod asks for.

    Parameters
    ----------
    profile : str or None
        Of a MIG slice.
    """

    resource: str
    count: int
    profile: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pod:
    """A pod as far as it matters here.

    Parameters
    ----------
    request : Request or None
        None: it asks for no accelerator.
    may_exclude : bool
        Whether memory that does not suffice excludes a node.
    group : tuple of (str, str, str) or None
        Namespace, label and value that its pods share.
    """

    job: JobName
    request: Request | None
    may_exclude: bool = True
    group: tuple[str, str, str] | None = None


def read_pod(pod: Mapping[str, Any], inherited: Mapping[str, Any] | None = None) -> Pod:
    """Read a v1.Pod or a pod template.

    Parameters
    ----------
    inherited : mapping or None
        Annotations of the object that the template is part of; the template's own win.

    Examples
    --------
    >>> limits = {"limits": {"nvidia.com/gpu": "8"}}
    >>> pod = {"metadata": {"annotations": {"perfmodel/job-ref": "r1"}},
    ...        "spec": {"containers": [{"resources": limits}]}}
    >>> read_pod(pod).job.ref, read_pod(pod).request.count
    ('r1', 8)
    """
    annotations = {**(inherited or {}), **part(pod, "metadata", "annotations")}
    return Pod(
        job=job_name(annotations),
        request=_request(part(pod, "spec")),
        may_exclude=annotations.get(EXCLUDE) != "never",
        group=_group(part(pod, "metadata")),
    )


def job_name(annotations: Mapping[str, Any]) -> JobName:
    """Return how annotations name a job."""
    text, ref = annotations.get(JOB), annotations.get(JOB_REF)
    return JobName(
        text=text if isinstance(text, str) and text else None,
        ref=ref if isinstance(ref, str) and ref else None,
    )


def _group(metadata: Mapping[str, Any]) -> tuple[str, str, str] | None:
    labels = part(metadata, "labels")
    for label in NAME_LABELS:
        if isinstance(labels.get(label), str):
            return str(metadata.get("namespace") or "default"), label, labels[label]
    return None


def _request(spec: Mapping[str, Any]) -> Request | None:
    """Return what all containers ask for together, or one that runs before them if it is more."""
    running: dict[str, int] = {}
    for name, count in _asked(spec, "containers"):
        running[name] = running.get(name, 0) + count
    for name, count in _asked(spec, "initContainers"):
        running[name] = max(running.get(name, 0), count)
    if not running:
        return None
    # A pod with two kinds of accelerator is judged by the one it has more of.
    resource = max(sorted(running), key=running.__getitem__)
    found = _MIG.fullmatch(resource)
    return Request(
        resource=resource, count=running[resource], profile=found["profile"] if found else None
    )


def _asked(spec: Mapping[str, Any], kind: str) -> Iterator[tuple[str, int]]:
    for container in parts(spec, kind):
        # Accelerators cannot be overcommitted: limits and requests are equal where both are given.
        asked = {
            **part(container, "resources", "requests"),
            **part(container, "resources", "limits"),
        }
        for name, amount in asked.items():
            count = whole_quantity(amount)
            if count and (name in RESOURCES or _MIG.fullmatch(name)):
                yield name, count


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """A pod, or the template of pods.

    Parameters
    ----------
    pointer : str
        JSON pointer to it in the object; ``""`` for the object itself.
    """

    pointer: str
    pod: Mapping[str, Any]


def pod_templates(item: Mapping[str, Any]) -> list[Template]:
    """Return every pod template of an object, whatever its kind.

    A template is recognised by what it holds: a member named ``template`` with containers. So Jobs,
    Deployments, and the custom resources of Kubeflow, Ray and Volcano need no table of kinds.

    Examples
    --------
    >>> template = {"spec": {"containers": []}}
    >>> workers = {"template": template}
    >>> item = {"kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": {"Worker": workers}}}
    >>> [found.pointer for found in pod_templates(item)]
    ['/spec/pytorchReplicaSpecs/Worker/template']
    """
    if _is_pod(item):
        return [Template(pointer="", pod=item)]
    return list(_inside(item.get("spec"), "/spec", 0))


def _inside(value: Any, pointer: str, depth: int) -> Iterator[Template]:
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from _inside(item, f"{pointer}/{position}", depth + 1)
    elif isinstance(value, dict):
        for name, item in value.items():
            at = f"{pointer}/{escaped(name)}"
            if name == "template" and _is_pod(item):
                yield Template(pointer=at, pod=item)
            else:
                yield from _inside(item, at, depth + 1)


def _is_pod(value: Any) -> bool:
    spec = value.get("spec") if isinstance(value, dict) else None
    return isinstance(spec, dict) and isinstance(spec.get("containers"), list)


def escaped(name: str) -> str:
    """Return a member's name as a part of a JSON pointer (RFC 6901).

    Examples
    --------
    >>> escaped("perfmodel/job")
    'perfmodel~1job'
    """
    return name.replace("~", "~0").replace("/", "~1")
