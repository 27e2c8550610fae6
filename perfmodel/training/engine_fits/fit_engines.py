"""Learn the constants of the law of tuned engines from published inference results.

The constants are those under which the squares of the errors in logarithms, over what such rows are
usually off, are least together with the squares of the distances from what is expected of engines.
Every device counts alike however many of its rows there are, and steps of one sample, which tell
the launches, half as much as whole batches.

The interval is that of devices left out: every row is asked of a law that was fitted without its
chip, and 90 % of the errors lie within.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.jobs.capture import capture_in_process
from perfmodel.features.arrays import FloatArray
from perfmodel.graph.job import Job
from perfmodel.importers.published import PublishedStep
from perfmodel.importers.registry import read_format
from perfmodel.intervals import COVERAGE
from perfmodel.predictors.engines.engine_kernels import EngineKernels, engine_kernels
from perfmodel.predictors.engines.engine_law import EngineLaw, is_covered
from perfmodel.training.captures.capture_key import capture_key
from perfmodel.training.placement_fits.fitted_file import document, rounded
from perfmodel.training.placement_rows.script_rows import is_locked

#: The format whose rows teach.
FORMAT = "mlperf-inference"


@dataclass(frozen=True, kw_only=True, eq=False)
class EngineRow:
    """One measured step of an engine."""

    job: Job
    spec: AcceleratorSpec
    kernels: EngineKernels
    step_time_s: float

    def predicted_s(self, law: EngineLaw) -> float:
        """Return the time that a law gives for it."""
        return law.time_s(self.kernels, self.spec, self.job.precision)


def rows_of(steps: Iterable[PublishedStep]) -> list[EngineRow]:
    """Return the rows of published steps on accelerators that the law speaks of."""
    catalog, rows = Catalog.default(), list[EngineRow]()
    known: dict[str, EngineKernels] = {}
    for step in steps:
        spec = catalog.get(step.accelerator)
        if not is_covered(spec, step.job.precision):
            continue
        key = capture_key(step.job)
        if key not in known:
            known[key] = engine_kernels(capture_in_process(step.job).graph)
        rows.append(
            EngineRow(
                job=step.job,
                spec=spec,
                kernels=known[key],
                step_time_s=step.step_time_s,
            )
        )
    return rows


SOURCE = "MLPerf inference, closed division: Offline and SingleStream by TensorRT on NVIDIA GPUs"

#: What is expected of each constant, and how far off that may be, in logarithms.
EXPECTED: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "matmul_share": (0.7, 0.3),
        "convolution_share": (0.6, 0.3),
        "bandwidth_share": (0.8, 0.15),
        "operation_j": (4e-13, 0.7),
        "byte_j": (2e-11, 0.7),
        "yearly": (0.9, 0.15),
        "cache_bytes": (3e7, 1.0),
        "sharpness": (3.0, 0.5),
        "launch_s": (3e-6, 0.7),
    }
)
#: What rows are usually off in logarithms: whole batches, and steps of one sample.
_BATCHED, _SINGLE = 0.1, 0.2


def fit(data: Path) -> dict[str, Any]:
    """Fit the law on every device but for those that are locked away.

    Returns
    -------
    dict
        For :func:`~perfmodel.training.placement_fits.fitted_file.write_fitted`: the constants of
        the law and the half width of its interval in logarithms.
    """
    rows = rows_of(read_format(FORMAT, data).steps)
    rows = [row for row in rows if not is_locked(row.spec.name)]
    errors = np.abs(errors_left_out(rows))
    constants = {
        "law": asdict(fit_law(rows)),
        "half_width": {
            "batched": _ninety(errors[[row.job.batch_size > 1 for row in rows]]),
            "single": _ninety(errors[[row.job.batch_size == 1 for row in rows]]),
        },
    }
    return document("engines", rounded(constants), SOURCE, len(rows))


def fit_law(rows: Sequence[EngineRow]) -> EngineLaw:
    """Return the law with the most probable constants."""
    middle = np.log([value for value, _ in EXPECTED.values()])
    spread = np.array([off for _, off in EXPECTED.values()])
    of_device = Counter(row.spec.name for row in rows)
    usual = len(rows) / max(1, len(of_device))
    scale = np.array([_SINGLE if row.job.batch_size == 1 else _BATCHED for row in rows])
    scale = scale * np.sqrt([of_device[row.spec.name] / usual for row in rows])

    def errors(logs: FloatArray) -> FloatArray:
        return np.concatenate([errors_of(_law(logs), rows) / scale, (logs - middle) / spread])

    return _law(least_squares(errors, middle).x)


def errors_of(law: EngineLaw, rows: Sequence[EngineRow]) -> FloatArray:
    """Return how much longer than measured a law says that rows take, in logarithms."""
    return np.array([math.log(row.predicted_s(law) / row.step_time_s) for row in rows])


def errors_left_out(rows: Sequence[EngineRow]) -> FloatArray:
    """Return the errors of laws that were fitted without the chip of each row, in its order."""
    found = np.zeros(len(rows))
    for chip in {row.spec.chip for row in rows}:
        mine = [place for place, row in enumerate(rows) if row.spec.chip == chip]
        law = fit_law([row for row in rows if row.spec.chip != chip])
        found[mine] = errors_of(law, [rows[place] for place in mine])
    return found


def _law(logs: FloatArray) -> EngineLaw:
    return EngineLaw(**dict(zip(EXPECTED, np.exp(logs).tolist(), strict=True)))


def _ninety(errors: FloatArray) -> float:
    """Return what the share of errors lies within that intervals promise."""
    return float(np.quantile(errors, COVERAGE, method="higher"))
