"""How many times as long a job computes on what it gets of an accelerator as alone on all of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.client import answers
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidPlacementError
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import Kind, ResolvedPlacement
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.placement.memory.memory import memory_estimate
from perfmodel.placement.sharing.colocation import (
    basis_of_pair,
    family_of,
    interval_factors,
    known_device_share,
    load_of_type,
    slowdown_beside,
)
from perfmodel.placement.sharing.job_load import JobLoad, load_of
from perfmodel.placement.sharing.mig import part_slowdown
from perfmodel.placement.sharing.power import power_slowdown
from perfmodel.placement.topology.topology import Neighbour
from perfmodel.types import RUNG, Basis


@dataclass(frozen=True, kw_only=True, slots=True)
class NeighbourLoad:
    """A job that shares one kind of accelerator with another one.

    Parameters
    ----------
    name : str
        For people.
    load : JobLoad
        As it is alone there.
    has_step : bool
        Its step time is known; of a job known by its type alone only the load is.
    memory_bytes : float or None
        That it holds of the accelerator; None where unknown.
    is_guessed : bool
        How busy it keeps this kind is not known, so that its load is what loads usually are.
    """

    name: str
    load: JobLoad
    has_step: bool
    memory_bytes: float | None
    is_guessed: bool = False


#: What the factor of a slowdown that neighbours cause is called.
BY_NEIGHBOURS = "jobs on the same accelerator"

#: For each kind of accelerator of a placement the jobs on it; none where it is not shared.
Neighbours = Sequence[Sequence[NeighbourLoad]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Slowdown:
    """What computing takes over what it would take alone on the whole accelerator.

    Parameters
    ----------
    factor : float
        >= 1.
    half_width : float
        What it adds to the half width of an interval, in logarithms.
    basis : Basis or None
        The best that an answer can rest on; None where nothing slows the job down.
    factors : tuple
        What the factor is the product of, each with its name.
    """

    factor: float = 1.0
    half_width: float = 0.0
    basis: Basis | None = None
    factors: tuple[tuple[str, float], ...] = ()

    @property
    def by_neighbours(self) -> float:
        """What of it is due to jobs on the same accelerator, >= 1."""
        return max(1.0, dict(self.factors).get(BY_NEIGHBOURS, 1.0))


#: Half width in logarithms of an equation with constants from the literature.
_OF_AN_EQUATION = math.log(1.25)


def load_alone(prepared: PreparedJob, accelerator: AcceleratorSpec, step_time_s: float) -> JobLoad:
    """Return the load of a job that is alone on a whole accelerator, where its step is known."""
    return prepared.once(
        accelerator,
        ("load", accelerator.name, step_time_s),
        lambda: _load_alone(prepared, accelerator, step_time_s),
    )


def _load_alone(prepared: PreparedJob, accelerator: AcceleratorSpec, step_time_s: float) -> JobLoad:
    family = family_of(prepared.job.model or "", mode=str(prepared.job.mode), kind=accelerator.name)
    workload, alone_s = prepared.on(accelerator), step_time_s / prepared.step.time_factor
    load = load_of(workload, alone_s, family=family)
    if family is None:
        return load
    share = known_device_share(family, load.batch_size, accelerator.name)
    if share is None:
        return load
    # The pairs were fitted with this share, so that the answer has to use it too.
    return replace(load, device_share=share)


def beside(
    placement: ResolvedPlacement, kind: Kind, load: JobLoad, neighbours: Sequence[NeighbourLoad]
) -> tuple[answers.Neighbour, ...]:
    """Return what each neighbour suffers from a job, by its load alone, and from the others."""
    found = []
    for position, one in enumerate(neighbours):
        others = [n.load for i, n in enumerate(neighbours) if i != position]
        slow = slowdown_beside(
            one.load, [load, *others], kind.accelerator.name, sharing=placement.placement.sharing
        )
        step_s = one.load.step_time_s * slow if one.has_step else None
        found.append(answers.Neighbour(name=one.name, slowdown=slow, step_time_s=step_s))
    return tuple(found)


def slowdown_on(
    placement: ResolvedPlacement, kind: Kind, load: JobLoad, neighbours: Sequence[JobLoad]
) -> Slowdown:
    """Return what a part, a power limit and neighbours do to a job on one kind of accelerator.

    Parameters
    ----------
    load, neighbours : JobLoad, and sequence of them
        Of the job and of those beside it, each alone on the whole accelerator.

    Raises
    ------
    InvalidPlacementError
        A power limit below what boards take, or on an accelerator whose power is not known.
    """
    half_width, basis = 0.0, None
    factors: list[tuple[str, float]] = []
    if kind.part is not None:
        # Working time that is spent at no peak goes with the cores.
        moving = load.memory_bound_share * load.at_peak_share
        shares = (np.array([load.device_share]), np.array([1.0 - moving]), np.array([moving]))
        factors.append(("part of the accelerator", float(part_slowdown(kind.part, *shares)[0])))
        half_width, basis = math.hypot(half_width, _OF_AN_EQUATION), Basis.ANALYTICAL
    if placement.placement.power_limit_w is not None:
        limit_w = placement.placement.power_limit_w
        limited = _under_limit(kind, load, limit_w)
        # A limit at the board's own or above it is none.
        if limit_w < (kind.accelerator.tdp_w or math.inf):
            factors.append(("power limit", limited))
            half_width, basis = math.hypot(half_width, _OF_AN_EQUATION), Basis.ANALYTICAL
    if neighbours:
        name = kind.accelerator.name
        slow = slowdown_beside(load, neighbours, name, sharing=placement.placement.sharing)
        factors.append((BY_NEIGHBOURS, slow))
        pairs = [
            basis_of_pair(load, one, name, sharing=placement.placement.sharing)
            for one in neighbours
        ]
        weakest = max(pairs, key=RUNG.__getitem__)
        low, high = interval_factors(weakest, name)
        half_width = math.hypot(half_width, math.log(max(high, 1.0 / low)))
        basis = basis or weakest
    return Slowdown(
        factor=math.prod((factor for _, factor in factors), start=1.0),
        half_width=half_width,
        basis=basis,
        factors=tuple(factors),
    )


def _under_limit(kind: Kind, load: JobLoad, limit_w: float) -> float:
    pointer = "/placement/power_limit_w"
    tdp_w = kind.accelerator.tdp_w
    if tdp_w is None:
        raise InvalidPlacementError(
            f"The catalogue does not know the power of {kind.accelerator.name}, so that a limit "
            "cannot be weighed against it. Leave power_limit_w out, or add tdp_w to its entry.",
            pointer=pointer,
        )
    busy = load.device_share
    factor = power_slowdown(
        limit_w,
        tdp_w,
        busy * load.compute_bound_share,
        memory_bound_share=busy * load.memory_bound_share,
        pointer=pointer,
    )
    return float(factor)


#: Step time of a neighbour known by its type alone; of its step only the share counts that it
#: keeps the accelerator busy.
_STEP_OF_A_TYPE_S = 0.1


def neighbours(core: Core, placement: ResolvedPlacement) -> Neighbours:
    """Return the jobs that share each kind of accelerator of a placement; empty if none do.

    Raises
    ------
    InvalidInputError
        A neighbour that is no job, or that cannot be captured.
    """
    shared_with = placement.placement.shared_with
    if not shared_with:
        return []
    return [[_neighbour(core, one, kind) for one in shared_with] for kind in placement.kinds]


def said_of_guesses(neighbours: Neighbours) -> tuple[str, ...]:
    """Say whose load is not known of the jobs beside one."""
    names = sorted({one.name for jobs in neighbours for one in jobs if one.is_guessed})
    return (UNKNOWN_LOAD_WARNING.format(", ".join(names)),) if names else ()


#: Said of neighbours that are known by a name of which no load was measured on the accelerator.
UNKNOWN_LOAD_WARNING = (
    "How busy {0} keeps the accelerator is not known: it is taken to be as busy as jobs usually "
    "keep it. State it as a job with its model to have its load predicted."
)


def _neighbour(core: Core, beside: Neighbour, kind: Kind) -> NeighbourLoad:
    if beside.job is None:
        name = kind.accelerator.name
        load = load_of_type(beside.key, name, _STEP_OF_A_TYPE_S)
        share = load.family and known_device_share(load.family, load.batch_size, name)
        return NeighbourLoad(
            name=beside.key, load=load, has_step=False, memory_bytes=None, is_guessed=not share
        )
    prepared = core.prepare(beside.job)
    (prediction,) = core.predictions([(prepared, kind.accelerator)])
    load = load_alone(prepared, kind.accelerator, prediction.time_s)
    memory = prepared.once(
        kind.accelerator,
        ("memory alone", kind.accelerator.name, kind.part),
        lambda: memory_estimate(prepared.memory_profile, kind.held, job=prepared.job),
    )
    return NeighbourLoad(
        name=prepared.job.label, load=load, has_step=True, memory_bytes=memory.peak_bytes
    )
