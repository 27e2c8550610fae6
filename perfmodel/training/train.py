"""From samples to an artefact that can be served."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.devices.codec import spec_to_dict
from perfmodel.engines.task_engine import TaskEngine
from perfmodel.features.arrays import FloatArray
from perfmodel.features.asked import Asked
from perfmodel.features.roofline import NODE_COLUMNS
from perfmodel.features.steps.step import StepSample
from perfmodel.features.tabular import COLUMNS, SCHEMA_VERSION
from perfmodel.predictors.folds import Progress, family_fold
from perfmodel.predictors.members.efficiency import EfficiencyPredictor
from perfmodel.predictors.members.ensemble import DEFAULT_MEMBERS, mix
from perfmodel.predictors.predictor import Sample
from perfmodel.predictors.predictor_checks import json_bytes
from perfmodel.predictors.serving.distance import TrainingDistance
from perfmodel.predictors.serving.intervals import HeldOut
from perfmodel.predictors.serving.serving_parts import LEARNED, MEASURED, SERVING
from perfmodel.store.artifacts import write_artifact
from perfmodel.training.fitted_parts import FittedParts, fit_parts, read_parts
from perfmodel.training.learned_steps import learned_keys
from perfmodel.training.model_card import CARD, model_card
from perfmodel.training.provenance import (
    code_facts,
    group_scores,
    library_versions,
    snapshot,
    time_now,
)
from perfmodel.training.samples.member_samples import answered_by_members, learned_by_members
from perfmodel.training.samples.samples import data_digest
from perfmodel.training.tuning.tune import Tuned
from perfmodel.training.validation.held_out_folds import FOLDS
from perfmodel.training.validation.workload_scores import score


def train(
    samples: Sequence[Sample],
    out: Path,
    *,
    name: str = "default",
    seed: int = 0,
    members: Sequence[str] = DEFAULT_MEMBERS,
    folds: int = FOLDS,
    coverage: float = 0.9,
    progress: Progress | None = None,
    corpus: Sequence[StepSample] = (),
    operators: Sequence[StepSample] = (),
    joint_settings: Mapping[str, Any] | None = None,
    tuned: Tuned | None = None,
    created_at: str | None = None,
    engine: TaskEngine | None = None,
) -> Path:
    """Fit an ensemble, calibrate it and write it as a new version of a model.

    Parameters are those of :func:`.fitted_parts.fit_parts` and :func:`calibrate`. The same data,
    seed, settings and time give the same bytes, file by file, on one kind of machine with one set
    of libraries.

    Returns
    -------
    Path
        ``out/<name>/<version>``.

    Raises
    ------
    TrainingError
        Too few samples or families.
    StoreError
        The artefact could not be written.
    """
    with tempfile.TemporaryDirectory() as temporary:
        fit_parts(
            samples,
            Path(temporary),
            members=members,
            folds=folds,
            seed=seed,
            corpus=corpus,
            operators=operators,
            joint_settings=joint_settings,
            tuned=tuned,
            progress=progress,
            engine=engine,
        )
        parts = read_parts(Path(temporary))
    return calibrate(
        parts,
        samples,
        out,
        name=name,
        seed=seed,
        folds=folds,
        coverage=coverage,
        corpus=corpus,
        operators=operators,
        created_at=created_at,
    )


def calibrate(
    parts: FittedParts,
    samples: Sequence[Sample],
    out: Path,
    *,
    name: str = "default",
    seed: int = 0,
    folds: int = FOLDS,
    coverage: float = 0.9,
    corpus: Sequence[StepSample] = (),
    operators: Sequence[StepSample] = (),
    created_at: str | None = None,
) -> Path:
    """Work out intervals and scores of fitted parts, and write them as a version of a model.

    Parameters
    ----------
    samples, corpus, operators
        What the parts were fitted on.
    created_at : str or None
        The time that the version states, UTC, as :func:`~perfmodel.training.provenance.time_now`
        returns it, which is the default.

    Returns
    -------
    Path
        ``out/<name>/<version>``.
    """
    own = learned_by_members(samples, jointly=bool(corpus))
    held_out = _held_out(own, parts.answers_s, coverage, unseen_device_residuals(own, folds))
    files = {
        **parts.files,
        SERVING: json_bytes(
            {
                "weights": dict(parts.weights),
                "devices": _described(samples),
                "held_out": held_out.to_dict(),
                "distance": TrainingDistance.fit(own).to_dict(),
            }
        ),
        MEASURED: json_bytes({s.workload.content_hash: [s.step_time_s, s.spread] for s in samples}),
        LEARNED: json_bytes({"keys": learned_keys(samples, corpus)}),
    }
    answered = answered_by_members(samples, jointly=bool(corpus))
    manifest = {
        **_manifest(own, name, seed, parts.members, parts.weights, _scores(own, parts)),
        "devices": sorted({sample.workload.accelerator.name for sample in answered}),
        "created_at": created_at or time_now(),
        "snapshot": snapshot(samples, corpus, operators),
    }
    if parts.joint is not None:
        manifest["joint"] = dict(parts.joint)
    if parts.tuning:
        manifest["tuning"] = dict(parts.tuning)
    files[CARD] = model_card(manifest).encode()
    return write_artifact(version_folder(out / name, manifest), files, manifest)


def _scores(samples: Sequence[Sample], parts: FittedParts) -> dict[str, Any]:
    """Score what members, and their mix, said of families that they had not seen."""
    scores = {m: score(samples, answers).to_dict() for m, answers in parts.answers_s.items()}
    stacked = np.stack(list(parts.answers_s.values()), axis=1)
    mixed = mix(stacked, np.array([parts.weights[m] for m in parts.answers_s]))
    scores["ensemble"] = score(samples, mixed).to_dict()
    return {"predictors": scores, "groups": group_scores(samples, mixed)}


def _held_out(
    samples: Sequence[Sample],
    answers: Mapping[str, FloatArray],
    coverage: float,
    unseen: FloatArray,
) -> HeldOut:
    return HeldOut(
        devices=tuple(sample.workload.accelerator.name for sample in samples),
        times_s=np.array([sample.step_time_s for sample in samples]),
        answers_s=answers,
        coverage=coverage,
        unseen=unseen,
        asked=tuple(Asked.of(sample.workload.graph) for sample in samples),
    )


def unseen_device_residuals(samples: Sequence[Sample], folds: int = FOLDS) -> FloatArray:
    """Return how far typical efficiencies are off where device and family are both unseen.

    Parameters
    ----------
    folds : int
        Folds of families that are left out together with each device in turn.

    Returns
    -------
    ndarray
        ``log(answer / measured)`` of every sample that could be held out; empty where there is
        one device.
    """
    devices = np.array([sample.workload.accelerator.name for sample in samples])
    fold_of = np.array([family_fold(sample.family, folds) for sample in samples])
    residuals: list[FloatArray] = []
    for device in sorted(set(devices.tolist())):
        for fold in range(folds):
            own = np.flatnonzero((devices == device) & (fold_of == fold)).tolist()
            others = np.flatnonzero((devices != device) & (fold_of != fold)).tolist()
            if len(own) and len(others):
                predictor = EfficiencyPredictor().fit([samples[i] for i in others])
                answers = predictor.predict([samples[i].workload for i in own])
                residuals.append(np.log(answers / [samples[i].step_time_s for i in own]))
    return np.concatenate(residuals) if residuals else np.zeros(0)


def _described(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Return the devices of samples as they were measured, by name."""
    specs = {s.workload.accelerator.name: s.workload.accelerator for s in samples}
    return [spec_to_dict(spec) for _, spec in sorted(specs.items())]


def _manifest(
    samples: Sequence[Sample],
    name: str,
    seed: int,
    facts: Mapping[str, Any],
    weights: Mapping[str, float],
    scores: Mapping[str, Any],
) -> dict[str, Any]:
    return {
        "name": name,
        "seed": seed,
        "licence": "Apache-2.0",
        "data": {
            "digest": data_digest(samples),
            "samples": len(samples),
            "models": len({sample.model for sample in samples}),
            "families": sorted({sample.family for sample in samples}),
        },
        "schema": {
            "version": SCHEMA_VERSION,
            "workload_columns": list(COLUMNS),
            "node_columns": list(NODE_COLUMNS),
        },
        "weights": dict(weights),
        "members": {m: {k: v for k, v in f.items() if k != "columns"} for m, f in facts.items()},
        "scores": {"split": "leave-family-out", **scores},
        "code": code_facts(),
        "libraries": library_versions(),
    }


def version_folder(parent: Path, manifest: Mapping[str, Any]) -> Path:
    """Return the folder of a new version, ``<time>-<data digest>``: newest last by name."""
    stamp = manifest["created_at"].translate({ord(c): None for c in "-:"})
    return parent / f"{stamp}-{manifest['data']['digest'][:8]}"
