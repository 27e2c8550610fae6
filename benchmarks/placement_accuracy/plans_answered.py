"""Judge what is answered about language models, end to end: a job and a placement in, a step out.

The time on one accelerator is that of the trained model and of the equations, weighed, as in every
answer; no model was trained on these tables. The constants of the equations are fitted without the
group that is asked. A few steps of each group are asked: every one of them has to be captured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from placement_accuracy.line import Line

from perfmodel.errors import PerfModelError
from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.importers.published import PublishedPlacement
from perfmodel.placement.fitted import fitted, standing_in
from perfmodel.placement.plan_steps.plan_constants import PlanConstants
from perfmodel.placement.plan_steps.plan_step import plan_step
from perfmodel.training.placement_fits.fit_plans import constants_of
from perfmodel.training.placement_rows.plan_rows import PlanRows

if TYPE_CHECKING:
    from perfmodel.estimator import Estimator


#: Steps with more micro-batches or layers take long to capture.
_MOST_MICRO_BATCHES, _MOST_LAYERS = 2, 32
#: Sequences from which on attention takes most of the time.
_LONG = 16_384


def answered_line(
    name: str,
    title: str,
    records: Sequence[PublishedPlacement],
    rows: PlanRows,
    groups: npt.NDArray[np.str_],
    *,
    start: PlanConstants | None = None,
    models: Path = Path("models"),
    most: int = 24,
) -> Line | None:
    """Ask the estimator about some steps of every group that is left out.

    Parameters
    ----------
    records : sequence of PublishedPlacement
        As published; the rows refer to them.
    groups : ndarray of str, shape (rows,)
    start : PlanConstants or None
        Where fits begin.
    models : Path
        Folder of the trained models.
    most : int
        Steps that are asked.

    Returns
    -------
    Line or None
        None where nothing can be captured in reasonable time.
    """
    from perfmodel.estimator import Estimator

    estimator = Estimator.from_folder(models)
    asked = _asked(records, rows, most)
    parts = [
        _answers(estimator, records, rows, np.flatnonzero(groups == group), asked, start)
        for group in np.unique(groups[asked])
    ]
    at = np.concatenate([part[0] for part in parts]) if parts else np.empty(0, dtype=np.int64)
    if not len(at):
        return None
    answer = np.concatenate([part[1] for part in parts], axis=1)
    equations = np.concatenate([part[2] for part in parts])
    return Line(
        name=name,
        title=title,
        measured=rows.step_time_s[at],
        predicted=answer[0],
        low=answer[1],
        high=answer[2],
        groups=groups[at].tolist(),
        jobs=rows.sizes[at].tolist(),
        baselines={"equations alone": equations},
        note=f"One step of each model size, device, plan and long or short sequences, "
        f"{len(at)} in all; those whose graph "
        "takes long to capture are left out.",
    )


def _asked(records: Sequence[PublishedPlacement], rows: PlanRows, most: int) -> IntArray:
    """Return one row of each kind, evenly chosen."""
    kinds: dict[tuple[object, ...], list[int]] = {}
    for row, position in enumerate(rows.positions.tolist()):
        record, job = records[position], records[position].job
        assert job is not None
        layers = int(str(rows.sizes[row]).partition("x")[0])
        if layers <= _MOST_LAYERS and job.accumulation_steps <= _MOST_MICRO_BATCHES:
            plan, is_long = record.placement.plan, (job.sequence_length or 0) >= _LONG
            key = (is_long, rows.sizes[row], rows.devices[row], plan.tensor, plan.pipeline)
            kinds.setdefault(key, []).append(row)
    each = [found[len(found) // 2] for found in kinds.values()]
    chosen = np.linspace(0, len(each) - 1, min(most, len(each))).round().astype(np.int64)
    return np.array(each, dtype=np.int64)[chosen]


def _answers(
    estimator: Estimator,
    records: Sequence[PublishedPlacement],
    rows: PlanRows,
    held: IntArray,
    asked: IntArray,
    start: PlanConstants | None,
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return rows of a group, what is answered (with its ends), and what the equations say."""
    learn = np.setdiff1d(np.arange(len(rows)), held)
    constants = constants_of(rows.take(learn), start=start)
    instead = {**fitted("plans"), rows.stack.value: asdict(constants)}
    found: list[int] = []
    answers: list[list[float]] = []
    with standing_in("plans", instead):
        # Nothing that another group's constants answered may be remembered.
        fresh = type(estimator)(
            accelerators=estimator.accelerators,
            model=estimator.core.model,
            graphs=estimator.core.graphs,
        )
        for row in np.intersect1d(held, asked).tolist():
            record = records[int(rows.positions[row])]
            assert record.job is not None
            try:
                answer = fresh.estimate(record.job, record.placement)
            except PerfModelError:
                continue
            rate, step_s = answer.throughput, answer.step_time_s
            samples = rate.samples_per_second * step_s
            answers.append([step_s, samples / rate.high, samples / rate.low])
            found.append(row)
    at = np.array(found, dtype=np.int64)
    some = rows.take(at)
    equations = plan_step(some.cells, constants, some.between).step_time_s if found else np.empty(0)
    return at, np.array(answers).reshape(-1, 3).T, equations
