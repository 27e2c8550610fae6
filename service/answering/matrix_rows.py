"""The rows of a matrix that can be answered already, and putting rows together again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

import numpy as np

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.estimator import CellError, Table
from perfmodel.graph.job import Job
from service.answering.answerer import Answerer
from service.answering.questions import AskedMatrix

#: Predictions that are made in one go where rows are to be ready one after the other.
_PAIRS_AT_ONCE = 256


def ready_rows(answerer: Answerer, asked: AskedMatrix) -> list[int]:
    """Return the jobs of which every cell is answered from memory; never waits.

    Whole rows, since the ratios between the placements of one job are what schedulers go by: a
    row of two models would have none that mean anything.
    """
    accelerators = _accelerators(answerer, asked)
    return [
        row
        for row, written in enumerate(asked.jobs)
        if row not in asked.observations and _is_ready(answerer, written, accelerators)
    ]


def predict_rows(answerer: Answerer, asked: AskedMatrix) -> None:
    """Make the rows of a matrix ready one after the other, those of captured jobs first."""
    accelerators = _accelerators(answerer, asked)
    captured: list[tuple[Job, Any]] = []
    new: list[tuple[Job, Any]] = []
    for written in asked.jobs:
        with suppress(PerfModelError):
            job = answerer.read_job(written)
            (new if answerer.estimator.core.prepared(job) is None else captured).append(
                (job, written)
            )
    rows = max(1, _PAIRS_AT_ONCE // max(1, len(accelerators)))
    steps = [captured[start : start + rows] for start in range(0, len(captured), rows)]
    for step in [*steps, *([one] for one in new)]:
        # What is wrong with one of them is found and said when all are answered.
        with suppress(PerfModelError, ArithmeticError):
            _predict(answerer, step, accelerators)


def join_rows(parts: Sequence[tuple[Sequence[int], Table]]) -> Table:
    """Put the rows of some matrices over the same placements together.

    Parameters
    ----------
    parts : sequence
        Positions of the rows in the whole, and the rows. What is said of the whole, as the
        version of the model, is that of the first.
    """
    positions = np.concatenate([np.asarray(rows, dtype=np.intp) for rows, _ in parts])
    order = np.argsort(positions)
    first = parts[0][1]
    columns: dict[str, Any] = {
        field.name: np.concatenate([getattr(part, field.name) for _, part in parts])[order]
        for field in fields(Table)
        if isinstance(getattr(first, field.name), np.ndarray)
    }
    unpriced = [each for _, part in parts for each in part.unpriced_operators]
    said = dict.fromkeys(text for _, part in parts for text in part.warnings)
    coverages = [part.coverage for _, part in parts if part.coverage is not None]
    return replace(
        first,
        **columns,
        coverage=min(coverages, default=None),
        model_version=next((p.model_version for _, p in parts if p.model_version), None),
        unpriced_operators=tuple(unpriced[row] for row in order.tolist()),
        errors=tuple(_errors(parts)),
        warnings=tuple(said),
    )


def _errors(parts: Sequence[tuple[Sequence[int], Table]]) -> Iterator[CellError]:
    placements: set[int | None] = set()
    for rows, part in parts:
        for error in part.errors:
            if error.job is not None:
                yield replace(error, job=rows[error.job])
            elif error.placement not in placements:
                # A bad placement is bad in every part.
                placements.add(error.placement)
                yield error


def _is_ready(answerer: Answerer, written: Any, accelerators: Sequence[AcceleratorSpec]) -> bool:
    prepared, core = answerer.cache.job(written), answerer.estimator.core
    if prepared is None:
        try:
            job = answerer.read_job(written)
        except PerfModelError:
            return True  # what is wrong with it takes no time to say
        if job.job_type is not None:
            return answerer.observed_jobs.knows(job)
        prepared = core.prepared(job)
        if prepared is None:
            return False
    known = all(core.known_prediction(prepared, each) for each in accelerators)
    return known and answerer.observed_jobs.known(prepared)[0]


def _accelerators(answerer: Answerer, asked: AskedMatrix) -> list[AcceleratorSpec]:
    found: dict[str, AcceleratorSpec] = {}
    for written in asked.placements:
        with suppress(InvalidInputError):
            found |= {each.name: each for each in answerer.cache.placement(written).accelerators}
    return list(found.values())


def _predict(
    answerer: Answerer, jobs: Sequence[tuple[Job, Any]], accelerators: Sequence[AcceleratorSpec]
) -> None:
    prepared = [answerer.prepare(job, written) for job, written in jobs if job.job_type is None]
    answerer.predict_steps((one, each) for one in prepared for each in accelerators)
    for one in prepared:
        answerer.observed_jobs.of(one)
