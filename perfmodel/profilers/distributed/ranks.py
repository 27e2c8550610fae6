"""Ranks: one process an accelerator, joined by the library that its device has.

The library is the one PyTorch takes for the device: gloo on CPUs, NCCL on CUDA, RCCL (under the
same name) on ROCm. Ranks find each other through a file, so that no port has to be free.

On a CPU every rank is bound to its share of the cores and is an accelerator of so many cores; of
more ranks than cores several are bound to one, and take turns on it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from perfmodel.devices.codec import spec_from_dict, spec_to_dict
from perfmodel.devices.cpu_facts import usable_cores
from perfmodel.devices.local_cpu import LocalCpu
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError, MissingExtraError
from perfmodel.profilers.processes.meeting import Meeting
from perfmodel.profilers.processes.repeat_counts import RepeatPolicy
from perfmodel.profilers.processes.together import Member, run_together
from perfmodel.profilers.runtime import DeviceRuntime, open_runtime

#: Kinds of device that ranks can have; each rank takes the accelerator of its own number.
DEVICES = ("cpu", "gpu")
#: How long ranks may wait for each other after one of them was lost: the others are ended anyway.
_RENDEZVOUS_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RankSettings:
    """What ranks have, and how long they may take.

    Parameters
    ----------
    device : str
        ``"cpu"`` or ``"gpu"``.
    timeout_s : float
        Of one group of ranks, the start of their processes included.
    """

    device: str = "cpu"
    policy: RepeatPolicy = RepeatPolicy()
    timeout_s: float = 180.0
    licence: str = "Apache-2.0"

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise InvalidInputError(
                f"Ranks run on one of {', '.join(DEVICES)}; got {self.device!r}.", allowed=DEVICES
            )


@dataclass(frozen=True, kw_only=True)
class Rank:
    """One rank, in its process.

    Parameters
    ----------
    position, ranks : int
        Its number, and how many there are.
    backend : str
        Library and version.
    """

    position: int
    ranks: int
    runtime: DeviceRuntime
    backend: str
    policy: RepeatPolicy

    def largest(self, value: float) -> float:
        """Return the largest of the ranks' values; every rank has to ask."""
        import torch
        import torch.distributed as dist

        if self.ranks == 1:
            return value
        agreed = torch.tensor([value], dtype=torch.float32, device=self.runtime.torch_device)
        dist.all_reduce(agreed, op=dist.ReduceOp.MAX)
        return float(agreed.item())

    def meet(self) -> None:
        """Return when all ranks are here and their devices have done everything."""
        import torch.distributed as dist

        self.runtime.synchronise()
        if self.ranks > 1:
            dist.barrier()


def run_ranks(
    work: Callable[..., Any],
    ranks: int,
    accelerator: AcceleratorSpec,
    settings: RankSettings,
    *arguments: Any,
) -> list[Any]:
    """Call a function in each of so many ranks and return what they return.

    Parameters
    ----------
    work : callable
        A function of a module, given a :class:`Rank` and the arguments.
    accelerator : AcceleratorSpec
        What each rank has; of a CPU so many cores.

    Raises
    ------
    MeasurementError
        A rank failed, died or hung; see :func:`.together.run_together`.
    """
    if ranks < 1:
        raise InvalidInputError(f"ranks must be 1 or more; got {ranks}.")
    _import_torch()
    each = accelerator.core_count or 1
    with tempfile.TemporaryDirectory(prefix="perfmodel-ranks-") as folder:
        members = [
            Member(
                arguments=(work, position, str(Path(folder) / "rendezvous"), settings, arguments),
                cores=cores_of(position, each) if settings.device == "cpu" else (),
            )
            for position in range(ranks)
        ]
        return run_together(_rank, members, timeout_s=settings.timeout_s, what="rank")


def cores_of(position: int, each: int, *, usable: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Return the cores that a rank is bound to, as numbers of logical processors.

    Parameters
    ----------
    each : int
        Cores of a rank, >= 1. Past the last core the first one follows.
    usable : tuple of int or None
        None: one logical processor of each core that this process may use.

    Examples
    --------
    >>> cores_of(1, 2, usable=(0, 1, 2, 3)), cores_of(2, 1, usable=(0, 1))
    ((2, 3), (0,))
    """
    cores = usable or usable_cores()
    return tuple(sorted({cores[(position * each + i) % len(cores)] for i in range(each)}))


def cores_per_rank(
    ranks: int, accelerator: AcceleratorSpec, settings: RankSettings
) -> float | None:
    """Return how many cores each rank has to itself; None where ranks have accelerators."""
    if settings.device != "cpu":
        return None
    return min(float(accelerator.core_count or 1), len(usable_cores()) / ranks)


def describe_cpu_share(shares: int) -> AcceleratorSpec:
    """Return what one of so many equal shares of this CPU is, measured while bound to it.

    Measured once and cached, as :class:`~perfmodel.devices.local_cpu.LocalCpu` does. There are no
    shares below one core.
    """
    _import_torch()
    each = max(1, len(usable_cores()) // shares)
    members = [Member(cores=cores_of(0, each))]
    (plain,) = run_together(_described, members, timeout_s=180.0, what="process")
    return spec_from_dict(plain)


def _described(meeting: Meeting) -> dict[str, Any]:
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    return spec_to_dict(LocalCpu().describe())


def _rank(
    meeting: Meeting,
    work: Callable[..., Any],
    position: int,
    rendezvous: str,
    settings: RankSettings,
    arguments: tuple[Any, ...],
) -> Any:
    import torch
    import torch.distributed as dist

    is_cpu = settings.device == "cpu"
    runtime = open_runtime("cpu" if is_cpu else f"{settings.device}:{position}")
    if is_cpu:
        torch.set_num_threads(len(os.sched_getaffinity(0)))
    device = torch.device(runtime.torch_device)
    backend = dist.get_default_backend_for_device(device.type)
    dist.init_process_group(
        backend,
        init_method=f"file://{rendezvous}",
        rank=position,
        world_size=meeting.members,
        timeout=timedelta(seconds=max(_RENDEZVOUS_S, settings.timeout_s)),
        device_id=None if is_cpu else device,
    )
    try:
        rank = Rank(
            position=position,
            ranks=meeting.members,
            runtime=runtime,
            backend=f"{backend} {_backend_version(backend, torch)}",
            policy=settings.policy,
        )
        return work(rank, *arguments)
    finally:
        dist.destroy_process_group()


def _backend_version(backend: str, torch: Any) -> str:
    """Return the version of NCCL or RCCL, or of PyTorch, which brings gloo along."""
    if backend == "nccl":
        return ".".join(map(str, torch.cuda.nccl.version()))
    return str(torch.__version__).split("+")[0]


def _import_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("Measuring several processes", extra="train") from error
