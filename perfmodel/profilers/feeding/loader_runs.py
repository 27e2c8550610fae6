"""Time ``torch.utils.data.DataLoader`` by itself: batches per second against its workers.

Nothing computes meanwhile: what is measured is the most that the pipeline gives. The first batches
do not count; they wait for workers to start, and the queue of prefetched batches fills while nobody
takes from it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfmodel.devices.cpu_facts import usable_cores
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError
from perfmodel.process_records import LoaderRecord
from perfmodel.profilers.feeding.stored_samples import (
    SampleForm,
    Samples,
    StoredSamples,
    write_samples,
)
from perfmodel.profilers.processes.cpu_use import CpuMeter, CpuUse, other_share
from perfmodel.profilers.processes.meeting import Meeting
from perfmodel.profilers.processes.provenance import provenance_of
from perfmodel.profilers.processes.repeat_counts import RepeatPolicy, repeat_counts, summed_up
from perfmodel.profilers.processes.together import Member, run_together

#: Files that the system keeps in memory.
CACHED = "memory"
#: Batches that each worker keeps ready.
_PREFETCH = 2
#: Batches beyond those that wait in queues when the clock starts.
_LEAST_QUEUES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class LoaderSettings:
    """How loaders are measured.

    Parameters
    ----------
    folder : Path or None
        Where samples are stored meanwhile; None: the system's folder for temporary files.
    locality : str or None
        What that folder is on (``"local_ssd"``, ``"nfs"``): samples are read from there, past the
        system's cache. None: they are read from memory.
    timeout_s : float
        Of one loader, the start of its processes included.
    """

    folder: Path | None = None
    locality: str | None = None
    policy: RepeatPolicy = RepeatPolicy(budget_s=2.0, most_samples=200)
    timeout_s: float = 120.0
    licence: str = "Apache-2.0"

    def __post_init__(self) -> None:
        if self.locality is not None and self.locality not in LOCALITIES:
            raise InvalidInputError(
                f"locality must be one of {', '.join(LOCALITIES)}; got {self.locality!r}.",
                allowed=LOCALITIES,
            )


#: Stores that samples can lie on.
LOCALITIES = ("local_ssd", "local_hdd", "nfs", "object_store")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Batches:
    samples_s: tuple[float, ...]
    use: CpuUse


def measure_loaders(
    form: SampleForm,
    *,
    workers: Sequence[int],
    batch_size: int,
    host: AcceleratorSpec,
    settings: LoaderSettings | None = None,
) -> list[LoaderRecord]:
    """Make samples, load them with each number of workers, and remove them.

    Parameters
    ----------
    workers : sequence of int
        Loader processes, >= 0 each.
    batch_size : int
        >= 1.
    host : AcceleratorSpec
        The CPU of this machine.

    Raises
    ------
    InvalidInputError
        A negative number of workers, or no sample in a batch.
    MeasurementError
        A loader failed, died or hung.
    """
    settings = settings or LoaderSettings()
    if min(workers) < 0 or batch_size < 1:
        raise InvalidInputError(
            "workers must be 0 or more and batch_size 1 or more; got "
            f"{', '.join(map(str, workers))} and {batch_size}."
        )
    records = []
    with tempfile.TemporaryDirectory(prefix="perfmodel-samples-", dir=settings.folder) as folder:
        stored = write_samples(form, Path(folder))
        for count in workers:
            batches = _run(stored, count, batch_size, settings)
            records.append(_record(stored, count, batch_size, batches, host, settings))
    return records


def _run(
    stored: StoredSamples, workers: int, batch_size: int, settings: LoaderSettings
) -> _Batches:
    member = Member(arguments=(stored, workers, batch_size, settings))
    (batches,) = run_together(_load, [member], timeout_s=settings.timeout_s, what="loader process")
    found: _Batches = batches
    return found


def _record(
    stored: StoredSamples,
    workers: int,
    batch_size: int,
    batches: _Batches,
    host: AcceleratorSpec,
    settings: LoaderSettings,
) -> LoaderRecord:
    form = stored.form
    is_image = form.kind.startswith("image")
    load = other_share([batches.use])
    return LoaderRecord(
        input_kind=form.kind,
        host=host.name,
        cores=len(usable_cores()),
        workers=workers,
        batch_size=batch_size,
        stored_bytes=stored.stored_bytes,
        files=stored.files,
        source_pixels=stored.source_pixels,
        side_pixels=form.side_pixels if is_image else 0,
        sequence_length=form.sequence_length if form.kind == "tokens" else 0,
        tensor_bytes=form.tensor_bytes,
        locality=settings.locality or CACHED,
        repeats=summed_up(batches.samples_s, settings.policy, other_load=load, mean=True),
        provenance=provenance_of(host, licence=settings.licence, threads=1),
    )


def _load(
    meeting: Meeting,
    stored: StoredSamples,
    workers: int,
    batch_size: int,
    settings: LoaderSettings,
) -> _Batches:
    import torch

    torch.set_num_threads(1)
    in_queues = _PREFETCH * workers
    first_s = _one_batch_s(stored, batch_size, settings)
    batches, _ = repeat_counts(first_s, settings.policy)
    timed = max(batches, _LEAST_QUEUES * in_queues)
    warmup = settings.policy.warmup + in_queues
    loader = _loader(stored, workers, batch_size, warmup + timed, settings)
    taken = iter(loader)
    for _ in range(warmup):
        next(taken)
    meter, samples_s = CpuMeter(), []
    for _ in range(timed):
        begin_ns = time.perf_counter_ns()
        next(taken)
        samples_s.append((time.perf_counter_ns() - begin_ns) / 1e9)
    return _Batches(samples_s=tuple(samples_s), use=meter.use())


def _one_batch_s(stored: StoredSamples, batch_size: int, settings: LoaderSettings) -> float:
    """Return what a batch takes in this process, which also reads every file once."""
    taken = iter(_loader(stored, 0, batch_size, 2, settings))
    next(taken)
    begin_ns = time.perf_counter_ns()
    next(taken)
    return (time.perf_counter_ns() - begin_ns) / 1e9


def _loader(
    stored: StoredSamples, workers: int, batch_size: int, batches: int, settings: LoaderSettings
) -> Any:
    from torch.utils.data import DataLoader

    samples = Samples(stored, length=batches * batch_size, uncached=settings.locality is not None)
    # The samples are a map from positions; DataLoader's own types ask for a subclass.
    return DataLoader(
        samples,  # type: ignore[arg-type]
        batch_size=batch_size,
        num_workers=workers,
        shuffle=False,
        prefetch_factor=_PREFETCH if workers else None,
    )
