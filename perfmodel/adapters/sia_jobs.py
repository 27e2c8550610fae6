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

    They are said to be scripts: they load, log and wait. An application without tables is asked by
    its name; the service then answers from what was observed of it.

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
    >>> jobs = sia_jobs("T4", ["imagenet", "gpt"])
    >>> jobs["imagenet"]["model"], jobs["imagenet"]["precision"], jobs["imagenet"]["script"]
    ('zoo/resnet50-v1.5', 'amp_fp16', True)
    >>> jobs["gpt"]
    {'job_type': 'gpt', 'mode': 'training', 'batch_size': 1}
    """
    return {name: _form(name, accelerator) for name in applications}


def _form(name: str, accelerator: str) -> dict[str, Any]:
    trained = JOBS.get(name)
    if trained is None:
        return {"job_type": name, "mode": "training", "batch_size": 1}
    job = trained.job(1, precision_on(trained, accelerator))
    return stated_fields(replace(job, script=True))
