"""Judge data-parallel steps on sets that measured the same job on one and on several devices.

Every device is left out of both sets in turn: the constants are fitted on all the others. The
structure of the equations was chosen with all of the data in sight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from placement_accuracy.line import Line
from placement_accuracy.links_calibrated import CalibratedLinks
from placement_accuracy.observed_links import observed_slowdown

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.data_parallel.data_parallel import DataParallelCells
from perfmodel.placement.data_parallel.data_parallel_constants import DataParallelConstants
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.training.placement_fits.fit_data_parallel import fit_constants
from perfmodel.training.placement_rows.data_parallel_rows import (
    DataParallelRow,
    columns,
    data_parallel_rows,
    groups_of,
)

#: Steps of the search in a quick judgement.
_QUICK_STEPS = 10
_STEPS = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class _Question:
    """What one line asks."""

    source: str
    name: str
    title: str
    target: float
    note: str


_LAMBDA_NOTE = (
    "Rows whose one-accelerator step has the same task, precision, batch size and software. Of "
    "these machines the tables name the link class at most: the A100-SXM4-40GB of PyTorch 1.13 "
    "carries 1 GB/s over NVLink, four and eight RTX-3090 carry 1.5 and 0.7 GB/s, and nothing says "
    "so beforehand. Replicas of Transformer-XL did not share gradients there."
)
_EXAMPLES_NOTE = (
    "Rows whose one-accelerator step has the same model, precision, batch size and software."
)
_QUESTIONS = (
    _Question(
        source="lambda",
        name="lambda-from-one",
        title="Lambda, 2 to 16 GPUs from the 1-GPU figure; the device never seen on several",
        target=0.06,
        note=_LAMBDA_NOTE,
    ),
    _Question(
        source="deep-learning-examples",
        name="nvidia-examples-from-one",
        title="NVIDIA examples, several GPUs from one; the device never seen on several",
        target=0.07,
        note=_EXAMPLES_NOTE,
    ),
)


_ONE_OBSERVED = _Question(
    source="lambda",
    name="lambda-one-job-observed",
    title="The same, after steps of one other job were observed on that machine",
    target=0.06,
    note="The other job is the one with most gradients for its computation; it tells how slow the "
    "links of the machine are. A machine is accelerator, count, link and software.",
)

_ONE_COUNTED = _Question(
    source="lambda",
    name="lambda-one-job-calibrated",
    title="The same as an answer counts them: calibrated beside the job's own step on one GPU",
    target=0.06,
    note="The way of every answer with observations; its prior was learned on Sia's tables alone.",
)


def evaluate(data: Path, *, fast: bool = False) -> list[Line]:
    """Return a line for each set.

    Returns
    -------
    list of Line
        Lambda, and the model pages of NVIDIA.
    """
    rows = data_parallel_rows(data)
    _, alone, measured = columns(rows)
    groups = groups_of(rows)
    devices = np.array([row.accelerator for row in rows])
    predicted, told = np.zeros(len(rows)), np.zeros(len(rows))
    counted = np.zeros((3, len(rows)))
    for device in sorted(set(devices.tolist())):
        left_out = devices == device
        known = fit_constants(
            [row for row, out in zip(rows, left_out, strict=True) if not out],
            steps=_QUICK_STEPS if fast else _STEPS,
        )
        places = np.flatnonzero(left_out)
        own = [rows[i] for i in places]
        predicted[places] = predict(own, groups.take(places), known)
        slower = slowdowns_from_another_job(own, groups.take(places), known)
        told[places] = predict(own, groups.take(places), known, slower)
        counted[:, places] = calibrated_beside(own, groups.take(places), known, predicted[places])
    answers = {
        "linear scaling": alone,
        "one efficiency per count and link": _one_efficiency(alone, measured, groups, devices),
    }
    untold = {"nothing observed on the machine": predicted, **answers}
    return [
        *(_line(question, rows, measured, predicted, answers) for question in _QUESTIONS),
        _line(_ONE_OBSERVED, rows, measured, told, untold),
        _line(_ONE_COUNTED, rows, measured, counted[0], untold, counted[1:]),
    ]


def predict(
    rows: Sequence[DataParallelRow],
    groups: CommGroups,
    known: DataParallelConstants,
    link_slowdown: npt.ArrayLike = 1.0,
) -> FloatArray:
    """Return the step time of rows under some constants, seconds."""
    profiles, alone, _ = columns(rows)
    return (
        DataParallelCells(profiles, alone, groups)
        .parts(
            straggler=[known.straggler_of(row.model) for row in rows],
            link_slowdown=link_slowdown,
            constants=known,
        )
        .step_time_s
    )


def slowdowns_from_another_job(
    rows: Sequence[DataParallelRow], groups: CommGroups, known: DataParallelConstants
) -> FloatArray:
    """Return the slowdown of each row's machine, as steps of one other job tell it.

    Parameters
    ----------
    groups : CommGroups
        One row each.

    Returns
    -------
    ndarray, shape (rows,)
        1 where no other job ran on the machine.
    """
    slower = np.ones(len(rows))
    for shown, taught in _lessons(rows):
        own = groups.take(np.array(shown))
        slower[taught] = _observed([rows[i] for i in shown], own, known)
    return slower


def calibrated_beside(
    rows: Sequence[DataParallelRow],
    groups: CommGroups,
    known: DataParallelConstants,
    predicted: FloatArray,
) -> FloatArray:
    """Return steps, and both ends of their intervals, as calibrated beside one other job.

    Parameters
    ----------
    groups : CommGroups
        One row each.
    predicted : ndarray, shape (rows,)
        Where no other job ran on the machine.

    Returns
    -------
    ndarray, shape (3, rows)
    """
    found = np.stack([predicted, predicted, predicted])
    links = CalibratedLinks(rows, groups, known)
    for shown, taught in _lessons(rows):
        for row in taught:
            steps = links.answer(row, shown)
            low, high = steps.interval()
            found[:, row] = steps.parts.step_time_s[0], low[0], high[0]
    return found


def _lessons(rows: Sequence[DataParallelRow]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the rows of a job that tells of its machine, and those that learn from it."""
    machines = np.array([row.machine for row in rows])
    for machine in sorted(set(machines.tolist())):
        places = np.flatnonzero(machines == machine).tolist()
        first, second = _loudest([rows[i] for i in places])
        for teacher, of_others in ((first, True), (second, False)):
            taught = [i for i in places if (rows[i].model != first) is of_others]
            shown = [i for i in places if rows[i].model == teacher]
            if shown and taught:
                yield shown, taught


