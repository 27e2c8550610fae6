"""Judge splits of language models in bf16 and fp8 on 8 to 2,304 GPUs since 2022.

Rows of Megatron-Bridge, dgxc-benchmarking and NeMo. Each device, and then each model, is left out
of the fit that answers for it: equations on device facts alone. The fifth of the models that is
locked away by hash takes part in no fit and has a line of its own. Beside them stands the
arithmetic at the peak with one efficiency for dense models and for mixtures, in 16 and in 8 bits:
those of the rows which the fit saw.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from placement_accuracy.line import Line

from perfmodel.errors import TrainingError
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.plan_steps.plan_constants import PlanConstants, Stack
from perfmodel.placement.plan_steps.plan_step import plan_step
from perfmodel.training.placement_fits.fit_plans import (
    constants_of,
    is_locked,
    learned_from,
    steps_of,
)
from perfmodel.training.placement_rows.plan_rows import PlanRows

TARGET = 0.12


def evaluate(data: Path, *, fast: bool = False) -> list[Line]:
    """Return one line for devices, models and the locked fifth; none without the tables.

    Parameters
    ----------
    fast : bool
        Devices alone.
    """
    try:
        rows = steps_of(data, Stack.MEGATRON_CORE)
    except TrainingError:
        return []
    return list(_lines(rows, fast=fast))


def _lines(rows: PlanRows, *, fast: bool) -> Iterator[Line]:
    locked = is_locked(rows)
    seen = rows.take(~locked)
    widths = [size.partition("x")[2] for size in seen.sizes.tolist()]
    questions = [("device", seen.devices)]
    if not fast:
        questions.append(("model", np.array(widths)))
    for name, groups in questions:
        predicted, ideal = _left_out(seen, groups)
        for part, which in _parts(seen):
            yield _line(
                f"{name}-{part}", f"{part}, each {name} left out", seen.take(which),
                predicted[which], ideal[which], groups[which],
            )  # fmt: skip
    if locked.any():
        learn, ask = rows.take(learned_from(rows)), rows.take(locked)
        predicted, ideal = _asked(learn, ask, constants_of(learn))
        yield _line("locked", "models locked away", ask, predicted, ideal, ask.sizes)


def _left_out(rows: PlanRows, groups: npt.NDArray[np.str_]) -> tuple[FloatArray, FloatArray]:
    predicted, ideal = np.zeros(len(rows)), np.zeros(len(rows))
    for group in np.unique(groups):
        held = groups == group
        others = rows.take(~held)
        learn = others.take(learned_from(others))
        predicted[held], ideal[held] = _asked(learn, rows.take(held), constants_of(learn))
    return predicted, ideal


def _asked(
    learn: PlanRows, ask: PlanRows, constants: PlanConstants
) -> tuple[FloatArray, FloatArray]:
    """Return answers, and FLOP over the peak at the efficiencies of what was learned."""
    longer = np.log(learn.step_time_s / learn.cells.least_time_s)
    of_all, kinds, asked = longer.mean(), _kinds(learn), _kinds(ask)
    usual = [longer[kinds == kind].mean() if (kinds == kind).any() else of_all for kind in asked]
    found = plan_step(ask.cells, constants, ask.between).step_time_s
    return found, ask.cells.least_time_s * np.exp(usual)


def _kinds(rows: PlanRows) -> npt.NDArray[np.int64]:
    """Return a number for each kind of arithmetic: of experts or not, in 8 bits or not."""
    mixtures, in_8 = rows.cells.shape.experts > 1, rows.cells.numbers.cast > 0
    return 2 * mixtures.astype(np.int64) + in_8


def _parts(rows: PlanRows) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    kinds = _kinds(rows)
    yield "dense-bf16", kinds == 0
    yield "dense-fp8", kinds == 1
    yield "experts", kinds > 1


def _line(
    name: str,
    words: str,
    rows: PlanRows,
    predicted: FloatArray,
    ideal: FloatArray,
    groups: npt.NDArray[np.str_],
) -> Line:
    return Line(
        name=f"plans-core-{name}",
        title=f"Language models split over up to thousands of GPUs ({words})",
        measured=rows.step_time_s,
        predicted=predicted,
        groups=groups.tolist(),
        jobs=rows.sizes.tolist(),
        baselines={"flops_over_peak": ideal},
        target=TARGET,
        note="Equations on device facts alone; no step of one accelerator is given.",
    )
