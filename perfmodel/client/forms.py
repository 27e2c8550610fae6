"""What a client sends, as types: the same JSON that ``docs/http.md`` describes.

Plain dictionaries do as well; these names let an editor complete the fields and a type checker find
a misspelt one. The service checks the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict


class Adaptation(TypedDict):
    """What the progress of a job depends on, for its goodput."""

    gradient_noise_scale: float
    initial_batch_size: int
    batch_size_bounds: Sequence[int]
    most_accumulation: NotRequired[int | None]


class Job(TypedDict, total=False):
    """What runs: exactly one of ``model``, ``hf_config``, ``graph`` and ``job_type``, and how."""

    model: str | Mapping[str, Any]
    model_kwargs: Mapping[str, Any]
    hf_config: Mapping[str, Any]
    graph: str
    job_type: str
    mode: Literal["training", "inference"]
    batch_size: int
    accumulation_steps: int
    precision: str
    optimizer: str
    memory_format: str
    compiler: str
    sequence_length: int | None
    activation_checkpointing: bool | Literal["none", "selective", "full"]
    selective_checkpointing: bool
    mixed_precision: Mapping[str, str]
    adapter: Mapping[str, Any]
    frozen: Sequence[str]
    software: Mapping[str, str]
    input: Mapping[str, float]
    adaptation: Adaptation
    script: bool | None


class Kernel(TypedDict):
    """One kernel by its shape, or one collective; which extents it takes says docs/kernels.md."""

    op: str
    precision: NotRequired[str | None]
    shape: Mapping[str, float]
    implementation: NotRequired[str | None]
    link: NotRequired[str | None]
    network: NotRequired[str | None]


class Node(TypedDict):
    """Equal accelerators of one host, or of ``repeat`` such hosts."""

    accelerator: str
    count: NotRequired[int]
    link: NotRequired[str | None]
    repeat: NotRequired[int]


class Network(TypedDict, total=False):
    """Links between hosts."""

    name: str
    bandwidth_bytes_per_s: float
    latency_s: float
    oversubscription: float
    rails: int


class Plan(TypedDict, total=False):
    """Degrees of parallelism and how they are carried out."""

    data: int
    tensor: int
    pipeline: int
    expert: int
    context: int
    zero_stage: int
    sequence_parallel: bool
    schedule: str
    virtual_stages: int
    replicate: int
    offload: Sequence[str]
    batch_split: str


class Placement(TypedDict):
    """Where a job runs, in the long form."""

    nodes: Sequence[Node]
    network: NotRequired[str | Network | None]
    plan: NotRequired[Plan | None]
    shared_with: NotRequired[Sequence[str | Job]]
    sharing: NotRequired[str]
    power_limit_w: NotRequired[float | None]
    fraction: NotRequired[float | None]
    cpu_cores: NotRequired[int | None]
    storage_bytes_per_s: NotRequired[float | None]
    loader_workers: NotRequired[int | None]
    storage_locality: NotRequired[str | None]


class _Measured(TypedDict):
    placement: str | Placement | Mapping[str, Any]
    step_time_s: NotRequired[float | None]
    sync_time_s: NotRequired[float | None]
    out_of_memory: NotRequired[bool | None]
    batch_size: NotRequired[int]
    accumulation_steps: NotRequired[int]


class Seen(_Measured):
    """A measured step of the job that is asked about, or of another; it counts for that answer."""

    job: NotRequired[str | Job | None]


class SeenInMatrix(_Measured):
    """A measured step of one of the jobs of a matrix, by its position."""

    job: int


class Observation(_Measured):
    """A measured step that the service keeps, or one that ran out of memory."""

    job: str | Job
    software: NotRequired[Mapping[str, str] | None]
    key: NotRequired[str | None]
    expires_in_s: NotRequired[float | None]


class Constraints(TypedDict, total=False):
    """What a placement has to keep to."""

    fits: bool
    total_samples: float
    deadline_s: float
    budget: float


#: A job, or the reference that its registration gave.
AnyJob = str | Job | Mapping[str, Any]
#: A placement, short or long.
AnyPlacement = str | Placement | Mapping[str, Any]


class WhichObservations(TypedDict, total=False):
    """Which stored observations are meant: those to which all that is said applies.

    ``job`` is a reference, and means the same job with other batches too; ``reporter`` the
    identifier of a key; ``state`` is ``accepted``, ``quarantined`` or ``excluded``; ``before`` and
    ``after`` are times of receipt as in RFC 3339.
    """

    job: str | None
    key: str | None
    reporter: str | None
    state: str | None
    before: str | None
    after: str | None
