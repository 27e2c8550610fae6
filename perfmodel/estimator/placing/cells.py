"""A question as columns, and what answers it: jobs, placements, and the steps of their cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.columns import ReplicaColumns
from perfmodel.estimator.placing.neighbours import neighbours
from perfmodel.estimator.placing.slowdowns import NeighbourLoad
from perfmodel.estimator.placing.steps import CellStep, Steps
from perfmodel.estimator.single.step_model import StepPrediction

#: What is predicted of a job on one accelerator, by the name of the accelerator.
Predictions = Mapping[str, StepPrediction]


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Cells:
    """Every one of some jobs on every one of some placements.

    Parameters
    ----------
    jobs : sequence of PreparedJob
        Of one mode and number of micro-batches, where there are several.
    predictions : sequence of mapping
        For each job what is predicted on single accelerators; without those that failed.
    columns : ReplicaColumns or None
        Placements of equal replicas.
    placement : ResolvedPlacement or None
        Else a single one of any kind.
    neighbours : sequence of sequence of NeighbourLoad
        For each kind of a single placement the jobs beside the one that is asked about.
    """

    jobs: Sequence[PreparedJob]
    predictions: Sequence[Predictions]
    columns: ReplicaColumns | None = None
    placement: ResolvedPlacement | None = None
    neighbours: Sequence[Sequence[NeighbourLoad]] = ()

    @classmethod
    def one(
        cls,
        prepared: PreparedJob,
        placement: ResolvedPlacement,
        predictions: Sequence[StepPrediction],
        neighbours: Sequence[Sequence[NeighbourLoad]] = (),
    ) -> Self:
        """Return a single cell, with the prediction for each kind of its accelerators."""
        names = [spec.name for spec in placement.accelerators]
        known = dict(zip(names, predictions, strict=True))
        return cls(
            jobs=(prepared,), predictions=(known,), placement=placement, neighbours=neighbours
        )


def predicted_cell(core: Core, prepared: PreparedJob, placement: ResolvedPlacement) -> Cells:
    """Return a job on a placement, with what is predicted of it and of the jobs beside it."""
    pairs = [(prepared, accelerator) for accelerator in placement.accelerators]
    return Cells.one(prepared, placement, core.predictions(pairs), neighbours(core, placement))


class StepSource(Protocol):
    """Tells the steps of cells."""

    def alone(self, cells: Cells) -> Cells:
        """Return cells with the times on one accelerator as this source knows them."""
        ...

    def steps(self, cells: Cells) -> Steps:
        """Return the steps of some cells, arrays of shape (jobs, placements)."""
        ...

    def step(self, cell: Cells) -> CellStep:
        """Return the step of a single cell, as plain numbers."""
        ...
