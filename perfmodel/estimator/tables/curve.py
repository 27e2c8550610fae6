"""A job over growing numbers of one accelerator, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.evidence.observed import Correction
from perfmodel.estimator.evidence.observed_job import ObservedJob, bounds_of
from perfmodel.estimator.evidence.tight_cells import RAN_OUT_WARNING
from perfmodel.estimator.job_types.job_type import ObservedJobType
from perfmodel.estimator.job_types.job_type_answers import (
    said_of_type,
    type_estimate,
    type_steps,
    type_steps_over,
)
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.cells import Steps
from perfmodel.estimator.placing.columns import ReplicaColumns
from perfmodel.estimator.placing.memory import replica_memory
from perfmodel.estimator.placing.replicas import replicated_steps
from perfmodel.estimator.tables.estimates import NO_ROOM_WARNING, answer_cell
from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.placement.topology.topology import Network, Node, Placement, Plan
from perfmodel.types import LADDER, Basis

#: Most accelerators of a curve, and most points.
MOST_ACCELERATORS, MOST_POINTS = 100_000, 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class CurveQuestion:
    """Which counts of which accelerator.

    Parameters
    ----------
    accelerator : str
        Name or alias.
    counts : tuple of int
        Each >= 1.
    per_host : int
        Accelerators of a full host; hosts are filled one by one.
    network : Network or None
        Between hosts; None means what such hosts usually have.
    link : str or None
        Inside a host; None means the accelerator's own.
    zero_stage : int
        What replicas share out.
    """

    accelerator: str
    counts: tuple[int, ...]
    per_host: int = 8
    network: Network | None = None
    link: str | None = None
    zero_stage: int = 0

    def __post_init__(self) -> None:
        if not 1 <= len(self.counts) <= MOST_POINTS:
            raise InvalidInputError(
                f"A curve has 1 to {MOST_POINTS} counts; got {len(self.counts)}.",
                pointer="/counts",
            )
        for position, count in enumerate(self.counts):
            if not 1 <= count <= MOST_ACCELERATORS:
                raise InvalidInputError(
                    f"A count lies between 1 and {MOST_ACCELERATORS}; got {count}.",
                    pointer=f"/counts/{position}",
                )
        if self.per_host < 1:
            raise InvalidInputError(
                f"accelerators_per_host must be at least 1; got {self.per_host}.",
                pointer="/accelerators_per_host",
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """Throughput over the count, arrays of shape (counts,).

    Parameters
    ----------
    accelerator : str
        Canonical name.
    compute_time_s, sync_time_s : ndarray
        The parts of the step that compute and that synchronise; they may overlap.
    efficiency : ndarray
        Throughput over that many times the throughput of one; at most 1.
    peak_bytes : ndarray
        Of one accelerator.
    """

    accelerator: str
    counts: IntArray
    samples_per_second: FloatArray
    low: FloatArray
    high: FloatArray
    coverage: float
    step_time_s: FloatArray
    compute_time_s: FloatArray
    sync_time_s: FloatArray
    exposed_communication_s: FloatArray
    efficiency: FloatArray
    peak_bytes: FloatArray
    fits: npt.NDArray[np.bool_]
    basis: tuple[Basis, ...]
    out_of_distribution: bool
    model_version: str
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values; of memory that is not known, None."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        columns = {n: column.tolist() for n, column in plain.items() if hasattr(column, "tolist")}
        known = list(zip(columns["peak_bytes"], columns["fits"], strict=True))
        return {
            **plain,
            **columns,
            "peak_bytes": [peak if isfinite(peak) else None for peak, _ in known],
            "fits": [fits if isfinite(peak) or not fits else None for peak, fits in known],
            "basis": [basis.value for basis in self.basis],
            "warnings": list(self.warnings),
        }


def doubling_counts(most: int) -> Sequence[int]:
    """Return 1, 2, 4, ... and ``most`` itself.

    Raises
    ------
    InvalidInputError
        Fewer than one, or more than a curve is drawn for.

    Examples
    --------
    >>> list(doubling_counts(12))
    [1, 2, 4, 8, 12]
    """
    if not 1 <= most <= MOST_ACCELERATORS:
        raise InvalidInputError(
            f"The largest count lies between 1 and {MOST_ACCELERATORS}; got {most}.",
            pointer="/most",
        )
    powers = [2**k for k in range(most.bit_length()) if 2**k < most]
    return [*powers, most]


def draw_curve(
    core: Core,
    prepared: PreparedJob,
    asked: CurveQuestion,
    observed: ObservedJob | None = None,
) -> Curve:
    """Return the throughput of a captured job over the number of accelerators, data parallel.

    Raises
    ------
    InvalidInputError
        A name that the catalogue does not hold, or that of a part.
    """
    spec = _whole(core, asked)
    if not prepared.is_usual:
        placements = [core.resolve(placement_of(n, asked)) for n in (1, *asked.counts)]
        answers = [answer_cell(core, prepared, placement, observed) for placement in placements]
        return _of_estimates(spec, asked, answers)
    predictions = {spec.name: core.predictions([(prepared, spec)])[0]}
    columns = _columns(spec, asked)
    bounds = bounds_of(observed)
    peak_bytes, fits = replica_memory(prepared, columns, bounds)
    steps = replicated_steps([prepared], [predictions], columns)
    if observed is not None or prepared.job.script:
        correction = Correction()
        steps = correction.add([prepared], columns, steps, [observed])
        correction.apply()
    prediction = predictions[spec.name]
    placement = core.resolve(placement_of(max(asked.counts), asked))
    refused = _refused(core, prepared, asked, observed)
    fits[1:] &= ~refused
    of_counts = dict.fromkeys(text for texts in steps.said.values() for text in texts)
    said = (*prediction.warnings, *placement.warnings, *of_counts, *prepared.warnings)
    said += () if observed is None else observed.warnings
    said += (RAN_OUT_WARNING,) if refused.any() else ()
    return _of_steps(
        spec,
        steps,
        asked,
        peak_bytes=peak_bytes[1:],
        fits=fits[1:],
        coverage=prediction.coverage,
        out_of_distribution=prediction.out_of_distribution,
        model_version=prediction.model_version,
        warnings=(*said, *(() if fits[1:].all() else (NO_ROOM_WARNING,))),
    )


def _whole(core: Core, asked: CurveQuestion) -> AcceleratorSpec:
    """Look the accelerator of a curve up, which is a whole one."""
    try:
        spec, profile = core.accelerators.whole_and_profile(asked.accelerator)
    except InvalidInputError as error:
        error.pointer = "/accelerator"
        if (told := _counted(core, asked.accelerator)) is not None:
            raise told from error
        raise
    if profile:
        raise InvalidInputError(
            f"A curve is drawn for whole accelerators; {asked.accelerator!r} is the MIG slice "
            f"{profile} of {spec.name}. A matrix answers for placements of slices.",
            pointer="/accelerator",
        )
    return spec


def _counted(core: Core, name: str) -> InvalidInputError | None:
    """Say what to name in the place of a whole placement, an instance type say; None of others."""
    try:
        (node,) = parse_placement(name).nodes
        spec, _ = core.accelerators.whole_and_profile(node.accelerator)
    except (InvalidInputError, ValueError):
        return None
    return InvalidInputError(
        f"A curve counts accelerators itself: name one, such as {spec.name!r}, not {name!r}. How "
        "many there are, and what joins them, is said apart.",
        pointer="/accelerator",
    )


def _refused(
    core: Core, prepared: PreparedJob, asked: CurveQuestion, observed: ObservedJob | None
) -> npt.NDArray[np.bool_]:
    """Return which counts are refused by what ran out of memory, shape (counts,)."""
    if observed is None or not observed.tight:
        return np.zeros(len(asked.counts), dtype=np.bool_)
    placements = (core.resolve(placement_of(count, asked)) for count in asked.counts)
    return np.array([observed.refuses(prepared, placement) for placement in placements])


def draw_curve_of_type(core: Core, of: ObservedJobType, asked: CurveQuestion) -> Curve:
    """Return the throughput of a job type over the number of accelerators, data parallel.

    Raises
    ------
    InvalidInputError
        A name that the catalogue does not hold, or that of a part.
    """
    spec = _whole(core, asked)
    if of.own is None:
        placements = [core.resolve(placement_of(n, asked)) for n in (1, *asked.counts)]
        steps = type_steps(of, placements)
    else:
        placements = [core.resolve(placement_of(max(asked.counts), asked))]
        steps = type_steps_over(of, _columns(spec, asked))
    answers = [type_estimate(of, one, steps.at((0, at))) for at, one in enumerate(placements)]
    unknown = np.full(len(asked.counts), np.nan)
    runs_out = [
        bool(of.tight) and of.runs_out_on(core.resolve(placement_of(n, asked)))
        for n in asked.counts
    ]
    of_one = {*said_of_type([True]), *said_of_type([False])}
    said = [
        text
        for one in answers[-len(asked.counts) :]
        for each in one.warnings
        for text in (said_of_type(runs_out) if each in of_one else (each,))
    ]
    return _of_steps(
        spec,
        steps,
        asked,
        peak_bytes=unknown,
        # A memory that is not known is no reason to keep a job away.
        fits=~np.array(runs_out, dtype=np.bool_),
        coverage=answers[0].throughput.coverage,
        out_of_distribution=answers[0].out_of_distribution,
        model_version=answers[0].model_version,
        warnings=said,
    )


def placement_of(count: int, asked: CurveQuestion) -> Placement:
    """Return so many accelerators, hosts filled one by one."""
    full, rest = divmod(count, asked.per_host)
    nodes = [
        Node(accelerator=asked.accelerator, count=each, link=asked.link, repeat=repeat)
        for each, repeat in ((asked.per_host, full), (rest, 1))
        if each and repeat
    ]
    several = len(nodes) > 1 or full > 1
    return Placement(
        nodes=tuple(nodes),
        network=asked.network if several else None,
        plan=Plan(zero_stage=asked.zero_stage),
    )


def _columns(spec: AcceleratorSpec, asked: CurveQuestion) -> ReplicaColumns:
    """Return one accelerator, then the counts that were asked for."""
    return ReplicaColumns.over_counts(
        spec,
        (1, *asked.counts),
        per_host=asked.per_host,
        network=asked.network,
        link=asked.link,
        zero_stage=asked.zero_stage,
    )


def _of_steps(
    spec: AcceleratorSpec, steps: Steps, asked: CurveQuestion, *, warnings: Sequence[str],
    **facts: Any,
) -> Curve:  # fmt: skip
    """Read a curve off a row of steps, the first of which is that of one accelerator."""
    counts = np.array(asked.counts, dtype=np.int64)
    shape, points = steps.samples_per_second.shape, (0, slice(1, None))

    def row(values: FloatArray) -> FloatArray:
        return np.array(np.broadcast_to(values, shape)[points])

    rate = row(steps.samples_per_second)
    return Curve(
        accelerator=spec.name,
        counts=counts,
        samples_per_second=rate,
        low=row(steps.low),
        high=row(steps.high),
        step_time_s=row(steps.step_time_s),
        compute_time_s=row(steps.parts.compute_s),
        sync_time_s=row(steps.parts.communication_s),
        exposed_communication_s=row(steps.parts.exposed_communication_s),
        efficiency=rate / (counts * steps.samples_per_second[0, 0]),
        basis=tuple(LADDER[rung] for rung in steps.rung[points].tolist()),
        warnings=tuple(dict.fromkeys(warnings)),
        **facts,
    )


def _of_estimates(
    spec: AcceleratorSpec, asked: CurveQuestion, answers: Sequence[Estimate]
) -> Curve:
    """Put a curve together from single answers, the first of which is that of one accelerator."""
    one, *points = answers
    rate = np.array([point.throughput.samples_per_second for point in points])
    counts = np.array(asked.counts, dtype=np.int64)
    exposed = [point.breakdown.exposed_communication_s for point in points]
    return Curve(
        accelerator=spec.name,
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
        fits=np.array([point.memory.fits for point in points], dtype=np.bool_),
        basis=tuple(point.basis for point in points),
        coverage=one.throughput.coverage,
        out_of_distribution=one.out_of_distribution,
        model_version=one.model_version,
        warnings=tuple(dict.fromkeys(text for point in points for text in point.warnings)),
    )
