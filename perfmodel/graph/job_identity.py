"""Which job it is: names of jobs by their content, whoever registers them.

Three names, each coarser than the one before: the *reference* of equal jobs, the *family* of jobs
that differ in their batch, and the *word* of a job type, which may carry its batch in its name.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re

import orjson

from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job
from perfmodel.graph.job_form import stated_fields
from perfmodel.types import Mode

_LABEL = re.compile(r"(?P<name>.+?) \(batch size (?P<batch>\d+)\)")


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
    its jobs have families of their own. What progress depends on (``adaptation``) changes no step,
    and whether a step is that of a ``script`` is said of its observations, not of the job.

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
    alike = dataclasses.replace(job, adaptation=None, script=None)
    if job.graph is None:
        alike = dataclasses.replace(alike, batch_size=1, accumulation_steps=1)
    return _digest(b"family " + job_content(alike))


def split_label(label: str, batch_size: int = 1) -> tuple[str, int]:
    """Return name and batch size of a job type that carries its batch size in its name.

    Parameters
    ----------
    batch_size : int
        Returned where the label says none.

    Examples
    --------
    >>> split_label("ResNet-50 (batch size 64)")
    ('ResNet-50', 64)
    >>> split_label("A3C", 4)
    ('A3C', 4)
    """
    match = _LABEL.fullmatch(label)
    return (match["name"], int(match["batch"])) if match else (label, batch_size)


def named_job(label: str, batch_size: int, mode: Mode) -> tuple[str, float]:
    """Return name and batch size of a job type in a mode; inference goes by another name.

    Raises
    ------
    InvalidInputError
        An empty name, or a batch size below 1.
    """
    name, batch_size = split_label(label, batch_size)
    if not name.strip() or batch_size < 1:
        raise InvalidInputError(
            f"A job type needs a name and a batch size of at least 1; got {label!r} and "
            f"{batch_size}.",
            pointer="/job/job_type" if not name.strip() else "/job/batch_size",
        )
    return (name if mode is Mode.TRAINING else f"{name} [{mode.value}]"), float(batch_size)


def type_word(job: Job) -> str:
    """Return a word that jobs of one type share, whatever their batches.

    Raises
    ------
    InvalidInputError
        An empty name, or a batch size below 1.
    """
    return "type " + named_job(job.job_type or "", job.batch_size, job.mode)[0]


def type_label(job: Job) -> str:
    """Return the name of a job type with its batch, as neighbours are named; 1 is not said.

    Examples
    --------
    >>> type_label(Job(job_type="LM", mode=Mode.TRAINING, batch_size=20))
    'LM (batch size 20)'
    """
    name, batch_size = named_job(job.job_type or "", job.batch_size, job.mode)
    return name if batch_size == 1 else f"{name} (batch size {batch_size:.0f})"


def own_batch(job: Job) -> int:
    """Return the batch of a job, which may stand in its name."""
    return int(named_job(job.job_type or "", job.batch_size, job.mode)[1])


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
