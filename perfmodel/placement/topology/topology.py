"""The Placement: which accelerators, on which nodes, over which links, under which plan."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum

from perfmodel.errors import InvalidPlacementError
from perfmodel.graph.job import Job, job_to_dict


class Schedule(StrEnum):
    """Order in which a pipeline works on its micro-batches."""

    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"
    INTERLEAVED = "interleaved"


class Sharing(StrEnum):
    """How jobs share an accelerator."""

    MPS = "mps"
    TIME_SLICING = "time_slicing"


class Locality(StrEnum):
    """Where the samples are stored."""

    MEMORY = "memory"
    LOCAL_SSD = "local_ssd"
    LOCAL_HDD = "local_hdd"
    NFS = "nfs"
    OBJECT_STORE = "object_store"


class Offload(StrEnum):
    """What of a training step lies in the memory of the host while it is not used."""

    #: State of the optimizer; gradients go there, and the host updates the parameters.
    OPTIMIZER = "optimizer"
    #: Parameters of a rank, which are sharded (stage 3), until they are gathered.
    PARAMETERS = "parameters"
    #: Activations of all layers but those at work.
    ACTIVATIONS = "activations"


class BatchSplit(StrEnum):
    """How a global batch is dealt to replicas on unequal accelerators."""

    #: Every replica has the same batch, and the slowest sets the pace.
    EQUAL = "equal"
    #: Each has what lets all finish together.
    PROPORTIONAL = "proportional"


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """Equal accelerators of one host.

    Parameters
    ----------
    accelerator : str
        Catalogue name or alias.
    count : int
        Accelerators of the host that the job gets, >= 1.
    link : str or None
        Link between them; None means the accelerator's own default.
    repeat : int
        How many such hosts, >= 1.
    """

    accelerator: str
    count: int = 1
    link: str | None = None
    repeat: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Network:
    """Links between hosts.

    Parameters
    ----------
    name : str or None
        For example ``"ib-400g"``.
    bandwidth_bytes_per_s : float
        Per host, one direction, all its adapters together.
    latency_s : float
        Of a small message, one way.
    oversubscription : float
        How many times the hosts together could load what the switches above them carry, >= 1.
    rails : int
        Adapters of a host, >= 1; an accelerator reaches one of them.
    """

    name: str | None = None
    bandwidth_bytes_per_s: float
    latency_s: float = 5e-6
    oversubscription: float = 1.0
    rails: int = 1

    @property
    def shared_bytes_per_s(self) -> float:
        """What a host can send while all others do."""
        return self.bandwidth_bytes_per_s / self.oversubscription

    @property
    def adapter_bytes_per_s(self) -> float:
        """What one adapter of a host can send."""
        return self.bandwidth_bytes_per_s / self.rails


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Degrees of parallelism and how they are carried out.

    The product of ``data``, ``tensor``, ``pipeline`` and ``context`` is the number of
    accelerators. Experts are spread over data-parallel replicas, each split over the tensor ranks,
    where ``expert`` divides ``data``; else they lie whole on all ranks of a pipeline stage, and
    ``expert`` divides their number (Megatron's folding).

    Parameters
    ----------
    data : int or None
        Replicas; None means all that the other degrees leave over.
    tensor, pipeline, expert, context : int
        Degrees, >= 1.
    zero_stage : int
        What data-parallel replicas share out: 0 nothing, 1 optimizer state, 2 gradients too,
        3 parameters too (FSDP).
    sequence_parallel : bool
        Norms and dropouts are split over the tensor ranks along the sequence.
    schedule : Schedule
        Order of the micro-batches of a pipeline.
    virtual_stages : int
        Chunks of layers that one accelerator holds in an interleaved pipeline, >= 1.
    replicate : int
        Groups of replicas that hold the same shards (hybrid sharding): ZeRO stages share out inside
        of a group of ``data * context / replicate`` ranks alone, >= 1.
    offload : tuple of Offload
        What lies in the memory of the host, each once, in the order of the words.
    batch_split : BatchSplit
        How replicas on unequal accelerators share the global batch.
    """

    data: int | None = None
    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    context: int = 1
    zero_stage: int = 0
    sequence_parallel: bool = False
    schedule: Schedule = Schedule.ONE_F_ONE_B
    virtual_stages: int = 1
    replicate: int = 1
    offload: tuple[Offload, ...] = ()
    batch_split: BatchSplit = BatchSplit.EQUAL

    @property
    def has_whole_experts(self) -> bool:
        """Whether experts are spread over all ranks of a stage; needs ``data``."""
        return (self.data or 1) % self.expert > 0


#: What is meant where nothing is said of a plan; fits every placement.
REPLICAS = Plan()


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """A job on the same accelerators: described, or known by its type alone.

    Attributes
    ----------
    key : str
        Equal for equal neighbours: the job type, or the job as JSON with its fields in order.
    """

    job_type: str | None = field(default=None, compare=False)
    job: Job | None = field(default=None, compare=False)
    key: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        described = None if self.job is None else json.dumps(job_to_dict(self.job), sort_keys=True)
        object.__setattr__(self, "key", described or self.job_type)


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Where a job runs.

    Parameters
    ----------
    nodes : tuple of Node
        At least one.
    shared_with : tuple of Neighbour
        Jobs on the same accelerators.
    fraction : float or None
        Share of each accelerator, in (0, 1].
    cpu_cores, loader_workers : int or None
        Of each host, for loading data.
    storage_bytes_per_s : float or None
        What each host reads from its store.
    read_as : tuple of str
        How words of others (instance types of clouds) were read; said in the warnings of an answer.

    Raises
    ------
    InvalidPlacementError
        No node, or a count below 1.
    """

    nodes: tuple[Node, ...]
    network: Network | None = None
    plan: Plan = REPLICAS
    shared_with: tuple[Neighbour, ...] = ()
    sharing: Sharing = Sharing.MPS
    power_limit_w: float | None = None
    fraction: float | None = None
    cpu_cores: int | None = None
    storage_bytes_per_s: float | None = None
    loader_workers: int | None = None
    storage_locality: Locality | None = None
    read_as: tuple[str, ...] = ()
    #: Accelerators and hosts in all.
    accelerator_count: int = field(init=False, repr=False, compare=False)
    host_count: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.nodes:
            raise InvalidPlacementError(
                "A placement needs at least one node; got none.", pointer="/placement/nodes"
            )
        accelerators = hosts = 0
        for position, node in enumerate(self.nodes):
            accelerators += node.count * node.repeat
            hosts += node.repeat
            if node.count < 1 or node.repeat < 1:
                word, value = ("count", node.count) if node.count < 1 else ("repeat", node.repeat)
                raise InvalidPlacementError(
                    f"{word} must be at least 1; got {value}.",
                    pointer=f"/placement/nodes/{position}/{word}",
                )
        object.__setattr__(self, "accelerator_count", accelerators)
        object.__setattr__(self, "host_count", hosts)

    @property
    def rough_bytes(self) -> int:
        """About how much memory it takes, with what is looked up for it.

        Hosts one by one, and whatever is said of jobs that share them, are all that makes some
        placements a thousand times as large as others.
        """
        alone = 2_000 + 800 * len(self.nodes)
        if not self.shared_with:
            return alone
        jobs = [neighbour.job for neighbour in self.shared_with if neighbour.job is not None]
        said = sum(len(job.content) for job in jobs)
        return alone + 1_200 * len(self.shared_with) + 4 * said
