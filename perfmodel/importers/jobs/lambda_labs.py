"""Import the training throughputs of lambdal/deeplearning-benchmark.

The repository keeps one log per run; this reads the table of those runs, one row each, whose
``precision`` says what really ran and whose ``batch_global`` and ``throughput*`` are those of the
whole job. Runs of one point (device, accelerators, task, precision, batch, software) are one
record: their median.

Units of the table become samples::

    gnmt         source and target tokens/s / 48.8 tokens of a pair
    tacotron2    mel frames/s / 565 frames of a clip
    waveglow     audio samples/s / 8000 of a segment
    transformer  target tokens/s / target length of a sequence

Left out: the raw logs of the repository, and power, which was never recorded.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import UnknownAcceleratorError
from perfmodel.graph.job import Job
from perfmodel.importers.jobs.ngc import EXAMPLES_BERT, ngc_software, plain_version
from perfmodel.importers.public_tables import PublicTable, Row, count, positive, text
from perfmodel.importers.published import (
    Imported,
    Origin,
    PublishedPlacement,
    PublishedShortage,
    PublishedStep,
)
from perfmodel.placement.topology.topology import Node, Placement
from perfmodel.types import Mode, Precision

TABLE = PublicTable(
    files=("lambda_training.parquet", "lambda_training.csv"),
    source="lambdal/deeplearning-benchmark pytorch/results*",
    licence="not stated",
    columns=(
        "device", "interconnect", "n_gpus", "task", "precision", "tf32_possible", "container",
        "pytorch", "batch_global", "throughput", "throughput_steady", "unit", "mem_used_max_mib",
        "status",
    ),
)  # fmt: skip
_MIB = 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """What a task of the benchmark is to us.

    Parameters
    ----------
    model : str
        Reference workload.
    unit : str
        As the table writes it.
    software : mapping of str to str
        What it runs beside that of the container.
    """

    model: str
    optimizer: str
    unit: str
    per_sample: float = 1.0
    sequence_length: int | None = None
    software: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


TASKS: Mapping[str, Task] = MappingProxyType(
    {
        "resnet50": Task(model="zoo/resnet50-v1.5", optimizer="momentum", unit="images/s"),
        "ssd": Task(model="zoo/ssd300-resnet50", optimizer="momentum", unit="images/s"),
        "maskrcnn": Task(model="zoo/mask-rcnn", optimizer="momentum", unit="images/s"),
        # FusedAdam and BertAdam both decouple the weight decay.
        "bert_base_squad": Task(
            model="zoo/bert-base-squad",
            optimizer="adamw",
            unit="sequences/s",
            sequence_length=384,
            software=EXAMPLES_BERT,
        ),
        "bert_large_squad": Task(
            model="zoo/bert-large-squad",
            optimizer="adamw",
            unit="sequences/s",
            sequence_length=384,
            software=EXAMPLES_BERT,
        ),
        "gnmt": Task(
            model="zoo/gnmt", optimizer="adam", unit="tokens/s (src+tgt)", per_sample=48.8
        ),
        "ncf": Task(model="zoo/ncf", optimizer="adam", unit="samples/s"),
        "transformerxlbase": Task(
            model="zoo/transformer-xl-base",
            optimizer="lamb",
            unit="tokens/s",
            per_sample=192,
            sequence_length=192,
        ),
        "transformerxllarge": Task(
            model="zoo/transformer-xl-large",
            optimizer="adam",
            unit="tokens/s",
            per_sample=256,
            sequence_length=256,
        ),
        "tacotron2": Task(
            model="zoo/tacotron2", optimizer="adam", unit="mel frames/s", per_sample=565
        ),
        "waveglow": Task(
            model="zoo/waveglow", optimizer="adam", unit="audio samples/s", per_sample=8000
        ),
    }
)

#: Catalogue names of devices that the table spells in its own way.
_DEVICES = {"RTX 3080 Laptop 16GB (Max-Q)": "RTX-3080-Max-Q"}

_PRECISION = {"fp32": Precision.FP32, "amp": Precision.AMP_FP16, "fp16": Precision.FP16}

#: How ResNet-50 got its images; the other tasks have one way each.
_LOADERS = {
    "synthetic": "synthetic",
    "syntetic": "synthetic",
    "dali-cpu": "dali-cpu",
    "pytorch": "pytorch",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Point:
    """What the runs of one record have in common."""

    accelerator: str
    gpus: int
    interconnect: str
    task: str
    precision: Precision
    batch_global: int
    torch: str
    container: str
    loader: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Run:
    """What one run measured."""

    samples_per_second: float
    memory_bytes: float | None


def read_lambda(path: Path) -> Imported:
    """Read the table of runs, or that of a folder.

    Returns
    -------
    Imported
        Runs on one accelerator as steps, the others as placements, those that ran out of memory
        as shortages.
    """
    points: dict[_Point, list[_Run]] = {}
    short: dict[_Point, list[Origin]] = {}
    first: dict[_Point, Origin] = {}
    read, rejected = TABLE.records(path, _read)
    for point, origin, run in read:
        if run is None:
            short.setdefault(point, []).append(origin)
        else:
            first.setdefault(point, origin)
            points.setdefault(point, []).append(run)
    steps: list[PublishedStep] = []
    placements: list[PublishedPlacement] = []
    catalog = Catalog.default()
    for point, runs in points.items():
        if point.gpus == 1:
            steps.append(_step(point, runs, first[point]))
        else:
            placements.append(_placement(point, runs, first[point], catalog))
    return Imported(
        steps=tuple(steps),
        placements=tuple(placements),
        shortages=tuple(_shortages(short, catalog)),
        rejected=rejected,
    )


def _read(row: Row, origin: Origin) -> tuple[_Point, Origin, _Run | None]:
    """Return what a row measured; None where the run ended for want of memory."""
    point = _point(row)
    return point, origin, None if text(row, "status") == "oom" else _run(row)


def _shortages(
    short: Mapping[_Point, Sequence[Origin]], catalog: Catalog
) -> Iterator[PublishedShortage]:
    """Yield the points where runs ended for want of memory."""
    for point, origins in short.items():
        yield PublishedShortage(
            job=_job(point),
            placement=Placement(nodes=(_node(point, catalog),)),
            origin=origins[0],
            repeats=len(origins),
        )


def _point(row: Row) -> _Point:
    _check(row)
    precision = _PRECISION[text(row, "precision")]
    if precision is Precision.FP32 and text(row, "tf32_possible") in ("True", "true", "1"):
        precision = Precision.TF32
    gpus = count(row, "n_gpus")
    # One accelerator does not outrun its loader; several may, so that there it tells runs apart.
    loader = _LOADERS.get(str(row.get("data_backend")), "") if gpus > 1 else ""
    return _Point(
        accelerator=_device(text(row, "device")),
        gpus=gpus,
        interconnect=text(row, "interconnect"),
        task=text(row, "task"),
        precision=precision,
        batch_global=count(row, "batch_global"),
        torch=plain_version(text(row, "pytorch")),
        container=text(row, "container"),
        loader=loader,
    )


def _check(row: Row) -> None:
    """Raise ValueError with the reason why a row says nothing that we understand."""
    if (status := text(row, "status")) not in ("ok", "oom"):
        raise ValueError(f"the run is marked {status}")
    _device(text(row, "device"))
    if (task := text(row, "task")) not in TASKS:
        raise ValueError(f"unknown task {task!r}")
    if (unit := text(row, "unit")) != TASKS[task].unit:
        raise ValueError(f"unit {unit!r} of {task} is not {TASKS[task].unit!r}")
    if (precision := text(row, "precision")) not in _PRECISION:
        raise ValueError(f"unknown precision {precision!r}")
    flags = str(row.get("flags") or "").split(";")
    # A long run shrugs off an allocation that is tried again; one of a step or two is nothing else.
    if "oom_text_in_log" in flags and "few_steps" in flags:
        raise ValueError("memory ran out during one of the few steps that were timed")


@cache
def _device(written: str) -> str:
    try:
        return _DEVICES.get(written) or Catalog.default().canonical_name(written)
    except UnknownAcceleratorError as error:
        raise ValueError(f"unknown device {written!r}") from error


def _run(row: Row) -> _Run:
    # The steady figure leaves out the first, slow steps; two tasks do not have it.
    steady = row["throughput_steady"] is not None
    rate = positive(row, "throughput_steady" if steady else "throughput")
    memory = row["mem_used_max_mib"]
    return _Run(
        samples_per_second=rate / TASKS[text(row, "task")].per_sample,
        memory_bytes=None if memory is None else positive(row, "mem_used_max_mib") * _MIB,
    )


def _job(point: _Point) -> Job:
    task = TASKS[point.task]
    return Job(
        model=task.model,
        mode=Mode.TRAINING,
        batch_size=_batch_size(point),
        precision=point.precision,
        optimizer=task.optimizer,
        sequence_length=task.sequence_length,
        software={**ngc_software(point.container), "torch": point.torch, **task.software},
    )


def _batch_size(point: _Point) -> int:
    # Some global batches do not divide evenly; the step time below is that of the global one.
    return max(1, round(point.batch_global / point.gpus))


def _step(point: _Point, runs: Sequence[_Run], origin: Origin) -> PublishedStep:
    rates = [run.samples_per_second for run in runs]
    middle = statistics.median(rates)
    return PublishedStep(
        job=_job(point),
        accelerator=point.accelerator,
        samples_per_second=middle,
        origin=origin,
        memory_bytes=_memory(runs),
        repeats=len(rates),
        spread=(max(rates) - min(rates)) / middle,
    )


def _placement(
    point: _Point, runs: Sequence[_Run], origin: Origin, catalog: Catalog
) -> PublishedPlacement:
    rate = statistics.median(run.samples_per_second for run in runs)
    settings = {
        "precision": str(point.precision),
        "optimizer": TASKS[point.task].optimizer,
        "interconnect": point.interconnect,
        "torch": point.torch,
        "repeats": str(len(runs)),
        **({"loader": point.loader} if point.loader else {}),
    }
    return PublishedPlacement(
        job=_job(point),
        job_type=point.task,
        batch_size=_batch_size(point),
        placement=Placement(nodes=(_node(point, catalog),)),
        step_time_s=point.batch_global / rate,
        origin=origin,
        memory_bytes=_memory(runs),
        settings=MappingProxyType(settings),
    )


def _node(point: _Point, catalog: Catalog) -> Node:
    return Node(
        accelerator=point.accelerator,
        count=point.gpus,
        link=_link(point.accelerator, point.interconnect, catalog),
    )


def _link(accelerator: str, interconnect: str, catalog: Catalog) -> str | None:
    """Return the link that the table's word means, or None where it does not say."""
    spec = catalog.get(accelerator)
    if interconnect in ("nvlink", "nvlink-pair"):
        return spec.link
    if interconnect == "pcie" and spec.pcie_generation is not None:
        return f"pcie{spec.pcie_generation:g}"
    return None


def _memory(runs: Sequence[_Run]) -> float | None:
    """Return the median of what the monitor saw: an upper bound, with what is only reserved."""
    seen = [run.memory_bytes for run in runs if run.memory_bytes is not None]
    return statistics.median(seen) if seen else None
