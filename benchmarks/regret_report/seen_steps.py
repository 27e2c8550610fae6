"""What a scheduler sees of a table of steps: some cells measured, others predicted, or nothing.

Predictions come the way that users get them: from the exporter of Sia's tables over an estimator in
this process. Every measured step counts for every batch size of its application on every cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from cluster_simulation.goodput_rates import StepTable, sia_cluster
from cluster_simulation.rates import BoolArray
from regret_report.seen_rates import NOTHING

from perfmodel.adapters.ask import Cell, JobForm, PlacementForm, SeenInMatrix
from perfmodel.adapters.local import LocalAnswers
from perfmodel.adapters.sia import steps
from perfmodel.adapters.spread import of_counts
from perfmodel.estimator import Estimator
from perfmodel.graph.job import stated_fields
from perfmodel.importers.jobs.sia_traces import CLUSTERS, JOBS
from perfmodel.types import Precision


@dataclass(frozen=True, kw_only=True)
class GoodputKnowledge:
    """What is measured before a trace starts; the rest is predicted.

    Parameters
    ----------
    known : callable
        From the measured table to those of its cells that are known.
    """

    name: str
    known: Callable[[StepTable], BoolArray]
    target: float | None = None


def _cells(*cells: tuple[str, str]) -> Callable[[StepTable], BoolArray]:
    """Know the step of the initial batch on these placements."""

    def known(measured: StepTable) -> BoolArray:
        found = np.zeros(measured.step_time_s.shape, dtype=np.bool_)
        columns = [
            column
            for column, one in enumerate(measured.configurations)
            if (one.cluster, one.placement) in cells
        ]
        for column in columns:
            found[np.arange(len(found)), column, measured.initial()[:, column]] = True
        return found

    return known


def _all_but(cluster: str) -> Callable[[StepTable], BoolArray]:
    def known(measured: StepTable) -> BoolArray:
        kept = np.array([one.cluster != cluster for one in measured.configurations])
        return np.broadcast_to(kept[:, None], measured.step_time_s.shape)

    return known


PREDICTED = (
    GoodputKnowledge(name=NOTHING, known=_cells()),
    GoodputKnowledge(name="one cell", known=_cells(("aws", "1")), target=1.06),
    GoodputKnowledge(
        name="three placements",
        known=_cells(("aws", "1"), ("aws", "4"), ("dgx", "1")),
        target=1.02,
    ),
    GoodputKnowledge(name="all but A100", known=_all_but("dgx"), target=1.02),
    GoodputKnowledge(name="all but T4", known=_all_but("aws"), target=1.02),
)


def blind_steps(measured: StepTable) -> StepTable:
    """Return a table that knows nothing: a sample takes equally long wherever it is trained.

    Only the batch size nearest to the initial one is tried.
    """
    step_time_s = np.full(measured.step_time_s.shape, np.nan)
    for row, sizes in enumerate(measured.initial()):
        for column, size in enumerate(sizes):
            step_time_s[row, column, size] = measured.batch_sizes[size]
    return replace(measured, step_time_s=step_time_s)


def predicted_steps(
    estimator: Estimator, measured: StepTable, knowledge: GoodputKnowledge
) -> StepTable:
    """Return a table that was told some measured cells; NaN where there is no answer.

    Steps that were not measured are not offered: no trace can run them.
    """
    ran = np.isfinite(measured.step_time_s)
    known = knowledge.known(measured) & ran
    found = np.full(measured.step_time_s.shape, np.nan)
    for row, name in enumerate(measured.applications):
        for cluster in dict.fromkeys(one.cluster for one in measured.configurations):
            columns = [
                at for at, one in enumerate(measured.configurations) if one.cluster == cluster
            ]
            asked = (ran[row] & ~known[row])[columns].any(axis=0)
            if not asked.any():
                continue
            sizes = np.flatnonzero(asked | known[row].any(axis=0)).tolist()
            placements = [measured.configurations[column].placement for column in columns]
            answered = steps(
                ObservedAnswers(estimator, list(_seen(measured, known[row], name, sizes))),
                _job(name),
                sia_cluster(cluster, max(map(len, placements))),
                local_batch_sizes=[measured.batch_sizes[size] for size in sizes],
                placements=placements,
            )
            for step in answered.steps:
                size = measured.batch_sizes.index(step.local_bsz)
                found[row, columns[placements.index(step.placement)], size] = step.step_time
    step_time_s = np.where(known, measured.step_time_s, np.where(ran, found, np.nan))
    return replace(measured, step_time_s=step_time_s)


def _job(name: str) -> dict[str, Any]:
    """Return an application as the service takes it.

    TF32 is what fp32 is computed in where an accelerator can; the others compute it in fp32.
    """
    trained = JOBS[name]
    job = trained.job(1, Precision.AMP_FP16 if trained.amp else Precision.TF32)
    if job is None:
        raise ValueError(f"No graph stands for {name!r}; leave it out.")
    # As the exporter's own applications are.
    return stated_fields(replace(job, script=True))


def _seen(
    measured: StepTable, known: BoolArray, name: str, sizes: Sequence[int]
) -> Iterator[SeenInMatrix]:
    """Yield the known steps of an application as a user would report them, to each batch asked."""
    row = measured.applications.index(name)
    for column, size in np.argwhere(known).tolist():
        one = measured.configurations[column]
        kind = CLUSTERS[one.cluster]
        placement = of_counts(
            kind.accelerator, [int(digit) for digit in one.placement], network=kind.network
        )
        for position in range(len(sizes)):
            yield {
                "job": position,
                "placement": placement,
                "batch_size": measured.batch_sizes[size],
                "step_time_s": float(measured.step_time_s[row, column, size]),
                "sync_time_s": float(measured.sync_time_s[row, column, size]),
            }


class ObservedAnswers(LocalAnswers):
    """An estimator as something that adapters ask, told observed steps of the jobs asked about.

    Parameters
    ----------
    observations : sequence of mapping
        Each with the position of its ``job`` in the question.
    """

    def __init__(self, estimator: Estimator, observations: Sequence[SeenInMatrix]) -> None:
        super().__init__(estimator)
        self._observations = observations

    def cells(
        self,
        jobs: Sequence[JobForm],
        placements: Sequence[PlacementForm],
        observations: Sequence[SeenInMatrix] = (),
    ) -> list[list[Cell | None]]:
        """Return cells as :meth:`.LocalAnswers.cells`."""
        return super().cells(jobs, placements, [*self._observations, *observations])
