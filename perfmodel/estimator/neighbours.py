"""The jobs that a placement says are there already, as they are when they run alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.estimator.resolve import Kind, ResolvedPlacement
from perfmodel.estimator.slowdowns import Neighbour, load_alone
from perfmodel.placement.sharing.colocation import load_of_type
from perfmodel.placement.topology.topology import Neighbour as AskedNeighbour

if TYPE_CHECKING:
    from perfmodel.estimator.facade import Estimator

#: Step time of a neighbour known by its type alone; of its step only the share counts that it
#: keeps the accelerator busy.
_STEP_OF_A_TYPE_S = 0.1


def neighbours(estimator: Estimator, placement: ResolvedPlacement) -> list[list[Neighbour]]:
    """Return the jobs that share each kind of accelerator of a placement; empty if none do.

    Parameters
    ----------
    estimator : Estimator
        Predicts each of them alone.

    Raises
    ------
    InvalidInputError
        A neighbour that is no job, or that cannot be captured.
    """
    shared_with = placement.placement.shared_with
    if not shared_with:
        return []
    return [[_neighbour(estimator, one, kind) for one in shared_with] for kind in placement.kinds]


def _neighbour(estimator: Estimator, beside: AskedNeighbour, kind: Kind) -> Neighbour:
    if beside.job is None:
        load = load_of_type(beside.key, kind.accelerator.name, _STEP_OF_A_TYPE_S)
        return Neighbour(name=beside.key, load=load, has_step=False)
    prepared = estimator.prepare(beside.job)
    (prediction,) = estimator.predictions([(prepared, kind.accelerator)])
    load = load_alone(prepared, kind, prediction.time_s)
    return Neighbour(name=prepared.job.label, load=load, has_step=True)
