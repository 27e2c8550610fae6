"""How far a workload lies from everything that was learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.errors import DamagedArtifactError
from perfmodel.features.arrays import FloatArray
from perfmodel.features.tabular import COLUMNS, workload_rows
from perfmodel.graph.workload import Workload
from perfmodel.predictors.predictor import Sample

#: Share of training samples whose nearest sample of another family is nearer than the limit.
LIMIT_QUANTILE = 0.98
_NEAREST = 3
#: A single column counts for at most this many standard deviations.
_CLIP = 4.0
#: Values of a column that was constant in training may differ by this much.
_CONSTANT_TOLERANCE = 1e-3
#: Below this deviation a column counts as constant.
_LEAST_SCALE = 1e-6
#: Settings whose mere novelty puts a workload outside.
_DEVICE_COLUMNS = frozenset(
    {"log_peak_flops", "log_vector_flops", "log_bandwidth", "log_cache", "log_cores"}
)


@dataclass(frozen=True, kw_only=True)
class Nearness:
    """Where one workload lies among the training samples.

    Parameters
    ----------
    distance : float
        Root mean square of standardised differences to the nearest sample.
    outside : bool
        Further than the limit, or with a setting that never occurred.
    nearest : tuple of str
        Labels of the nearest samples, best first.
    """

    distance: float
    outside: bool
    nearest: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TrainingDistance:
    """Standardised training rows and the limit beyond which a workload is new.

    Parameters
    ----------
    mean, scale : ndarray, shape (columns,)
        ``scale`` 0 marks columns that were constant in training.
    rows : ndarray, shape (samples, columns)
        Standardised.
    """

    mean: FloatArray
    scale: FloatArray
    rows: FloatArray
    labels: tuple[str, ...]
    limit: float

    @classmethod
    def fit(cls, samples: Sequence[Sample]) -> TrainingDistance:
        """Standardise the training rows; the limit comes from nearest other families."""
        raw = workload_rows([sample.workload for sample in samples])
        scale = raw.std(axis=0)
        scale = np.where(scale > _LEAST_SCALE, scale, 0.0)
        mean = raw.mean(axis=0)
        rows = np.round(_standardised(raw, mean, scale), 3)
        distances = _pairwise(rows, rows, int(np.count_nonzero(scale)))
        families = np.array([sample.family for sample in samples])
        distances[families[:, None] == families[None, :]] = np.inf
        nearest = distances.min(axis=1)
        known = nearest[np.isfinite(nearest)]
        limit = float(np.quantile(known, LIMIT_QUANTILE)) if len(known) else 0.0
        return cls(
            mean=mean,
            scale=scale,
            rows=rows,
            labels=tuple(_label(sample) for sample in samples),
            limit=limit,
        )

    def measure(self, workloads: Sequence[Workload]) -> list[Nearness]:
        """Place workloads among the training samples, all at once."""
        raw = workload_rows(workloads)
        distances = _pairwise(
            _standardised(raw, self.mean, self.scale), self.rows, int(np.count_nonzero(self.scale))
        )
        constant = (self.scale == 0) & _is_setting()
        differs = np.abs(raw - self.mean) > _CONSTANT_TOLERANCE
        novel = np.asarray(differs[:, constant].any(axis=1))
        order = np.argsort(distances, axis=1, kind="stable")[:, :_NEAREST]
        return [
            Nearness(
                distance=float(row[best[0]]),
                outside=bool(is_novel or row[best[0]] > self.limit),
                nearest=tuple(self.labels[i] for i in best),
            )
            for row, best, is_novel in zip(distances, order, novel, strict=True)
        ]

    def neighbours(self, workload: Workload, most: int) -> list[tuple[int, float]]:
        """Return the positions of the nearest training samples and how far they are."""
        standardised = _standardised(workload_rows([workload]), self.mean, self.scale)
        distances = _pairwise(standardised, self.rows, int(np.count_nonzero(self.scale)))[0]
        order = np.argsort(distances, kind="stable")[:most]
        return list(zip(order.tolist(), distances[order].tolist(), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "columns": list(COLUMNS),
            "mean": self.mean.tolist(),
            "scale": self.scale.tolist(),
            "rows": self.rows.tolist(),
            "labels": list(self.labels),
            "limit": self.limit,
        }

    @classmethod
    def from_dict(cls, stored: Any, path: Path) -> TrainingDistance:
        """Read the rows back.

        Raises
        ------
        DamagedArtifactError
            Other columns than the code computes, or arrays that do not fit together.
        """
        try:
            if tuple(stored["columns"]) != COLUMNS:
                raise ValueError("it holds other columns than this version computes")
            mean = np.array(stored["mean"], dtype=np.float64)
            scale = np.array(stored["scale"], dtype=np.float64)
            rows = np.array(stored["rows"], dtype=np.float64).reshape(-1, len(COLUMNS))
            labels = tuple(str(label) for label in stored["labels"])
            limit = float(stored["limit"])
            if not (mean.shape == scale.shape == (len(COLUMNS),) and len(rows) == len(labels) > 0):
                raise ValueError("its arrays do not fit together")
            if not all(np.all(np.isfinite(a)) for a in (mean, scale, rows, np.array(limit))):
                raise ValueError("it holds numbers that are not finite")
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedArtifactError(f"{path} is no training distance: {error}.") from error
        return cls(mean=mean, scale=scale, rows=rows, labels=labels, limit=limit)


def _is_setting() -> npt.NDArray[np.bool_]:
    from perfmodel.features.roofline import SETTING_COLUMNS

    settings = set(SETTING_COLUMNS) - _DEVICE_COLUMNS
    return np.array([column in settings for column in COLUMNS])


def _standardised(raw: FloatArray, mean: FloatArray, scale: FloatArray) -> FloatArray:
    divided = (raw - mean) / np.where(scale > 0, scale, 1.0)
    return np.where(scale > 0, np.clip(divided, -_CLIP, _CLIP), 0.0)


def _pairwise(left: FloatArray, right: FloatArray, columns: int) -> FloatArray:
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1)[None, :]
    products = left @ right.T
    distance: FloatArray = np.sqrt(np.maximum(squares - 2.0 * products, 0.0) / max(1, columns))
    return distance


def _label(sample: Sample) -> str:
    workload = sample.workload
    name = sample.model or workload.graph.content_hash[:12]
    return f"{name} {workload.mode.value} batch {workload.batch_size}"
