"""What the service remembers, lists and says of itself, as answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from perfmodel.client.errors import Problem


@dataclass(frozen=True, kw_only=True)
class StoredJob:
    """A registered job; ``ref`` stands for it in every question."""

    ref: str
    job: Mapping[str, Any]
    created_at: str


@dataclass(frozen=True, kw_only=True)
class RegisteredJob(StoredJob):
    """A job, and whether it was registered now."""

    created: bool


@dataclass(frozen=True, kw_only=True)
class RegisteredGraph:
    """A graph; jobs refer to it by the hash in ``graph``.

    Parameters
    ----------
    flops : float
        Of one step; a multiply-add counts 2.
    created : bool
        False where it was registered before.
    """

    graph: str
    node_count: int
    parameter_count: int
    flops: float
    mode: str
    batch_size: int
    created: bool
    unpriced_operators: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StoredGraph:
    """A graph, without its operators; None where it was not said or is not known.

    Parameters
    ----------
    graph : str
        Content hash; jobs refer to it by this.
    batch_size, tokens_per_sample : int or None
        Of the captured step.
    flops : float or None
        Of one step; a multiply-add counts 2.
    source : mapping of str to str
        Where it comes from.
    unpriced_operators : mapping of str to int
        Told of single graphs only.
    """

    graph: str
    mode: str | None = None
    batch_size: int | None = None
    tokens_per_sample: int | None = None
    node_count: int | None = None
    parameter_count: int | None = None
    flops: float | None = None
    source: Mapping[str, str] = field(default_factory=dict)
    created_at: str | None = None
    unpriced_operators: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ObservationTaken:
    """What became of one observation.

    Parameters
    ----------
    status : str
        ``accepted``, ``quarantined``, ``known`` or ``refused``.
    job, key : str or None
        Reference of its job, and its key.
    reason : str or None
        Why it is quarantined.
    problem : Problem or None
        Why it is refused.
    """

    status: str
    job: str | None = None
    key: str | None = None
    reason: str | None = None
    problem: Problem | None = None


@dataclass(frozen=True, kw_only=True)
class ObservationsTaken:
    """What became of some observations, in the order they were sent."""

    accepted: int
    quarantined: int
    known: int
    refused: int
    observations: tuple[ObservationTaken, ...]


@dataclass(frozen=True, kw_only=True)
class StoredObservation:
    """An observation that is kept."""

    job: str
    key: str
    placement: str | Mapping[str, Any]
    batch_size: int
    accumulation_steps: int
    step_time_s: float
    sync_time_s: float | None
    state: str
    received_at: str
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """Facts of one accelerator; rates are dense peaks, per second."""

    name: str
    kind: str
    vendor: str
    memory_bytes: float
    bandwidth_bytes_per_s: float
    architecture: str = ""
    form_factor: str = ""
    year: int | None = None
    tdp_w: float | None = None
    link_bandwidth_bytes_per_s: float | None = None
    peak_flops: Mapping[str, float] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    custom: bool = False
    """Whether it was added here, to the shipped catalogue."""


@dataclass(frozen=True, kw_only=True)
class Price:
    """What an hour of one accelerator costs."""

    accelerator: str
    per_hour: float
    currency: str = "USD"


@dataclass(frozen=True, kw_only=True)
class Models:
    """What answers, and what is wrong with what is installed."""

    serving: str
    loaded: tuple[str, ...] = ()
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
class Alias:
    """A name and the accelerator that it means."""

    alias: str
    accelerator: str


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A request that is answered later.

    Parameters
    ----------
    kind : str
        ``jobs``, ``graphs`` or ``matrix``.
    state : str
        ``waiting``, ``running``, ``done`` or ``failed``.
    attempts : int
        How often it was begun.
    status : int or None
        Of its answer, once it has ended.
    result : str or None
        Where the answer is, once it is done.
    problem : Problem or None
        Why it failed.
    created_at, updated_at : str
        UTC, ISO 8601.
    """

    id: str
    kind: str
    state: str
    created_at: str
    updated_at: str
    attempts: int = 0
    status: int | None = None
    result: str | None = None
    problem: Problem | None = None

    @property
    def has_ended(self) -> bool:
        """Whether its answer, or why there is none, is known."""
        return self.state not in ("waiting", "running")


@dataclass(frozen=True, kw_only=True)
class Health:
    """State of the service: ``ready``, or ``degraded`` and why; it answers in both."""

    status: str
    detail: tuple[str, ...] = ()
