"""``perfmodel measure``: what several processes do to each other on this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfmodel.cli.learning.measuring import Task, run_tasks
from perfmodel.cli.options import FOLDER, FiniteRange, job_options, output_options
from perfmodel.cli.subjects import jobs_of_all

if TYPE_CHECKING:
    from perfmodel.devices.spec import AcceleratorSpec

_KINDS = ("image_jpeg", "image_raw", "tokens", "tabular")
_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")
_LOCALITIES = ("local_ssd", "local_hdd", "nfs", "object_store")

_out_option = click.option(
    "--out", type=FOLDER, default=Path("profiles"), show_default=True,
    help="Folder of the records.",
)  # fmt: skip
_timeout_option = click.option(
    "--timeout", "timeout_s", type=FiniteRange(min=1), default=240.0, show_default=True,
    help="Seconds that one measurement may take, the start of its processes included.",
)  # fmt: skip
_device_option = click.option(
    "--device", default="cpu", show_default=True, type=click.Choice(["cpu", "gpu"]),
    help="What computes; gpu is whatever accelerator PyTorch was built for.",
)  # fmt: skip


def _ranks_option(name: str, *, least: int) -> Callable[[Any], Any]:
    return click.option(
        f"--{name}", "counts", type=click.IntRange(least), multiple=True, default=(2,),
        help="Processes, one an accelerator or a share of the cores. Repeatable. [default: 2]",
    )  # fmt: skip


@click.group("measure")
def command() -> None:
    """Measure collectives, replicas, neighbours and loaders with several processes.

    Records are stored below OUT beside those of `perfmodel profile`, and `perfmodel fit-placement`
    reads them. Let nothing else run meanwhile.
    """


@command.command("collectives")
@_ranks_option("ranks", least=2)
@click.option(
    "--collective", "collectives", type=click.Choice(_COLLECTIVES), multiple=True,
    help="Operation. Repeatable. [default: all]",
)  # fmt: skip
@click.option(
    "--size-bytes", "sizes", type=click.IntRange(min=1), multiple=True,
    help="Whole buffer of a rank. Repeatable. [default: 1 KiB to 32 MiB]",
)  # fmt: skip
@click.option(
    "--dtype", type=click.Choice(["float32", "float16", "bfloat16"]),
    help="Element type. [default: float32 on CPUs, else bfloat16]",
)  # fmt: skip
@_device_option
@_timeout_option
@_out_option
@output_options
def collectives(
    counts: tuple[int, ...],
    collectives: tuple[str, ...],
    sizes: tuple[int, ...],
    dtype: str | None,
    device: str,
    timeout_s: float,
    out: Path,
    as_json: bool,
) -> None:
    """Time collectives by themselves: gloo between CPU cores, NCCL or RCCL between GPUs."""
    from perfmodel.profilers.distributed.collective_runs import (
        USUAL_SIZES,
        measure_collectives,
        usual_cells,
    )
    from perfmodel.profilers.distributed.ranks import RankSettings

    settings = RankSettings(device=device, timeout_s=timeout_s)
    cells = usual_cells(
        device, sizes=sizes or USUAL_SIZES, dtype=dtype, collectives=collectives or _COLLECTIVES
    )

    def task(ranks: int) -> Task:
        return Task(
            label=f"{len(cells)} collectives between {ranks} ranks",
            measure=lambda: measure_collectives(
                cells, ranks, accelerator=_of_one_rank(device, counts), settings=settings
            ),
        )

    run_tasks([task(ranks) for ranks in counts], out, as_json=as_json)


@command.command("replicas")
@click.argument("subjects", nargs=-1, required=True, metavar="FILE|MODEL...")
@_ranks_option("replicas", least=1)
@click.option(
    "--sharding", "shardings", type=click.Choice(["ddp", "fsdp"]), multiple=True,
    default=("ddp",), show_default=True, help="What replicas share. Repeatable.",
)  # fmt: skip
@_device_option
@_timeout_option
@_out_option
@job_options
@output_options
def replicas(
    subjects: tuple[str, ...],
    counts: tuple[int, ...],
    shardings: tuple[str, ...],
    device: str,
    timeout_s: float,
    out: Path,
    as_json: bool,
    **settings: Any,
) -> None:
    """Time training steps of replicas that share gradients (DDP) or everything (FSDP).

    One replica on the same cores or accelerator is measured before several of them.
    """
    from perfmodel.profilers.distributed.ranks import RankSettings
    from perfmodel.profilers.distributed.replica_runs import measure_replicas

    jobs = jobs_of_all(subjects, settings)
    how = RankSettings(device=device, timeout_s=timeout_s)

    def task(job: Any, count: int, sharding: str) -> Task:
        return Task(
            label=f"{job.label} batch {job.batch_size}, {count} replicas, {sharding}",
            measure=lambda: [
                measure_replicas(
                    job,
                    count,
                    sharding=sharding,
                    accelerator=_of_one_rank(device, counts),
                    settings=how,
                )
            ],
        )

    tasks = []
    for job in jobs:
        tasks.append(task(job, 1, shardings[0]))
        tasks += [task(job, n, sharding) for n in counts if n > 1 for sharding in shardings]
    run_tasks(tasks, out, as_json=as_json)


@command.command("neighbours")
@click.argument("subjects", nargs=-1, required=True, metavar="FILE|MODEL...")
@click.option(
    "--threads", type=click.IntRange(1), help="CPU threads of a job. [default: all cores]"
)
@_device_option
@_timeout_option
@_out_option
@job_options
@output_options
def neighbours(
    subjects: tuple[str, ...],
    threads: int | None,
    device: str,
    timeout_s: float,
    out: Path,
    as_json: bool,
    **settings: Any,
) -> None:
    """Time every two of some jobs alone and on one device at once."""
    from perfmodel.profilers.described import described_device
    from perfmodel.profilers.runtime import open_runtime
    from perfmodel.profilers.sharing.neighbour_runs import SharingSettings, measure_pair

    jobs = jobs_of_all(subjects, settings)
    accelerator = described_device(open_runtime(device)).accelerator
    how = SharingSettings(device=device, threads=threads, timeout_s=timeout_s)

    def task(first: Any, second: Any) -> Task:
        return Task(
            label=f"{first.label} batch {first.batch_size} beside {second.label} batch "
            f"{second.batch_size}",
            measure=lambda: measure_pair(first, second, accelerator=accelerator, settings=how),
        )

    pairs = combinations_with_replacement(jobs, 2)
    run_tasks([task(first, second) for first, second in pairs], out, as_json=as_json)


@command.command("loaders")
@click.option(
    "--kind", "kinds", type=click.Choice(_KINDS), multiple=True,
    help="Samples that are made and loaded. Repeatable. [default: all]",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(min=0), multiple=True, default=(0, 1, 2), show_default=True,
    help="Loader processes. Repeatable.",
)  # fmt: skip
@click.option("--batch-size", type=click.IntRange(min=1), default=32, show_default=True)
@click.option("--side-pixels", type=click.IntRange(min=1), help="Of images. [default: 224, raw 32]")
@click.option("--sequence-length", type=click.IntRange(min=1), default=1024, show_default=True)
@click.option(
    "--samples", type=click.IntRange(min=1), default=256, show_default=True,
    help="Distinct samples that are made.",
)  # fmt: skip
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Store to make the samples on. [default: the folder of temporary files]",
)  # fmt: skip
@click.option(
    "--locality", type=click.Choice(_LOCALITIES),
    help="What that store is: samples are read from it, past the cache. [default: from memory]",
)  # fmt: skip
@_timeout_option
@_out_option
@output_options
def loaders(
    kinds: tuple[str, ...],
    workers: tuple[int, ...],
    batch_size: int,
    side_pixels: int | None,
    sequence_length: int,
    samples: int,
    folder: Path | None,
    locality: str | None,
    timeout_s: float,
    out: Path,
    as_json: bool,
) -> None:
    """Time data loaders by themselves: files made here, decoded and batched by workers."""
    from perfmodel.devices.local_cpu import LocalCpu
    from perfmodel.profilers.feeding.loader_runs import LoaderSettings, measure_loaders
    from perfmodel.profilers.feeding.stored_samples import SampleForm

    settings = LoaderSettings(folder=folder, locality=locality, timeout_s=timeout_s)
    host = LocalCpu().describe()

    def task(kind: str) -> Task:
        form = SampleForm(
            kind=kind,
            count=samples,
            side_pixels=side_pixels or (32 if kind == "image_raw" else 224),
            sequence_length=sequence_length,
        )
        return Task(
            label=f"{kind} with {', '.join(map(str, workers))} workers",
            measure=lambda: measure_loaders(
                form, workers=workers, batch_size=batch_size, host=host, settings=settings
            ),
        )

    run_tasks([task(kind) for kind in kinds or _KINDS], out, as_json=as_json)


def _of_one_rank(device: str, counts: Sequence[int]) -> AcceleratorSpec:
    """Return what one rank has: an accelerator, or a share of the cores of so many ranks as fit."""
    from perfmodel.devices.cpu_facts import usable_cores
    from perfmodel.profilers.described import described_device
    from perfmodel.profilers.distributed.ranks import describe_cpu_share
    from perfmodel.profilers.runtime import open_runtime

    if device != "cpu":
        return described_device(open_runtime(device)).accelerator
    return describe_cpu_share(min(max(counts), len(usable_cores())))
