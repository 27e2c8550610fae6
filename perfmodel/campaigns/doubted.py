"""A campaign that measures what alarms doubt."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import orjson

from perfmodel.campaigns.entering import ANY, Entered, enter_campaign
from perfmodel.campaigns.policy import CampaignPolicy, task_job
from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job, stated_fields
from perfmodel.graph.job_form import parse_job
from perfmodel.store.campaigns import CampaignStore
from perfmodel.store.feedback import Alarm, Doubt
from perfmodel.store.state.jobs import JobStore

#: What stands for placements of several kinds of accelerators, which no worker is.
_MIXED = "mixed"


def doubted_jobs(
    alarms: Iterable[Alarm], jobs: JobStore, *, accelerators: Collection[str] = (ANY,)
) -> dict[str, list[Job]]:
    """Return the jobs that open alarms doubt and a worker could measure, by accelerator.

    Parameters
    ----------
    accelerators : collection of str
        Those alone, unless ``"any"`` is among them.
    """
    doubts = dict.fromkeys(
        doubt for alarm in alarms if alarm.kind != "reporter" for doubt in alarm.doubts
    )
    wanted = [
        doubt
        for doubt in doubts
        if doubt.accelerator != _MIXED
        and (ANY in accelerators or doubt.accelerator in accelerators)
    ]
    found: dict[str, list[Job]] = {}
    for doubt in wanted:
        job = _measurable(doubt, jobs)
        if job is not None and job not in found.setdefault(doubt.accelerator, []):
            found[doubt.accelerator].append(job)
    return {accelerator: listed for accelerator, listed in found.items() if listed}


def enter_doubted(
    campaigns: CampaignStore,
    doubted: dict[str, list[Job]],
    *,
    policy: CampaignPolicy,
    title: str = "",
    caller: str = "",
) -> Sequence[Entered]:
    """Keep a campaign for each accelerator that is doubted; what is doubted is what is cared for.

    Raises
    ------
    InvalidInputError
        One has more workloads than a campaign may have.
    """
    return [
        enter_campaign(
            campaigns,
            jobs,
            policy=replace(policy, cares_about=policy.cares_about or tuple(jobs)),
            accelerators=[accelerator],
            title=title or f"doubted on {accelerator}",
            caller=caller,
        )
        for accelerator, jobs in sorted(doubted.items())
    ]


def _measurable(doubt: Doubt, jobs: JobStore) -> Job | None:
    """Return a job as a worker would measure it; None where none can."""
    stored = jobs.find(doubt.job)
    if stored is None:
        return None
    try:
        job = parse_job(orjson.loads(stored.content))
        job = replace(job.step, batch_size=doubt.batch_size, software={})
        return task_job(stated_fields(job), "")
    except InvalidInputError:
        return None
