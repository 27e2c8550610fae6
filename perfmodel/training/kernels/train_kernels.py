"""Learn the latency of kernels from imported tables and write an artefact."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.importers.published import PublishedKernel
from perfmodel.intervals import COVERAGE
from perfmodel.predictors.boosting import BoosterSettings
from perfmodel.predictors.kernels.kernel_base import kernel_group
from perfmodel.predictors.kernels.kernel_predictor import KERNEL_SETTINGS, KernelPredictor
from perfmodel.predictors.kernels.kernel_times import KernelSpread
from perfmodel.store.artifacts import write_artifact
from perfmodel.training.provenance import code_facts, library_versions, time_now
from perfmodel.training.samples.measured_kernels import (
    MeasuredCalls,
    measured_calls,
    same_shapes,
    shape_hash,
)

#: Calls of one operator on one device, and trees: enough to judge by.
_CALLS_LEFT_OUT = 600
ROUNDS = 120
_PARTS = 3

#: Which calls are held out together.
Folds = Callable[[MeasuredCalls], IntArray]


def measured_spread(
    measured: MeasuredCalls, settings: BoosterSettings, seed: int = 0
) -> KernelSpread:
    """Return the half widths of intervals, per group of operators.

    Each device is left out in turn, and then each third of all shapes.

    Parameters
    ----------
    settings : BoosterSettings
        Those of the predictor; fewer trees are grown.
    """
    chosen = measured.take(same_shapes(measured.calls, _CALLS_LEFT_OUT, seed))
    quick = replace(settings, rounds=min(settings.rounds, ROUNDS))
    return KernelSpread(
        known=_half_widths(chosen, quick, seed, _by_shape),
        unseen=_half_widths(chosen, quick, seed, lambda part: part.calls.device),
    )


def _by_shape(part: MeasuredCalls) -> IntArray:
    return (shape_hash(part.calls, 1) % np.uint64(_PARTS)).astype(np.int64)


def _half_widths(
    measured: MeasuredCalls, settings: BoosterSettings, seed: int, folds: Folds
) -> dict[str, float]:
    group, found = kernel_group(measured.calls), {}
    for name in np.unique(group).tolist():
        part = measured.take(group == name)
        fold = folds(part)
        if len(np.unique(fold)) > 1:
            residual = np.abs(held_out_residuals(part, fold, settings, seed))
            found[str(name)] = float(np.quantile(residual, COVERAGE))
    return found


def held_out_residuals(
    part: MeasuredCalls, fold: IntArray, settings: BoosterSettings, seed: int
) -> FloatArray:
    """Return ln(measured / predicted) of each call by a predictor that has not seen its fold."""
    residual = np.zeros(len(part))
    for held in np.unique(fold).tolist():
        rows = fold == held
        train, test = part.take(~rows), part.take(rows)
        predictor = KernelPredictor(settings, seed).fit(train.calls, train.time_s)
        residual[rows] = np.log(test.time_s / predictor.predict(test.calls))
    return residual


#: Calls of one operator on one device that are learned from; more add time, not accuracy.
CALLS_PER_OPERATOR = 8000
_NAME = "kernels"


def train_kernels(
    kernels: Sequence[PublishedKernel],
    out: Path,
    *,
    seed: int = 0,
    limit: int = CALLS_PER_OPERATOR,
    settings: BoosterSettings = KERNEL_SETTINGS,
    progress: Callable[[str], None] | None = None,
) -> Path:
    """Fit the predictor of kernels on every record and write it as a new version.

    Parameters
    ----------
    limit : int
        Most calls of one operator on one device.

    Returns
    -------
    Path
        ``out/kernels/<version>``.

    Raises
    ------
    TrainingError
        Nothing to learn from.
    StoreError
        The artefact could not be written.
    """
    everything = measured_calls(kernels)
    chosen = everything.take(same_shapes(everything.calls, limit, seed))
    predictor = KernelPredictor(settings, seed).fit(chosen.calls, chosen.time_s)
    if progress is not None:
        progress(f"fitted kernels on {len(chosen)} of {len(everything)} calls")
    predictor.spread_ = measured_spread(everything, settings, seed)
    with tempfile.TemporaryDirectory() as temporary:
        facts = predictor.save(Path(temporary))
        files = {path.name: path.read_bytes() for path in sorted(Path(temporary).iterdir())}
    manifest = _manifest(seed, kernels, chosen, dict(facts))
    return write_artifact(out / _NAME / _version(manifest["created_at"]), files, manifest)


def _manifest(
    seed: int,
    kernels: Sequence[PublishedKernel],
    chosen: MeasuredCalls,
    facts: dict[str, Any],
) -> dict[str, Any]:
    groups, counts = np.unique(kernel_group(chosen.calls), return_counts=True)
    sources = {(k.origin.source, k.origin.licence) for k in kernels}
    return {
        "name": _NAME,
        "kind": "kernels",
        "created_at": time_now(),
        "libraries": library_versions(),
        "code": code_facts(),
        "seed": seed,
        "licence": "Apache-2.0",
        "data": {
            "calls": len(chosen),
            "calls_given": len(kernels),
            "calls_by_group": dict(zip(groups.tolist(), counts.tolist(), strict=True)),
            "sources": [{"source": s, "licence": lic} for s, lic in sorted(sources)],
        },
        "devices": sorted(set(chosen.calls.device_names.tolist())),
        "schema": {"version": facts.pop("schema_version"), "columns": facts.pop("columns")},
        "members": {"kernels": facts},
        "scores": {"split": "leave-device-out", "groups": {}},
    }


def _version(created_at: str) -> str:
    return created_at.translate({ord(c): None for c in "-:"})
