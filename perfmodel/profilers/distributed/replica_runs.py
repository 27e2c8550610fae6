"""Time the step of a job as equal replicas: gradients shared by DDP, or everything by FSDP.

Each rank builds the same model with a batch of its own and runs the same number of steps. What
holds for others holds here too: a step of ``torch.nn.parallel.DistributedDataParallel`` with its
defaults, or of ``fully_shard`` over the blocks of the model and what is left around them. One
replica is the same step without either, bound to the same cores: what several are compared with.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job, stated_fields
from perfmodel.graph.job_form import stated_job
from perfmodel.process_records import ReplicaRecord
from perfmodel.profilers.distributed.ranks import Rank, RankSettings, cores_per_rank, run_ranks
from perfmodel.profilers.processes.cpu_use import CpuMeter, CpuUse, other_share
from perfmodel.profilers.processes.device_program import program_on
from perfmodel.profilers.processes.provenance import provenance_of
from perfmodel.profilers.processes.repeat_counts import repeat_counts, summed_up
from perfmodel.profilers.steps.arithmetic import matrix_units
from perfmodel.types import Compiler, Mode

if TYPE_CHECKING:
    from torch import nn

    from perfmodel.capture.program import Program

#: How several replicas share what they have.
SHARDINGS = ("ddp", "fsdp")
#: Of one replica.
ALONE = "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class _RankSteps:
    """What one rank saw."""

    samples_s: tuple[float, ...]
    use: CpuUse
    backend: str
    peak_memory_bytes: float | None
    model: str
    family: str


def measure_replicas(
    job: Job,
    replicas: int,
    *,
    sharding: str,
    accelerator: AcceleratorSpec,
    settings: RankSettings,
) -> ReplicaRecord:
    """Time the training step of a job as so many replicas on this host.

    Parameters
    ----------
    sharding : str
        ``"ddp"`` or ``"fsdp"``; one replica shares nothing, whatever is asked.
    accelerator : AcceleratorSpec
        What one rank has; of a CPU as :func:`.ranks.describe_cpu_share` says.

    Raises
    ------
    InvalidInputError
        A job that has no gradients to share, or another sharding.
    MeasurementError
        A rank failed, died or hung.
    """
    _check(job, sharding)
    how = sharding if replicas > 1 else ALONE
    by_rank = run_ranks(_time_steps, replicas, accelerator, settings, stated_fields(job), how)
    mean_s = [sum(step) / len(step) for step in zip(*(r.samples_s for r in by_rank), strict=True)]
    load = other_share([one.use for one in by_rank])
    peaks = [one.peak_memory_bytes for one in by_rank if one.peak_memory_bytes is not None]
    return ReplicaRecord(
        job=stated_fields(job),
        model=by_rank[0].model,
        family=by_rank[0].family,
        accelerator=accelerator.name,
        replicas=replicas,
        hosts=1,
        sharding=how,
        backend=by_rank[0].backend,
        cores_per_rank=cores_per_rank(replicas, accelerator, settings),
        peak_memory_bytes=max(peaks, default=None),
        repeats=summed_up(mean_s, settings.policy, other_load=load),
        provenance=provenance_of(accelerator, licence=settings.licence),
    )


def _check(job: Job, sharding: str) -> None:
    if sharding not in SHARDINGS:
        raise InvalidInputError(
            f"sharding must be one of {', '.join(SHARDINGS)}; got {sharding!r}.",
            allowed=SHARDINGS,
        )
    if job.mode is not Mode.TRAINING:
        raise InvalidInputError(
            "Replicas of inference share nothing, so that one of them says it all; give a job of "
            "mode training."
        )
    if job.compiler is not Compiler.EAGER:
        raise InvalidInputError(f"Replicas are measured in eager mode; got {job.compiler}.")


def _time_steps(rank: Rank, job: Mapping[str, Any], sharding: str) -> _RankSteps:
    described = stated_job(job)
    with matrix_units(described.precision):
        return _timed(rank, *_program(rank, described, sharding))


def _timed(rank: Rank, program: Program, model: str, family: str) -> _RankSteps:
    one_s = 0.0
    for _ in range(rank.policy.warmup):
        one_s = _step_s(rank, program)
    samples, _ = repeat_counts(rank.largest(one_s), replace(rank.policy, least_sample_s=0.0))
    rank.runtime.reset_peak_memory()
    rank.meet()
    meter = CpuMeter()
    samples_s = tuple(_step_s(rank, program) for _ in range(samples))
    return _RankSteps(
        samples_s=samples_s,
        use=meter.use(),
        backend=rank.backend,
        peak_memory_bytes=rank.runtime.peak_memory().allocated_bytes,
        model=model,
        family=family,
    )


def _step_s(rank: Rank, program: Program) -> float:
    begin_ns = time.perf_counter_ns()
    program.step()
    rank.runtime.synchronise()
    return (time.perf_counter_ns() - begin_ns) / 1e9


def _program(rank: Rank, job: Job, sharding: str) -> tuple[Program, str, str]:
    """Return the step of one replica, with the name and the family of its model."""
    program, model, family = program_on(rank.runtime, job)
    shared = {ALONE: _alone, "ddp": _replicated, "fsdp": _sharded}[sharding](rank, program, job)
    return shared, model, family


def _alone(rank: Rank, program: Program, job: Job) -> Program:
    return program


def _replicated(rank: Rank, program: Program, job: Job) -> Program:
    from torch.nn.parallel import DistributedDataParallel

    # Parameters that no loss reaches (heads that are not trained) would end DDP's first step.
    unused = any(parameter.grad is None for parameter in _stepped(program).parameters())
    return replace(
        program, module=DistributedDataParallel(program.module, find_unused_parameters=unused)
    )


def _stepped(program: Program) -> nn.Module:
    """Return the module after a step by itself, which shows which parameters get gradients."""
    program.step()
    return program.module


def _sharded(rank: Rank, program: Program, job: Job) -> Program:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from perfmodel.capture.optimizers import build_optimizer

    mesh = init_device_mesh(rank.runtime.torch_device.partition(":")[0], (rank.ranks,))
    for block in blocks_of(program.module):
        fully_shard(block, mesh=mesh)
    fully_shard(program.module, mesh=mesh)
    # Sharding replaces the parameters, so that the optimizer has to be made after it.
    return replace(program, optimizer=build_optimizer(job.optimizer, program.module))


def blocks_of(module: nn.Module) -> Sequence[nn.Module]:
    """Return the parts of a model that are gathered and freed one after the other.

    Children of every list or sequence of modules that stands in no other one and whose children
    have parameters: the blocks of a transformer, the stages of a network of convolutions.
    """
    return [block for block in _blocks(module) if next(block.parameters(), None) is not None]


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    from torch import nn

    for child in module.children():
        if isinstance(child, nn.ModuleList | nn.Sequential) and len(child) > 1:
            yield from child
        else:
            yield from _blocks(child)
