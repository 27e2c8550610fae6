"""Gather the evidence of a candidate and of the version that serves, as plain JSON and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.features.tabular import SCHEMA_VERSION
from perfmodel.predictors.folds import Progress
from perfmodel.retraining.data.learning_data import LearningData
from perfmodel.retraining.judging.judging_sets import (
    AskedSet,
    frozen_set,
    left_out_families,
    unseen_families,
)
from perfmodel.retraining.judging.laws import law_steps, violations
from perfmodel.retraining.judging.observed_set import observed_set
from perfmodel.retraining.judging.version_at_hand import (
    Timed,
    VersionAtHand,
    analytical_version,
    timed,
    version_at,
)
from perfmodel.store.state.database import Database
from perfmodel.training.fitted_parts import FittedParts
from perfmodel.training.gate.comparison import LEAST_STEPS
from perfmodel.training.gate.evidence import Answers, Evidence, JudgingSet
from perfmodel.training.learned_steps import step_key

#: Samples whose answers are compared where nothing was fitted.
_GOLDEN = 32
#: Relative difference up to which an answer is the same.
_SAME = 1e-4


def gather(
    candidate: Path,
    serving: Path | None,
    data: LearningData,
    parts: FittedParts | None,
    database: Database,
    progress: Progress,
) -> dict[str, Any]:
    """Ask both versions everything that the gate looks at.

    Parameters
    ----------
    candidate, serving : Path
        Folders of versions; without one that serves, the analytical model takes its place.
    parts : FittedParts or None
        What the candidate was made from; None: the members are those of the one that serves.

    Returns
    -------
    dict
        Plain JSON, which :func:`evidence_from` reads.
    """
    new = version_at(candidate)
    old = analytical_version() if serving is None else version_at(serving)
    sets = []
    for one in (
        frozen_set(data, old),
        left_out_families(data, new, old),
        unseen_families(data.corpus, new, old),
        observed_set(data.newest, old, database),
    ):
        if one is None:
            continue
        steps = len(one.judged.keys)
        if steps < LEAST_STEPS:
            progress(f"not judged on {one.judged.name!r}: {steps} steps are too few")
            continue
        sets.append(one)
        progress(f"judged on {one.judged.name!r}: {steps} steps")
    laws_of = law_steps((*data.kept_back, *data.samples))
    times = timed((old, new), [one.workload for one in laws_of])
    laws = [violations(version, laws_of) for version in (old, new)]
    golden_s = _mixed(old, data, _GOLDEN) if parts is None else parts.golden_s
    off = _golden_rows_off(new, data, golden_s)
    return {
        "sets": [
            {**asdict(one.judged), "measured_s": one.judged.measured_s.tolist()} for one in sets
        ],
        "serving": _evidence(old, data, sets, times[0], laws[0]),
        "candidate": _evidence(new, data, sets, times[1], laws[1], off, is_candidate=True),
    }


def evidence_from(plain: Mapping[str, Any]) -> tuple[Evidence, Evidence, list[JudgingSet]]:
    """Return evidence of candidate and serving version, and the judging sets."""
    sets = [
        JudgingSet(
            name=one["name"],
            keys=tuple(one["keys"]),
            measured_s=np.array(one["measured_s"]),
            labels={name: tuple(labels) for name, labels in one["labels"].items()},
        )
        for one in plain["sets"]
    ]
    return _evidence_from(plain["candidate"]), _evidence_from(plain["serving"]), sets


def _evidence(
    version: VersionAtHand,
    data: LearningData,
    sets: Sequence[AskedSet],
    times: Timed,
    laws: Mapping[str, int],
    golden_rows_off: int = 0,
    *,
    is_candidate: bool = False,
) -> dict[str, Any]:
    seen = {
        step_key(one.model, one.workload)
        for one in data.kept_back
        if one.workload.content_hash in version.measured
    }
    judged = {key for one in sets for key in one.judged.keys}
    return {
        "version": version.name,
        "answers": {one.judged.name: _columns(one.answer(version)) for one in sets},
        "violations": dict(laws),
        "golden_rows_off": golden_rows_off,
        # Those that matter: a version has learned from tens of thousands.
        "learned_keys": sorted(judged & (seen | (version.learned or frozenset()))),
        "devices": sorted(version.devices),
        # Columns are those of this code, whatever the version that serves was made by.
        "schema_version": version.schema_version if is_candidate else SCHEMA_VERSION,
        "damaged": dict(version.damaged),
        "size_bytes": version.size_bytes,
        "load_time_s": times.load_time_s,
        "answers_per_s": times.answers_per_s,
    }


def _evidence_from(plain: Mapping[str, Any]) -> Evidence:
    columns = {
        name: Answers(**{column: np.array(values) for column, values in one.items()})
        for name, one in plain["answers"].items()
    }
    sets = {name: frozenset(plain[name]) for name in ("learned_keys", "devices")}
    return Evidence(**{**plain, **sets, "answers": columns})


def _mixed(version: VersionAtHand, data: LearningData, rows: int) -> FloatArray:
    """Return what the members of a version say of the first samples; nothing where it has none."""
    workloads = [one.workload for one in data.samples[:rows]]
    model = version.serving_model
    return np.zeros(0) if model is None or not workloads else model.mixed(workloads)


def _golden_rows_off(version: VersionAtHand, data: LearningData, rows: FloatArray) -> int:
    """Count the rows that are read back from disk otherwise than they were fitted."""
    again = _mixed(version, data, len(rows))
    if len(again) != len(rows):
        return len(rows)
    return int(np.count_nonzero(~(np.abs(again / rows - 1.0) < _SAME)))


def _columns(answers: Answers) -> dict[str, Any]:
    return {name: getattr(answers, name).tolist() for name in ("time_s", "low_s", "high_s")}
