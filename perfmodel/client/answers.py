"""Answers to questions, as the service gives them and as its OpenAPI document describes them.

Times are seconds, sizes bytes, rates of samples per second those of the whole job; None stands
where nothing is known. In ``Annotated`` a text describes a field, a tuple lists its words and a
dictionary has its bounds; none of them is checked here. What has a default may be left out by an
older service; fields that a newer one has besides are passed over. The estimator answers in some
of these forms itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

from perfmodel.client.errors import Problem
from perfmodel.client.forms import Plan
from perfmodel.types import Basis, Phase, Precision

#: One number a count of a curve.
Numbers = tuple[float, ...]
#: One row a job, one element a placement; None where there is no answer.
Table = tuple[tuple[float | None, ...], ...]

_COMPUTES = "The part of the step that computes, in seconds."
_SYNCHRONISES = (
    "All communication of the step, in seconds; what computing hides of it lies within "
    "`compute_time_s`."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Throughput:
    """Samples per second of the whole job, with an interval.

    The interval holds the truth with chance ``coverage``.
    """

    samples_per_second: float
    low: float
    high: float
    coverage: float
    tokens_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Where the time of one step goes; the parts add up to `step_time_s`."""

    compute_s: float
    exposed_communication_s: float
    input_stall_s: float
    overhead_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """Memory of the accelerator with the least room.

    ``peak_bytes`` and ``fits`` are None for a job of which no graph is known, ``oom_probability``
    where the model behind it states no uncertainty.
    """

    peak_bytes: float | None
    capacity_bytes: float
    fits: bool | None
    oom_probability: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """What a job on the same accelerators suffers from the one that was asked about."""

    name: str
    slowdown: Annotated[float, "How many times as long its step takes."]
    step_time_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """The answer to one question.

    The step is a whole one of the optimizer, or a pass of inference, with all its micro-batches.
    ``basis`` is what it rests on, best evidence first; ``nearest`` names what was measured that is
    most alike, best first, ``unpriced_operators`` how often operators without a formula come, and
    ``neighbours`` stand in the order of the placement. ``script_efficiency`` is the predicted time
    of the step over the one that is answered, what is left beside loading, logging and waiting,
    where steps of the job were observed.
    """

    throughput: Throughput
    step_time_s: float
    compute_time_s: Annotated[float, _COMPUTES]
    sync_time_s: Annotated[float, _SYNCHRONISES]
    breakdown: Breakdown
    memory: Memory
    basis: Annotated[str, tuple(Basis)]
    out_of_distribution: bool
    model_version: str
    nearest: tuple[str, ...] = ()
    unpriced_operators: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    script_efficiency: float | None = None


