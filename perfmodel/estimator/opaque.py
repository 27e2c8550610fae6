"""Answers for jobs that are known by measured cells alone, without a graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.estimator.resolve import ResolvedPlacement
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.estimate import Breakdown, Estimate, MemoryEstimate, Throughput
from perfmodel.placement.opaque.completion import COVERAGE, OpaqueTable, nearest_labels
from perfmodel.placement.opaque.opaque_cells import opaque_cells
from perfmodel.types import Basis

#: ``model_version`` of such answers.
VERSION = "opaque"


def opaque_estimates(
    job: Job,
    placements: Sequence[ResolvedPlacement],
    observations: Sequence[Observation],
    catalog: Catalog,
) -> list[Estimate]:
    """Answer the cells of an opaque job by those that were observed.

    Parameters
    ----------
    job : Job
        With a ``job_type``.
    placements : sequence of ResolvedPlacement
        At least one.
    observations : sequence of Observation
        Of the job, and of other job types that they name. May be empty; the answers then rest on
        the name alone.
    catalog : Catalog

    Returns
    -------
    list of Estimate
        One for each placement; their memory is not known.
    """
    name = job.job_type or ""
    known = opaque_cells(
        [(_type_of(seen, name), seen.batch_size) for seen in observations],
        [seen.placement for seen in observations],
        catalog=catalog,
        mode=job.mode,
    )
    # A cell is one micro-batch; more of them take as many times as long.
    times = [seen.step_time_s / seen.accumulation_steps for seen in observations]
    asked = opaque_cells(
        [(name, job.batch_size)] * len(placements),
        [placement.placement for placement in placements],
        catalog=catalog,
        mode=job.mode,
    )
    table = OpaqueTable(known, times)
    found = table.complete(asked)
    return [
        _estimate(
            job,
            placement,
            np.array([found.median_s[i], found.low_s[i], found.high_s[i]]),
            found.basis[i],
            tuple(nearest_labels(table, found, i)),
        )
        for i, placement in enumerate(placements)
    ]


def _type_of(seen: Observation, name: str) -> str:
    """Return the job type that was measured; a job with a graph goes by what it is."""
    if seen.job is None:
        return name
    return seen.job.job_type or seen.job.label


def _estimate(
    job: Job,
    placement: ResolvedPlacement,
    times_s: np.ndarray[tuple[int], np.dtype[np.float64]],
    basis: Basis,
    nearest: tuple[str, ...],
) -> Estimate:
    step_s, low_s, high_s = (times_s * job.accumulation_steps).tolist()
    plan = placement.fabric.plan
    samples = (plan.data or 1) * job.batch_size * job.accumulation_steps
    return Estimate(
        throughput=Throughput(
            samples_per_second=samples / step_s,
            low=samples / high_s,
            high=samples / low_s,
            coverage=COVERAGE,
        ),
        step_time_s=step_s,
        compute_time_s=step_s,
        sync_time_s=0.0,
        breakdown=Breakdown(compute_s=step_s),
        memory=MemoryEstimate(
            peak_bytes=None,
            capacity_bytes=min(kind.held.memory_bytes for kind in placement.kinds),
            fits=None,
        ),
        basis=basis,
        out_of_distribution=basis is Basis.DEFAULT,
        model_version=VERSION,
        nearest=nearest,
        warnings=(*placement.warnings, *_warnings(job, basis)),
    )


def _warnings(job: Job, basis: Basis) -> tuple[str, ...]:
    unknown = (NOTHING_KNOWN_WARNING.format(job.job_type),) if basis is Basis.DEFAULT else ()
    return (*unknown, NO_GRAPH_WARNING)


#: Said in every answer of this kind.
NO_GRAPH_WARNING = (
    "The job is known by its type alone: its memory is not known, and its step is not broken down."
)

#: Said where no cell of the job was observed and nothing goes by its name.
NOTHING_KNOWN_WARNING = (
    "Nothing of the job type {0!r} was ever measured; the answer is what jobs in general take. "
    "Send observations of it."
)
