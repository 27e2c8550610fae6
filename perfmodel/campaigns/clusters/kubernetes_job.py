"""The workers of a campaign as a Kubernetes Job.

An indexed Job whose pods are workers. A pod that is evicted is told by SIGTERM and gives its task
back; one whose node fails is replaced, and what it ran comes back when its lease has run out.

References: Jobs, https://kubernetes.io/docs/concepts/workloads/controllers/job/; GPUs,
https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from perfmodel.campaigns.clusters.cluster_workers import ClusterWorkers

#: Times that a pod of the Job may fail before Kubernetes gives up, for each worker.
_RETRIES = 3
#: A worker that is told to stop needs less to give its task back.
_GRACE_S = 60
_FOLDER = "/profiles"


@dataclass(frozen=True, kw_only=True, slots=True)
class KubernetesOptions:
    """What a Job says besides its workers.

    Parameters
    ----------
    image : str
        With perfmodel and what its profilers need.
    claim : str
        PersistentVolumeClaim that takes the records; ReadWriteMany for several nodes.
    secret : str
        Secret whose key ``url`` is the URL of the database.
    gpu_resource : str
        ``"nvidia.com/gpu"``, ``"amd.com/gpu"``, or a MIG slice.
    node_selector : mapping of str to str
        Labels of the nodes.
    """

    image: str
    claim: str
    secret: str = "perfmodel-database"
    namespace: str | None = None
    gpu_resource: str = "nvidia.com/gpu"
    node_selector: Mapping[str, str] = field(default_factory=dict)


def kubernetes_job(workers: ClusterWorkers, options: KubernetesOptions) -> dict[str, Any]:
    """Return the manifest of a Job as plain JSON types; ``kubectl apply -f`` reads JSON."""
    metadata: dict[str, Any] = {
        "name": f"perfmodel-{workers.campaign}",
        "labels": {
            "app.kubernetes.io/name": "perfmodel",
            "perfmodel/campaign": workers.campaign,
        },
    }
    if options.namespace is not None:
        metadata["namespace"] = options.namespace
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "completionMode": "Indexed",
            "completions": workers.workers,
            "parallelism": workers.workers,
            "backoffLimit": _RETRIES * workers.workers,
            "template": {
                "metadata": {"labels": dict(metadata["labels"])},
                "spec": _pod(workers, options),
            },
        },
    }


def _pod(workers: ClusterWorkers, options: KubernetesOptions) -> dict[str, Any]:
    url = {"secretKeyRef": {"name": options.secret, "key": "url"}}
    container: dict[str, Any] = {
        "name": "worker",
        "image": options.image,
        "command": list(workers.command),
        "env": [{"name": "PERFMODEL_DATABASE", "valueFrom": url}],
        "volumeMounts": [{"name": "profiles", "mountPath": _FOLDER}],
    }
    if workers.gpus:
        container["resources"] = {"limits": {options.gpu_resource: workers.gpus}}
    pod: dict[str, Any] = {
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": _GRACE_S,
        "containers": [container],
        "volumes": [{"name": "profiles", "persistentVolumeClaim": {"claimName": options.claim}}],
    }
    if options.node_selector:
        pod["nodeSelector"] = dict(options.node_selector)
    return pod
