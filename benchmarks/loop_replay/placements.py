"""Sia's jobs on clusters: several accelerators, scripts; what evidence alone makes of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
from loop_replay.replay import BOTH, EVIDENCE, LEARNED, NOTHING, Replayed

from perfmodel.errors import PerfModelError
from perfmodel.estimator.facade import Estimator
from perfmodel.graph.job import Job
from perfmodel.importers.published import PublishedPlacement
from perfmodel.importers.registry import read_format
from perfmodel.placement.calibration.observation import Observation
from perfmodel.predictors.folds import Progress, unit_hash

#: Placements that come of each job on each kind of accelerator.
_OF_EACH = 10


def replay_placements(
    data: Path,
    *,
    models: Path = Path("models"),
    most: int | None = None,
    progress: Progress | None = None,
) -> Replayed:
    """Let placements come job by job on one kind of accelerator after the other.

    Nothing is learned: they are no bare steps of one accelerator. The shipped model answers; it
    has never seen these tables.
    """
    rows = _chosen(read_format("sia", data).placements)[:most]
    estimator = Estimator.from_folder(models)
    seen: dict[str, list[Observation]] = defaultdict(list)
    answered: dict[str, list[float]] = {NOTHING: [], EVIDENCE: []}
    devices: list[str] = []
    for at, row in enumerate(rows):
        job, observation = _asked(row)
        name = str(job.model)
        answered[NOTHING].append(_answer_s(estimator, job, observation, []))
        answered[EVIDENCE].append(_answer_s(estimator, job, observation, seen[name]))
        seen[name].append(observation)
        devices.append(observation.placement.nodes[0].accelerator)
        if progress is not None and at % 50 == 49:
            progress(f"placements: {at + 1} of {len(rows)}")
    found = {name: np.array(values) for name, values in answered.items()}
    return Replayed(
        title="placements",
        devices=tuple(devices),
        releases=tuple(str(_asked(row)[0].model) for row in rows),
        before=tuple(devices[:at].count(name) for at, name in enumerate(devices)),
        known=(False,) * len(devices),
        measured_s=np.array([row.step_time_s for row in rows]),
        answered_s=found | {LEARNED: found[NOTHING], BOTH: found[EVIDENCE]},
        retrainings=(),
    )


def _chosen(rows: tuple[PublishedPlacement, ...]) -> list[PublishedPlacement]:
    by_place: dict[tuple[str, str], list[PublishedPlacement]] = defaultdict(list)
    for row in rows:
        if row.job is not None:
            by_place[row.placement.nodes[0].accelerator, str(row.job.model)].append(row)
    found = []
    for place in sorted(by_place):
        of_place = sorted(by_place[place], key=lambda row: unit_hash(repr(row)))
        found += of_place[:_OF_EACH]
    # One kind of accelerator after the other; on each, jobs come mixed.
    return sorted(
        found, key=lambda row: (row.placement.nodes[0].accelerator, unit_hash(f"turn {row!r}"))
    )


def _asked(row: PublishedPlacement) -> tuple[Job, Observation]:
    assert row.job is not None, "those without were left out"
    observation = Observation(
        placement=row.placement,
        batch_size=row.batch_size,
        step_time_s=row.step_time_s,
        sync_time_s=row.sync_time_s,
    )
    return row.job, observation


def _answer_s(estimator: Estimator, job: Job, asked: Observation, seen: list[Observation]) -> float:
    of_batch = replace(job, batch_size=asked.batch_size)
    try:
        return estimator.estimate(of_batch, asked.placement, seen).step_time_s
    except PerfModelError:
        return float("nan")
