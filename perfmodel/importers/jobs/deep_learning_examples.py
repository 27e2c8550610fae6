"""Import the throughput tables on the model pages of NVIDIA/DeepLearningExamples.

Reads them as one row per figure: page, line, device, GPUs, precision, batch, throughput of all GPUs
together, unit. Figures of one point that agree are one record, their median; figures that do not
are left out, since the page does not say what else differed.

Left out: pages of other frameworks than PyTorch, figures without a batch size or a clear unit, and
models without a workload (see :mod:`perfmodel.importers.jobs.deep_learning_recipes`).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from perfmodel.devices.catalog import Catalog
from perfmodel.graph.job import Job
from perfmodel.importers.jobs.deep_learning_recipes import Recipe, recipe_of
from perfmodel.importers.jobs.ngc import ngc_software
from perfmodel.importers.public_tables import PublicTable, Row, count, find_tables, positive, text
from perfmodel.importers.published import (
    Imported,
    Origin,
    PublishedPlacement,
    PublishedStep,
    RejectedRow,
)
from perfmodel.placement.topology.topology import Node, Placement
from perfmodel.types import MemoryFormat, Mode, Precision

TABLE = PublicTable(
    files=("nvidia_dle_training.*", "nvidia_dle_inference.*"),
    source="NVIDIA/DeepLearningExamples model pages",
    licence="per example, mostly Apache-2.0 or BSD-3-Clause",
    columns=(
        "readme", "line", "device", "num_gpus", "precision", "batch_per_gpu", "throughput", "unit",
        "ngc_container", "variant", "section_variant", "seq_len",
    ),
)  # fmt: skip

#: Figures of one point that lie further apart than this share of their median are no repeats.
MOST_SPREAD = 0.2

#: Container of pages that name none: the middle of those that do, 20.06 to 22.11.
_USUAL_SOFTWARE = ngc_software("21.06")
_PRECISION: Mapping[str, Precision] = MappingProxyType(
    {
        "amp_fp16": Precision.AMP_FP16,
        "tf32": Precision.TF32,
        "fp32": Precision.FP32,
        "bf16": Precision.BF16,
        "int8": Precision.INT8,
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Figure:
    """One figure of a page; ``read`` says where the table has it."""

    read: Origin
    accelerator: str
    gpus: int
    name: str
    job: Job
    no_recipe: bool
    samples_per_second: float
    origin: Origin

    @property
    def key(self) -> tuple[str, int, str, str]:
        return self.accelerator, self.gpus, self.name, repr(self.job)


def read_deep_learning_examples(path: Path) -> Imported:
    """Read the tables of training and inference, or one: its name says which mode it is.

    Returns
    -------
    Imported
        Workloads on one GPU as steps; several GPUs, and jobs known by their name alone, as
        placements.
    """
    figures: dict[tuple[str, int, str, str], list[_Figure]] = {}
    rejected: list[RejectedRow] = []
    for file in find_tables(path, TABLE.files):
        found, others = TABLE.records(file, _figure)
        rejected += others
        for figure in found:
            figures.setdefault(figure.key, []).append(figure)
    steps: list[PublishedStep] = []
    placements: list[PublishedPlacement] = []
    for same in figures.values():
        if _spread(same) > MOST_SPREAD:
            rejected.extend(_contradictions(same))
        elif same[0].gpus == 1 and not same[0].no_recipe:
            steps.append(_step(same))
        else:
            placements.append(_placement(same))
    return Imported(steps=tuple(steps), placements=tuple(placements), rejected=tuple(rejected))


def _figure(row: Row, read: Origin) -> _Figure:
    mode = Mode.INFERENCE if "inference" in read.file else Mode.TRAINING
    recipe = recipe_of(row, mode)
    rate = positive(row, "throughput") / recipe.units_per_sample(row)
    return _Figure(
        read=read,
        accelerator=Catalog.default().canonical_name(text(row, "device")),
        gpus=count(row, "num_gpus"),
        name=recipe.name if mode is Mode.TRAINING else f"{recipe.name}-inference",
        job=_job(recipe, mode, row),
        no_recipe=recipe.model is None,
        samples_per_second=rate,
        origin=replace(read, file=text(row, "readme"), line=count(row, "line")),
    )


def _job(recipe: Recipe, mode: Mode, row: Row) -> Job:
    if (word := text(row, "precision")) not in _PRECISION:
        raise ValueError(f"unknown precision {word!r}")
    precision = _PRECISION[word]
    if mode is Mode.TRAINING and recipe.model is not None and recipe.optimizer is None:
        raise ValueError(f"the optimizer of {recipe.name} cannot be captured")
    last = recipe.channels_last and precision is Precision.AMP_FP16
    training = mode is Mode.TRAINING and recipe.optimizer is not None
    return Job(
        model=recipe.model,
        model_kwargs=recipe.model_kwargs,
        mode=mode,
        batch_size=count(row, "batch_per_gpu"),
        precision=precision,
        optimizer=recipe.optimizer if training and recipe.optimizer else "sgd",
        memory_format=MemoryFormat.CHANNELS_LAST if last else MemoryFormat.CHANNELS_FIRST,
        sequence_length=recipe.sequence_length,
        software={**(ngc_software(_release(row)) or _USUAL_SOFTWARE), **recipe.software},
    )


def _release(row: Row) -> str | None:
    """Return the container's release; read as a number, 22.10 has lost its zero."""
    if row["ngc_container"] is None:
        return None
    year, _, month = text(row, "ngc_container").partition(".")
    return f"{year}.{month.ljust(2, '0')}"


def _spread(same: list[_Figure]) -> float:
    rates = [figure.samples_per_second for figure in same]
    return (max(rates) - min(rates)) / statistics.median(rates)


def _contradictions(same: Iterable[_Figure]) -> list[RejectedRow]:
    reason = f"figures of one point differ by more than {MOST_SPREAD:.0%}"
    read = (figure.read for figure in same)
    return [RejectedRow(file=one.file, line=one.line, reason=reason) for one in read]


def _middle(same: Iterable[_Figure]) -> float:
    return statistics.median(figure.samples_per_second for figure in same)


def _step(same: list[_Figure]) -> PublishedStep:
    first = same[0]
    return PublishedStep(
        job=first.job,
        accelerator=first.accelerator,
        samples_per_second=_middle(same),
        origin=first.origin,
        repeats=len(same),
        spread=_spread(same),
    )


def _placement(same: list[_Figure]) -> PublishedPlacement:
    first = same[0]
    settings = {"precision": str(first.job.precision), **first.job.software}
    return PublishedPlacement(
        job=None if first.no_recipe else first.job,
        job_type=first.name,
        batch_size=first.job.batch_size,
        placement=Placement(nodes=(Node(accelerator=first.accelerator, count=first.gpus),)),
        step_time_s=first.job.batch_size * first.gpus / _middle(same),
        origin=first.origin,
        settings=MappingProxyType(settings),
    )
