"""Learn the latency of kernels from imported tables and write an artefact."""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import TrainingError
from perfmodel.features.kernels.kernel_calls import FloatArray, IntArray, KernelCalls, kernel_calls
from perfmodel.importers.published import PublishedKernel
from perfmodel.predictors.kernels.kernel_base import kernel_group
from perfmodel.predictors.kernels.kernel_predictor import KERNEL_SETTINGS, KernelPredictor
from perfmodel.store.artifacts import write_artifact

#: Calls of one operator on one device that are learned from; more add time, not accuracy.
CALLS_PER_OPERATOR = 8000


@dataclass(frozen=True, kw_only=True)
class MeasuredCalls:
    """Kernel calls with their times.

    Parameters
    ----------
    time_s : ndarray, shape (calls,)
    """

    calls: KernelCalls
    time_s: FloatArray

    def __len__(self) -> int:
        return len(self.calls)

    def take(self, rows: IntArray | np.ndarray) -> MeasuredCalls:
        """Return some of them."""
        return MeasuredCalls(calls=self.calls.take(rows), time_s=self.time_s[rows])


def measured_calls(
    kernels: Sequence[PublishedKernel], catalog: Catalog | None = None
) -> MeasuredCalls:
    """Return records as columns.

    Parameters
    ----------
    catalog : Catalog or None
        The shipped one where None.

    Raises
    ------
    TrainingError
        No records.
    """
    if not kernels:
        raise TrainingError("There are no kernel records; import tables of kernels first.")
    catalog = Catalog.default() if catalog is None else catalog
    specs = {name: catalog.get(name) for name in {k.accelerator for k in kernels}}
    calls = kernel_calls(
        op=[k.op for k in kernels],
        dtype=[k.dtype for k in kernels],
        accelerator=[specs[k.accelerator] for k in kernels],
        shape=[k.shape for k in kernels],
        kernel=[k.kernel for k in kernels],
    )
    return MeasuredCalls(calls=calls, time_s=np.array([k.time_s for k in kernels]))


def same_shapes(calls: KernelCalls, limit: int, seed: int = 0) -> IntArray:
    """Return positions of at most ``limit`` calls of each operator and device.

    Calls are chosen by their extents, so that the same shapes remain on every device.

    Returns
    -------
    ndarray of int
        Sorted.
    """
    rank = _shape_hash(calls, seed)
    kind = np.unique(np.char.add(calls.op, calls.device_names), return_inverse=True)[1]
    order = np.lexsort((rank, kind))
    place = np.arange(len(order)) - np.searchsorted(kind[order], kind[order])
    return np.sort(order[place < limit]).astype(np.int64)


def _shape_hash(calls: KernelCalls, seed: int) -> np.ndarray:
    """Mix the extents of each call into 64 bits (Fibonacci hashing and shifts)."""
    mixed = np.full(len(calls), seed, dtype=np.uint64)
    step = np.uint64(0x9E3779B97F4A7C15)
    for name in sorted(calls.shape):
        bits = np.nan_to_num(calls.shape[name], nan=-1.0).view(np.uint64)
        mixed = (mixed ^ (bits * step)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    return mixed


def train_kernels(
    kernels: Sequence[PublishedKernel],
    out: Path,
    *,
    name: str = "kernels",
    seed: int = 0,
    limit: int = CALLS_PER_OPERATOR,
    scores: dict[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Path:
    """Fit the predictor of kernels on every record and write it as a new version.

    Parameters
    ----------
    out : Path
        The folder that holds all models.
    name : str
        Name of the model.
    limit : int
        Most calls of one operator on one device.
    scores : dict or None
        Held-out scores for the manifest.
    progress : callable or None
        Receives one line when the fit is done.

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
    predictor = KernelPredictor(KERNEL_SETTINGS, seed).fit(chosen.calls, chosen.time_s)
    if progress is not None:
        progress(f"fitted kernels on {len(chosen)} of {len(everything)} calls")
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
        "created_at": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
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
