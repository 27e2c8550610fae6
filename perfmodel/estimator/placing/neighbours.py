"""The jobs that a placement says are there already, as they are when they run alone."""

from __future__ import annotations

import json

from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolve import Kind, ResolvedPlacement
from perfmodel.estimator.placing.slowdowns import Neighbour, load_alone
from perfmodel.graph.job_form import parse_job
from perfmodel.placement.sharing.colocation import load_of_type
from perfmodel.placement.topology.long_form import is_job

#: Step time of a neighbour known by its type alone; of its step only the share counts that it
#: keeps the accelerator busy.
_STEP_OF_A_TYPE_S = 0.1


def neighbours(core: Core, placement: ResolvedPlacement) -> list[list[Neighbour]]:
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
    return [
        [
            _neighbour(core, name, kind, f"{placement.pointer}/shared_with/{position}")
            for position, name in enumerate(shared_with)
        ]
        for kind in placement.kinds
    ]


def _neighbour(core: Core, name: str, kind: Kind, pointer: str) -> Neighbour:
    if not is_job(name):
        load = load_of_type(name, kind.accelerator.name, _STEP_OF_A_TYPE_S)
        return Neighbour(name=name, load=load, has_step=False)
    prepared = core.prepare(parse_job(json.loads(name), pointer=pointer))
    (prediction,) = core.predictions([(prepared, kind.accelerator)])
    load = load_alone(prepared, kind, prediction.time_s)
    return Neighbour(name=prepared.job.label, load=load, has_step=True)
