"""What parts of accelerators, limits, neighbours and feeding do to a job known by its type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from perfmodel.estimator.core.resolved_placement import Kind, ResolvedPlacement
from perfmodel.estimator.placing.slowdowns import (
    Neighbours,
    Slowdown,
    said_of_guesses,
    slowdown_on,
)
from perfmodel.graph.job import Job, own_batch, type_label
from perfmodel.placement.feeding.input_pipeline import input_stall
from perfmodel.placement.feeding.input_samples import SampleCost
from perfmodel.placement.sharing.colocation import load_of_type
from perfmodel.placement.sharing.job_load import LEAST_SHARE, JobLoad
from perfmodel.placement.topology.topology import Placement, Plan

#: What a placement may limit.
_LIMITS = ("power_limit_w", "fraction", "cpu_cores", "storage_bytes_per_s", "storage_locality")

#: Share of an accelerator's working time that arithmetic and memory would take at their peaks,
#: where nothing is known of the operators: that of most captured models.
_AT_PEAK = 0.5

#: Said where the plan, or a job beside this one, is one under which nothing was observed.
NOT_MODELLED_WARNING = (
    "The answer is that of replicas on whole accelerators, completed from observed cells: what "
    "{0} does to a job that is known by its type alone is not modelled. Send a step observed so."
)

#: Said where a host or a store is stated, and not what a sample costs it.
NOT_FED_WARNING = (
    "Whether data arrive in time is not answered for a job that is known by its type alone: state "
    "its input, stored_bytes and cpu_s of a sample."
)


def limited(
    job: Job,
    placement: ResolvedPlacement,
    *,
    compute_s: float,
    step_s: float,
    device_share: float,
    neighbours: Neighbours,
) -> tuple[Slowdown, float, tuple[str, ...]]:
    """Return what parts, a power limit, other jobs and feeding do to a step.

    Parameters
    ----------
    compute_s, step_s : float
        Computation and whole step on whole accelerators, s.
    device_share : float
        Share of the computation during which the accelerator works.
    neighbours : sequence
        For each kind of the placement the jobs beside this one.

    Returns
    -------
    slow : Slowdown
        Of the computation.
    stall_s : float
        What the step waits for its data.
    said : tuple of str

    Raises
    ------
    InvalidPlacementError
        A power limit below what boards take, or on an accelerator whose power is not known.
    """
    if placement.is_plain:
        return Slowdown(), 0.0, ()
    share = min(max(device_share, LEAST_SHARE), 1.0)
    slow = max(
        (
            slowdown_on(placement, kind, _load(job, kind, compute_s, share), [n.load for n in jobs])
            for kind, jobs in zip(
                placement.kinds, neighbours or [()] * len(placement.kinds), strict=True
            )
        ),
        key=lambda one: one.factor,
    )
    stall_s, said = _fed(job, placement, step_s + (slow.factor - 1) * compute_s)
    return slow, stall_s, (*said_of_guesses(neighbours), *said)


def _load(job: Job, kind: Kind, compute_s: float, device_share: float) -> JobLoad:
    """Return the load of a job, with the share that its label is known to have, if it is."""
    known = load_of_type(
        type_label(job), kind.accelerator.name, compute_s, typical_share=device_share
    )
    return replace(known, at_peak_share=_AT_PEAK)


def _fed(job: Job, placement: ResolvedPlacement, step_s: float) -> tuple[float, tuple[str, ...]]:
    if not placement.states_feeding:
        return 0.0, ()
    stated = job.input or {}
    if not {"stored_bytes", "cpu_s"} <= stated.keys():
        return 0.0, (NOT_FED_WARNING,)
    sample = SampleCost(**{name: float(value) for name, value in stated.items()})
    loaded = own_batch(job) * job.accumulation_steps * float(placement.fullest_host)
    waits_s = input_stall(placement.placement, sample, np.array([loaded]), np.array([step_s]))
    return float(waits_s[0]), ()


def seen_under(asked: Placement, observed: Sequence[Placement]) -> bool:
    """Tell whether a step was observed under the same limits, plan and neighbours."""
    return any(_under(one) == _under(asked) for one in observed)


def not_modelled(asked: Placement) -> tuple[str, ...]:
    """Say what of a placement no cell of a job type tells, where none was observed under it."""
    limits = any(getattr(asked, name) is not None for name in _LIMITS)
    words = ["its plan"] if asked.plan not in (Plan(), Plan(data=asked.accelerator_count)) else []
    words += ["a limit"] if limits else []
    return (NOT_MODELLED_WARNING.format(" and ".join(words)),) if words else ()


def _under(placement: Placement) -> tuple[object, ...]:
    names = tuple(sorted({node.accelerator for node in placement.nodes}))
    limits = (getattr(placement, name) for name in _LIMITS)
    beside = sorted(one.key for one in placement.shared_with)
    return (names, *limits, replace(placement.plan, data=None), beside)
