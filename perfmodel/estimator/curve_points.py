"""Draw the curve of a job over the number of accelerators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from perfmodel.estimator.answer import LADDER, RUNG, interval
from perfmodel.estimator.curve import Curve, CurveQuestion
from perfmodel.estimator.observed import ObservedJob
from perfmodel.estimator.replicas import (
    half_width,
    replica_parts,
    throughput,
    wait_for_each_other,
)
from perfmodel.estimator.resolve import Kind
from perfmodel.estimator.weighed_steps import OBSERVED_JOB, fabric_word, host_s, window_share
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.fabric.world_group import scaling_groups
from perfmodel.placement.memory.memory import memory_columns
from perfmodel.placement.memory.memory_parts import MemoryPlan
from perfmodel.placement.step_parts import StepParts
from perfmodel.placement.topology.links import LinkClass
from perfmodel.placement.topology.networks import default_network
from perfmodel.placement.topology.topology import Network, Node, Placement, Plan
from perfmodel.types import Basis

if TYPE_CHECKING:
    from perfmodel.devices.spec import AcceleratorSpec
    from perfmodel.estimator.facade import Estimator
    from perfmodel.estimator.model import StepPrediction
    from perfmodel.estimator.step import PreparedJob
    from perfmodel.placement.estimate import Estimate

FloatArray = npt.NDArray[np.float64]


def draw_curve(
    estimator: Estimator,
    prepared: PreparedJob,
    asked: CurveQuestion,
    observed: ObservedJob | None = None,
) -> Curve:
    """Return the throughput of a job over the number of accelerators, data parallel.

    Parameters
    ----------
    observed : ObservedJob or None
        What observed steps of the job say.

    Raises
    ------
    UnknownAcceleratorError
        A name that the catalogue does not hold.
    """
    spec = estimator.accelerators.get(asked.accelerator)
    if prepared.has_plan_engine:
        return _one_by_one(estimator, prepared, spec, asked, observed)
    observed = observed.on(spec.name) if observed is not None else None
    (prediction,) = estimator.predictions([(prepared, spec)])
    if observed is not None and observed.is_alone:
        kinds = [Kind(accelerator=spec, count=1)]
        (prediction,) = observed.single(prepared, kinds, [prediction])
        observed = None
    points = _points(prepared, spec, asked, prediction, observed)
    ranks = points.groups.ranks[1:]
    memory = memory_columns(
        prepared.memory_profile,
        [spec] * len(ranks),
        job=prepared.job,
        plan=MemoryPlan(
            data=ranks,
            zero_stage=float(asked.zero_stage),
            micro_batches=float(prepared.job.accumulation_steps),
        ),
    )
    return Curve(
        accelerator=spec.name,
        counts=ranks.astype(np.int64),
        samples_per_second=points.rate[1:],
        low=points.low[1:],
        high=points.high[1:],
        step_time_s=points.parts.step_time_s[1:],
        compute_time_s=points.parts.compute_s[1:],
        sync_time_s=points.parts.communication_s[1:],
        exposed_communication_s=points.parts.exposed_communication_s[1:],
        efficiency=points.rate[1:] / (ranks * points.rate[0]),
        peak_bytes=memory.peak_bytes,
        fits=memory.fits,
        basis=(Basis.CALIBRATED,) * len(ranks)
        if observed is not None and observed.observations
        else _bases(prediction.basis, points.groups.hosts[1:], ranks),
        coverage=prediction.coverage,
        out_of_distribution=prediction.out_of_distribution,
        model_version=prediction.model_version,
        warnings=tuple(dict.fromkeys((*prediction.warnings, *prepared.warnings))),
    )


def _one_by_one(
    estimator: Estimator,
    prepared: PreparedJob,
    spec: AcceleratorSpec,
    asked: CurveQuestion,
    observed: ObservedJob | None,
) -> Curve:
    """Put a curve together from single answers, where equations for plans give them."""

    def answer(count: int) -> Estimate:
        placement = estimator.resolve(curve_placement(spec, count, asked))
        return estimator.answer(prepared, placement, observed)

    return curve_of(spec.name, asked.counts, answer(1), [answer(count) for count in asked.counts])


def curve_of(
    accelerator: str, asked: Sequence[int], one: Estimate, points: Sequence[Estimate]
) -> Curve:
    """Put a curve together from single answers.

    Parameters
    ----------
    asked : sequence of int
        Counts.
    one : Estimate
        On one accelerator.
    points : sequence of Estimate
        For each count.
    """
    rate = np.array([point.throughput.samples_per_second for point in points])
    counts = np.array(asked, dtype=np.int64)
    exposed = [point.breakdown.exposed_communication_s for point in points]
    said = (text for point in points for text in point.warnings)
    return Curve(
        accelerator=accelerator,
        counts=counts,
        samples_per_second=rate,
        low=np.array([point.throughput.low for point in points]),
        high=np.array([point.throughput.high for point in points]),
        step_time_s=np.array([point.step_time_s for point in points]),
        compute_time_s=np.array([point.compute_time_s for point in points]),
        sync_time_s=np.array([point.sync_time_s for point in points]),
        exposed_communication_s=np.array(exposed),
        efficiency=rate / (counts * one.throughput.samples_per_second),
        peak_bytes=np.array([point.memory.peak_bytes for point in points], dtype=np.float64),
        # A memory that is not known is no reason to keep a job away.
        fits=np.array([point.memory.fits is not False for point in points], dtype=np.bool_),
        basis=tuple(point.basis for point in points),
        coverage=one.throughput.coverage,
        out_of_distribution=one.out_of_distribution,
        model_version=one.model_version,
        warnings=tuple(dict.fromkeys(said)),
    )


def curve_placement(spec: AcceleratorSpec, count: int, asked: CurveQuestion) -> Placement:
    """Return so many accelerators, hosts filled one by one."""
    full, rest = divmod(count, asked.per_host)
    nodes = [
        Node(accelerator=spec.name, count=each, link=asked.link, repeat=repeat)
        for each, repeat in ((asked.per_host, full), (rest, 1))
        if each and repeat
    ]
    several = len(nodes) > 1 or full > 1
    return Placement(
        nodes=tuple(nodes),
        network=asked.network if several else None,
        plan=Plan(zero_stage=asked.zero_stage),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Points:
    """One accelerator, then the counts that were asked for."""

    groups: CommGroups
    parts: StepParts
    rate: FloatArray
    low: FloatArray
    high: FloatArray


def _points(
    prepared: PreparedJob,
    spec: AcceleratorSpec,
    asked: CurveQuestion,
    prediction: StepPrediction,
    observed: ObservedJob | None,
) -> _Points:
    job, counts = prepared.job, np.array([1, *asked.counts])
    groups = scaling_groups(spec, counts, asked.per_host, asked.network, link=asked.link)
    rates = []
    for time_s in (prediction.high_s, prediction.low_s, prediction.time_s):
        alone = np.full(len(counts), time_s)
        parts = replica_parts(
            [alone], groups, prepared.step.buckets, mode=job.mode, zero_stage=asked.zero_stage,
            accumulation_steps=job.accumulation_steps, straggler=prepared.straggler,
        )  # fmt: skip
        step_time_s = parts.step_time_s
        rates.append(
            throughput(
                [alone],
                [groups.ranks],
                step_time_s,
                mode=job.mode,
                samples=prepared.samples,
                zero_stage=asked.zero_stage,
            )  # fmt: skip
        )
    slowest, fastest, rate = rates
    several = (counts > 1) & wait_for_each_other(job.mode, asked.zero_stage)
    low, high = interval(rate, fastest, slowest, half_width(parts, several))
    if observed is None or observed.calibration is None:
        return _Points(groups=groups, parts=parts, rate=rate, low=low, high=high)
    found = observed.calibration.apply(_cells(prepared, spec, groups, asked, parts))
    # Links that were not observed stay as sure as they were.
    wide = np.minimum(found.interval()[1] / found.parts.step_time_s, np.sqrt(high / low))
    corrected = rate * parts.step_time_s / found.parts.step_time_s
    return _Points(
        groups=groups,
        parts=found.parts,
        rate=corrected,
        low=corrected / wide,
        high=corrected * wide,
    )


def _cells(
    prepared: PreparedJob,
    spec: AcceleratorSpec,
    groups: CommGroups,
    asked: CurveQuestion,
    parts: StepParts,
) -> StepCells:
    """Return the points of a curve as what a calibration reads."""
    return StepCells.of_job(
        parts,
        batch_size=prepared.samples,
        ranks=groups.ranks,
        hosts=groups.hosts,
        largest_share=groups.largest_share,
        host_s=host_s(prepared),
        window_share=window_share(prepared),
        job=OBSERVED_JOB,
        machine=spec.name,
        fabric=fabrics_of(spec, groups, asked.network),
    )


def fabrics_of(spec: AcceleratorSpec, groups: CommGroups, network: Network | None) -> list[str]:
    """Return a word for the links of each point of a curve."""
    between = network or default_network([spec])
    return [
        fabric_word(LinkClass(int(link)), between if hosts > 1 else None)
        for link, hosts in zip(groups.intra_class, groups.hosts, strict=True)
    ]


def _bases(single: Basis, hosts: FloatArray, counts: FloatArray) -> tuple[Basis, ...]:
    scaling = np.where(hosts > 1, RUNG[Basis.EXTRAPOLATED], RUNG[Basis.INTERPOLATED])
    rungs = np.where(counts > 1, np.maximum(scaling, RUNG[single]), RUNG[single])
    return tuple(LADDER[rung] for rung in rungs.tolist())
