"""Measurements that take several processes: collectives, replicas, neighbours, input pipelines.

As :mod:`perfmodel.records`, seconds and bytes throughout, and each record is complete in itself:
what ran, where, every timed repeat, and its provenance. The four kinds share :class:`Repeats` and
a provenance; all other fields of a record say what was asked, and :func:`record_key` is made of
those.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from perfmodel.errors import InvalidInputError
from perfmodel.records import Provenance, as_plain


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeats:
    """The timed repeats of one thing.

    Parameters
    ----------
    time_s : float
        What counts: the median of the samples, or their mean where that is said of a record.
    samples_s : tuple of float
        In order; of very many an even selection.
    low_s, high_s : float
        10 % and 90 % quantiles.
    other_load : float
        Share of the machine that processes outside the measurement used meanwhile, in [0, 1].
    noisy : bool
        Spread or other load above the limit.
    """

    time_s: float
    samples_s: tuple[float, ...]
    low_s: float
    high_s: float
    other_load: float = 0.0
    noisy: bool = False

    @property
    def spread(self) -> float:
        """(high - low) / time."""
        return (self.high_s - self.low_s) / self.time_s


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectiveRecord:
    """The time of one collective operation.

    Parameters
    ----------
    collective : str
        ``"all_reduce"``, ``"all_gather"``, ``"reduce_scatter"``, ``"all_to_all"``,
        ``"broadcast"``.
    accelerator : str
        What one rank has: of a CPU the cores that it is bound to.
    ranks, hosts : int
        Accelerators that take part, and hosts they are spread over.
    size_bytes : int
        The whole buffer of a rank: what it holds after an all-gather or before a reduce-scatter.
    dtype : str
        Element type, as PyTorch names it.
    backend : str
        Library and version: ``"gloo 2.13.0"``, ``"nccl 2.27.3"``.
    cores_per_rank : float or None
        Cores that each rank had to itself, for ranks that compute on them; fewer than the
        accelerator has where ranks took turns. None on other accelerators.
    repeats : Repeats
        Median over samples of the rank that took longest.
    """

    collective: str
    accelerator: str
    ranks: int
    hosts: int
    size_bytes: int
    dtype: str
    backend: str
    cores_per_rank: float | None
    repeats: Repeats
    provenance: Provenance


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicaRecord:
    """The step of one job as equal replicas that share their gradients.

    Parameters
    ----------
    job : mapping
        As from :func:`~perfmodel.graph.job.stated_fields`; its batch is that of one replica.
    model, family : str
        As in :class:`~perfmodel.records.StepRecord`.
    replicas, hosts : int
        One replica is the same job alone, measured in the same way.
    sharding : str
        ``"none"`` for one replica, ``"ddp"`` or ``"fsdp"`` (parameters, gradients and optimizer
        state shared out).
    backend, accelerator, cores_per_rank
        As in :class:`CollectiveRecord`.
    peak_memory_bytes : float or None
        Of the replica that needs most.
    repeats : Repeats
        Median over steps of the mean over replicas.
    """

    job: Mapping[str, Any]
    model: str
    family: str
    accelerator: str
    replicas: int
    hosts: int
    sharding: str
    backend: str
    cores_per_rank: float | None
    peak_memory_bytes: float | None
    repeats: Repeats
    provenance: Provenance


@dataclass(frozen=True, kw_only=True, slots=True)
class NeighbourRecord:
    """The step of one job on an accelerator that another job computes on at the same time.

    Parameters
    ----------
    job : mapping
        Whose step it is.
    neighbour : mapping or None
        The other job; None: there was none.
    alone_s : float or None
        What the step took in the same process just before, without the neighbour.
    sharing : str
        ``"mps"`` where kernels of both may run beside each other, ``"time_slicing"`` where they
        take turns, ``"cores"`` where the system deals out the cores of a CPU.
    repeats : Repeats
        ``time_s`` is the mean over steps, since two jobs that take turns have steps of two kinds.
    """

    job: Mapping[str, Any]
    model: str
    family: str
    neighbour: Mapping[str, Any] | None
    accelerator: str
    sharing: str
    alone_s: float | None
    repeats: Repeats
    provenance: Provenance


@dataclass(frozen=True, kw_only=True, slots=True)
class LoaderRecord:
    """How fast a host loads the samples of a job.

    Parameters
    ----------
    input_kind : str
        ``"image_jpeg"``, ``"image_raw"``, ``"tokens"``, ``"tabular"``.
    host : str
        Name of the CPU.
    cores : int
        That the loader could use.
    workers : int
        Loader processes; 0: the process that asks loads too.
    stored_bytes : float
        Mean of a sample in the store.
    files : float
        Opened for a sample.
    source_pixels : float
        Height times width of stored images; 0 for other kinds.
    side_pixels : int
        Side that images are cropped to; 0 for other kinds.
    sequence_length : int
        Tokens of a sample; 0 for other kinds.
    tensor_bytes : float
        Of a sample as it enters the model.
    locality : str
        Where samples were read from: ``"memory"`` (cached files), or the store behind it.
    repeats : Repeats
        Of one batch; ``time_s`` is the mean, since batches of several workers come in bursts.
    """

    input_kind: str
    host: str
    cores: int
    workers: int
    batch_size: int
    stored_bytes: float
    files: float
    source_pixels: float
    side_pixels: int
    sequence_length: int
    tensor_bytes: float
    locality: str
    repeats: Repeats
    provenance: Provenance

    @property
    def samples_per_second(self) -> float:
        """Samples of a batch over its time."""
        return self.batch_size / self.repeats.time_s


ProcessRecord = CollectiveRecord | ReplicaRecord | NeighbourRecord | LoaderRecord

#: Every kind by the name that files and commands use.
KINDS: Mapping[str, type[ProcessRecord]] = MappingProxyType(
    {
        "collectives": CollectiveRecord,
        "replicas": ReplicaRecord,
        "neighbours": NeighbourRecord,
        "loaders": LoaderRecord,
    }
)

_MEASURED = ("repeats", "provenance", "alone_s", "peak_memory_bytes", "stored_bytes")


def kind_of(record: ProcessRecord) -> str:
    """Return the name of a record's kind."""
    return next(name for name, kind in KINDS.items() if isinstance(record, kind))


