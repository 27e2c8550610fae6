"""Jobs that stand for the job types of Gavel's own table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perfmodel.adapters.gavel import GavelJob
from perfmodel.graph.job import split_label
from perfmodel.importers.jobs.gavel_throughputs import JOBS


def gavel_jobs(
    job_types: Iterable[str], scale_factors: tuple[int, ...] = (1, 2, 4, 8)
) -> list[GavelJob]:
    """Return job types as the service can be asked about them.

    A type that no reference workload stands for is asked by its name; the service then answers
    from what was observed of it. The others are said to be scripts, as all of Gavel's are: they
    load, log and wait, on a framework of their time.

    Parameters
    ----------
    job_types : iterable of str
        ``"ResNet-50 (batch size 64)"``.
    scale_factors : tuple of int
        Accelerators that each may run on.

    Examples
    --------
    >>> [one] = gavel_jobs(["ResNet-50 (batch size 64)"])
    >>> one.job["model"], one.job["batch_size"], one.job["script"]
    ('zoo/resnet50-v1.5', 64, True)
    """
    return [
        GavelJob(job_type=label, job=_form(label), scale_factors=scale_factors)
        for label in job_types
    ]


def _form(label: str) -> dict[str, Any]:
    name, batch_size = split_label(label)
    plain: dict[str, Any] = {"mode": "training", "batch_size": batch_size}
    trained = JOBS.get(name)
    if trained is None:
        return {"job_type": name, **plain}
    stated = {
        "model_kwargs": dict(trained.model_kwargs) or None,
        "sequence_length": trained.sequence_length,
    }
    return {
        "model": trained.model,
        "optimizer": trained.optimizer,
        "script": True,
        **plain,
        **{field: value for field, value in stated.items() if value is not None},
    }
