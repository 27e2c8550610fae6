"""The bodies of requests and answers, as OpenAPI describes them.

Requests are read by :mod:`perfmodel.requests`, the same reader that the command line uses, so
that both refuse the same things in the same words. These models say the same to machines; a
test holds the two together.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from perfmodel.placement.topology import Schedule
from perfmodel.requests import MAX_COUNT, OPTIMIZERS
from perfmodel.types import Basis, Compiler, MemoryFormat, Mode, Precision

Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Accelerators = Annotated[int, Field(ge=1, le=1_000_000)]
Text = Annotated[str, Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class HfConfigReference(_Strict):
    """A transformers config; built on the meta device, without weights."""

    hf_config: dict[str, Any]


class GraphReference(_Strict):
    """A graph registered with ``POST /v1/graphs``."""

    graph: Text


class JobBody(_Strict):
    """What runs: exactly one of ``model``, ``hf_config`` and ``graph``, and how."""

    model: Text | HfConfigReference | GraphReference | None = Field(
        None, description="`timm/<name>`, `zoo/<name>`, or an object that refers to the model."
    )
    model_kwargs: dict[str, Any] | None = Field(None, description="Arguments of a named model.")
    hf_config: dict[str, Any] | None = Field(None, description="A transformers config.")
    graph: Text | None = Field(None, description="Content hash of a registered graph.")
    mode: Literal[tuple(Mode)]  # type: ignore[valid-type]
    batch_size: Count = Field(description="Samples per replica and micro-batch.")
    accumulation_steps: Count | None = Field(1, description="Micro-batches per optimizer step.")
    precision: Literal[tuple(Precision)] | None = "fp32"  # type: ignore[valid-type]
    optimizer: Literal[OPTIMIZERS] | None = "sgd"  # type: ignore[valid-type]
    memory_format: Literal[tuple(MemoryFormat)] | None = "channels_first"  # type: ignore[valid-type]
    compiler: Literal[tuple(Compiler)] | None = "eager"  # type: ignore[valid-type]
    sequence_length: Count | None = Field(None, description="Tokens per sample.")
    activation_checkpointing: bool | None = False
    software: dict[str, Text] | None = Field(None, description="Versions that matter.")


class NodeBody(_Strict):
    """Equal accelerators of one host, or of `repeat` such hosts."""

    accelerator: Text = Field(description="Name or alias; see `GET /v1/accelerators`.")
    count: Accelerators | None = 1
    link: Text | None = Field(None, description="Link between them; null means their own.")
    repeat: Accelerators | None = 1


class NetworkBody(_Strict):
    """Links between hosts."""

    name: Text | None = None
    bandwidth_bytes_per_s: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Per host, one direction, all its adapters together."
    )
    latency_s: Annotated[float, Field(ge=0, le=1)] | None = None
    oversubscription: Annotated[float, Field(ge=1, le=1e6)] | None = Field(
        1, description="How many times the hosts could load what the switches carry."
    )
    rails: Annotated[int, Field(ge=1, le=64)] | None = Field(1, description="Adapters of a host.")


class PlanBody(_Strict):
    """Degrees of parallelism and how they are carried out."""

    data: Accelerators | None = None
    tensor: Accelerators | None = 1
    pipeline: Accelerators | None = 1
    expert: Accelerators | None = 1
    context: Accelerators | None = 1
    zero_stage: Annotated[int, Field(ge=0, le=3)] | None = 0
    sequence_parallel: bool | None = False
    schedule: Literal[tuple(Schedule)] | None = "1f1b"  # type: ignore[valid-type]
    virtual_stages: Annotated[int, Field(ge=1, le=1_000)] | None = 1


class PlacementBody(_Strict):
    """Where it runs, in the long form."""

    nodes: Annotated[list[NodeBody], Field(min_length=1)]
    network: Text | NetworkBody | None = None
    plan: PlanBody | None = None
    shared_with: list[str] | None = None
    power_limit_w: Annotated[float, Field(gt=0)] | None = None
    fraction: Annotated[float, Field(gt=0, le=1)] | None = None
    cpu_cores: Accelerators | None = None
    storage_bytes_per_s: Annotated[float, Field(gt=0)] | None = None


ShortPlacement = Annotated[
    str, Field(min_length=1, description="`8xA100-SXM4-80GB`, `2x(8xH100-SXM5-80GB)@ib-400g`.")
]


class PredictRequest(_Strict):
    """One question."""

    job: JobBody
    placement: ShortPlacement | PlacementBody


class MatrixRequest(_Strict):
    """Every pair of some jobs and some placements."""

    jobs: Annotated[list[JobBody], Field(min_length=1)]
    placements: Annotated[list[ShortPlacement | PlacementBody], Field(min_length=1)]


class ThroughputBody(BaseModel):
    """Samples per second of the whole job, with an interval."""

    samples_per_second: float
    low: float
    high: float
    coverage: float
    tokens_per_second: float | None


class BreakdownBody(BaseModel):
    """Where the time of one step goes; the parts add up to `step_time_s`."""

    compute_s: float
    exposed_communication_s: float
    input_stall_s: float
    overhead_s: float


class MemoryBody(BaseModel):
    """Memory of the accelerator with the least room."""

    peak_bytes: float
    capacity_bytes: float
    fits: bool
    oom_probability: float | None


class PredictAnswer(BaseModel):
    """The answer to one question."""

    throughput: ThroughputBody
    step_time_s: float
    compute_time_s: float
    sync_time_s: float
    breakdown: BreakdownBody
    memory: MemoryBody
    basis: Literal[tuple(Basis)]  # type: ignore[valid-type]
    out_of_distribution: bool
    nearest: list[str]
    model_version: str
    unpriced_operators: dict[str, int]
    warnings: list[str]


class ProblemItem(BaseModel):
    """What is wrong with one part of the request."""

    pointer: str = Field(description="JSON pointer (RFC 6901) to it; empty for the whole.")
    detail: str
    allowed: list[str]


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[ProblemItem]
    did_you_mean: list[str]


class CellProblem(Problem):
    """Why a row, a column or a cell of a matrix has no answer; null means all of them."""

    job: int | None
    placement: int | None


class MatrixAnswer(BaseModel):
    """Answers in columns: one row a job, one element a placement, null where none came."""

    jobs: int
    placements: int
    samples_per_second: list[list[float | None]]
    low: list[list[float | None]]
    high: list[list[float | None]]
    coverage: float | None
    step_time_s: list[list[float | None]]
    peak_bytes: list[list[float | None]]
    fits: list[list[bool | None]]
    basis: list[list[str | None]]
    out_of_distribution: list[list[bool | None]]
    status: list[list[Literal["ok", "error"]]]
    errors: list[CellProblem]
    unpriced_operators: list[dict[str, int] | None]
    model_version: str | None
    warnings: list[str]


class GraphAnswer(BaseModel):
    """A registered graph."""

    graph: str = Field(description="Content hash; a job refers to it by this.")
    node_count: int
    parameter_count: int
    flops: float = Field(description="Of one step, a multiply-add counts 2.")
    unpriced_operators: dict[str, int]
    mode: str
    batch_size: int
    created: bool = Field(description="False where the same graph was registered before.")


class AcceleratorBody(BaseModel):
    """Facts of one accelerator; rates are dense peaks."""

    model_config = ConfigDict(extra="allow")

    name: str
    kind: str
    vendor: str
    memory_bytes: float
    bandwidth_bytes_per_s: float
    peak_flops: dict[str, float]
    aliases: list[str]


class AcceleratorsAnswer(BaseModel):
    """Every accelerator of the catalogue."""

    accelerators: list[AcceleratorBody]


class ModelsAnswer(BaseModel):
    """What answers, and what is wrong with what is installed."""

    serving: str
    models: list[dict[str, Any]]
    problems: list[str]


class HealthAnswer(BaseModel):
    """State of the service."""

    status: Literal["live", "ready", "degraded"]
    detail: list[str] = []
