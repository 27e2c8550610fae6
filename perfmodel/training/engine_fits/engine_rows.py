"""Published steps of tuned engines beside the kernels that are left of their graphs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.jobs.capture import capture_in_process
from perfmodel.graph.job import Job
from perfmodel.importers.published import PublishedStep
from perfmodel.importers.registry import read_format
from perfmodel.predictors.engines.engine_kernels import EngineKernels, engine_kernels
from perfmodel.predictors.engines.engine_law import EngineLaw, is_covered
from perfmodel.training.captures.capture_key import capture_key

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


def engine_rows(data: Path) -> list[EngineRow]:
    """Read the table and capture its models; takes some seconds.

    Raises
    ------
    StoreError
        The table is not there.
    """
    return rows_of(read_format(FORMAT, data).steps)


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


def is_locked(accelerator: str) -> bool:
    """Tell whether a device belongs to the fifth that no constant is fitted on.

    Examples
    --------
    >>> is_locked("T4")
    False
    """
    return hashlib.sha256(accelerator.encode()).digest()[0] % 5 == 0