def _loudest(rows: Sequence[DataParallelRow]) -> tuple[str, str]:
    """Return the two jobs with most gradients for their computation, "" where there are fewer."""
    weight: dict[str, float] = {}
    for row in rows:
        share = row.profile.gradient_bytes / row.alone_s
        weight[row.model] = max(weight.get(row.model, 0.0), share)
    ordered = sorted((job for job in weight if weight[job] > 0), key=lambda job: -weight[job])
    return (*ordered, "", "")[0], (*ordered, "", "")[1]


def _observed(
    rows: Sequence[DataParallelRow], groups: CommGroups, known: DataParallelConstants
) -> float:
    profiles, alone, measured = columns(rows)
    spread = [known.straggler_of(row.model) for row in rows]
    cells = DataParallelCells(profiles, alone, groups)
    return observed_slowdown(cells, measured, straggler=spread, constants=known)


def _one_efficiency(
    alone: FloatArray, measured: FloatArray, groups: CommGroups, devices: npt.NDArray[np.str_]
) -> FloatArray:
    """Return the steps of one typical slowdown per count and link class, device left out."""
    ratio = measured / alone
    answers = np.zeros(len(alone))
    for row in range(len(alone)):
        others = devices != devices[row]
        linked = others & (groups.intra_class == groups.intra_class[row])
        alike = linked & (groups.ranks == groups.ranks[row])
        chosen = next(some for some in (alike, linked, others) if some.any())
        answers[row] = alone[row] * np.median(ratio[chosen])
    return answers


def _line(
    question: _Question,
    rows: Sequence[DataParallelRow],
    measured: FloatArray,
    predicted: FloatArray,
    answers: Mapping[str, FloatArray],
    ends: FloatArray | None = None,
) -> Line:
    here = np.array([row.source == question.source for row in rows])
    own = [row for row in rows if row.source == question.source]
    return Line(
        name=question.name,
        title=question.title,
        measured=measured[here],
        predicted=predicted[here],
        groups=[row.accelerator for row in own],
        jobs=[row.job for row in own],
        baselines={name: answer[here] for name, answer in answers.items()},
        target=question.target,
        note=question.note,
        low=None if ends is None else ends[0][here],
        high=None if ends is None else ends[1][here],
    )
