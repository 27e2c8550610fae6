"""In which order the workloads of a campaign tell most about a device.

What is told is what records would do to answers, as :mod:`~.record_beliefs` says: through the
effects of the device, through what networks of one make share there, and through jobs. What was
measured before narrows it first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from perfmodel.campaigns.device import CampaignDevice
from perfmodel.campaigns.policy import parse_policy
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.steps.step import Step
from perfmodel.graph.job import Job
from perfmodel.graph.job_form import stated_job
from perfmodel.predictors.folds import Progress
from perfmodel.store.campaigns import CampaignStore
from perfmodel.store.campaigns.campaign_records import Task, TaskState
from perfmodel.training.captures.capture_key import capture_key
from perfmodel.training.captures.kept_sketches import kept_sketches
from perfmodel.training.probes.measuring_time import measuring_s
from perfmodel.training.probes.probe_plan import ProbeChooser
from perfmodel.training.probes.record_beliefs import record_beliefs, telling_order

#: Candidates that are compared, and steps that are cared for, evenly from longer lists: what is
#: believed grows with the square of their number.
_COMPARED, _CARED = 1_500, 500
#: Beyond so many measurements of a device one order is as good as another.
_PLANNED = 200


def measuring_order(
    chooser: ProbeChooser,
    candidates: Sequence[Step],
    *,
    measured: Sequence[Step] = (),
    cared: Sequence[Step] = (),
    cost_s: FloatArray | None = None,
) -> list[int]:
    """Return the candidates that are worth measuring first, in that order.

    Parameters
    ----------
    candidates : sequence of Step
        What could be measured, on one device.
    measured : sequence of Step
        What was, on that device, since the chooser learned.
    cared : sequence of Step
        What the operator will ask about it; the candidates and what was measured by default.
    cost_s : ndarray, shape (candidates,), optional
        Seconds that measuring each takes; the same for all by default.

    Returns
    -------
    list of int
        Positions among the candidates, best first; not all of a long list.
    """
    if not candidates:
        return []
    compared = _evenly(len(candidates), _COMPARED)
    population = cared or (*candidates, *measured)
    asked = [population[i] for i in _evenly(len(population), _CARED)]
    known = [measured[i] for i in _evenly(len(measured), _COMPARED)]
    beliefs = record_beliefs(chooser, [*known, *(candidates[i] for i in compared), *asked])
    order = telling_order(
        [belief.after(len(known)) for belief in beliefs],
        len(compared),
        _PLANNED,
        cost_s=None if cost_s is None else cost_s[compared],
    )
    return [int(compared[position]) for position in order]


def _evenly(count: int, most: int) -> IntArray:
    """Return the positions of so many of a list at most."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def order_campaign(
    campaigns: CampaignStore,
    name: str,
    device: CampaignDevice,
    chooser: ProbeChooser,
    *,
    progress: Progress | None = None,
) -> int:
    """Put the waiting tasks in the order in which they tell most about a device for their time.

    Tasks that the device cannot do keep their turns, and so do those whose model cannot be
    captured or that no order is made for: they come last, in the order in which they were listed.

    Parameters
    ----------
    progress : callable, optional
        Is told of captures, which take seconds for each new model.

    Returns
    -------
    int
        Tasks that were put in order.
    """
    campaign = campaigns.find(name)
    if campaign is None:
        return 0
    tasks = [task for task in campaigns.all_tasks(name) if task.accelerator in device.words]
    waiting = [task for task in tasks if task.state is TaskState.WAITING]
    done = [task for task in tasks if _was_measured_on(task, device.spec)]
    cared = parse_policy(campaign.policy).cares_about
    jobs = [*(stated_job(task.job) for task in (*waiting, *done)), *cared]
    steps = _steps(jobs, device.spec, progress)
    known = [position for position in range(len(waiting)) if steps[position] is not None]
    candidates = _present(steps[position] for position in known)
    order = measuring_order(
        chooser,
        candidates,
        measured=_present(steps[len(waiting) : len(waiting) + len(done)]),
        cared=_present(steps[len(waiting) + len(done) :]),
        cost_s=measuring_s(candidates),
    )
    # Below all turns of the list, which count from 0.
    turns = {waiting[known[at]].name: float(turn - len(order)) for turn, at in enumerate(order)}
    campaigns.set_turns(turns)
    return len(turns)


def _was_measured_on(task: Task, spec: AcceleratorSpec) -> bool:
    outcome = task.outcome
    return (
        task.state is TaskState.DONE and outcome is not None and outcome["accelerator"] == spec.name
    )


def _steps(
    jobs: Sequence[Job], spec: AcceleratorSpec, progress: Progress | None
) -> list[Step | None]:
    """Return the step of each job on a device; None for those that cannot be captured."""
    keys = [capture_key(job) for job in jobs]
    kept, _ = kept_sketches(dict(zip(keys, jobs, strict=True)), progress=progress)
    return [
        Step.of_job(job, kept[key].sketch, spec) if key in kept else None
        for key, job in zip(keys, jobs, strict=True)
    ]


def _present(steps: Iterable[Step | None]) -> list[Step]:
    return [step for step in steps if step is not None]
