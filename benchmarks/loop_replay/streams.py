"""The streams: what the model knows at the start, and what comes then."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from loop_replay.arrivals import Arrival, arrivals_of
from loop_replay.placements import replay_placements
from loop_replay.published_steps import USUAL_TURNS, read_samples, some_networks
from loop_replay.replay import Replayed, replay

from perfmodel.features.steps.step import StepSample
from perfmodel.importers.published import PublishedStep
from perfmodel.predictors.folds import Progress, unit_hash
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.training.samples.public_data import read_formats
from perfmodel.training.validation.held_out_folds import (
    NEWER_TORCH,
    identity,
    torch_version,
)
from perfmodel.types import Compiler, Mode

STREAMS = ("devices", "software", "placements")
#: PyTorch release of Lambda's first records, which are known at the start.
_FIRST_RELEASE = (1, 4)
#: The device whose software becomes newer.
_DRIFTING = "RTX-4090"
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
    progress: Progress | None = None,
) -> Replayed:
    """Replay one of :data:`STREAMS`; ``evidence`` asks with observations as well."""
    if name == "placements":
        return replay_placements(data, most=_FEW if fast else None, progress=progress)
    published = read_samples(data, turns=_FEW_TURNS if fast else USUAL_TURNS, progress=progress)
    if name == "devices":
        arrivals, known = _new_devices(data, published.samples)
    else:
        arrivals, known = _newer_software(data, published.samples, fast=fast)
    arrivals = arrivals[:_FEW] if fast else arrivals
    frozen, learned = _kept_back(known)
    chips = {one.sample.step.accelerator.chip for one in arrivals} - {
        one.step.accelerator.chip for one in known
    }
    operators = [one for one in published.operators if one.step.accelerator.chip not in chips]
    start = JointPredictor(**_SETTINGS).fit(learned, operators=operators)
    if progress is not None:
        progress(f"{name}: learned from {len(learned)} steps; {len(arrivals)} arrivals")
    return replay(name, start, arrivals, frozen, evidence=evidence, progress=progress)


def _new_devices(
    data: Path, samples: Sequence[StepSample]
) -> tuple[list[Arrival], list[StepSample]]:
    steps = read_formats(data, ("lambda",))["lambda"].steps
    arrivals = [one for one in arrivals_of(steps) if torch_version(one.sample) > _FIRST_RELEASE]
    later = {identity(one.sample) for one in arrivals}
    coming = {one.device for one in arrivals}
    known = [
        one
        for one in samples
        if identity(one) not in later
        and (one.source == "timm" or one.step.accelerator.name not in coming)
    ]
    return arrivals, known


def _newer_software(
    data: Path, samples: Sequence[StepSample], *, fast: bool
) -> tuple[list[Arrival], list[StepSample]]:
    steps = [
        one
        for one in read_formats(data, ("timm",))["timm"].steps
        if one.accelerator == _DRIFTING and _is_plain(one)
    ]
    turns = _FEW_TURNS if fast else USUAL_TURNS
    newer = [one for one in some_networks(steps, turns) if _release(one) >= NEWER_TORCH]
    newer.sort(key=lambda one: unit_hash(f"newer:{one.job!r}"))
    known = [one for one in samples if torch_version(one) < NEWER_TORCH]
    return arrivals_of(newer[:_MOST_NEWER]), known


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
