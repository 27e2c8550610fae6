"""The corpus: every measured step as a StepSample.

Samples of one capture share one sketch, so that tens of thousands of steps fit in a gigabyte.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import MappingProxyType

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.engines.task_engine import TaskEngine
from perfmodel.errors import UnknownAcceleratorError
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.graph.job import Job
from perfmodel.importers.published import PublishedStep
from perfmodel.predictors.folds import Progress
from perfmodel.training.captures.capture_child import CaptureFailure
from perfmodel.training.captures.capture_key import capture_key
from perfmodel.training.captures.kept_sketches import KeptSketch, kept_sketches
from perfmodel.types import Mode

#: Short names of repositories; others go by the name of the repository.
SOURCE_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "pytorch-image-models": "timm",
        "deeplearning-benchmark": "lambda",
        "DeepLearningExamples": "nvidia-dle",
        "training_results": "mlperf",
        "sd-webui": "stable-diffusion",
        "DLPerf": "dlperf",
        "FasterTransformer": "fastertransformer",
    }
)


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Samples, and what was left out.

    Parameters
    ----------
    samples : tuple of StepSample
        In the order of the steps they come from.
    dropped : mapping of str to int
        Steps left out, by reason.
    failures : tuple of CaptureFailure
        One for each job that could not be captured, by label.
    jobs : tuple of Job
        What was measured, for each sample of published steps: their job, with merged branches where
        it was measured with these.
    """

    samples: tuple[StepSample, ...]
    dropped: Mapping[str, int]
    failures: tuple[CaptureFailure, ...] = ()
    jobs: tuple[Job, ...] = ()


def build_corpus(
    steps: Iterable[PublishedStep],
    *,
    cache: Path | None = None,
    engine: TaskEngine | None = None,
    progress: Progress | None = None,
) -> Corpus:
    """Turn published steps into samples; captures what no kept sketch stands for.

    Parameters
    ----------
    cache : Path or None
        Folder of kept sketches; None: :func:`.kept_sketches.sketch_folder`.
    engine : TaskEngine or None
        Where they are captured; None: here, in as many processes as there are processors.

    Returns
    -------
    Corpus
        Steps whose model cannot be captured, whose accelerator is unknown or whose time is not
        positive are counted as dropped, by reason.
    """
    steps = list(steps)
    dropped: Counter[str] = Counter()
    accelerators = _accelerators(steps)
    found = _captures(steps, cache=cache, engine=engine, progress=progress)
    samples: list[StepSample] = []
    jobs: list[Job] = []
    failures: dict[str, CaptureFailure] = {}
    for step, (job, kept) in zip(steps, found, strict=True):
        spec = accelerators[step.accelerator]
        if spec is None:
            dropped["UnknownAcceleratorError"] += 1
        elif not (math.isfinite(step.step_time_s) and step.step_time_s > 0):
            dropped["no positive time"] += 1
        elif isinstance(kept, CaptureFailure):
            dropped[kept.reason] += 1
            failures[kept.label] = kept
        elif not agrees(step, kept):
            dropped[ANOTHER_MODEL] += 1
        else:
            samples.append(_sample(step, spec, kept))
            jobs.append(job)
    return Corpus(
        samples=tuple(samples),
        dropped=dict(dropped),
        failures=tuple(sorted(failures.values(), key=lambda failure: failure.label)),
        jobs=tuple(jobs),
    )


