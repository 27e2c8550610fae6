"""The streams: what the model knows at the start, and what comes then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from held_out.frozen_folds import NEWER_TORCH, torch_version
from loop_replay.arrivals import Arrival, arrivals_of
from loop_replay.placements import replay_placements
from loop_replay.published_steps import (
    USUAL_TURNS,
    CapturesNothing,
    read_samples,
    some_networks,
)
from loop_replay.replay import Replayed, replay

from perfmodel.engines.task_engine import TaskEngine
from perfmodel.features.steps.step import StepSample
from perfmodel.importers.published import PublishedStep
from perfmodel.predictors.folds import Progress, unit_hash
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.training.samples.corpus import build_corpus
from perfmodel.training.samples.public_data import read_formats
from perfmodel.training.validation.held_out_folds import identity
from perfmodel.types import Compiler, Mode

STREAMS = ("devices", "releases", "software", "placements")
#: PyTorch release of Lambda's first records, which are known at the start.
_FIRST_RELEASE = (1, 4)
#: The device whose software becomes newer.
_DRIFTING = "RTX-4090"
#: The device that lives through many releases, the first of them known at the start, and arrivals
#: under each of the others.
_LONG_LIVED, _KNOWN_RELEASE, _OF_A_RELEASE = "RTX-3090", (1, 10), 60
#: Share of what is known at the start that is kept back to judge on, and how many at most.
_FROZEN, _MOST_FROZEN = 0.15, 300
#: Turns of networks, and arrivals, of the short form.
_FEW_TURNS, _FEW = (0,), 60
#: Arrivals of the stream of newer software: those that have graphs to capture.
_MOST_NEWER = 200
_SETTINGS = {"folds": 3, "epochs": 4}


def run_stream(
    name: str,
    data: Path,
    *,
    fast: bool = False,
    evidence: bool = True,
    captures: bool = True,
    progress: Progress | None = None,
) -> Replayed:
    """Replay one of :data:`STREAMS`.

    Parameters
    ----------
    evidence : bool
        Ask with observations as well.
    captures : bool
        Capture jobs that were never captured here; without, they are left out.
    """
    if name == "placements":
        return replay_placements(data, most=_FEW if fast else None, progress=progress)
    turns = _FEW_TURNS if fast else USUAL_TURNS
    engine = None if captures else CapturesNothing()
    published = read_samples(data, turns=turns, engine=engine, progress=progress)
    arrivals, known = _READ[name](data, published.samples, turns, engine)
    arrivals = arrivals[:_FEW] if fast else arrivals
    frozen, learned = _kept_back(known)
    chips = {one.sample.step.accelerator.chip for one in arrivals} - {
        one.step.accelerator.chip for one in known
    }
    operators = [one for one in published.operators if one.step.accelerator.chip not in chips]

    def fit(more: Sequence[StepSample]) -> JointPredictor:
        return JointPredictor(**_SETTINGS).fit([*learned, *more], operators=operators)

    start = fit(())
    if progress is not None:
        progress(f"{name}: learned from {len(learned)} steps; {len(arrivals)} arrivals")
    return replay(name, start, arrivals, frozen, fit, evidence=evidence, progress=progress)


def _new_devices(
    data: Path,
    samples: Sequence[StepSample],
    turns: Sequence[int],
    engine: TaskEngine | None,
) -> tuple[list[Arrival], list[StepSample]]:
    steps = read_formats(data, ("lambda",))["lambda"].steps
    arrivals = [
        one for one in arrivals_of(steps, engine) if torch_version(one.sample) > _FIRST_RELEASE
    ]
    later = {identity(one.sample) for one in arrivals}
    coming = {one.device for one in arrivals}
    known = [
        one
        for one in samples
        if identity(one) not in later
        and (one.source == "timm" or one.step.accelerator.name not in coming)
    ]
    return arrivals, known


def _releases(
    data: Path,
    samples: Sequence[StepSample],
    turns: Sequence[int],
    engine: TaskEngine | None,
) -> tuple[list[Arrival], list[StepSample]]:
    """One device under one release after the other; the start knows no newer one of any device."""
    tables = read_formats(data, ("timm-releases", "timm")).values()
    steps = [
        one
        for table in tables
        for one in some_networks(table.steps, turns)
        if one.accelerator == _LONG_LIVED and one.job.compiler is Compiler.EAGER
    ]
    by_release: dict[tuple[int, ...], list[PublishedStep]] = defaultdict(list)
    for one in steps:
        by_release[_release(one)].append(one)
    later = []
    for release, own in sorted(by_release.items()):
        if release > _KNOWN_RELEASE:
            later += sorted(own, key=lambda one: unit_hash(f"newer:{one.job!r}"))[:_OF_A_RELEASE]
    first = build_corpus(by_release[_KNOWN_RELEASE], engine=engine).samples
    known = [one for one in samples if torch_version(one) <= _KNOWN_RELEASE]
    return arrivals_of(later, engine), [*known, *first]


def _newer_software(
    data: Path,
    samples: Sequence[StepSample],
    turns: Sequence[int],
    engine: TaskEngine | None,
) -> tuple[list[Arrival], list[StepSample]]:
    steps = [
        one
        for one in read_formats(data, ("timm",))["timm"].steps
        if one.accelerator == _DRIFTING and _is_plain(one)
    ]
    newer = [one for one in some_networks(steps, turns) if _release(one) >= NEWER_TORCH]
    newer.sort(key=lambda one: unit_hash(f"newer:{one.job!r}"))
    known = [one for one in samples if torch_version(one) < NEWER_TORCH]
    return arrivals_of(newer[:_MOST_NEWER], engine), known


_READ = {"devices": _new_devices, "releases": _releases, "software": _newer_software}


def _is_plain(step: PublishedStep) -> bool:
    return step.job.mode is Mode.INFERENCE and step.job.compiler is Compiler.EAGER


def _release(step: PublishedStep) -> tuple[int, ...]:
    stated = step.job.software.get("torch", "0.0").split(".")[:2]
    return tuple(int(part) for part in stated)


def _kept_back(known: Sequence[StepSample]) -> tuple[list[StepSample], list[StepSample]]:
    """Split what is known at the start into what is judged on and what is learned from."""
    drawn = np.array([unit_hash(f"frozen:{identity(one)}") for one in known])
    frozen = [known[i] for i in np.argsort(drawn)[:_MOST_FROZEN] if drawn[i] < _FROZEN]
    chosen = {identity(one) for one in frozen}
    return frozen, [one for one in known if identity(one) not in chosen]
