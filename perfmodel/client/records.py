"""What the service remembers, lists and says of itself, as answers.

Written as in :mod:`perfmodel.client.answers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from perfmodel.client.errors import Problem

_JOB = "Reference of its job."
_QUARANTINED = "Why it is, or was, quarantined."
_UTC = "UTC, ISO 8601."
_STATES = ("candidate", "shadow", "serving", "retired", "refused", "deleted")
_FLOPS = "Of one step, a multiply-add counts 2."
_GRAPH = "Content hash; a job refers to it by this."


@dataclass(frozen=True, kw_only=True)
class StoredJob:
    """A registered job."""

    ref: Annotated[str, 'Stands for the job in every question: `{"job": "<ref>"}`.']
    job: Annotated[Mapping[str, Any], "As it is kept: without what has its default."]
    created_at: Annotated[str, _UTC]


@dataclass(frozen=True, kw_only=True)
class RegisteredJob(StoredJob):
    """A job, and whether it was registered now."""

    created: bool


@dataclass(frozen=True, kw_only=True)
class RegisteredGraph:
    """A registered graph."""

    graph: Annotated[str, _GRAPH]
    node_count: int
    parameter_count: int
    flops: Annotated[float, _FLOPS]
    unpriced_operators: Mapping[str, int] = field(default_factory=dict)
    mode: str
    batch_size: int
    created: Annotated[bool, "False where the same graph was registered before."]


@dataclass(frozen=True, kw_only=True)
class StoredGraph:
    """A graph, without its operators.

    ``unpriced_operators`` is told of single graphs only.
    """

    graph: Annotated[str, _GRAPH]
    mode: str | None = None
    batch_size: Annotated[int | None, "Samples of the step; null if not registered."] = None
    tokens_per_sample: int | None = None
    node_count: int | None = None
    parameter_count: int | None = None
    flops: Annotated[float | None, _FLOPS] = None
    source: Annotated[Mapping[str, str], "Where it comes from."] = field(default_factory=dict)
    created_at: Annotated[str | None, _UTC] = None
    unpriced_operators: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ObservationTaken:
    """What became of one observation."""

    status: Annotated[str, ("accepted", "quarantined", "known", "refused")]
    job: Annotated[str | None, _JOB] = None
    key: Annotated[str | None, "As sent, or the hash of its content."] = None
    reason: Annotated[str | None, _QUARANTINED] = None
    problem: Annotated[Problem | None, "Why it is refused."] = None


@dataclass(frozen=True, kw_only=True)
class ObservationsTaken:
    """What became of the observations of a request.

    They stand in the order in which they were sent.
    """

    accepted: Annotated[int, "On disk; they count for the answers about their jobs."]
    quarantined: Annotated[int, "On disk, but not believed."]
    known: Annotated[int, "Sent again: nothing is done."]
    refused: Annotated[int, "Not read; nothing is kept."]
    observations: tuple[ObservationTaken, ...]


@dataclass(frozen=True, kw_only=True)
class StoredObservation:
    """A stored observation."""

    job: Annotated[str, _JOB]
    key: str
    placement: str | Mapping[str, Any]
    batch_size: int
    accumulation_steps: int
    step_time_s: Annotated[float | None, "Null where it ran out of memory."]
    sync_time_s: float | None
    out_of_memory: bool = False
    software: Annotated[Mapping[str, str], "Versions that were stated beside the job."] = field(
        default_factory=dict
    )
    state: Annotated[str, ("accepted", "quarantined", "excluded")]
    reason: Annotated[str | None, _QUARANTINED] = None
    reporter: Annotated[
        str, "Who sent it: the identifier of a key, or `guest`; empty where it is not known."
    ] = ""
    received_at: Annotated[str, _UTC]
    expires_at: Annotated[
        str | None, "UTC; when it counts no longer, where that was said of it."
    ] = None


@dataclass(frozen=True, kw_only=True)
class ObservationsRemoved:
    """How many observations were removed."""

    removed: int


@dataclass(frozen=True, kw_only=True)
class ObservationsChanged:
    """How many observations were left out, or taken in again."""

    changed: int


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """Facts of one accelerator; rates are dense peaks.

    ``custom`` ones were added to the shipped catalogue.
    """

    name: str
    kind: str
    vendor: str
    memory_bytes: float
    bandwidth_bytes_per_s: float
    peak_flops: Mapping[str, float] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    architecture: str = ""
    form_factor: str = ""
    year: int | None = None
    tdp_w: float | None = None
    link_bandwidth_bytes_per_s: float | None = None
    custom: bool = False


@dataclass(frozen=True, kw_only=True)
class Accelerators:
    """Every accelerator of the catalogue."""

    accelerators: tuple[Accelerator, ...]

    def named(self, name: str) -> Accelerator | None:
        """Return an accelerator by its name or one of its aliases, in whatever case."""
        folded = name.casefold()
        return next(
            (
                one
                for one in self.accelerators
                if folded in (one.name.casefold(), *(alias.casefold() for alias in one.aliases))
            ),
            None,
        )


@dataclass(frozen=True, kw_only=True)
class Alias:
    """A name and the accelerator that it means."""

    alias: str
    accelerator: str


@dataclass(frozen=True, kw_only=True)
class Price:
    """What an hour of one accelerator costs."""

    accelerator: str
    per_hour: Annotated[float, {"gt": 0}]
    currency: Annotated[str, "Three letters, as of ISO 4217."] = "USD"


@dataclass(frozen=True, kw_only=True)
class Prices:
    """The prices that were set."""

    prices: tuple[Price, ...]


@dataclass(frozen=True, kw_only=True)
class Models:
    """What answers, and what is wrong with what is installed."""

    serving: str
    loaded: Annotated[tuple[str, ...], "Versions in memory, the one that serves first."] = ()
    models: tuple[Mapping[str, Any], ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Reload:
    """What became of a look into the folder of models."""

    serving: str
    previous: str
    swapped: bool
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ModelChange:
    """One version entered one state."""

    sequence: Annotated[int, "One more than that of every change that was known to its writer."]
    change_id: str
    version: str
    state: Annotated[str, _STATES]
    action: Annotated[str, "What was done: promote, rollback, publish, judge, collect."]
    by: Annotated[str, "Who did it: a user of a machine, or the identifier of a key."]
    at: Annotated[str, "UTC, ISO 8601, by the clock of whoever did it."]
    why: str = ""
    previous: Annotated[str | None, "The version that served until then."] = None


@dataclass(frozen=True, kw_only=True)
class ModelVersion:
    """One version of a model."""

    model: Annotated[str, "Name and version, as `pin_model` takes it."]
    state: Annotated[str, _STATES]
    changes: tuple[ModelChange, ...] = ()
    manifest: Annotated[Mapping[str, Any], "What it learned from, how, and how good it is."]


@dataclass(frozen=True, kw_only=True)
class FactDifference:
    """One fact that two versions do not share."""

    fact: Annotated[str, "Its keys in the manifest, joined by dots."]
    before: Any = None
    after: Any = None


@dataclass(frozen=True, kw_only=True)
class ModelDifferences:
    """How a version differs from another."""

    before: str
    after: str
    scores: tuple[FactDifference, ...] = ()
    facts: tuple[FactDifference, ...] = ()
    files: Annotated[tuple[str, ...], "Whose content differs, or that one has alone."] = ()


@dataclass(frozen=True, kw_only=True)
class Promotion:
    """What became of a promotion or a rollback; every other worker and host follows in seconds."""

    model: Annotated[str, "The version that shall serve."]
    serving: Annotated[str, "The version that serves in the worker that answers."]
    change: ModelChange
    changed: Annotated[
        bool, "False where it served already; `change` is then the one that stands."
    ] = True
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Collection:
    """What was deleted of the versions of a model."""

    name: str
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A request that is answered later."""

    id: str
    kind: Annotated[str, ("jobs", "graphs", "matrix"), "Which route it asks."]
    state: Annotated[str, ("waiting", "running", "done", "failed")]
    attempts: Annotated[int, "How often it was begun."] = 0
    status: Annotated[int | None, "HTTP status of its answer, once it has ended."] = None
    result: Annotated[str | None, "Where the answer is, once it is done."] = None
    problem: Annotated[Problem | None, "Why it failed."] = None
    created_at: Annotated[str, _UTC]
    updated_at: Annotated[str, _UTC]

    @property
    def has_ended(self) -> bool:
        """Whether its answer, or why there is none, is known."""
        return self.state not in ("waiting", "running")


