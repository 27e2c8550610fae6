"""Read this project's own measurements of several processes as records of the public kinds.

Collectives become collectives, replicas and neighbours become placements, loaders become loaders.
From here on nothing tells them from what others published.

Ranks that took turns on a core are no accelerators of their own: their collectives say so in
``topology``, and their steps are rejected with that reason. So are jobs beside each other that had
fewer threads than the CPU has cores, and whatever was measured while other processes had most of
the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.codec import spec_from_dict
from perfmodel.errors import StoreError
from perfmodel.graph.job import Job
from perfmodel.graph.job_form import stated_job
from perfmodel.importers.published import (
    Imported,
    Origin,
    PublishedCollective,
    PublishedLoader,
    PublishedPlacement,
    RejectedRow,
)
from perfmodel.placement.topology.topology import Neighbour, Node, Placement, Plan, Sharing
from perfmodel.process_records import (
    CollectiveRecord,
    LoaderRecord,
    NeighbourRecord,
    ProcessRecord,
    ReplicaRecord,
    kind_of,
)
from perfmodel.store.profiles.process_store import ProcessStore

#: What joins the ranks of one host that compute on its cores.
HOST_MEMORY = "host-memory"
#: The same where several ranks were bound to one core.
SHARED_CORES = "host-memory, ranks share cores"

#: Share of the machine from which on others, and not what was measured, decide about times. The
#: limit of a quiet measurement is far below; between the two it is noisy, and counts.
_MOST_OTHER_LOAD = 0.5
_ZERO_STAGES = {"none": 0, "ddp": 0, "fsdp": 3}


def read_own_profiles(path: Path) -> Imported:
    """Read the records of several processes below a folder of profiles.

    Raises
    ------
    StoreError
        There are none, or a file is damaged.
    """
    records = ProcessStore(path).records()
    if not records:
        raise StoreError(
            f"{path} holds no measurement of several processes; make some: perfmodel measure."
        )
    collectives, placements, loaders, rejected = [], [], [], []
    for position, record in enumerate(records, start=1):
        origin = _origin(record, position)
        if reason := _disturbed(record) or _in_parts(record):
            rejected.append(RejectedRow(file=origin.file, line=position, reason=reason))
        elif isinstance(record, CollectiveRecord):
            collectives.append(_collective(record, origin))
        elif isinstance(record, LoaderRecord):
            loaders.append(_loader(record, origin))
        elif isinstance(record, NeighbourRecord):
            placements.append(_beside(record, origin))
        else:
            placements.append(_replicas(record, origin))
    return Imported(
        collectives=tuple(collectives),
        placements=tuple(placements),
        loaders=tuple(loaders),
        rejected=tuple(rejected),
    )


def own_catalog(path: Path) -> Catalog:
    """Return the catalogue with every device that records below a folder describe by themselves."""
    catalog = Catalog.default()
    for record in ProcessStore(path).records():
        spec = spec_from_dict(record.provenance.accelerator)
        if spec.name not in catalog.names():
            catalog = catalog.with_device(spec)
    return catalog


def _origin(record: ProcessRecord, position: int) -> Origin:
    source = record.provenance.source
    return Origin(
        source=source, licence=record.provenance.licence, file=kind_of(record), line=position
    )


def _disturbed(record: ProcessRecord) -> str:
    """Say why a measurement is none of its subject; empty where it is."""
    if record.repeats.other_load <= _MOST_OTHER_LOAD:
        return ""
    return "other processes used most of the machine meanwhile"


def _in_parts(record: ProcessRecord) -> str:
    """Say why a step did not have the whole accelerator; empty where it had."""
    if isinstance(record, ReplicaRecord):
        if not _share_cores(record):
            return ""
        return f"{record.replicas} replicas took turns on {record.cores_per_rank:.2g} cores each"
    if not isinstance(record, NeighbourRecord):
        return ""
    threads = record.provenance.threads
    cores = record.provenance.accelerator.get("core_count")
    if record.sharing != "cores" or not threads or not cores or threads >= cores:
        return ""
    return f"each job had {threads} of {cores} cores, which is no whole accelerator"


def _share_cores(record: CollectiveRecord | ReplicaRecord) -> bool:
    cores = record.provenance.accelerator.get("core_count")
    return record.cores_per_rank is not None and record.cores_per_rank < (cores or 1)


def _collective(record: CollectiveRecord, origin: Origin) -> PublishedCollective:
    topology = "" if record.cores_per_rank is None else HOST_MEMORY
    return PublishedCollective(
        collective=record.collective,
        accelerator=record.accelerator,
        ranks=record.ranks,
        hosts=record.hosts,
        size_bytes=float(record.size_bytes),
        time_s=record.repeats.time_s,
        topology=SHARED_CORES if _share_cores(record) else topology,
        origin=origin,
        backend=record.backend,
        dtype=record.dtype,
    )


def _replicas(record: ReplicaRecord, origin: Origin) -> PublishedPlacement:
    job = stated_job(record.job)
    per_host = record.replicas // record.hosts
    node = Node(accelerator=record.accelerator, count=per_host, repeat=record.hosts)
    return PublishedPlacement(
        job=job,
        job_type=_job_type(job),
        batch_size=job.batch_size,
        placement=Placement(nodes=(node,), plan=Plan(zero_stage=_ZERO_STAGES[record.sharding])),
        step_time_s=record.repeats.time_s,
        origin=origin,
        memory_bytes=record.peak_memory_bytes,
        settings=_settings(record, job, sharding=record.sharding, backend=record.backend),
    )


def _beside(record: NeighbourRecord, origin: Origin) -> PublishedPlacement:
    job = stated_job(record.job)
    neighbours: tuple[Neighbour, ...] = ()
    if record.neighbour is not None:
        neighbours = (Neighbour(job=stated_job(record.neighbour)),)
    alone = {} if record.alone_s is None else {"alone_step_time_s": f"{record.alone_s:.9g}"}
    in_turn = record.sharing == Sharing.TIME_SLICING
    return PublishedPlacement(
        job=job,
        job_type=_job_type(job),
        batch_size=job.batch_size,
        placement=Placement(
            nodes=(Node(accelerator=record.accelerator),),
            shared_with=neighbours,
            sharing=Sharing.TIME_SLICING if in_turn else Sharing.MPS,
        ),
        step_time_s=record.repeats.time_s,
        origin=origin,
        settings=_settings(record, job, sharing=record.sharing, **alone),
    )


def _loader(record: LoaderRecord, origin: Origin) -> PublishedLoader:
    return PublishedLoader(
        input_kind=record.input_kind,
        accelerator=record.host,
        cpu_cores=record.cores,
        workers=record.workers,
        samples_per_second=record.samples_per_second,
        stored_bytes=record.stored_bytes,
        files=record.files,
        source_pixels=record.source_pixels,
        side_pixels=record.side_pixels,
        sequence_length=record.sequence_length,
        tensor_bytes=record.tensor_bytes,
        locality=record.locality,
        origin=origin,
    )


def _job_type(job: Job) -> str:
    return f"{job.label} {job.mode}"


def _settings(record: ProcessRecord, job: Job, **more: Any) -> Mapping[str, str]:
    torch = record.provenance.software.get("torch", "")
    common = {"precision": str(job.precision), "torch": torch.split("+")[0]}
    return {**common, **more, "noisy": str(record.repeats.noisy).lower()}
