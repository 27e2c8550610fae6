"""Enter a campaign: its workloads, each for every accelerator that is asked for."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import orjson

from perfmodel.campaigns.policy import MOST_TASKS, CampaignPolicy, Order, parse_policy, task_job
from perfmodel.devices.aliases import mig_profile
from perfmodel.devices.catalog import Catalog
from perfmodel.devices.cpu_facts import CPU_PREFIX
from perfmodel.devices.spec import Kind
from perfmodel.errors import InvalidInputError, MeasurementError, UnknownAcceleratorError
from perfmodel.graph.job import Job, stated_fields
from perfmodel.json_values import as_object, as_text
from perfmodel.profilers.steps.arithmetic import refuse_quantised
from perfmodel.store.campaigns import CampaignStore
from perfmodel.store.campaigns.campaign_records import NewTask

#: A word that every device answers to.
ANY = "any"

_MOST_TITLE = 200
_FIELDS = ("jobs", "accelerators", "policy", "title")


@dataclass(frozen=True, kw_only=True, slots=True)
class Entered:
    """A campaign that was entered.

    Parameters
    ----------
    name : str
        Follows from its workloads, policy and title.
    created : bool
        False where the same one was entered before.
    """

    name: str
    created: bool


def enter_campaign(
    store: CampaignStore,
    jobs: Sequence[Job],
    *,
    policy: CampaignPolicy,
    accelerators: Sequence[str] = (ANY,),
    title: str = "",
    caller: str = "",
) -> Entered:
    """Keep a campaign; the same one entered again is the one that is there.

    Parameters
    ----------
    jobs : sequence of Job
        Equal ones are measured once.
    accelerators : sequence of str
        Names of the catalogue, kinds (``"gpu"``), or ``"any"``: each job is measured once on each.

    Raises
    ------
    InvalidInputError
        Nothing to measure, more than :data:`~perfmodel.campaigns.policy.MOST_TASKS`, or a job
        that no profiler measures.
    """
    for number, job in enumerate(jobs):
        _check_measurable(job, f"/jobs/{number}/precision")
    forms = [stated_fields(job) for job in jobs]
    once = {orjson.dumps(form, option=orjson.OPT_SORT_KEYS): form for form in forms}
    tasks = [
        NewTask(accelerator=accelerator, job=form)
        for form in once.values()
        for accelerator in dict.fromkeys(accelerators)
    ]
    if not 0 < len(tasks) <= MOST_TASKS:
        raise InvalidInputError(
            f"A campaign has 1 to {MOST_TASKS} workloads; got {len(tasks)}.", pointer="/jobs"
        )
    if policy.order is Order.RANDOM:
        random.Random(policy.seed).shuffle(tasks)
    stated = policy.to_dict()
    name = _name(tasks, stated, title)
    created = store.create(
        name, tasks, policy=stated, title=title, budget_s=policy.budget_s, caller=caller
    )
    return Entered(name=name, created=created)


def _check_measurable(job: Job, pointer: str) -> None:
    try:
        refuse_quantised(job)
    except MeasurementError as error:
        raise InvalidInputError(f"{job.label}: {error.message}", pointer=pointer) from error


def device_words(asked: Sequence[str], catalog: Catalog) -> list[str]:
    """Return what shall measure, in the words that workers answer to.

    Those are kinds and canonical names. A CPU and a MIG slice that are in no catalogue name
    themselves; names of that form stay as they are.

    Raises
    ------
    UnknownAcceleratorError
        A name that no worker would ever answer to, with the nearest ones; ``pointer`` says which.

    Examples
    --------
    >>> device_words(["gpu", "h100", "cpu-amd-epyc-2c"], Catalog.default())
    ['gpu', 'H100-SXM5-80GB', 'cpu-amd-epyc-2c']
    """
    words = []
    for position, word in enumerate(asked):
        try:
            named_itself = word.startswith(CPU_PREFIX) or mig_profile(word)
            is_word = word in (ANY, *get_args(Kind)) or (named_itself and word not in catalog)
            words.append(word if is_word else catalog.canonical_name(word))
        except UnknownAcceleratorError as error:
            error.pointer = f"/accelerators/{position}"
            raise
    return words


def enter_request(
    store: CampaignStore, value: object, *, catalog: Catalog, caller: str = ""
) -> Entered:
    """Keep the campaign that a request describes, as decoded from JSON.

    Raises
    ------
    InvalidInputError
        Anything in it that cannot be read; ``pointer`` says where.
    """
    fields = as_object(value, "", what="A campaign", known=_FIELDS)
    jobs = _listed(fields.get("jobs"), "jobs")
    words = _listed(fields.get("accelerators", [ANY]), "accelerators")
    title = fields.get("title") or ""
    if not isinstance(title, str) or len(title) > _MOST_TITLE:
        raise InvalidInputError(
            f"title is a text of at most {_MOST_TITLE} characters.", pointer="/title"
        )
    return enter_campaign(
        store,
        [task_job(job, f"/jobs/{number}") for number, job in enumerate(jobs)],
        policy=parse_policy(fields.get("policy") or {}),
        accelerators=device_words(
            [
                as_text("accelerators", word, f"/accelerators/{number}")[:_MOST_TITLE]
                for number, word in enumerate(words)
            ],
            catalog,
        ),
        title=title,
        caller=caller,
    )


def _name(tasks: Sequence[NewTask], policy: Mapping[str, Any], title: str) -> str:
    listed = [(task.accelerator, task.job) for task in tasks]
    content = orjson.dumps([listed, policy, title], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(content).hexdigest()[:16]


def _listed(value: object, name: str) -> list[Any]:
    if not isinstance(value, list) or not 0 < len(value) <= MOST_TASKS:
        raise InvalidInputError(
            f"{name} is a list of 1 to {MOST_TASKS} entries.", pointer=f"/{name}"
        )
    return value
