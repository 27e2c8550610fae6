"""The answers about what the service remembers, as OpenAPI describes them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from perfmodel.types import Phase, Role
from service.schemas import Problem


class _Exact(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class JobEntry(_Exact):
    """A registered job."""

    ref: str = Field(description='Stands for the job in every question: `{"job": "<ref>"}`.')
    job: dict[str, Any] = Field(description="As it is kept: without what has its default.")
    created_at: str = Field(description="UTC, ISO 8601.")


class JobRegistered(JobEntry):
    """A job, and whether it was registered now."""

    created: bool


class JobsAnswer(_Exact):
    """Some jobs, newest first."""

    jobs: list[JobEntry]
    next_cursor: str | None = Field(description="Asks for the jobs after these.")


class ObservationTaken(_Exact):
    """What became of one observation."""

    status: Literal["accepted", "quarantined", "known", "refused"]
    job: str | None = Field(description="Reference of its job.")
    key: str | None = Field(description="As sent, or the hash of its content.")
    reason: str | None = Field(description="Why it is quarantined.")
    problem: Problem | None = Field(description="Why it is refused.")


class ObservationsTaken(_Exact):
    """What became of the observations of a request."""

    accepted: int = Field(description="On disk; they count for the answers about their jobs.")
    quarantined: int = Field(description="On disk, but not believed.")
    known: int = Field(description="Sent again: nothing is done.")
    refused: int = Field(description="Not read; nothing is kept.")
    observations: list[ObservationTaken]


class ObservationEntry(_Exact):
    """A stored observation."""

    job: str = Field(description="Reference of its job.")
    key: str
    placement: str | dict[str, Any]
    batch_size: int
    accumulation_steps: int
    step_time_s: float
    sync_time_s: float | None
    state: Literal["accepted", "quarantined"]
    reason: str | None = Field(description="Why it is quarantined.")
    received_at: str = Field(description="UTC, ISO 8601.")


class ObservationsAnswer(_Exact):
    """Some observations, newest first."""

    observations: list[ObservationEntry]
    next_cursor: str | None = Field(description="Asks for the observations after these.")


class OperationEntry(_Exact):
    """A request that is answered later."""

    id: str
    kind: Literal["jobs", "graphs", "matrix"] = Field(description="Which route it asks.")
    state: Literal["waiting", "running", "done", "failed"]
    attempts: int = Field(description="How often it was begun.")
    status: int | None = Field(description="HTTP status of its answer, once it has ended.")
    result: str | None = Field(description="Where the answer is, once it is done.")
    problem: Problem | None = Field(description="Why it failed.")
    created_at: str = Field(description="UTC, ISO 8601.")
    updated_at: str = Field(description="UTC, ISO 8601.")


class OperationsAnswer(_Exact):
    """Some operations, newest first."""

    operations: list[OperationEntry]
    next_cursor: str | None = Field(description="Asks for the operations after these.")


class AcceleratorFacts(BaseModel):
    """Facts of an accelerator in SI units; a fact that nobody states is left out."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    kind: Literal["gpu", "cpu", "tpu", "npu"]
    vendor: str
    architecture: str
    form_factor: str
    peak_flops: dict[Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8"], float] = Field(
        description="Dense peaks, FLOP/s with fp32 accumulation; int8 in operations/s."
    )
    memory_bytes: float = Field(gt=0)
    bandwidth_bytes_per_s: float = Field(gt=0)
    peak_flops_fp16_accumulate: float | None = Field(None, gt=0)
    matmul_flops_per_s: float | None = Field(None, gt=0)
    cache_bytes: float | None = Field(None, gt=0, description="Last-level cache.")
    core_count: int | None = Field(None, gt=0)
    clock_hz: float | None = Field(None, gt=0)
    tdp_w: float | None = Field(None, gt=0)
    pcie_generation: float | None = Field(None, gt=0)
    link: str | None = Field(None, description="What joins neighbours within a host: `nvlink4`.")
    link_bandwidth_bytes_per_s: float | None = Field(None, gt=0, description="One direction.")
    year: int | None = Field(None, gt=0)
    sources: dict[str, str] = Field(
        default_factory=dict, description="Where each number comes from."
    )
    notes: str = ""
    name: str | None = Field(None, description="As in the path.")


class PriceEntry(_Exact):
    """What an hour of one accelerator costs."""

    accelerator: str
    per_hour: float = Field(gt=0)
    currency: str = Field(description="Three letters, as of ISO 4217.")


class PricesAnswer(_Exact):
    """The prices that were set."""

    prices: list[PriceEntry]


class AliasAnswer(_Exact):
    """A name and the accelerator that it means."""

    alias: str
    accelerator: str


class GraphEntry(_Exact):
    """A graph, without its operators."""

    graph: str = Field(description="Content hash; a job refers to it by this.")
    mode: str | None
    batch_size: int | None = Field(description="Samples of the step; null if not registered.")
    tokens_per_sample: int | None
    node_count: int | None
    parameter_count: int | None
    flops: float | None = Field(description="Of one step, a multiply-add counts 2.")
    source: dict[str, str] = Field(description="Where it comes from.")
    created_at: str | None = Field(description="UTC, ISO 8601.")


class GraphShown(GraphEntry):
    """One graph."""

    unpriced_operators: dict[str, int]


#: Operator, phase, positions of the tensors it reads and writes, attributes, name.
_NodeRow = tuple[str, Phase, list[int], list[int], dict[str, Any], str]
#: Shape, type of an element, role, number of the storage.
_TensorRow = tuple[list[int], str, Role, int]


class GraphJson(_Exact):
    """A whole graph, as `perfmodel capture` writes it and `POST /v1/graphs` reads it."""

    format: Literal[1]
    nodes: list[_NodeRow] = Field(
        description="Of each: operator, phase, positions of the tensors that it reads and of those "
        "that it writes, attributes, name."
    )
    source: dict[str, str] = Field(description="Where the graph comes from.")
    tensors: list[_TensorRow] = Field(
        description="Of each: shape, type of an element, role, number of its storage."
    )


class GraphsAnswer(_Exact):
    """Some registered graphs, newest first."""

    graphs: list[GraphEntry]
    next_cursor: str | None = Field(description="Asks for the graphs after these.")