@dataclass(frozen=True, kw_only=True)
class CellProblem(Problem):
    """Why a row, a column or a cell of a matrix has no answer; null means all of them."""

    job: int | None = None
    placement: int | None = None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One answered cell of a matrix."""

    samples_per_second: float
    low: float | None
    high: float | None
    step_time_s: float | None
    compute_time_s: float | None = None
    sync_time_s: float | None = None
    peak_bytes: float | None
    fits: bool | None
    basis: str | None
    out_of_distribution: bool | None


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Answers in columns: one row a job, one element a placement, null where none came.

    A service that does not tell apart what computes and what synchronises leaves those columns
    empty.
    """

    jobs: int
    placements: int
    samples_per_second: Table
    low: Table
    high: Table
    coverage: float | None
    step_time_s: Table
    compute_time_s: Annotated[Table, _COMPUTES] = ()
    sync_time_s: Annotated[Table, _SYNCHRONISES] = ()
    peak_bytes: Table
    fits: tuple[tuple[bool | None, ...], ...]
    basis: tuple[tuple[str | None, ...], ...]
    out_of_distribution: tuple[tuple[bool | None, ...], ...]
    status: tuple[tuple[Annotated[str, ("ok", "error")], ...], ...]
    errors: tuple[CellProblem, ...] = ()
    unpriced_operators: tuple[Mapping[str, int] | None, ...] = ()
    model_version: str | None
    warnings: tuple[str, ...] = ()

    def cell(self, job: int, placement: int) -> Cell | None:
        """Return one cell by position; None where it has no answer."""
        rate = self.samples_per_second[job][placement]
        if rate is None or self.status[job][placement] != "ok":
            return None
        columns = {one.name: getattr(self, one.name) for one in fields(Cell)}
        return Cell(**{name: table[job][placement] for name, table in columns.items() if table})

    def problem(self, job: int, placement: int) -> CellProblem | None:
        """Return why a cell has no answer; None where it has one."""
        return next(
            (
                error
                for error in self.errors
                if error.job in (None, job) and error.placement in (None, placement)
            ),
            None,
        )


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Throughput over the count, in columns.

    As in a matrix, ``compute_time_s`` and ``sync_time_s`` may be empty.
    """

    accelerator: str
    counts: tuple[int, ...]
    samples_per_second: Numbers
    low: Numbers
    high: Numbers
    coverage: float
    step_time_s: Numbers
    compute_time_s: Annotated[Numbers, _COMPUTES] = ()
    sync_time_s: Annotated[Numbers, _SYNCHRONISES] = ()
    exposed_communication_s: Numbers
    efficiency: Annotated[Numbers, "Throughput over ideal scaling."]
    peak_bytes: tuple[float | None, ...]
    fits: tuple[bool | None, ...]
    basis: tuple[str, ...]
    out_of_distribution: bool
    model_version: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """The batch of the greatest goodput.

    Goodput counts samples as at the initial batch; ``samples_per_second`` and ``efficiency`` are
    its factors, the latter in (0, 1] from that batch on.
    """

    goodput: float
    samples_per_second: float
    efficiency: float
    batch_size: Annotated[int, "Samples of one replica and micro-batch."]
    accumulation_steps: int
    global_batch_size: int
    step_time_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """One placement, by its position in the question.

    ``score`` is by what was ranked; ``left_out`` says why it is not among the best, and is empty
    for those.
    """

    placement: int
    score: float
    estimate: Estimate
    batch: Batch | None = None
    samples_per_money: float | None = None
    samples_per_joule: float | None = None
    left_out: str = ""


@dataclass(frozen=True, kw_only=True)
class PlacementProblem(Problem):
    """Why a placement has no answer."""

    placement: int


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Placements, best first."""

    best: tuple[Ranked, ...]
    left_out: tuple[Ranked, ...] = ()
    errors: tuple[PlacementProblem, ...] = ()
    model_version: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PlacementKind:
    """Equal accelerators of a placement."""

    accelerator: Annotated[str, "Canonical name of the whole one."]
    count: int
    whole_accelerators: Annotated[
        float, "As many whole ones have the cores that the job holds; what they cost goes by it."
    ]


