"""How the workloads of a campaign are measured: order, limits, and the reference among them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job, stated_fields
from perfmodel.graph.job_form import parse_job
from perfmodel.json_values import as_count, as_number, as_object, as_word
from perfmodel.zoo.resolve import check_job

#: Most of a campaign: one that is larger is better several.
MOST_TASKS = 100_000


class Order(StrEnum):
    """Which workload is begun next."""

    LISTED = "listed"
    RANDOM = "random"
    ADAPTIVE = "adaptive"
    """The one that is expected to tell most of what is not known of the device yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CampaignPolicy:
    """How the workloads of a campaign are measured.

    Parameters
    ----------
    order : Order
        For the adaptive one, a worker without a trained model goes on in the order as listed.
    seed : int
        Of the random order, >= 1.
    budget_s : float or None
        Time of measuring, summed over all devices, after which no task is begun; what runs by then
        is finished. Seconds, > 0.
    reference : Job or None
        Measured first on each machine, then again and again: if it takes another time, the
        machine has changed.
    reference_every : int
        Tasks between two references on a machine, >= 1.
    drift_limit : float
        Share by which the reference may be slower or faster than the first time, > 0.
    timeout_s : float
        Longest time of one measurement, seconds.
    memory_limit_bytes : float or None
        Resident memory past which a measurement is ended.
    threads : int or None
        CPU threads of a step; None: all cores.
    cares_about : tuple of Job
        What will be asked about the devices, for the adaptive order; the workloads by default.
    """

    order: Order = Order.LISTED
    seed: int = 1
    budget_s: float | None = None
    reference: Job | None = None
    reference_every: int = 20
    drift_limit: float = 0.1
    timeout_s: float = 120.0
    memory_limit_bytes: float | None = None
    threads: int | None = None
    cares_about: tuple[Job, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the policy as plain JSON types; :func:`parse_policy` reads it."""
        plain = {name: getattr(self, name) for name in _FIELDS}
        plain["order"] = self.order.value
        plain["cares_about"] = [stated_fields(job) for job in self.cares_about]
        plain["reference"] = None if self.reference is None else stated_fields(self.reference)
        return plain


_FIELDS = tuple(CampaignPolicy.__slots__)


def parse_policy(value: object, *, pointer: str = "/policy") -> CampaignPolicy:
    """Read a policy as decoded from JSON; what it leaves out has its default.

    One with a budget is adaptive unless it says otherwise.

    Raises
    ------
    InvalidInputError
        An unknown field, or a value that it cannot have.
    """
    fields = as_object(value, pointer, what="A policy", known=_FIELDS)
    read = {
        name: _read(name, stated, f"{pointer}/{name}")
        for name, stated in fields.items()
        if stated is not None
    }
    read.setdefault("order", Order.ADAPTIVE if "budget_s" in read else Order.LISTED)
    return CampaignPolicy(**read)


def _read(name: str, value: object, pointer: str) -> Any:
    match name:
        case "order":
            return as_word(Order, name, value, pointer)
        case "seed" | "reference_every" | "threads":
            return as_count(name, value, pointer)
        case "reference":
            return task_job(value, pointer)
        case "cares_about":
            listed = value if isinstance(value, list) else [value]
            return tuple(task_job(job, f"{pointer}/{at}") for at, job in enumerate(listed))
        case _:
            return as_number(name, value, pointer)


def task_job(value: object, pointer: str) -> Job:
    """Read a job that can be run: by the name of its model, or by a transformers config.

    Raises
    ------
    InvalidInputError
        One that has no model, or a name that no model has, or a field that a job does not have.
    """
    plain = as_object(value, pointer, what="A workload")
    job = parse_job({"mode": "inference", "batch_size": 1, **plain}, pointer=pointer)
    if job.model is None and job.hf_config is None:
        raise InvalidInputError(
            "A workload of a campaign is run: give it a model ('timm/resnet50') or an hf_config.",
            pointer=pointer,
        )
    try:
        check_job(job)
    except InvalidInputError as error:
        error.pointer = pointer + error.pointer.removeprefix("/job")
        raise
    return job