_STAGES = ("waiting", "running", "ended", "spent", "cancelled")
_TASK_STATES = ("waiting", "running", "done", "failed", "set_aside", "cancelled")
_TASKS = "Tasks in this state."


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """Workloads that workers measure, and how far they are.

    ``spent`` means that its time is used up while tasks are left, which nobody begins.
    """

    id: str
    title: str
    policy: Annotated[Mapping[str, Any], "How it is measured."]
    stage: Annotated[str, _STAGES]
    total: Annotated[int, "Tasks in all."]
    waiting: Annotated[int, _TASKS]
    running: Annotated[int, _TASKS]
    done: Annotated[int, _TASKS]
    failed: Annotated[int, _TASKS]
    set_aside: Annotated[int, "Tasks that took their workers with them twice."]
    cancelled: Annotated[int, _TASKS]
    doubtful: Annotated[int, "Done ones whose records are noisy because the machine drifted."]
    workers: Annotated[int, "Workers that have a task now."]
    spent_s: Annotated[float, "Time that measuring has taken, over all devices."]
    budget_s: Annotated[float | None, "Time past which no task is begun."] = None
    remaining_s: Annotated[float | None, "Until it ends; null before the first task."] = None
    ends_at: Annotated[str | None, _UTC] = None
    created_at: Annotated[str, _UTC]

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes of it."""
        return self.stage not in ("waiting", "running")


@dataclass(frozen=True, kw_only=True)
class EnteredCampaign(Campaign):
    """A campaign, and whether it was made now."""

    created: Annotated[bool, "False where the same one was made before."]


@dataclass(frozen=True, kw_only=True)
class CampaignReference:
    """What the reference workload of a campaign took on a machine."""

    machine: str
    step_time_s: float
    drift: Annotated[float | None, "Against the first time on that machine, as a share."] = None
    good: Annotated[bool, "Whether that is within the limit."]
    measured_at: Annotated[str, _UTC]


@dataclass(frozen=True, kw_only=True)
class CampaignShown(Campaign):
    """A campaign with its references, oldest first."""

    references: tuple[CampaignReference, ...]


@dataclass(frozen=True, kw_only=True)
class CampaignTask:
    """One workload of a campaign for one accelerator or kind of them."""

    id: str
    accelerator: Annotated[str, "What may measure it."]
    job: Annotated[Mapping[str, Any], "Without what has its default."]
    state: Annotated[str, _TASK_STATES]
    attempts: Annotated[int, "How often it was begun."]
    machine: Annotated[str | None, "What measured it."] = None
    elapsed_s: Annotated[float | None, "What measuring it took; 0 if it was held."] = None
    outcome: Annotated[
        Mapping[str, Any] | None, "Of a done one: what was measured and where its record lies."
    ] = None
    reason: Annotated[str | None, "Of one that failed or was set aside."] = None
    doubt: Annotated[str | None, "Why its record is noisy though its samples do not say so."] = None
    created_at: Annotated[str, _UTC]
    updated_at: Annotated[str, _UTC]


_RETRAINING_STATES = ("waiting", "running", "done", "refused", "failed", "cancelled")


@dataclass(frozen=True, kw_only=True)
class Retraining:
    """A model that is learned anew, judged, and let serve or refused."""

    id: str
    model: str
    trigger: Annotated[str, "What started it: hand, cron, count or drift."]
    why: str
    by: Annotated[str, "Identifier of the key, or the user, that asked for it."]
    settings: Annotated[Mapping[str, Any], "How it learns and is judged."]
    state: Annotated[str, _RETRAINING_STATES]
    phase: Annotated[str, "What it does now, or did last; empty before the first."]
    phases: Annotated[Mapping[str, str], "Of each phase: waiting, running or done."]
    progress: Annotated[str, "What happened last."]
    fraction: Annotated[float, "How much is done, in [0, 1], roughly by time."]
    attempts: Annotated[int, "How often it was begun."]
    version: Annotated[str | None, "Name and version that it makes, once decided."] = None
    decision: Annotated[
        Mapping[str, Any] | None, "What the gate said: accepted, findings, groups, report."
    ] = None
    reason: Annotated[str | None, "Why it failed, was refused, or its version does not serve."] = (
        None
    )
    created_at: Annotated[str, _UTC]
    updated_at: Annotated[str, _UTC]

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes of it."""
        return self.state not in ("waiting", "running")


@dataclass(frozen=True, kw_only=True)
class EnteredRetraining(Retraining):
    """A retraining, and whether it was entered now."""

    created: Annotated[bool, "False where one of the model was open already."]


@dataclass(frozen=True, kw_only=True)
class RetrainingLine:
    """What a retraining said."""

    number: Annotated[int, "Asks for what comes after it."]
    attempt: int
    text: str
    at: Annotated[str, _UTC]


@dataclass(frozen=True, kw_only=True)
class RetrainingLog:
    """Lines of a retraining, oldest first."""

    lines: tuple[RetrainingLine, ...]


@dataclass(frozen=True, kw_only=True)
class Health:
    """State of the service: ``ready``, or ``degraded`` and why; it answers in both."""

    status: str
    detail: tuple[str, ...] = ()
