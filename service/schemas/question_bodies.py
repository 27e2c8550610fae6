"""The bodies of questions, with their bounds and defaults."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from perfmodel.estimator.tables.ranking import Criterion
from perfmodel.features.kernels.kernel_extents import EXTENTS
from perfmodel.features.kernels.kernel_work import DTYPES
from perfmodel.graph.job_form import MOST_MICRO_BATCHES
from perfmodel.graph.training_options.mixed_precision import KEPT_TYPES
from perfmodel.placement.collectives.collective_constants import Collective
from perfmodel.placement.topology.topology import (
    BatchSplit,
    Locality,
    Offload,
    Schedule,
    Sharing,
)
from perfmodel.requests import CHECKPOINTING, MAX_COUNT, MOST_OBSERVATIONS, OPTIMIZERS
from perfmodel.types import AttentionKernel, Compiler, Framework, MemoryFormat, Mode, Precision
from service.answering.questions import MOST_MS, MOST_ONE_BY_ONE

#: Observations of one request, characters of a key, and the longest time that may be stated for
#: which an observation counts: a century.
MOST_REPORTS, MOST_OF_A_KEY, MOST_EXPIRES_IN_S = 2_000, 200, 3.2e9
#: Components of the software of an observation, and characters of their names and versions.
MOST_COMPONENTS, MOST_OF_A_VERSION = 16, 64

Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Accelerators = Annotated[int, Field(ge=1, le=1_000_000)]
Text = Annotated[str, Field(min_length=1)]
Version = Annotated[str, Field(min_length=1, max_length=MOST_OF_A_VERSION)]


def _with_a_version(software: dict[str, str]) -> dict[str, str]:
    if not software.get("torch", "0")[0].isdigit():
        raise ValueError("torch is a version that starts with a digit")
    for name, words in _WORDS.items():
        if software.get(name, words[0]) not in words:
            raise ValueError(f"{name} is one of {', '.join(words)}")
    return software


_WORDS = {
    "framework": [framework.value for framework in Framework],
    "attention": [kernel.value for kernel in AttentionKernel],
}
_SOFTWARE = {
    "torch": {"type": "string", "pattern": "^[0-9]"},
    **{name: {"type": "string", "enum": words} for name, words in _WORDS.items()},
}
Software = Annotated[
    dict[str, Text],
    AfterValidator(_with_a_version),
    Field(json_schema_extra={"properties": _SOFTWARE}),
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
    most_accumulation: Annotated[int, Field(ge=1, le=MOST_MICRO_BATCHES)] | None = None


class MixedPrecisionBody(_Strict):
    """Types of a step whose weights are kept in fp32; what is left out is as `parameter`."""

    parameter: Literal[KEPT_TYPES] = Field(  # type: ignore[valid-type]
        description="Parameters are gathered and computed with in it."
    )
    reduce: Literal[KEPT_TYPES] | None = None  # type: ignore[valid-type]
    buffer: Literal[KEPT_TYPES] | None = None  # type: ignore[valid-type]


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
    mixed_precision: MixedPrecisionBody | None = Field(
        None, description="Weights are kept in fp32 and computed with in these types (FSDP)."
    )
    adapter: dict[str, Any] | None = Field(
        None, description="`adapter_config.json` of a LoRA: `r`, `target_modules`, ..."
    )
    frozen: list[Text] | None = Field(
        None, description="Parameters that are not trained: names with `*` and `?`."
    )
    software: Software | None = Field(None, description="Versions that matter, and the framework.")
    input: dict[str, Annotated[float, Field(ge=0)]] | None = Field(
        None, description="What a sample costs the host: `stored_bytes`, `cpu_s`, `files`."
    )
    adaptation: AdaptationBody | None = None
    script: bool | None = Field(
        None,
        description="Whether it loads, logs and waits besides its step; null: observations decide.",
    )


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
    replicate: Accelerators | None = Field(
        1, description="Groups that hold the same shards; ZeRO stages share out inside of each."
    )
    offload: list[Literal[tuple(Offload)]] | None = Field(  # type: ignore[valid-type]
        None, description="What lies in the memory of the host."
    )
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
    fraction: Annotated[float, Field(ge=1e-3, le=1)] | None = None
    cpu_cores: Accelerators | None = None
    storage_bytes_per_s: Annotated[float, Field(gt=0)] | None = None
    loader_workers: Annotated[int, Field(ge=0)] | None = None
    storage_locality: Literal[tuple(Locality)] | None = None  # type: ignore[valid-type]


ShortPlacement = Annotated[
    str, Field(min_length=1, description="`8xA100-SXM4-80GB`, `2x(8xH100-SXM5-80GB)@ib-400g`.")
]


class _Measured(_Strict):
    """A measured step, or one that ran out of memory."""

    placement: ShortPlacement | PlacementBody
    step_time_s: Annotated[float, Field(gt=0)] | None = None
    out_of_memory: bool | None = Field(
        None, description="True, in the place of times: the step ran out of memory."
    )
    sync_time_s: Annotated[float, Field(ge=0)] | None = None
    batch_size: Count | None = Field(None, description="That of the job, unless it is given.")
    accumulation_steps: Count | None = Field(
        None, description="Those of the job, unless they are given."
    )


class ObservationBody(_Measured):
    """A measured step of the job, or of another one; it counts for this answer alone."""

    job: AnyJob | None = Field(
        None, description="The job that was measured, where it is another one."
    )


class MatrixObservationBody(_Measured):
    """A measured step of one of the jobs."""

    job: Annotated[int, Field(ge=0)] = Field(description="Position in `jobs`.")


Observations = Annotated[list[ObservationBody], Field(max_length=MOST_OBSERVATIONS)]


class ReportBody(_Measured):
    """A measured step that is kept, or one that ran out of memory."""

    job: AnyJob
    software: Annotated[dict[str, Version], Field(max_length=MOST_COMPONENTS)] | None = Field(
        None,
        description="Versions that it was measured with, such as `driver`, where the job does not "
        "say them: they change no answer, but are watched for drift.",
    )
    key: Annotated[str, Field(min_length=1, max_length=MOST_OF_A_KEY)] | None = Field(
        None,
        description="Names it among those of its job; sent again, it counts once. The hash of its "
        "content, unless it is given.",
    )
    expires_in_s: Annotated[float, Field(gt=0, le=MOST_EXPIRES_IN_S)] | None = Field(
        None,
        description="Seconds for which it counts from when it is received, after which it is "
        "removed; for good, or as long as the service keeps any, unless it is given.",
    )


class ReportsRequest(_Strict):
    """Measured steps that are kept."""

    observations: Annotated[list[ReportBody], Field(min_length=1, max_length=MOST_REPORTS)]


class StateRequest(_Strict):
    """What is to become of stored observations."""

    state: Literal["excluded", "accepted"]


class JobRequest(_Strict):
    """A job to be registered."""

    job: AnyJob


class PriceRequest(_Strict):
    """What an hour of one accelerator costs."""

    per_hour: Annotated[float, Field(gt=0)]
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] = "USD"


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


class ExplainRequest(PredictRequest):
    """One question, and how many groups of operators its explanation lists."""

    most: Annotated[int, Field(ge=1, le=1_000)] | None = Field(
        50, description="Groups of equal operators at most, those that take most time."
    )


class MatrixRequest(_Terms):
    """Every pair of some jobs and some placements."""

    jobs: Annotated[list[AnyJob], Field(min_length=1)]
    placements: Annotated[list[ShortPlacement | PlacementBody], Field(min_length=1)]
    observations: list[MatrixObservationBody] | None = None


class PlacementsRequest(_Strict):
    """Placements to be read."""

    placements: Annotated[
        list[ShortPlacement | PlacementBody], Field(min_length=1, max_length=MOST_ONE_BY_ONE)
    ]


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
    placements: (
        Annotated[list[ShortPlacement | PlacementBody], Field(max_length=MOST_ONE_BY_ONE)] | None
    ) = None
    by: Literal[tuple(Criterion)] | None = "throughput"  # type: ignore[valid-type]
    most: Count | None = 10
    constraints: ConstraintsBody | None = None
    prices: dict[str, Annotated[float, Field(gt=0)]] | None = Field(
        None, description="Money for one accelerator and hour, by canonical name."
    )
    observations: Observations | None = None
    placement: ShortPlacement | PlacementBody | None = None
    search: SearchBody | None = None


class KernelBody(_Strict):
    """One kernel by its shape, or one collective."""

    op: Literal[(*EXTENTS, *Collective)]  # type: ignore[valid-type]
    precision: Literal[tuple(DTYPES)] | None = Field(  # type: ignore[valid-type]
        None, description="How operands are stored and multiplied; a collective has none."
    )
    shape: dict[str, Annotated[float, Field(ge=0)] | None] = Field(
        description="Extents by name: `m`, `n`, `k` of a `gemm`. `docs/kernels.md` lists them."
    )
    implementation: Text | None = Field(
        None, description="Whose kernel, such as `vllm 0.14.0 torch`; left open: the usual ones."
    )
    link: Text | None = Field(None, description="Inside a host, of a collective.")
    network: Text | None = Field(None, description="Between hosts, of a collective.")


class KernelsRequest(_Strict):
    """Every pair of some kernels and some accelerators."""

    kernels: Annotated[list[KernelBody], Field(min_length=1)]
    accelerators: Annotated[list[Text], Field(min_length=1)]
