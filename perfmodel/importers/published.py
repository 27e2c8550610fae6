"""What every importer returns: records of five kinds, and the rows it did not understand.

The kinds are those of the project's own profilers: a step on one accelerator, a kernel, a
collective, a step on a placement, a loader by itself. Every record says where it comes from and
under which terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from perfmodel.graph.job import Job
from perfmodel.placement.topology.topology import Placement


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where a record comes from.

    Parameters
    ----------
    source : str
        Repository or publication, with the part of it.
    licence : str
        Terms as stated there; ``"not stated"`` where they are not.
    line : int
        Line (or row) in the file, from 1; 0 where there is none.
    """

    source: str
    licence: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedStep:
    """Throughput of one job on one accelerator, as somebody else published it.

    Parameters
    ----------
    job : Job
        Enough to capture the graph of what ran.
    samples_per_second : float
        Throughput of the one accelerator, > 0.
    memory_bytes : float or None
        Largest memory in use on the device, where it was recorded.
    repeats : int
        Measurements behind the figure (a median of them), >= 1.
    spread : float
        Relative width of those repeats; 0 where there is one.
    parameter_count : float or None
        Parameters of the model that ran, where they were published: whether the graph that
        stands for it is the same model.
    """

    job: Job
    accelerator: str
    samples_per_second: float
    origin: Origin
    memory_bytes: float | None = None
    repeats: int = 1
    spread: float = 0.0
    parameter_count: float | None = None

    @property
    def step_time_s(self) -> float:
        """Time of one optimizer step or forward pass: samples of a step over throughput."""
        return self.job.batch_size * self.job.accumulation_steps / self.samples_per_second


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedKernel:
    """Time of one operator call on one accelerator.

    Parameters
    ----------
    op : str
        ``"gemm"``, ``"bmm"``, ``"conv2d"``, ``"softmax"``, ``"layer_norm"``, ``"elementwise"``,
        ``"attention_prefill"``, ``"attention_decode"``, ``"moe"`` or a further lower-case word.
    dtype : str
        Operand type of the arithmetic: ``"fp32"``, ``"fp16"``, ``"bf16"``, ``"fp8"``, ...
    shape : mapping of str to float
        Named extents, such as ``m``, ``n``, ``k``, ``batch``, ``heads``, ``head_dim``.
    time_s : float
        Time of one call, > 0.
    kernel : str
        Which implementation ran (framework, version, kernel source), where it is known.
    """

    op: str
    accelerator: str
    dtype: str
    shape: Mapping[str, float]
    time_s: float
    origin: Origin
    kernel: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedCollective:
    """Time of one collective operation.

    Parameters
    ----------
    collective : str
        ``"all_reduce"``, ``"all_gather"``, ``"reduce_scatter"``, ``"all_to_all"``,
        ``"broadcast"``, ``"send_recv"``.
    ranks, hosts : int
        Accelerators that take part, and hosts they are spread over.
    size_bytes : float
        Payload of one rank, > 0.
    time_s : float
        > 0.
    topology : str
        Link between the ranks as the source names it.
    backend : str
        Library, version and kernel, where they are known.
    dtype : str
        Element type as the source names it; empty where it does not say.
    """

    collective: str
    accelerator: str
    ranks: int
    hosts: int
    size_bytes: float
    time_s: float
    topology: str
    origin: Origin
    backend: str = ""
    dtype: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedPlacement:
    """Step time of one job on a set of accelerators.

    Parameters
    ----------
    job : Job or None
        Enough to capture the graph; None for a job type known by its name alone.
    job_type : str
        Name of the job for people; names the job where there is no ``job``.
    batch_size : int
        Samples per replica and micro-batch, >= 1.
    step_time_s : float
        Time of one whole step, > 0.
    sync_time_s : float or None
        Part of it logged as synchronisation of gradients.
    settings : mapping of str to str
        What else the source says: accumulation, sharding, software, cluster.
    """

    job: Job | None
    job_type: str
    batch_size: int
    placement: Placement
    step_time_s: float
    origin: Origin
    sync_time_s: float | None = None
    memory_bytes: float | None = None
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedLoader:
    """How fast a host loads samples while nothing computes.

    Parameters
    ----------
    input_kind : str
        ``"image_jpeg"``, ``"image_raw"``, ``"tokens"``, ``"tabular"``.
    accelerator : str
        Name of the host's CPU.
    cpu_cores, workers : int
        Cores that the loader could use, and its processes; 0 workers load in the process that
        asks.
    samples_per_second : float
        > 0.
    stored_bytes, files : float
        Of a sample in the store.
    source_pixels : float
        Of a stored photo; 0 for other kinds.
    side_pixels, sequence_length : int
        Of a sample as it enters the model; 0 where it has none.
    tensor_bytes : float
        Of a sample as it enters the model.
    locality : str
        ``"memory"`` (cached files), or the store that was read.
    """

    input_kind: str
    accelerator: str
    cpu_cores: int
    workers: int
    samples_per_second: float
    stored_bytes: float
    files: float
    source_pixels: float
    side_pixels: int
    sequence_length: int
    tensor_bytes: float
    locality: str
    origin: Origin


def steps_alone(placements: Iterable[PublishedPlacement]) -> tuple[PublishedStep, ...]:
    """Return as steps what known jobs took alone on one accelerator."""
    return tuple(
        PublishedStep(
            job=one.job,
            accelerator=one.placement.nodes[0].accelerator,
            samples_per_second=one.job.batch_size * one.job.accumulation_steps / one.step_time_s,
            origin=one.origin,
        )
        for one in placements
        if one.job is not None
        and one.placement.accelerator_count == 1
        and not one.placement.shared_with
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedShortage:
    """A job that ran out of memory on a set of equal accelerators.

    Parameters
    ----------
    job : Job
        Its batch is that of one accelerator.
    repeats : int
        Runs that ended so, >= 1.
    """

    job: Job
    placement: Placement
    origin: Origin
    repeats: int = 1


Record = (
    PublishedStep | PublishedKernel | PublishedCollective | PublishedPlacement | PublishedLoader
)
Kind = Literal["steps", "kernels", "collectives", "placements", "loaders"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RejectedRow:
    """A row that could not be understood; never guessed at.

    Parameters
    ----------
    line : int
        Line in the file, from 1; 0 for the file as a whole.
    """

    file: str
    line: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """All that one import returned; shortages of memory have no time and stand apart.

    Parameters
    ----------
    notes : tuple of str
        How records came about that several files tell of; a sentence each.
    """

    steps: tuple[PublishedStep, ...] = ()
    kernels: tuple[PublishedKernel, ...] = ()
    collectives: tuple[PublishedCollective, ...] = ()
    placements: tuple[PublishedPlacement, ...] = ()
    loaders: tuple[PublishedLoader, ...] = ()
    shortages: tuple[PublishedShortage, ...] = ()
    rejected: tuple[RejectedRow, ...] = ()
    notes: tuple[str, ...] = ()
