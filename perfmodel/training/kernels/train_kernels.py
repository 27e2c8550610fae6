"""Learn the latency of kernels from imported tables and write an artefact."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.importers.published import PublishedKernel
from perfmodel.predictors.boosting import BoosterSettings
from perfmodel.predictors.kernels.kernel_base import kernel_group
from perfmodel.predictors.kernels.kernel_predictor import KERNEL_SETTINGS, KernelPredictor
from perfmodel.store.artifacts import write_artifact
from perfmodel.training.kernels.kernel_spread import measured_spread
from perfmodel.training.provenance import code_facts, library_versions, time_now
from perfmodel.training.samples.measured_kernels import MeasuredCalls, measured_calls, same_shapes

#: Calls of one operator on one device that are learned from; more add time, not accuracy.
CALLS_PER_OPERATOR = 8000


def train_kernels(
    kernels: Sequence[PublishedKernel],
    out: Path,
    *,
    name: str = "kernels",
    seed: int = 0,
    limit: int = CALLS_PER_OPERATOR,
    settings: BoosterSettings = KERNEL_SETTINGS,
    scores: dict[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Path:
    """Fit the predictor of kernels on every record and write it as a new version.

    Parameters
    ----------
    limit : int
        Most calls of one operator on one device.
    scores : dict or None
        Held-out scores for the manifest.

    Returns
    -------
    Path
        ``out/<name>/<version>``.

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
    manifest = _manifest(name, seed, kernels, chosen, dict(facts), scores)
    return write_artifact(out / name / _version(manifest["created_at"]), files, manifest)


def _manifest(
    name: str,
    seed: int,
    kernels: Sequence[PublishedKernel],
    chosen: MeasuredCalls,
    facts: dict[str, Any],
    scores: dict[str, Any] | None,
) -> dict[str, Any]:
    groups, counts = np.unique(kernel_group(chosen.calls), return_counts=True)
    sources = {(k.origin.source, k.origin.licence) for k in kernels}
    return {
        "name": name,
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
        "scores": {"split": "leave-device-out", "groups": scores or {}},
    }


def _version(created_at: str) -> str:
    return created_at.translate({ord(c): None for c in "-:"})
