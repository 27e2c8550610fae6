"""Jobs that stand for the applications of Sia's simulator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from perfmodel.graph.job import stated_fields
from perfmodel.importers.jobs.sia_traces import JOBS, precision_on

#: The applications that have tables in Sia's artifact.
APPLICATIONS = tuple(JOBS)


def sia_jobs(
    accelerator: str, applications: Iterable[str] = APPLICATIONS
) -> dict[str, dict[str, Any]]:
    """Return applications as the service can be asked about them, by name.

    One that no reference workload stands for, as yolov3, whose images change their size from batch
    to batch, is asked by its name; the service then answers from what was observed of it. The
    others are said to be scripts: they load, log and wait.

    Parameters
    ----------
    accelerator : str
        Of the cluster, by its name in the catalogue: which precision PyTorch multiplied fp32 in
        depends on it.
    applications : iterable of str
        Such as ``"cifar10"``.

    Returns
    -------
    dict
        Jobs with the batch size 1; :func:`.sia.steps` puts local batch sizes in its place.

    Examples
    --------
    >>> jobs = sia_jobs("T4", ["imagenet", "yolov3"])
    >>> jobs["imagenet"]["model"], jobs["imagenet"]["precision"], jobs["imagenet"]["script"]
    ('zoo/resnet50-v1.5', 'amp_fp16', True)
    >>> jobs["yolov3"]
    {'job_type': 'yolov3', 'mode': 'training', 'batch_size': 1}
    """
    return {name: _form(name, accelerator) for name in applications}


def _form(name: str, accelerator: str) -> dict[str, Any]:
    trained = JOBS.get(name)
    job = trained.job(1, precision_on(trained, accelerator)) if trained else None
    if job is None:
        return {"job_type": name, "mode": "training", "batch_size": 1}
    return stated_fields(replace(job, script=True))
