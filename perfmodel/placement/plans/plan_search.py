"""Search the plans of a transformer on given hardware, and say why the best is the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from perfmodel.errors import InvalidPlacementError
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.plan_steps.plan_cells import PlanCells, PlanChoice
from perfmodel.placement.plan_steps.plan_memory import plan_memory
from perfmodel.placement.plan_steps.plan_step import PlanStep, plan_step
from perfmodel.placement.plans.plan_answer import TransformerTraining, scaled
from perfmodel.placement.plans.plan_candidates import plan_candidates, with_checkpointing
from perfmodel.placement.plans.plan_words import why_best, why_slower, why_too_large

#: Part of a device's memory that tensors can have: the rest goes to the runtime, to buffers of
#: communication and to fragments.
USABLE_SHARE = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanRoom:
    """Memory of the fullest rank of some plans.

    Parameters
    ----------
    needed_bytes : ndarray, shape (plans,)
    fits : ndarray of bool, shape (plans,)
    room_bytes : float
        What a rank can have.
    warnings : tuple of str
        What else decided.
    """

    needed_bytes: FloatArray
    fits: npt.NDArray[np.bool_]
    room_bytes: float
    warnings: tuple[str, ...] = ()


#: Tells the memory of plans.
RoomOf = Callable[[Sequence[PlanChoice]], PlanRoom]
#: Tells by how much plans take longer than the equations say.
ScaleOf = Callable[[Sequence[PlanChoice], PlanStep], FloatArray]


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedPlan:
    """One plan of a search.

    Parameters
    ----------
    bubble_s, exposed_communication_s : float
        Parts of the step.
    memory_bytes : float
        Of the fullest rank.
    reason : str
        Why it is the best, or what it loses against the best.
    """

    choice: PlanChoice
    step_time_s: float
    samples_per_second: float
    bubble_s: float
    exposed_communication_s: float
    memory_bytes: float
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanRanking:
    """What a search found.

    Parameters
    ----------
    plans : tuple of RankedPlan
        Best first; of plans with equal degrees the best alone. Empty where none fits.
    considered : int
        Plans that were looked at, ways to recompute included.
    too_large : int
        Of them, those that do not fit the memory.
    why_none : str
        What the smallest plan lacks, where none fits.
    model_version : str or None
        Which model said how long the step takes on one accelerator.
    """

    plans: tuple[RankedPlan, ...]
    considered: int
    too_large: int
    why_none: str = ""
    model_version: str | None = None
    warnings: tuple[str, ...] = ()


def search_plans(
    training: TransformerTraining,
    fabric: Fabric,
    *,
    global_batch: int,
    scale: float | ScaleOf = 1.0,
    most: int = 10,
    room_of: RoomOf | None = None,
) -> PlanRanking:
    """Time every sensible plan that fits, and rank them.

    Parameters
    ----------
    fabric : Fabric
        All its accelerators are used.
    global_batch : int
        Samples of a step, >= 1.
    scale : float or callable
        Measured or predicted step of one accelerator over that of the equations, where it is
        known; or what tells it for each plan and its step.
    room_of : callable or None
        Tells what plans need and whether they fit, in place of the formulas, by which tensors may
        occupy :data:`USABLE_SHARE` of a device.

    Raises
    ------
    InvalidPlacementError
        No plan uses all accelerators with this batch.
    """
    training = training.on(fabric.accelerators)
    plain = plan_candidates(training.shape, fabric, global_batch)
    if not plain:
        raise InvalidPlacementError(
            f"No plan spreads a batch of {global_batch} samples over "
            f"{fabric.placement.accelerator_count} accelerators: the replicas of every split must "
            "divide the batch. Take a batch that is a multiple of the accelerators.",
        )
    found = _fitting(training, fabric, plain, room_of)
    if not found.choices:
        return PlanRanking(
            plans=(),
            considered=found.considered,
            too_large=found.considered,
            why_none=why_too_large(found.smallest, found.least_bytes, found.room_bytes),
            warnings=found.warnings,
        )
    steps = plan_step(found.cells, training.constants_of(found.cells.plan))
    steps = scaled(steps, scale(found.choices, steps) if callable(scale) else scale)
    return PlanRanking(
        plans=_ranked(found, steps, global_batch, most),
        considered=found.considered,
        too_large=found.considered - found.fit_count,
        warnings=found.warnings,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Fitting:
    choices: list[PlanChoice]
    cells: PlanCells
    memory_bytes: FloatArray
    considered: int
    fit_count: int
    smallest: PlanChoice
    least_bytes: float
    room_bytes: float
    warnings: tuple[str, ...]


def _fitting(
    training: TransformerTraining,
    fabric: Fabric,
    plain: Sequence[PlanChoice],
    room_of: RoomOf | None,
) -> _Fitting:
    """Keep what fits, of each plan the way that recomputes least."""
    ways = [with_checkpointing(one, fused_attention=training.fused_attention) for one in plain]
    every = [choice for one in ways for choice in one]
    cells = training.cells(fabric, every)
    found = _by_formulas(cells) if room_of is None else room_of(every)
    needed, room = found.needed_bytes.reshape(len(plain), -1), found.room_bytes
    fits = found.fits.reshape(needed.shape)
    first = fits.argmax(axis=1)
    kept = np.flatnonzero(fits.any(axis=1))
    least = int(needed.argmin())
    rows = kept * needed.shape[1] + first[kept]
    return _Fitting(
        choices=[every[row] for row in rows],
        cells=cells.take(rows),
        memory_bytes=needed[kept, first[kept]],
        considered=len(every),
        fit_count=int(fits.sum()),
        smallest=every[least],
        least_bytes=float(needed.min()),
        room_bytes=room,
        warnings=found.warnings,
    )


def _by_formulas(cells: PlanCells) -> PlanRoom:
    needed = plan_memory(cells.shape, cells.plan, cells.numbers, cells.fused_attention).peak_bytes
    room = float(USABLE_SHARE * cells.device.memory_bytes[0])
    return PlanRoom(needed_bytes=needed, fits=needed <= room, room_bytes=room)


def _ranked(
    found: _Fitting, steps: PlanStep, global_batch: int, most: int
) -> tuple[RankedPlan, ...]:
    times = steps.step_time_s
    # Of equal times the plan with fewer splits is simpler; the order of candidates has it first.
    order = np.argsort(times, kind="stable")
    best: dict[tuple[int | None, ...], int] = {}
    for row in order.tolist():
        plan = found.choices[row].plan
        degrees = (plan.data, plan.tensor, plan.pipeline, plan.context, plan.expert)
        best.setdefault(degrees, row)
    rows = list(best.values())[:most]
    return tuple(
        RankedPlan(
            choice=found.choices[row],
            step_time_s=float(times[row]),
            samples_per_second=float(global_batch / times[row]),
            bubble_s=float(steps.bubble_s[row]),
            exposed_communication_s=float(steps.parts.exposed_communication_s[row]),
            memory_bytes=float(found.memory_bytes[row]),
            reason=_reason(found, steps, rows, row),
        )
        for row in rows
    )


def _reason(found: _Fitting, steps: PlanStep, rows: Sequence[int], row: int) -> str:
    best = rows[0]
    if row == best:
        second = rows[1] if len(rows) > 1 else None
        return why_best(
            _parts(steps, row),
            None if second is None else (found.choices[second], _parts(steps, second)),
        )
    return why_slower(
        found.choices[row], _parts(steps, row), found.choices[best], _parts(steps, best)
    )


def _parts(steps: PlanStep, row: int) -> Mapping[str, float]:
    bubble = float(steps.bubble_s[row])
    return MappingProxyType(
        {
            "computation": float(steps.parts.compute_s[row]) - bubble,
            "waiting in the pipeline": bubble,
            "exposed communication": float(steps.parts.exposed_communication_s[row]),
            "step": float(steps.step_time_s[row]),
        }
    )
