"""The bodies of explanations and of accuracy, as OpenAPI describes them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from perfmodel.types import Phase
from service.schemas import PredictAnswer, PredictRequest


class _Exact(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class ExplainRequest(PredictRequest):
    """One question, and how many groups of operators its explanation lists."""

    most: Annotated[int, Field(ge=1, le=1_000)] | None = Field(
        50, description="Groups of equal operators at most, those that take most time."
    )


class ClassShareBody(_Exact):
    """All operators of one class."""

    name: str
    count: int = Field(description="Calls in a step.")
    flops: float
    bytes: float
    time_s: float
    share: float = Field(description="Of `compute_time_s`; all shares add up to 1.")


class OperatorShareBody(_Exact):
    """Equal operators; FLOPs, bytes and time are of all of them together."""

    name: str
    operator_class: str
    phase: Literal[tuple(Phase)]  # type: ignore[valid-type]
    shape: list[int] = Field(description="Of the largest tensor that each writes.")
    count: int
    flops: float
    bytes: float
    intensity: float | None = Field(description="FLOP a byte; null where nothing is moved.")
    time_s: float
    achieved_flops_per_s: float
    peak_flops_per_s: float | None = Field(description="Of the unit that does their arithmetic.")
    bound: Literal["compute", "memory", "launch"] = Field(
        description="What their time is spent on: arithmetic, moving bytes, or being called."
    )


class RooflineBody(_Exact):
    """The peaks of the accelerator that is explained."""

    accelerator: str
    precision: str
    peak_flops_per_s: float = Field(description="Of the matrix units at this precision, dense.")
    memory_bytes_per_s: float
    ridge_intensity: float = Field(description="FLOP a byte.")


class NearPointBody(_Exact):
    """A measured step near the one that was asked about."""

    workload: str
    accelerator: str | None
    distance: float | None = Field(description="0 for the same; its unit goes by the source.")
    measured_s: float | None
    predicted_s: float | None = Field(description="Without it.")
    measured_over_predicted: float | None = Field(description="May be known where the two are not.")
    source: Literal["observation", "training cell", "training graph", "profile"]


class ContributionBody(_Exact):
    """One thing that was taken into account."""

    name: str
    factor: float = Field(description="By which it changed the time; 1 for the first.")
    step_time_s: float = Field(description="The time after it.")


class ExplainAnswer(_Exact):
    """An answer, divided over the operators and traced back to the roofline."""

    estimate: PredictAnswer
    compute_time_s: float = Field(
        description="Step of one replica on one accelerator; the operators add up to it."
    )
    operator_classes: list[ClassShareBody]
    operators: list[OperatorShareBody]
    roofline: RooflineBody
    nearest: list[NearPointBody]
    contributions: list[ContributionBody] = Field(
        description="From the roofline to `estimate.step_time_s`, the last time."
    )
    model_version: str
    warnings: list[str]


class AccuracyPoint(_Exact):
    """A measured step beside what was predicted without any observation of its job."""

    time: str = Field(description="When it was received: UTC, ISO 8601.")
    job: str = Field(description="Reference of the job.")
    label: str
    accelerator: str = Field(description="`mixed` where several kinds work together.")
    placement: str
    measured_s: float
    predicted_s: float
    low_s: float
    high_s: float


class AcceleratorAccuracy(_Exact):
    """How well the points of one accelerator were predicted."""

    accelerator: str
    count: int
    mape: float = Field(description="Mean of |predicted / measured - 1| of the step time.")
    coverage: float = Field(description="Share of the points within their interval.")


class AccuracyAnswer(_Exact):
    """Predicted against measured, newest first."""

    points: list[AccuracyPoint]
    by_accelerator: list[AcceleratorAccuracy] = Field(description="Of these points.")
    left_out: int = Field(description="Observations on the way that cannot be predicted now.")
    next: str | None = Field(description="`cursor` of the points after these.")
