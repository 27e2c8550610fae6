"""The jobs that a placement says are there already, as they are when they run alone."""

from __future__ import annotations

from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import Kind, ResolvedPlacement
from perfmodel.estimator.placing.slowdowns import NeighbourLoad, load_alone
from perfmodel.placement.sharing.colocation import load_of_type
from perfmodel.placement.topology.topology import Neighbour

#: Step time of a neighbour known by its type alone; of its step only the share counts that it
#: keeps the accelerator busy.
_STEP_OF_A_TYPE_S = 0.1


def neighbours(core: Core, placement: ResolvedPlacement) -> list[list[NeighbourLoad]]:
    """Return the jobs that share each kind of accelerator of a placement; empty if none do.

    Parameters
    ----------
    core : Core
        Predicts each of them alone.

    Raises
    ------
    InvalidInputError
        A neighbour that is no job, or that cannot be captured.
    """
    shared_with = placement.placement.shared_with
    if not shared_with:
        return []
    return [[_neighbour(core, one, kind) for one in shared_with] for kind in placement.kinds]


def _neighbour(core: Core, beside: Neighbour, kind: Kind) -> NeighbourLoad:
    if beside.job is None:
        load = load_of_type(beside.key, kind.accelerator.name, _STEP_OF_A_TYPE_S)
        return NeighbourLoad(name=beside.key, load=load, has_step=False)
    prepared = core.prepare(beside.job)
    (prediction,) = core.predictions([(prepared, kind.accelerator)])
    load = load_alone(prepared, kind, prediction.time_s)
    return NeighbourLoad(name=prepared.job.label, load=load, has_step=True)
