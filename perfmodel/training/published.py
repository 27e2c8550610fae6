"""From published throughputs to samples: capture the graph of each job that was timed."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import PerfModelError
from perfmodel.graph.workload import Workload
from perfmodel.importers.base import PublishedStep
from perfmodel.predictors.base import Sample
from perfmodel.training.samples import SampleSet
from perfmodel.zoo.resolve import capture_job


def choose_steps(steps: Iterable[PublishedStep], per_setting: int) -> list[PublishedStep]:
    """Return a fixed pseudo-random part of the steps of every device and setting.

    Steps are ordered by a hash of their model, so that the same models recur across settings
    and the choice does not depend on the order of the files.

    Parameters
    ----------
    steps : iterable of PublishedStep
    per_setting : int
        How many of each (device, mode, precision, memory format, compiler, software).

    Returns
    -------
    list of PublishedStep
    """
    ordered = sorted(steps, key=lambda step: hashlib.sha256(step.job.label.encode()).digest())
    taken: Counter[tuple[object, ...]] = Counter()
    chosen: list[PublishedStep] = []
    for step in ordered:
        job = step.job
        software = tuple(sorted(job.software.items()))
        setting = (
            step.accelerator, job.mode, job.precision, job.memory_format, job.compiler, software,
        )  # fmt: skip
        if taken[setting] < per_setting:
            taken[setting] += 1
            chosen.append(step)
    return chosen


def published_samples(
    steps: Sequence[PublishedStep],
    *,
    catalog: Catalog | None = None,
    progress: Callable[[str], None] | None = None,
) -> SampleSet:
    """Capture the graph of every published step and make a sample of it.

    Parameters
    ----------
    steps : sequence of PublishedStep
    catalog : Catalog or None
        Where accelerator names are looked up; the embedded one by default.
    progress : callable or None
        Receives a line now and then.

    Returns
    -------
    SampleSet
        Steps whose model cannot be captured here are counted as dropped, by reason.
    """
    catalog = catalog or Catalog.default()
    samples: list[Sample] = []
    dropped: Counter[str] = Counter()
    for number, step in enumerate(steps, start=1):
        try:
            samples.append(_sample(step, catalog))
        except PerfModelError as error:
            dropped[type(error).__name__] += 1
        if progress is not None and number % 100 == 0:
            progress(f"captured {number} of {len(steps)} published steps")
    return SampleSet(samples=tuple(samples), dropped=dict(dropped), notes={})


def _sample(step: PublishedStep, catalog: Catalog) -> Sample:
    job = step.job
    graph = capture_job(job)
    workload = Workload(
        graph=graph,
        accelerator=catalog.get(step.accelerator),
        mode=job.mode,
        batch_size=job.batch_size,
        precision=job.precision,
        memory_format=job.memory_format,
        compiler=job.compiler,
        software=job.software,
    )
    return Sample(
        workload=workload,
        step_time_s=step.step_time_s,
        family=graph.source["family"],
        model=job.label,
    )
