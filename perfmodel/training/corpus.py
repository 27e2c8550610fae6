"""The corpus: every measured step as a StepSample, with sketches kept between runs.

Capturing a graph takes 0.1 to 1 s, reading a kept sketch 1 ms. Samples of one capture share one
sketch, so that tens of thousands of steps fit in a gigabyte.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.local import cache_folder
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import UnknownAcceleratorError, UnknownModelError
from perfmodel.features.sketch import StepSketch
from perfmodel.features.step import Step, StepSample
from perfmodel.graph.job import Job
from perfmodel.importers.base import PublishedStep
from perfmodel.store.sketches import SketchFiles
from perfmodel.training.capture_key import capture_key, capture_view
from perfmodel.training.capture_pool import CaptureFailure, CapturePool

Progress = Callable[[str], None]

#: Short names of repositories; others go by the name of the repository.
SOURCE_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "pytorch-image-models": "timm",
        "deeplearning-benchmark": "lambda",
        "DeepLearningExamples": "nvidia-dle",
        "training_results": "mlperf",
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
    """

    samples: tuple[StepSample, ...]
    dropped: Mapping[str, int]
    failures: tuple[CaptureFailure, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptSketch:
    """A sketch with the two facts of its graph that samples need beside it."""

    sketch: StepSketch
    family: str
    peak_tensor_bytes: float


def sketch_folder() -> Path:
    """Return where sketches are kept unless a folder is named: below the cache of the user."""
    return cache_folder() / "sketches"


def build_corpus(
    steps: Iterable[PublishedStep],
    *,
    cache: Path | None = None,
    workers: int | None = None,
    catalog: Catalog | None = None,
    progress: Progress | None = None,
) -> Corpus:
    """Turn published steps into samples; captures what no kept sketch stands for.

    Parameters
    ----------
    steps : iterable of PublishedStep
    cache : Path or None
        Folder of kept sketches; None: :func:`sketch_folder`.
    workers : int or None
        Processes that capture; None: as many as there are processors.
    catalog : Catalog or None
        Where accelerator names are looked up; the embedded one by default.
    progress : callable or None
        Receives a line now and then.

    Returns
    -------
    Corpus
        Steps whose model cannot be captured, whose accelerator is unknown or whose time is not
        positive are counted as dropped, by reason.
    """
    steps = list(steps)
    dropped: Counter[str] = Counter()
    accelerators = _accelerators(steps, catalog or Catalog.default())
    keys = [capture_key(step.job) for step in steps]
    jobs = dict(zip(keys, (step.job for step in steps), strict=True))
    kept, failures = kept_sketches(jobs, cache=cache, workers=workers, progress=progress)
    samples: list[StepSample] = []
    for key, step in zip(keys, steps, strict=True):
        spec = accelerators[step.accelerator]
        if spec is None:
            dropped["UnknownAcceleratorError"] += 1
        elif not (math.isfinite(step.step_time_s) and step.step_time_s > 0):
            dropped["no positive time"] += 1
        elif key in failures:
            dropped[failures[key].reason] += 1
        else:
            samples.append(_sample(step, spec, kept[key]))
    return Corpus(
        samples=tuple(samples),
        dropped=dict(dropped),
        failures=tuple(sorted(failures.values(), key=lambda failure: failure.label)),
    )


def kept_sketches(
    jobs: Mapping[str, Job],
    *,
    cache: Path | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> tuple[dict[str, KeptSketch], dict[str, CaptureFailure]]:
    """Return the sketch of each job, from the cache or captured now.

    Parameters
    ----------
    jobs : mapping of str to Job
        By :func:`~perfmodel.training.capture_key.capture_key`.
    cache, workers, progress
        As in :func:`build_corpus`.

    Returns
    -------
    kept : dict of str to KeptSketch
    failures : dict of str to CaptureFailure
        Every key is in one of the two.
    """
    files = SketchFiles(cache or sketch_folder())
    kept: dict[str, KeptSketch] = {}
    failures: dict[str, CaptureFailure] = {}
    for key, job in jobs.items():
        _file(_read(files, key, job), key, kept, failures)
    known = kept.keys() | failures.keys()
    missing = {key: capture_view(job) for key, job in jobs.items() if key not in known}
    if not missing:
        return kept, failures
    if progress is not None:
        progress(f"{len(kept)} sketches were kept, {len(missing)} are captured")
    pool = CapturePool(files.folder, workers=workers or os.cpu_count() or 1, progress=progress)
    failed = pool.run(missing)
    for key, job in missing.items():
        lost = CaptureFailure(label=job.label, reason="lost", message="cannot be read back")
        _file(failed.get(key) or _read(files, key, job) or lost, key, kept, failures)
    _remember_unknown(files, missing, failed)
    return kept, failures


def _file(
    found: KeptSketch | CaptureFailure | None,
    key: str,
    kept: dict[str, KeptSketch],
    failures: dict[str, CaptureFailure],
) -> None:
    if isinstance(found, KeptSketch):
        kept[key] = found
    elif found is not None:
        failures[key] = found


def _remember_unknown(
    files: SketchFiles, jobs: Mapping[str, Job], failed: Mapping[str, CaptureFailure]
) -> None:
    """Keep that timm does not know a name; the key holds its version. Others are tried again."""
    for key, failure in failed.items():
        if failure.reason == UnknownModelError.__name__ and "timm/" in (jobs[key].model or ""):
            files.write(
                key, {"reason": np.array(failure.reason), "message": np.array(failure.message)}
            )


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


def _read(files: SketchFiles, key: str, job: Job) -> KeptSketch | CaptureFailure | None:
    arrays = files.read(key)
    if arrays is None:
        return None
    if "reason" in arrays:
        return CaptureFailure(
            label=job.label, reason=str(arrays["reason"]), message=str(arrays["message"])
        )
    try:
        return KeptSketch(
            sketch=StepSketch.from_arrays(arrays),
            family=str(arrays["family"]),
            peak_tensor_bytes=float(arrays["peak_tensor_bytes"]),
        )
    except (KeyError, ValueError, TypeError):
        files.remove(key)
        return None


def _accelerators(
    steps: Sequence[PublishedStep], catalog: Catalog
) -> dict[str, AcceleratorSpec | None]:
    found: dict[str, AcceleratorSpec | None] = {}
    for name in {step.accelerator for step in steps}:
        try:
            found[name] = catalog.get(name)
        except UnknownAcceleratorError:
            found[name] = None
    return found


def _sample(step: PublishedStep, spec: AcceleratorSpec, kept: KeptSketch) -> StepSample:
    job = step.job
    return StepSample(
        step=Step(
            sketch=kept.sketch,
            accelerator=spec,
            mode=job.mode,
            batch_size=job.batch_size * job.accumulation_steps,
            precision=job.precision,
            memory_format=job.memory_format,
            compiler=job.compiler,
            software=job.software,
        ),
        step_time_s=step.step_time_s,
        model=job.label,
        family=kept.family,
        source=source_name(step.origin.source),
        spread=step.spread,
        memory_bytes=step.memory_bytes,
        peak_tensor_bytes=kept.peak_tensor_bytes,
    )
