"""Time collectives by themselves: each operation over sizes, between so many ranks.

A sample begins when all ranks have met and ends, on each rank, when its device has done the
operation; the rank that took longest counts. Short operations are repeated within a sample. The
size of an operation is the whole buffer of a rank, as nccl-tests counts it: what a rank holds
after an all-gather or before a reduce-scatter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError
from perfmodel.process_records import CollectiveRecord
from perfmodel.profilers.distributed.ranks import Rank, RankSettings, cores_per_rank, run_ranks
from perfmodel.profilers.processes.cpu_use import CpuMeter, CpuUse, other_share
from perfmodel.profilers.processes.provenance import provenance_of
from perfmodel.profilers.processes.repeat_counts import repeat_counts, summed_up

if TYPE_CHECKING:
    import torch

Operation = Callable[[], object]

#: What gradients and parameters of most jobs are, by the kind of device.
USUAL_DTYPE: Mapping[str, str] = MappingProxyType({"cpu": "float32", "gpu": "bfloat16"})
#: From a few tensors of a norm to the gradients of a small model.
USUAL_SIZES = (1 << 10, 1 << 13, 1 << 16, 1 << 19, 1 << 22, 1 << 25)


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectiveCell:
    """One operation on one size.

    Parameters
    ----------
    dtype : str
        Name of a type of PyTorch: ``"float32"``.
    """

    collective: str
    size_bytes: int
    dtype: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _RankTimes:
    """What one rank saw of one cell."""

    size_bytes: int
    backend: str
    samples_s: tuple[float, ...]
    use: CpuUse


def measure_collectives(
    cells: Sequence[CollectiveCell],
    ranks: int,
    *,
    accelerator: AcceleratorSpec,
    settings: RankSettings,
    on_record: Callable[[CollectiveRecord], None] | None = None,
) -> list[CollectiveRecord]:
    """Time operations between ranks on this host, all in one group of processes.

    Parameters
    ----------
    ranks : int
        At least 2.
    accelerator : AcceleratorSpec
        What one rank has; of a CPU as :func:`.ranks.describe_cpu_share` says.

    Raises
    ------
    InvalidInputError
        An operation or type that there is not.
    MeasurementError
        A rank failed, died or hung.
    """
    if ranks < 2:
        raise InvalidInputError(f"A collective needs 2 ranks or more; got {ranks}.")
    _check(cells)
    by_rank = run_ranks(_time_cells, ranks, accelerator, settings, tuple(cells))
    records = []
    for cell, times in zip(cells, zip(*by_rank, strict=True), strict=True):
        record = _record(cell, times, accelerator, settings)
        records.append(record)
        if on_record is not None:
            on_record(record)
    return records


def _record(
    cell: CollectiveCell,
    times: Sequence[_RankTimes],
    accelerator: AcceleratorSpec,
    settings: RankSettings,
) -> CollectiveRecord:
    slowest = [max(of_ranks) for of_ranks in zip(*(one.samples_s for one in times), strict=True)]
    load = other_share([one.use for one in times])
    return CollectiveRecord(
        collective=cell.collective,
        accelerator=accelerator.name,
        ranks=len(times),
        hosts=1,
        size_bytes=times[0].size_bytes,
        dtype=cell.dtype,
        backend=times[0].backend,
        cores_per_rank=cores_per_rank(len(times), accelerator, settings),
        repeats=summed_up(slowest, settings.policy, other_load=load),
        provenance=provenance_of(accelerator, licence=settings.licence),
    )


def _time_cells(rank: Rank, cells: Sequence[CollectiveCell]) -> list[_RankTimes]:
    return [_time_cell(rank, cell) for cell in cells]


def _time_cell(rank: Rank, cell: CollectiveCell) -> _RankTimes:
    operation, size_bytes = _operation(rank, cell)
    samples, within = repeat_counts(rank.largest(_warmed_up_s(rank, operation)), rank.policy)
    rank.meet()
    meter = CpuMeter()
    samples_s = tuple(_sample_s(rank, operation, within) for _ in range(samples))
    return _RankTimes(
        size_bytes=size_bytes, backend=rank.backend, samples_s=samples_s, use=meter.use()
    )


def _warmed_up_s(rank: Rank, operation: Operation) -> float:
    """Return what an operation took the last time of a warm-up."""
    last_s = 0.0
    for _ in range(rank.policy.warmup):
        last_s = _sample_s(rank, operation, 1)
    return max(last_s, 1e-7)


def _sample_s(rank: Rank, operation: Operation, within: int) -> float:
    rank.meet()
    begin_ns = time.perf_counter_ns()
    for _ in range(within):
        operation()
    rank.runtime.synchronise()
    return (time.perf_counter_ns() - begin_ns) / 1e9 / within


def _operation(rank: Rank, cell: CollectiveCell) -> tuple[Operation, int]:
    """Return an operation on buffers of its own, and the bytes of a rank's whole buffer."""
    import torch

    dtype: torch.dtype = getattr(torch, cell.dtype)
    each = max(1, cell.size_bytes // dtype.itemsize // rank.ranks)
    device = rank.runtime.torch_device
    # Zeros stay zeros, however often they are added up.
    whole = torch.zeros(each * rank.ranks, dtype=dtype, device=device)
    other, part = torch.zeros_like(whole), torch.zeros(each, dtype=dtype, device=device)
    return _OPERATIONS[cell.collective](whole, other, part), each * rank.ranks * dtype.itemsize


def _all_reduce(whole: torch.Tensor, other: torch.Tensor, part: torch.Tensor) -> Operation:
    import torch.distributed as dist

    return lambda: dist.all_reduce(whole)


def _all_gather(whole: torch.Tensor, other: torch.Tensor, part: torch.Tensor) -> Operation:
    import torch.distributed as dist

    return lambda: dist.all_gather_into_tensor(whole, part)


def _reduce_scatter(whole: torch.Tensor, other: torch.Tensor, part: torch.Tensor) -> Operation:
    import torch.distributed as dist

    return lambda: dist.reduce_scatter_tensor(part, whole)


def _broadcast(whole: torch.Tensor, other: torch.Tensor, part: torch.Tensor) -> Operation:
    import torch.distributed as dist

    return lambda: dist.broadcast(whole, src=0)


def _all_to_all(whole: torch.Tensor, other: torch.Tensor, part: torch.Tensor) -> Operation:
    import torch.distributed as dist

    return lambda: dist.all_to_all_single(other, whole)


_OPERATIONS: Mapping[str, Callable[..., Operation]] = MappingProxyType(
    {
        "all_reduce": _all_reduce,
        "all_gather": _all_gather,
        "reduce_scatter": _reduce_scatter,
        "broadcast": _broadcast,
        "all_to_all": _all_to_all,
    }
)
#: Operations that are measured.
COLLECTIVES = tuple(_OPERATIONS)
#: Types that they are measured on.
DTYPES = ("float32", "float16", "bfloat16")


def _check(cells: Sequence[CollectiveCell]) -> None:
    for cell in cells:
        for field, known in (("collective", COLLECTIVES), ("dtype", DTYPES)):
            if getattr(cell, field) not in known:
                raise InvalidInputError(
                    f"{field} must be one of {', '.join(known)}; got {getattr(cell, field)!r}.",
                    allowed=known,
                )
        if cell.size_bytes < 1:
            raise InvalidInputError(f"size_bytes must be 1 or more; got {cell.size_bytes}.")


def usual_cells(
    device: str,
    *,
    sizes: Sequence[int] = USUAL_SIZES,
    dtype: str | None = None,
    collectives: Sequence[str] = COLLECTIVES,
) -> list[CollectiveCell]:
    """Return every operation on every size, in the type that a device's jobs mostly use."""
    return [
        CollectiveCell(collective=collective, size_bytes=size, dtype=dtype or USUAL_DTYPE[device])
        for collective in collectives
        for size in sizes
    ]
