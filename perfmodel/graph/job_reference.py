"""Names of jobs by their content: equal jobs have equal names, whoever registers them."""

from __future__ import annotations

import dataclasses
import hashlib

import orjson

from perfmodel.graph.job import Job
from perfmodel.graph.job_form import stated_fields


def job_content(job: Job) -> bytes:
    """Write a job as canonical JSON: sorted, without what has its default.

    Returns
    -------
    bytes
        What :func:`~perfmodel.graph.job_form.parse_job` reads back as an equal job.

    Examples
    --------
    >>> job_content(Job(model="timm/resnet50", batch_size=64))
    b'{"batch_size":64,"mode":"inference","model":"timm/resnet50"}'
    """
    return orjson.dumps(stated_fields(job), option=orjson.OPT_SORT_KEYS)


def job_reference(job: Job) -> str:
    """Return the name of a job: a hash of its content.

    Returns
    -------
    str
        32 hexadecimal digits.
    """
    return _digest(job_content(job))


def job_family(job: Job) -> str:
    """Return the name that a job shares with those that differ from it in their batch alone.

    What was observed of one counts for all of them. A registered graph is one step of one batch;
    its jobs have families of their own. What progress depends on (``adaptation``) changes no step.

    Returns
    -------
    str
        32 hexadecimal digits.

    Examples
    --------
    >>> small, large = (Job(model="timm/resnet50", batch_size=size) for size in (8, 64))
    >>> job_family(small) == job_family(large), job_reference(small) == job_reference(large)
    (True, False)
    """
    alike = dataclasses.replace(job, adaptation=None)
    if job.graph is None:
        alike = dataclasses.replace(alike, batch_size=1, accumulation_steps=1)
    return _digest(b"family " + job_content(alike))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
