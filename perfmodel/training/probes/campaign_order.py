r"""In which order the workloads of a campaign tell most about a device.

The design is that of :mod:`~perfmodel.training.probes.probe_plan`: the coefficients of a device
have a prior covariance, measuring a step narrows it, whatever time comes out, and the next workload
is the one after which the mean variance of what the operator cares about is smallest. What was
measured before narrows it first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from perfmodel.campaigns.device import CampaignDevice
from perfmodel.campaigns.policy import parse_policy
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.step import Step
from perfmodel.graph.job import Job
from perfmodel.graph.job_form import stated_job
from perfmodel.predictors.folds import Progress
from perfmodel.store.campaigns import CampaignStore
from perfmodel.store.campaigns.campaign_records import Task, TaskState
from perfmodel.training.captures.capture_key import capture_key
from perfmodel.training.captures.kept_sketches import kept_sketches
from perfmodel.training.probes.measuring_time import measuring_s
from perfmodel.training.probes.probe_plan import (
    ProbeChooser,
    narrowed,
    noise_with_misfit,
    prior_of,
    probe_order,
)


def measuring_order(
    chooser: ProbeChooser,
    candidates: Sequence[Step],
    *,
    measured: Sequence[Step] = (),
    cared: Sequence[Step] = (),
    models: Sequence[str] = (),
    most: int | None = None,
    cost_s: FloatArray | None = None,
) -> list[int]:
    """Return the candidates in the order in which they are worth measuring.

    Parameters
    ----------
    chooser : ProbeChooser
        May say with a method ``record_noise(steps)`` by how much it would believe each record to be
        off, as :class:`~perfmodel.predictors.joint.joint.JointPredictor` does: what was measured on
        other devices tells more of this one.
    candidates : sequence of Step
        What could be measured, on one device.
    measured : sequence of Step
        What was, on that device, since the chooser learned.
    cared : sequence of Step
        What the operator will ask about it; the candidates and what was measured by default.
    models : sequence of str, shape (candidates,), optional
        Each is measured once before any is measured again; any may come at any time by default,
        which saves as much or more.
    most : int, optional
        How many are put in order; all by default.
    cost_s : ndarray, shape (candidates,), optional
        Seconds that measuring each takes; the same for all by default.

    Returns
    -------
    list of int
        Positions among the candidates, best first.
    """
    if not candidates:
        return []
    steps = [*candidates, *measured]
    features = _features(chooser, steps)
    record_noise = getattr(chooser, "record_noise", None)
    noise = noise_with_misfit(
        features, chooser.noise_ if record_noise is None else record_noise(steps)
    )
    count = len(candidates)
    prior = narrowed(
        prior_of(chooser, candidates[0].accelerator.name), features[count:], noise[count:]
    )
    return probe_order(
        features[:count],
        prior,
        noise[:count],
        most or count,
        population=_features(chooser, cared) if cared else features,
        kinds=models,
        cost_s=cost_s,
    )


def _features(chooser: ProbeChooser, steps: Sequence[Step]) -> FloatArray:
    return np.asarray(chooser.device_features(steps), dtype=np.float64)


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
    captured: they come last, in the order in which they were listed.

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
