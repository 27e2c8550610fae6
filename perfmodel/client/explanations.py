"""Why an answer is what it is, and how answers compared with what was observed.

Times are seconds; FLOPs, bytes and times of a group are of all its operators together.
"""

from __future__ import annotations

from dataclasses import dataclass

from perfmodel.client.answers import Estimate


@dataclass(frozen=True, kw_only=True)
class ClassShare:
    """All operators of one class; ``share`` is of the time that computes."""

    name: str
    count: int
    flops: float
    bytes: float
    time_s: float
    share: float


@dataclass(frozen=True, kw_only=True)
class OperatorShare:
    """Equal operators; ``bound`` by ``compute``, ``memory`` or ``launch``."""

    name: str
    operator_class: str
    phase: str
    count: int
    flops: float
    bytes: float
    time_s: float
    bound: str
    achieved_flops_per_s: float
    peak_flops_per_s: float | None = None
    intensity: float | None = None
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """The peaks of the accelerator that is explained; the ridge in FLOP a byte."""

    accelerator: str
    precision: str
    peak_flops_per_s: float
    memory_bytes_per_s: float
    ridge_intensity: float


@dataclass(frozen=True, kw_only=True)
class NearPoint:
    """A measured step near the one that was asked about."""

    workload: str
    source: str
    accelerator: str | None = None
    distance: float | None = None
    measured_s: float | None = None
    predicted_s: float | None = None
    measured_over_predicted: float | None = None


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """One thing that was taken into account, and the step time after it."""

    name: str
    factor: float
    step_time_s: float


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """An answer, divided over the operators and traced back to the roofline."""

    estimate: Estimate
    compute_time_s: float
    operator_classes: tuple[ClassShare, ...]
    operators: tuple[OperatorShare, ...]
    roofline: Roofline
    nearest: tuple[NearPoint, ...]
    contributions: tuple[Contribution, ...]
    model_version: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AccuracyPoint:
    """A measured step beside what is predicted without any observation of its job."""

    time: str
    job: str
    label: str
    accelerator: str
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
    mape: float
    coverage: float


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """Predicted against measured, newest first; ``next`` is the cursor of what follows."""

    points: tuple[AccuracyPoint, ...]
    by_accelerator: tuple[AcceleratorAccuracy, ...]
    left_out: int = 0
    next: str | None = None
