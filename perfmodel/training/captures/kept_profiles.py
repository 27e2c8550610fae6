"""Step profiles of jobs, kept between runs beside their sketches.

Capturing a graph takes 0.1 to 10 s, reading a kept profile 1 ms. Unlike a sketch, a profile holds
the order in which gradients become ready.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.devices.local import cache_folder
from perfmodel.errors import PerfModelError
from perfmodel.graph.job import Job
from perfmodel.placement.data_parallel.profile_graph import step_profile
from perfmodel.placement.data_parallel.step_profile import StepProfile
from perfmodel.predictors.folds import Progress
from perfmodel.store.sketches import SketchFiles
from perfmodel.training.captures.capture_key import capture_key, capture_view

#: Raised when the meaning of a profile changes; kept ones of another version are made again.
PROFILE_VERSION = 1


def kept_profiles(
    jobs: Iterable[Job], *, cache: Path | None = None, progress: Progress | None = None
) -> dict[str, StepProfile]:
    """Return the profiles of jobs, captured in this process where none is kept.

    Parameters
    ----------
    jobs : iterable of Job
        Any number of them may share a capture.
    cache : Path or None
        Folder of kept profiles; by default one below the cache of the user.
    progress : callable or None
        Receives a line for each capture.

    Returns
    -------
    dict of str to StepProfile
        By :func:`.capture_key`. Jobs that cannot be captured are left out.
    """
    files = SketchFiles(cache or cache_folder() / f"step-profiles-{PROFILE_VERSION}")
    found: dict[str, StepProfile] = {}
    for key, job in {capture_key(job): capture_view(job) for job in jobs}.items():
        profile = _read(files, key) or _captured(files, key, job, progress)
        if profile is not None:
            found[key] = profile
    return found


def _read(files: SketchFiles, key: str) -> StepProfile | None:
    arrays = files.read(key)
    if arrays is None:
        return None
    try:
        values: dict[str, Any] = {one.name: arrays[one.name] for one in fields(StepProfile)}
    except KeyError:
        files.remove(key)
        return None
    plain = {name: value if value.ndim else value.item() for name, value in values.items()}
    return StepProfile(**plain)


def _captured(
    files: SketchFiles, key: str, job: Job, progress: Progress | None
) -> StepProfile | None:
    from perfmodel.zoo.resolve import capture_job

    try:
        graph = capture_job(job)
    except PerfModelError as problem:
        if progress is not None:
            progress(f"{job.label} cannot be captured: {problem}")
        return None
    profile = step_profile(graph, samples=job.batch_size * job.accumulation_steps)
    files.write(key, {one.name: np.array(getattr(profile, one.name)) for one in fields(profile)})
    if progress is not None:
        progress(f"captured {job.label} at {job.batch_size} in {job.precision}")
    return profile