@dataclass(frozen=True, kw_only=True)
class PlacementFacts:
    """A placement as it is read, and what the job holds by it."""

    placement: Annotated[Mapping[str, Any], "In the long form, with canonical names."]
    text: Annotated[str | None, "The same in the short form; null where that cannot say it."]
    kinds: Annotated[tuple[PlacementKind, ...], "Each once, in the order of the placement."]
    power_w: Annotated[
        float | None, "What the accelerators may draw; null where the catalogue does not know it."
    ]
    usual_precision: Annotated[
        str,
        tuple(Precision),
        "What people train with on all of its accelerators; fp32 where they differ in that.",
    ]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Placements:
    """Placements as they are read, in the order of the question; null where one cannot be."""

    placements: tuple[PlacementFacts | None, ...]
    errors: tuple[PlacementProblem, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FoundPlan:
    """One plan of a search.

    ``reason`` says why it is the best, or what it loses against the best.
    """

    plan: Plan
    batch_size: int
    accumulation_steps: int
    activation_checkpointing: str
    step_time_s: float
    samples_per_second: float
    bubble_s: float
    exposed_communication_s: float
    memory_bytes: float
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class PlanRanking:
    """Plans, best first."""

    plans: tuple[FoundPlan, ...]
    considered: int
    too_large: int
    why_none: str = ""
    model_version: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ClassShare:
    """All operators of one class."""

    name: str
    count: Annotated[int, "Calls in a step."]
    flops: float
    bytes: float
    time_s: float
    share: Annotated[float, "Of `compute_time_s`; all shares add up to 1."]


@dataclass(frozen=True, kw_only=True)
class OperatorShare:
    """Equal operators; FLOPs, bytes and time are of all of them together."""

    name: str
    operator_class: str
    phase: Annotated[str, tuple(Phase)]
    shape: Annotated[tuple[int, ...], "Of the largest tensor that each writes."] = ()
    count: int
    flops: float
    bytes: float
    intensity: Annotated[float | None, "FLOP a byte; null where nothing is moved."] = None
    time_s: float
    achieved_flops_per_s: float
    peak_flops_per_s: Annotated[float | None, "Of the unit that does their arithmetic."] = None
    bound: Annotated[
        str,
        ("compute", "memory", "launch"),
        "What their time is spent on: arithmetic, moving bytes, or being called.",
    ]
    rests_on: Annotated[
        str,
        ("kernels", "model"),
        "Kernels like them that were measured alone, or the model; then scaled to the step.",
    ] = "model"


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """The peaks of the accelerator that is explained."""

    accelerator: str
    precision: str
    peak_flops_per_s: Annotated[float, "Of the matrix units at this precision, dense."]
    memory_bytes_per_s: float
    ridge_intensity: Annotated[float, "FLOP a byte."]


@dataclass(frozen=True, kw_only=True)
class NearPoint:
    """A measured step near the one that was asked about."""

    workload: str
    accelerator: str | None = None
    distance: Annotated[float | None, "0 for the same; its unit goes by the source."] = None
    measured_s: float | None = None
    predicted_s: Annotated[float | None, "Without it."] = None
    measured_over_predicted: Annotated[float | None, "May be known where the two are not."] = None
    source: Annotated[str, ("observation", "training cell", "training graph", "profile")]


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """One thing that was taken into account."""

    name: str
    factor: Annotated[float, "By which it changed the time; 1 for the first."]
    step_time_s: Annotated[float, "The time after it."]


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """An answer, divided over the operators and traced back to the roofline."""

    estimate: Estimate
    compute_time_s: Annotated[
        float, "Step of one replica on one accelerator; the operators add up to it."
    ]
    operator_classes: tuple[ClassShare, ...]
    operators: tuple[OperatorShare, ...]
    roofline: Roofline
    nearest: tuple[NearPoint, ...]
    contributions: Annotated[
        tuple[Contribution, ...], "From the roofline to `estimate.step_time_s`, the last time."
    ]
    model_version: str
    warnings: tuple[str, ...] = ()
    model_flops_utilisation: Annotated[
        float | None,
        "Arithmetic of the model over the peaks of all accelerators that the job holds; what is "
        "computed a second time counts once. Null where there is none.",
    ] = None


@dataclass(frozen=True, kw_only=True)
class KernelAnswer:
    """The time of one kernel on one accelerator, or of a collective of such accelerators.

    The interval holds the truth with chance ``coverage``.
    """

    kernel: Annotated[int, "Position in the question."]
    accelerator: str
    time_s: float
    low_s: float
    high_s: float
    coverage: float
    basis: Annotated[str, tuple(Basis)]
    out_of_distribution: bool
    roofline_s: Annotated[
        float,
        "Arithmetic at the peak, compulsory traffic at the full bandwidth, whichever takes longer; "
        "of a collective what each accelerator sends at least, at the stated rate of its link.",
    ]
    bound: Annotated[str, ("compute", "memory", "link", "launch")]
    flops: float
    bytes: float
    achieved_flops_per_s: float
    achieved_bytes_per_s: float
    peak_flops_per_s: float | None
    bandwidth_bytes_per_s: float
    device_time_s: Annotated[
        float | None, "What the device needs of `time_s`, however long the host takes to launch it."
    ] = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class KernelProblem(Problem):
    """Why a kernel, an accelerator or a pair has no answer; null means all of them."""

    kernel: int | None = None
    accelerator: Annotated[int | None, "Position in the question."] = None


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """Answers to every pair of a kernel and an accelerator that has one, kernel by kernel."""

    kernels: int
    accelerators: Annotated[tuple[str | None, ...], "Canonical names; null where unknown."]
    answers: tuple[KernelAnswer, ...]
    errors: tuple[KernelProblem, ...] = ()
    model_version: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AccuracyPoint:
    """A measured step beside what was predicted without any observation of its job."""

    time: Annotated[str, "When it was received: UTC, ISO 8601."]
    job: Annotated[str, "Reference of the job."]
    label: str
    accelerator: Annotated[str, "`mixed` where several kinds work together."]
    placement: str
    measured_s: float
    predicted_s: float
    low_s: float
    high_s: float


@dataclass(frozen=True, kw_only=True)
class AcceleratorAccuracy:
    """How well the points of one accelerator were predicted."""

    accelerator: str
    count: int
    mape: Annotated[float, "Mean of |predicted / measured - 1| of the step time."]
    coverage: Annotated[float, "Share of the points within their interval."]


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """Predicted against measured, newest first."""

    points: tuple[AccuracyPoint, ...]
    by_accelerator: Annotated[tuple[AcceleratorAccuracy, ...], "Of these points."]
    left_out: Annotated[int, "Observations on the way that cannot be predicted now."] = 0
    next: Annotated[str | None, "`cursor` of the points after these."] = None
