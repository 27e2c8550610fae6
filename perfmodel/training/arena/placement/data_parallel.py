"""Judge data-parallel steps on sets that measured the same job on one and on several devices.

Every device is left out of both sets in turn: the constants are fitted on all the others. The
structure of the equations was chosen with all of the data in sight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from perfmodel.placement.data_parallel import data_parallel_parts
from perfmodel.placement.data_parallel_constants import DataParallelConstants
from perfmodel.placement.groups import CommGroups
from perfmodel.training.arena.placement.line import Line
from perfmodel.training.placement.data_parallel_rows import (
    DataParallelRow,
    columns,
    data_parallel_rows,
    groups_of,
)
from perfmodel.training.placement.fit_data_parallel import fit_constants

FloatArray = npt.NDArray[np.float64]

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


def evaluate(data: Path, *, fast: bool = False) -> list[Line]:
    """Return a line for each set.

    Parameters
    ----------
    data : Path
        Folder of public measurements.
    fast : bool
        Fewer steps of each fit.

    Returns
    -------
    list of Line
        Lambda, and the model pages of NVIDIA.
    """
    rows = data_parallel_rows(data)
    _, alone, measured = columns(rows)
    groups = groups_of(rows)
    devices = np.array([row.accelerator for row in rows])
    predicted = np.zeros(len(rows))
    for device in sorted(set(devices.tolist())):
        left_out = devices == device
        known = fit_constants(
            [row for row, out in zip(rows, left_out, strict=True) if not out],
            steps=_QUICK_STEPS if fast else _STEPS,
        )
        places = np.flatnonzero(left_out)
        predicted[places] = predict([rows[i] for i in places], groups.take(places), known)
    answers = {
        "linear scaling": alone,
        "one efficiency per count and link": _one_efficiency(alone, measured, groups, devices),
    }
    return [_line(question, rows, measured, predicted, answers) for question in _QUESTIONS]


def predict(
    rows: Sequence[DataParallelRow], groups: CommGroups, known: DataParallelConstants
) -> FloatArray:
    """Return the step time of rows under some constants, seconds."""
    profiles, alone, _ = columns(rows)
    return data_parallel_parts(
        profiles,
        alone,
        groups,
        straggler=[known.straggler_of(row.model) for row in rows],
        constants=known,
    ).step_time_s


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
    )