def _captures(
    steps: Sequence[PublishedStep],
    *,
    cache: Path | None,
    engine: TaskEngine | None,
    progress: Progress | None,
) -> list[tuple[Job, KeptSketch | CaptureFailure]]:
    """Capture what each step measured: the model as it is named, or with merged branches."""

    def captured(jobs: Sequence[Job]) -> list[KeptSketch | CaptureFailure]:
        keys = [capture_key(job) for job in jobs]
        kept, failures = kept_sketches(
            dict(zip(keys, jobs, strict=True)), cache=cache, engine=engine, progress=progress
        )
        return [kept.get(key) or failures[key] for key in keys]

    found = captured([step.job for step in steps])
    plain = [kept if isinstance(kept, KeptSketch) else None for kept in found]
    doubtful = _merged_jobs(
        steps, [i for i, k in enumerate(plain) if k is not None and not agrees(steps[i], k)]
    )
    again = dict(zip(doubtful, captured(list(doubtful.values())), strict=True))
    merges = {i: isinstance(k, KeptSketch) and agrees(steps[i], k) for i, k in again.items()}
    all_merged = _merged_jobs(steps, sorted(measured_merged(steps, plain, merges)))
    measured = dict(zip(all_merged, captured(list(all_merged.values())), strict=True))
    return [
        (all_merged.get(i, step.job), measured.get(i, found[i])) for i, step in enumerate(steps)
    ]


def _merged_jobs(steps: Sequence[PublishedStep], positions: Sequence[int]) -> dict[int, Job]:
    jobs = {i: merged(steps[i].job) for i in positions}
    return {i: job for i, job in jobs.items() if job is not None}


def source_name(source: str) -> str:
    """Return the short name of a set of measurements.

    Parameters
    ----------
    source : str
        ``Origin.source``: owner and repository, with the part of it.

    Examples
    --------
    >>> source_name("huggingface/pytorch-image-models results/")
    'timm'
    >>> source_name("mosaicml/llm-foundry scripts/train")
    'llm-foundry'
    """
    for part, name in SOURCE_NAMES.items():
        if part in source:
            return name
    repository = source.split(" ")[0].rstrip("/")
    return repository.rpartition("/")[2] or "unnamed"


def _accelerators(steps: Sequence[PublishedStep]) -> dict[str, AcceleratorSpec | None]:
    catalog = Catalog.default()
    found: dict[str, AcceleratorSpec | None] = {}
    for name in {step.accelerator for step in steps}:
        try:
            found[name] = catalog.get(name)
        except UnknownAcceleratorError:
            found[name] = None
    return found


def _sample(step: PublishedStep, spec: AcceleratorSpec, kept: KeptSketch) -> StepSample:
    return StepSample(
        step=Step.of_job(step.job, kept.sketch, spec),
        step_time_s=step.step_time_s,
        model=step.job.label,
        family=kept.family,
        source=source_name(step.origin.source),
    )


#: Said of a step whose model could not be told.
ANOTHER_MODEL = "the model has another number of parameters than the published one"

#: Counts are published in millions with two digits.
_ROUNDING = 0.006e6
_RELATIVE = 0.004
_MERGED = "reparameterize"


def agrees(step: PublishedStep, kept: KeptSketch) -> bool:
    """Tell whether a captured model can be the published one; yes where a count is not known."""
    published, captured = step.parameter_count, kept.parameter_count
    if published is None or captured is None:
        return True
    return abs(published - captured) <= max(_ROUNDING, _RELATIVE * published)


def merged(job: Job) -> Job | None:
    """Return the job with merged branches; None where that is no option."""
    if not (job.model or "").startswith("timm/") or job.mode is not Mode.INFERENCE:
        return None
    return dataclasses.replace(job, model_kwargs={**job.model_kwargs, _MERGED: True})


def measured_merged(
    steps: Sequence[PublishedStep], plain: Sequence[KeptSketch | None], merges: Mapping[int, bool]
) -> set[int]:
    """Return which steps were measured with merged branches.

    Parameters
    ----------
    plain : sequence of KeptSketch or None
        Capture of each as it is named.
    merges : mapping of int to bool
        By position, for steps whose plain capture does not agree: whether the merged one does.

    Returns
    -------
    set of int
        Those, and all steps of the same family in the same table: a table is measured in one way,
        and few models tell the difference by the digits that are published.
    """
    told = {_table(steps[i], plain[i]) for i, agreed in merges.items() if agreed}
    return {
        i
        for i, (step, kept) in enumerate(zip(steps, plain, strict=True))
        if kept is not None and _table(step, kept) in told
    }


def _table(step: PublishedStep, kept: KeptSketch | None) -> tuple[str, str]:
    return PurePath(step.origin.file).name, kept.family if kept is not None else ""
