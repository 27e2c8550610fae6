"""Captured sketches by job, kept between runs.

Capturing a graph takes 0.1 to 1 s, reading a kept sketch 1 ms.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfmodel.devices.local_cpu import cache_folder
from perfmodel.engines.local_engine import LocalEngine
from perfmodel.engines.task_engine import TaskEngine
from perfmodel.errors import UnknownModelError
from perfmodel.features.steps.sketch import StepSketch
from perfmodel.graph.job import Job
from perfmodel.predictors.folds import Progress
from perfmodel.store.sketches import SketchFiles
from perfmodel.training.captures.capture_child import CaptureFailure
from perfmodel.training.captures.capture_key import capture_view
from perfmodel.training.captures.capture_pool import CapturePool


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptSketch:
    """A sketch with the facts of its graph that samples need beside it."""

    sketch: StepSketch
    family: str
    peak_tensor_bytes: float
    parameter_count: float | None = None


def sketch_folder() -> Path:
    """Return where sketches are kept unless a folder is named: below the cache of the user."""
    return cache_folder() / "sketches"


def kept_sketches(
    jobs: Mapping[str, Job],
    *,
    cache: Path | None = None,
    engine: TaskEngine | None = None,
    progress: Progress | None = None,
) -> tuple[dict[str, KeptSketch], dict[str, CaptureFailure]]:
    """Return the sketch of each job, from the cache or captured now.

    Parameters
    ----------
    jobs : mapping of str to Job
        By :func:`~perfmodel.training.captures.capture_key.capture_key`.
    cache : Path or None
        Folder of kept sketches; None: :func:`sketch_folder`.
    engine : TaskEngine or None
        Where they are captured; None: here, in as many processes as there are processors.

    Returns
    -------
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
    here = LocalEngine(workers=os.cpu_count() or 1)
    pool = CapturePool(files.folder, engine=engine or here, progress=progress)
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
            parameter_count=float(arrays["parameter_count"])
            if "parameter_count" in arrays
            else None,
        )
    except (KeyError, ValueError, TypeError):
        files.remove(key)
        return None