def device_of(record: ProcessRecord) -> str:
    """Return the device that a record was measured on."""
    return record.host if isinstance(record, LoaderRecord) else record.accelerator


def subject_of(record: ProcessRecord) -> dict[str, Any]:
    """Return what was measured, without how long it took."""
    return {name: value for name, value in as_plain(record).items() if name not in _MEASURED}


def record_key(record: ProcessRecord) -> str:
    """Return a key that equal measurements have in common, in 32 hexadecimal digits.

    Threads and versions of libraries belong to it; times do not.
    """
    provenance = record.provenance
    where = {"threads": provenance.threads, "torch": provenance.software.get("torch")}
    text = json.dumps([kind_of(record), subject_of(record), where], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def record_to_dict(record: ProcessRecord) -> dict[str, Any]:
    """Return a record as plain JSON values, its kind among them."""
    return {"kind": kind_of(record), **as_plain(record)}


def record_from_dict(plain: Mapping[str, Any]) -> ProcessRecord:
    """Return the record that :func:`record_to_dict` wrote.

    Raises
    ------
    InvalidInputError
        Values that are no such record.
    """
    try:
        values = dict(plain)
        kind = KINDS[values.pop("kind")]
        repeats = dict(values.pop("repeats"))
        samples_s = tuple(repeats.pop("samples_s"))
        provenance = Provenance(**values.pop("provenance"))
        return kind(
            **values, repeats=Repeats(samples_s=samples_s, **repeats), provenance=provenance
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"Not a record of {', '.join(KINDS)}: {error!r}. Measure it again."
        ) from error
