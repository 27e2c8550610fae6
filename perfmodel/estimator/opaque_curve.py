"""Draw the curve of a job that is known by its type alone over the number of accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfmodel.estimator.curve import Curve, CurveQuestion
from perfmodel.estimator.curve_points import curve_of, curve_placement, fabrics_of
from perfmodel.estimator.opaque import NO_GRAPH_WARNING, VERSION
from perfmodel.estimator.opaque_job import OpaqueJob
from perfmodel.estimator.opaque_steps import ReplicaColumns, own_batch
from perfmodel.placement.fabric.world_group import scaling_groups
from perfmodel.placement.opaque.completion import COVERAGE
from perfmodel.placement.opaque.opaque_cells import log_speed

if TYPE_CHECKING:
    from perfmodel.devices.spec import AcceleratorSpec
    from perfmodel.estimator.facade import Estimator


def draw_opaque_curve(estimator: Estimator, opaque: OpaqueJob, asked: CurveQuestion) -> Curve:
    """Return the throughput of an opaque job over the number of accelerators, data parallel.

    Raises
    ------
    UnknownAcceleratorError
        A name that the catalogue does not hold.
    """
    spec = estimator.accelerators.get(asked.accelerator)
    if opaque.own is not None:
        return _by_steps(opaque, spec, asked)
    placements = [
        estimator.resolve(curve_placement(spec, count, asked)) for count in (1, *asked.counts)
    ]
    one, *points = estimator.answer_type(opaque, placements)
    return curve_of(spec.name, asked.counts, one, points)


def _by_steps(opaque: OpaqueJob, spec: AcceleratorSpec, asked: CurveQuestion) -> Curve:
    counts = np.array([1, *asked.counts])
    groups = scaling_groups(spec, counts, asked.per_host, asked.network, link=asked.link)
    columns = ReplicaColumns(
        groups=groups,
        log_speed=np.full(len(counts), log_speed(spec)),
        machine=[spec.name] * len(counts),
        fabric=fabrics_of(spec, groups, asked.network),
        zero_stage=asked.zero_stage,
    )
    steps = opaque.steps(columns)
    found = steps.calibrated
    samples = counts * own_batch(opaque.job) * opaque.job.accumulation_steps
    low_s, high_s = found.interval()
    rate = samples / found.parts.step_time_s
    return Curve(
        accelerator=spec.name,
        counts=counts[1:].astype(np.int64),
        samples_per_second=rate[1:],
        low=(samples / high_s)[1:],
        high=(samples / low_s)[1:],
        step_time_s=found.parts.step_time_s[1:],
        compute_time_s=found.parts.compute_s[1:],
        sync_time_s=found.parts.communication_s[1:],
        exposed_communication_s=found.parts.exposed_communication_s[1:],
        efficiency=rate[1:] / (counts[1:] * rate[0]),
        peak_bytes=np.full(len(counts) - 1, np.nan),
        # A memory that is not known is no reason to keep a job away.
        fits=np.ones(len(counts) - 1, dtype=np.bool_),
        basis=steps.bases[1:],
        coverage=COVERAGE,
        out_of_distribution=False,
        model_version=VERSION,
        warnings=(NO_GRAPH_WARNING,),
    )
