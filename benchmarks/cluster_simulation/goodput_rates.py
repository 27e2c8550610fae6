r"""Goodput of jobs on configurations of a cluster: measured steps, and what a scheduler sees.

A configuration is a placement on one kind of accelerator. Training with :math:`n` accelerators and
a local batch :math:`b` makes the progress

.. math:: G = \frac{n b}{T(n, b)}\, \frac{\varphi + M_0}{\varphi + n b}

in samples at the initial batch :math:`M_0`, with a noise scale :math:`\varphi` of
:data:`NOISE_BATCHES` initial batches, which is made up: no table states it.

Reference: Qiao et al., OSDI 2021 (goodput); Jayaram Subramanya et al., Sia, SOSP 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from cluster_simulation.allocation import IntArray
from cluster_simulation.rates import BoolArray
from cluster_simulation.rounds import FloatArray, Placed
from cluster_simulation.seen_rates import NOTHING

from perfmodel.adapters.ask import Cell, JobForm, PlacementForm, SeenInMatrix
from perfmodel.adapters.local import LocalAnswers
from perfmodel.adapters.sia import SiaCluster, steps
from perfmodel.adapters.spread import of_counts
from perfmodel.estimator import Estimator
from perfmodel.graph.job_form import stated_fields
from perfmodel.importers.jobs.sia_traces import CLUSTERS, JOBS
from perfmodel.importers.registry import read_format
from perfmodel.types import Precision

#: Initial global batch of each application, as Pollux and Sia train it.
INITIAL_BATCH = {"bert": 12, "cifar10": 128, "deepspeech2": 20, "imagenet": 200, "ncf": 256}
#: Noise scale over the initial batch.
NOISE_BATCHES = 16


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


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """Where a job may run: a digit for each node."""

    cluster: str
    placement: str

    @property
    def accelerators(self) -> int:
        """How many it takes."""
        return sum(map(int, self.placement))


@dataclass(frozen=True, kw_only=True)
class StepTable:
    """Step times of applications.

    Parameters
    ----------
    configurations : tuple of Configuration
    batch_sizes : tuple of int
        Samples of a replica, over all applications.
    step_time_s : ndarray, shape (applications, configurations, batch sizes)
        NaN where there is none.
    """

    applications: tuple[str, ...]
    configurations: tuple[Configuration, ...]
    batch_sizes: tuple[int, ...]
    step_time_s: FloatArray

    @property
    def accelerators(self) -> FloatArray:
        """Accelerators of each configuration."""
        return np.array([one.accelerators for one in self.configurations], dtype=np.float64)

    def goodput(self) -> FloatArray:
        """Return the progress, samples/s, in the shape of the steps; 0 where there is none."""
        first = np.array([INITIAL_BATCH[name] for name in self.applications])[:, None, None]
        together = self.accelerators[:, None] * np.array(self.batch_sizes)
        efficiency = (NOISE_BATCHES + 1) * first / (NOISE_BATCHES * first + together)
        return np.nan_to_num(together / self.step_time_s * efficiency)

    def initial(self) -> IntArray:
        """Return for each application and configuration which batch size is nearest to its own."""
        first = np.array([INITIAL_BATCH[name] for name in self.applications])[:, None, None]
        far = np.abs(np.log(np.array(self.batch_sizes) / first))
        return np.argmin(np.where(np.isfinite(self.step_time_s), far, np.inf), axis=2)


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


def measured_steps(data: Path, capacity: Mapping[str, int]) -> StepTable:
    """Read Sia's placements that its scheduler chooses from.

    Parameters
    ----------
    capacity : mapping of str to int
        Accelerators of each cluster.
    """
    configurations = tuple(
        Configuration(cluster=name, placement=placement)
        for name, most in capacity.items()
        for placement in _cluster(name, most // CLUSTERS[name].per_node).placements()
    )
    position = {(one.cluster, one.placement): at for at, one in enumerate(configurations)}
    rows = []
    for record in read_format("sia", data).placements:
        digits = "".join(str(node.count) * node.repeat for node in record.placement.nodes)
        column = position.get((record.settings["cluster"], digits))
        if column is not None:
            name = record.job_type.removeprefix("sia/")
            rows.append((name, column, record.batch_size, record.step_time_s))
    applications = tuple(sorted({row[0] for row in rows}))
    sizes = tuple(sorted({row[2] for row in rows}))
    found = np.full((len(applications), len(configurations), len(sizes)), np.nan)
    for name, column, size, step_time_s in rows:
        found[applications.index(name), column, sizes.index(size)] = step_time_s
    return StepTable(
        applications=applications,
        configurations=configurations,
        batch_sizes=sizes,
        step_time_s=found,
    )


def _cluster(name: str, nodes: int) -> SiaCluster:
    kind = CLUSTERS[name]
    return SiaCluster(
        accelerator=kind.accelerator, per_node=kind.per_node, nodes=nodes, network=kind.network
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
        for cluster in {one.cluster for one in measured.configurations}:
            columns = [at for at, one in enumerate(measured.configurations) if one.cluster == cluster]
            asked = (ran[row] & ~known[row])[columns].any(axis=0)
            if not asked.any():
                continue
            sizes = np.flatnonzero(asked | known[row].any(axis=0)).tolist()
            placements = [measured.configurations[column].placement for column in columns]
            answered = steps(
                ObservedAnswers(estimator, list(_seen(measured, known[row], name, sizes))),
                _job(name),
                _cluster(cluster, max(map(len, placements))),
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
    return stated_fields(job)


def _seen(
    measured: StepTable, known: BoolArray, name: str, sizes: Sequence[int]
) -> Iterator[SeenInMatrix]:
    """Yield the known steps of an application as a user would report them, to each batch asked."""
    steps_s = measured.step_time_s[measured.applications.index(name)]
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
                "step_time_s": float(steps_s[column, size]),
            }


@dataclass(frozen=True, kw_only=True)
class MeasuredGoodput:
    """Goodput at which the jobs of a trace run: settings are configurations and batch sizes.

    Parameters
    ----------
    goodput : ndarray, shape (applications, configurations, batch sizes)
    subjects : sequence of int
        Application of each job of the trace.
    """

    goodput: FloatArray
    subjects: Sequence[int]

    def rates(self, placed: Placed) -> tuple[float, ...]:
        """Return the goodput of the one job of a placement."""
        column, size = divmod(placed.setting, self.goodput.shape[2])
        return (float(self.goodput[self.subjects[placed.jobs[0]], column, size]),)
