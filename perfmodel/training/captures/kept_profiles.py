"""Profiles of the steps of jobs, and of their memory, kept between runs beside the sketches.

Capturing a graph takes 0.1 to 10 s, reading what is kept of it 1 ms. Unlike a sketch, a profile
holds the order in which gradients become ready, or tensors live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from perfmodel.devices.local_cpu import cache_folder
from perfmodel.errors import PerfModelError
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.placement.data_parallel.step_profile import StepProfile, step_profile
from perfmodel.placement.memory.memory_profile import PROFILE_VERSION as MEMORY_VERSION
from perfmodel.placement.memory.memory_profile import MemoryProfile, memory_profile
from perfmodel.store.sketches import SketchFiles
from perfmodel.training.captures.capture_key import capture_key, capture_view

#: Raised when the meaning of a profile changes; kept ones of another version are made again.
PROFILE_VERSION = 1

Profile = TypeVar("Profile", StepProfile, MemoryProfile)


def step_profiles(jobs: Iterable[Job], *, cache: Path | None = None) -> dict[str, StepProfile]:
    """Return the profiles of the steps of jobs by :func:`.capture_key`.

    Jobs that cannot be captured are left out.
    """
    files = SketchFiles(cache or cache_folder() / f"step-profiles-{PROFILE_VERSION}")
    found: dict[str, StepProfile] = {}
    for key, job in _by_key(jobs).items():
        try:
            found[key] = _kept(files, key, job, StepProfile, step_profile)
        except PerfModelError:
            continue
    return found


def memory_profiles(jobs: Iterable[Job]) -> dict[str, MemoryProfile]:
    """Return the memory profiles of jobs by :func:`.capture_key`."""
    files = SketchFiles(cache_folder() / "memory")
    return {
        key: _kept(files, f"{key}-{MEMORY_VERSION}", job, MemoryProfile, memory_profile)
        for key, job in _by_key(jobs).items()
    }


def _by_key(jobs: Iterable[Job]) -> dict[str, Job]:
    return {capture_key(job): capture_view(job) for job in jobs}


def _kept(
    files: SketchFiles,
    name: str,
    job: Job,
    kind: type[Profile],
    make: Callable[[Graph], Profile],
) -> Profile:
    """Return what is kept under a name; captured in this process where nothing is."""
    arrays = files.read(name)
    if arrays is not None:
        try:
            return _stored(kind, arrays)
        except KeyError:
            files.remove(name)
    from perfmodel.zoo.resolve import capture_job

    made = make(capture_job(job))
    files.write(name, {one.name: np.array(getattr(made, one.name)) for one in fields(made)})
    return made


def _stored(kind: type[Profile], arrays: Mapping[str, Any]) -> Profile:
    values = {one.name: np.asarray(arrays[one.name]) for one in fields(kind)}
    plain: dict[str, Any] = {n: one if one.ndim else one.item() for n, one in values.items()}
    return kind(**plain)
