"""The bodies of requests and answers, as OpenAPI describes them.

Requests are read by :mod:`perfmodel.requests`, the same reader that the command line uses, so
that both refuse the same things in the same words. These models say the same to machines; a
test holds the two together.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, RootModel

from perfmodel.estimator.ranking import Criterion
from perfmodel.placement.topology.topology import BatchSplit, Locality, Schedule, Sharing
from perfmodel.requests import CHECKPOINTING, MAX_COUNT, MOST_OBSERVATIONS, OPTIMIZERS
from perfmodel.types import Basis, Compiler, MemoryFormat, Mode, Precision
from service.dispatch.options import MOST_MS

Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Accelerators = Annotated[int, Field(ge=1, le=1_000_000)]
Text = Annotated[str, Field(min_length=1)]

_COMPUTES = "The part of the step that computes, in seconds."
_SYNCHRONISES = (
    "All communication of the step, in seconds; what computing hides of it lies within "
    "`compute_time_s`."
)


def _with_a_version(software: dict[str, str]) -> dict[str, str]:
    if not software.get("torch", "0")[0].isdigit():
        raise ValueError("torch is a version that starts with a digit")
    return software


Software = Annotated[
    dict[str, Text],
    AfterValidator(_with_a_version),
    Field(json_schema_extra={"properties": {"torch": {"type": "string", "pattern": "^[0-9]"}}}),
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class HfConfigReference(_Strict):
    """A transformers config; built on the meta device, without weights."""

    hf_config: dict[str, Any]


class GraphReference(_Strict):
    """A graph registered with ``POST /v1/graphs``."""

    graph: Text


class JobReference(_Strict):
    """A job registered with ``POST /v1/jobs``."""

    ref: Text


class AdaptationBody(_Strict):
    """What the progress of a job depends on, for its goodput."""

    gradient_noise_scale: Annotated[float, Field(ge=0)]
    initial_batch_size: Count
    batch_size_bounds: Annotated[list[Count], Field(min_length=2, max_length=2)]
    most_accumulation: Count | None = None


class JobBody(_Strict):
    """What runs: exactly one of ``model``, ``hf_config``, ``graph`` and ``job_type``, and how."""

    model: Text | HfConfigReference | GraphReference | None = Field(
        None, description="`timm/<name>`, `zoo/<name>`, or an object that refers to the model."
    )
    model_kwargs: dict[str, Any] | None = Field(None, description="Arguments of a named model.")
    hf_config: dict[str, Any] | None = Field(None, description="A transformers config.")
    graph: Text | None = Field(None, description="Content hash of a registered graph.")
    job_type: Text | None = Field(
        None, description="A job without a graph; answered from observations of it."
    )
    mode: Literal[tuple(Mode)]  # type: ignore[valid-type]
    batch_size: Count = Field(description="Samples per replica and micro-batch.")
    accumulation_steps: Count | None = Field(1, description="Micro-batches per optimizer step.")
    precision: Literal[tuple(Precision)] | None = "fp32"  # type: ignore[valid-type]
    optimizer: Literal[OPTIMIZERS] | None = "sgd"  # type: ignore[valid-type]
    memory_format: Literal[tuple(MemoryFormat)] | None = "channels_first"  # type: ignore[valid-type]
    compiler: Literal[tuple(Compiler)] | None = "eager"  # type: ignore[valid-type]
    sequence_length: Count | None = Field(None, description="Tokens per sample.")
    activation_checkpointing: bool | Literal[CHECKPOINTING] | None = False  # type: ignore[valid-type]
    selective_checkpointing: bool | None = False
    software: Software | None = Field(None, description="Versions that matter.")
    input: dict[str, Annotated[float, Field(ge=0)]] | None = Field(
        None, description="What a sample costs the host: `stored_bytes`, `cpu_s`, `files`."
    )
    adaptation: AdaptationBody | None = None


#: A job, or the reference that its registration gave.
AnyJob = JobBody | Text | JobReference


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
    batch_split: Literal[tuple(BatchSplit)] | None = "equal"  # type: ignore[valid-type]


class PlacementBody(_Strict):
    """Where it runs, in the long form."""

    nodes: Annotated[list[NodeBody], Field(min_length=1)]
    network: Text | NetworkBody | None = None
    plan: PlanBody | None = None
    shared_with: list[str | JobBody] | None = Field(
        None, description="Jobs on the same accelerators: job types, or jobs."
    )
    sharing: Literal[tuple(Sharing)] | None = "mps"  # type: ignore[valid-type]
    power_limit_w: Annotated[float, Field(gt=0)] | None = None
    fraction: Annotated[float, Field(gt=0, le=1)] | None = None
    cpu_cores: Accelerators | None = None
    storage_bytes_per_s: Annotated[float, Field(gt=0)] | None = None
    loader_workers: Annotated[int, Field(ge=0)] | None = None
    storage_locality: Literal[tuple(Locality)] | None = None  # type: ignore[valid-type]


ShortPlacement = Annotated[
    str, Field(min_length=1, description="`8xA100-SXM4-80GB`, `2x(8xH100-SXM5-80GB)@ib-400g`.")
]


class _Measured(_Strict):
    """A measured step."""

    placement: ShortPlacement | PlacementBody
    batch_size: Count
    step_time_s: Annotated[float, Field(gt=0)]
    sync_time_s: Annotated[float, Field(ge=0)] | None = None
    accumulation_steps: Count | None = 1


class ObservationBody(_Measured):
    """A measured step of the job, or of another one; it counts for this answer alone."""

    job: AnyJob | None = Field(
        None, description="The job that was measured, where it is another one."
    )


class MatrixObservationBody(_Measured):
    """A measured step of one of the jobs."""

    job: Annotated[int, Field(ge=0)] = Field(description="Position in `jobs`.")


Observations = Annotated[list[ObservationBody], Field(max_length=MOST_OBSERVATIONS)]


class _Terms(_Strict):
    """On what options a question is answered."""

    pin_model: Text | None = Field(
        None, description="The one version that may answer, of `GET /v1/models`; or `analytical`."
    )
    deadline_ms: Annotated[float, Field(gt=0, le=MOST_MS)] | None = Field(
        None, description="How long the answer may take; then the analytical model answers."
    )
    allow_fallback: bool | None = Field(
        True, description="False: refuse (504, 503) instead of answering analytically."
    )


class PredictRequest(_Terms):
    """One question."""

    job: AnyJob
    placement: ShortPlacement | PlacementBody
    observations: Observations | None = None


class MatrixRequest(_Terms):
    """Every pair of some jobs and some placements."""

    jobs: Annotated[list[AnyJob], Field(min_length=1)]
    placements: Annotated[list[ShortPlacement | PlacementBody], Field(min_length=1)]
    observations: list[MatrixObservationBody] | None = None


class CurveRequest(_Terms):
    """One job over the number of accelerators, data parallel."""

    job: AnyJob
    accelerator: Text
    counts: list[Count] | None = Field(None, description="Default: 1, 2, 4, ... up to `most`.")
    most: Count | None = 64
    accelerators_per_host: Count | None = 8
    network: Text | NetworkBody | None = None
    link: Text | None = None
    zero_stage: Annotated[int, Field(ge=0, le=3)] | None = 0
    observations: Observations | None = None


class ConstraintsBody(_Strict):
    """What a placement has to keep to."""

    fits: bool | None = True
    total_samples: Annotated[float, Field(gt=0)] | None = Field(None, description="Work to do.")
    deadline_s: Annotated[float, Field(gt=0)] | None = None
    budget: Annotated[float, Field(gt=0)] | None = None


class SearchBody(_Strict):
    """Which plans are searched."""

    global_batch_size: Count | None = None
    most: Count | None = 10


class RankRequest(_Terms):
    """Placements of one job; or, with `placement` and `search`, the plans of one placement."""

    job: AnyJob
    placements: list[ShortPlacement | PlacementBody] | None = None
    by: Literal[tuple(Criterion)] | None = "throughput"  # type: ignore[valid-type]
    most: Count | None = 10
    constraints: ConstraintsBody | None = None
    prices: dict[str, Annotated[float, Field(gt=0)]] | None = Field(
        None, description="Money for one accelerator and hour, by canonical name."
    )
    observations: Observations | None = None
    placement: ShortPlacement | PlacementBody | None = None
    search: SearchBody | None = None


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

    peak_bytes: float | None
    capacity_bytes: float
    fits: bool | None
    oom_probability: float | None


class NeighbourBody(BaseModel):
    """What a job on the same accelerators suffers from the one that was asked about."""

    name: str
    slowdown: float = Field(description="How many times as long its step takes.")
    step_time_s: float | None


class PredictAnswer(BaseModel):
    """The answer to one question."""

    throughput: ThroughputBody
    step_time_s: float
    compute_time_s: float = Field(description=_COMPUTES)
    sync_time_s: float = Field(description=_SYNCHRONISES)
    breakdown: BreakdownBody
    memory: MemoryBody
    basis: Literal[tuple(Basis)]  # type: ignore[valid-type]
    out_of_distribution: bool
    nearest: list[str]
    model_version: str
    unpriced_operators: dict[str, int]
    warnings: list[str]
    neighbours: list[NeighbourBody]


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
    compute_time_s: list[list[float | None]] = Field(description=_COMPUTES)
    sync_time_s: list[list[float | None]] = Field(description=_SYNCHRONISES)
    peak_bytes: list[list[float | None]]
    fits: list[list[bool | None]]
    basis: list[list[str | None]]
    out_of_distribution: list[list[bool | None]]
    status: list[list[Literal["ok", "error"]]]
    errors: list[CellProblem]
    unpriced_operators: list[dict[str, int] | None]
    model_version: str | None
    warnings: list[str]


class CurveAnswer(BaseModel):
    """Throughput over the count, in columns."""

    accelerator: str
    counts: list[int]
    samples_per_second: list[float]
    low: list[float]
    high: list[float]
    coverage: float
    step_time_s: list[float]
    compute_time_s: list[float] = Field(description=_COMPUTES)
    sync_time_s: list[float] = Field(description=_SYNCHRONISES)
    exposed_communication_s: list[float]
    efficiency: list[float] = Field(description="Throughput over ideal scaling.")
    peak_bytes: list[float | None]
    fits: list[bool | None]
    basis: list[str]
    out_of_distribution: bool
    model_version: str
    warnings: list[str]


class BatchBody(BaseModel):
    """The batch of the greatest goodput."""

    goodput: float
    samples_per_second: float
    efficiency: float
    batch_size: int
    accumulation_steps: int
    global_batch_size: int
    step_time_s: float


class RankedBody(BaseModel):
    """One placement, by its position in the question."""

    placement: int
    score: float
    estimate: PredictAnswer
    batch: BatchBody | None
    samples_per_money: float | None
    samples_per_joule: float | None
    left_out: str


class PlacementProblem(Problem):
    """Why a placement has no answer."""

    placement: int


class PlacementRanking(BaseModel):
    """Placements, best first."""

    best: list[RankedBody]
    left_out: list[RankedBody]
    errors: list[PlacementProblem]
    model_version: str
    warnings: list[str]


class PlanBodyFound(BaseModel):
    """One plan of a search."""

    plan: PlanBody
    batch_size: int
    accumulation_steps: int
    activation_checkpointing: str
    step_time_s: float
    samples_per_second: float
    bubble_s: float
    exposed_communication_s: float
    memory_bytes: float
    reason: str


class PlanRankingBody(BaseModel):
    """Plans, best first."""

    plans: list[PlanBodyFound]
    considered: int
    too_large: int
    why_none: str
    model_version: str
    warnings: list[str]


class RankAnswer(RootModel[PlacementRanking | PlanRankingBody]):
    """What was ranked."""


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
    loaded: list[str] = Field(description="Versions in memory, the one that serves first.")
    models: list[dict[str, Any]]
    problems: list[str]


class ReloadAnswer(BaseModel):
    """What became of a look into the folder of models."""

    serving: str
    previous: str
    swapped: bool
    problems: list[str]


class HealthAnswer(BaseModel):
    """State of the service."""

    status: Literal["live", "ready", "degraded"]
    detail: list[str] = []
