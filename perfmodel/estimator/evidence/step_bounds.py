"""Tell observed steps that can be true from mistakes of unit, of job or of placement."""

from __future__ import annotations

from dataclasses import dataclass

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.memory import fullest_memory, memory_on
from perfmodel.features.roofline import node_roofline
from perfmodel.placement.calibration.correcting.unobserved_script import typical_script
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.calibration.step_cells import SingleStep, StepCells

#: A step that takes this many times as long as expected, or is as many times as short, is a
#: mistake; milliseconds that are sent as seconds are a thousand times as long.
TOO_FAR = 200.0
#: What ran out of memory is a mistake, or something else held the memory, where the step is counted
#: to need less than one over this of the room; what ran is one where it is counted to need as many
#: times what there is. Five deviations of what is counted of workloads that were never measured;
#: published runs that ran out needed 0.45 of the room at least, and those that ran 1.5 at most.
TOO_FULL = 5.0
#: An observed step this many times as fast as its arithmetic at the peaks is a mistake.
BEYOND_THE_PEAK = 1.05
#: Algorithms for convolutions multiply less than the formulas count, at best a quarter (Winograd).
FEWER_MULTIPLICATIONS = 4.0
#: Seconds of any step. Starting one kernel takes an accelerator some microseconds, and a step is
#: several; of steps of a day nobody would wait for the second.
LEAST_S, MOST_S = 1e-5, 86_400.0

#: Said where some of the cells that ran out of memory are not believed to by their own need.
DOUBTED_WARNING = (
    "Of what was observed to run out of memory {0} cells refuse themselves alone: they are counted "
    f"to need less than a {TOO_FULL:g}th of the memory that they had, so that something else may "
    "have held it."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepBounds:
    """What the step time of a cell may be, seconds.

    ``too_fast`` and ``too_slow`` say what is wrong with a time beyond the bounds.

    Parameters
    ----------
    of_compute : bool
        Whether the least holds for what of a step is no synchronisation as well.
    """

    least_s: float = 0.0
    most_s: float = float("inf")
    too_fast: str = ""
    too_slow: str = ""
    of_compute: bool = False

    def doubt_of(self, seen: Observation) -> str | None:
        """Return why the time of a step is not believed, or None."""
        step_s, sync_s = seen.step_time_s, seen.sync_time_s
        if step_s < self.least_s:
            wrong = self.too_fast
        elif step_s > self.most_s:
            wrong = self.too_slow
        elif self.of_compute and sync_s and step_s - sync_s < self.least_s:
            return (
                f"step_time_s less sync_time_s is {step_s - sync_s:g} s, {self.too_fast}. "
                "sync_time_s is what of the step waits for communication, without what runs "
                "meanwhile."
            )
        else:
            return None
        return (
            f"step_time_s is {step_s:g} s, {wrong}. Is it in seconds, of a whole step, and of "
            "this job?"
        )


def expected_bounds(least_s: float, most_s: float, what: str) -> StepBounds:
    """Return the bounds of a step that is expected to take some time; ``what`` lets expect it."""
    return StepBounds(
        least_s=least_s / TOO_FAR,
        most_s=most_s * TOO_FAR,
        too_fast=f"less than a {TOO_FAR:g}th of {what}, {least_s:.3g} s",
        too_slow=f"more than {TOO_FAR:g} times {what}, {most_s:.3g} s",
    )


def bounds_of_step(
    prepared: PreparedJob, placement: ResolvedPlacement, step: SingleStep
) -> tuple[StepBounds, StepBounds]:
    """Return the bounds that its arithmetic and its prediction set to a captured step.

    ``min over kinds(sum of FLOPs / peak) / (tensor x pipeline x context) / (4 x 1.05)``, and as
    far as is expected around what is predicted, of a script with and without its gap.
    """
    fastest_s = min(_arithmetic_s(prepared, kind.accelerator) for kind in placement.kinds)
    fastest_s *= prepared.step.time_factor
    plan = placement.fabric.plan
    split = plan.tensor * plan.pipeline * plan.context
    least_s = fastest_s / (split * FEWER_MULTIPLICATIONS * BEYOND_THE_PEAK)
    of_arithmetic = StepBounds(
        least_s=least_s,
        too_fast=f"but the arithmetic of the step alone takes {least_s:.3g} s at the peak of the "
        "accelerator",
        of_compute=step.communicates,
    )
    bare_s = script_s = step.parts.step_time_s
    if prepared.job.script:
        steps = typical_script().apply(StepCells.of_steps([step]))
        script_s = max(bare_s, float(steps.parts.step_time_s[0]))
    return of_arithmetic, expected_bounds(bare_s, script_s, "what is predicted")


def _arithmetic_s(prepared: PreparedJob, accelerator: AcceleratorSpec) -> float:
    """Return what the operators of a job take at the peaks of an accelerator, seconds."""
    return prepared.once(
        accelerator,
        ("arithmetic", accelerator.name),
        lambda: float(node_roofline(prepared.on(accelerator)).compute_s.sum()),
    )


def doubt_of_shortage(prepared: PreparedJob, placement: ResolvedPlacement) -> str | None:
    """Return why a step is not believed to have run out of memory by its own need, or None.

    Beside other jobs nobody knows what those held.
    """
    memory = fullest_memory(prepared, placement)
    if placement.placement.shared_with or memory.filled[0] * TOO_FULL >= 1.0:
        return None
    shares = _shares(float(memory.demand_bytes[0]), float(memory.capacity_bytes[0]))
    return (
        f"out_of_memory is true, but the step is counted to need {shares}, less than a "
        f"{TOO_FULL:g}th. Was the accelerator free, and is batch_size that of one replica and of "
        "this job?"
    )


def doubt_of_room(prepared: PreparedJob, placement: ResolvedPlacement) -> str | None:
    """Return why a step is not believed to have run in the memory that there was, or None.

    That of whole accelerators: not every share of one is a share of its memory.
    """
    for kind in placement.kinds:
        needed = float(memory_on(prepared, placement, kind).demand_bytes[0])
        if needed > TOO_FULL * kind.accelerator.memory_bytes:
            return (
                f"The step is counted to need {_shares(needed, kind.accelerator.memory_bytes)}, "
                f"more than {TOO_FULL:g} times as much. Is it of this job on this placement, with "
                "what its plan shares out and offloads?"
            )
    return None


def _shares(needed_bytes: float, had_bytes: float) -> str:
    return f"{needed_bytes / 1e9:.3g} GB of {had_bytes / 1e9:.3g} GB"


def check_possible(seen: Observation, pointer: str) -> None:
    """Refuse a step that no job has; of job types there is nothing else to hold it to.

    Raises
    ------
    InvalidInputError
        It is shorter or longer than any.
    """
    if not LEAST_S <= seen.step_time_s <= MOST_S:
        raise InvalidInputError(
            f"A step takes {LEAST_S:g} to {MOST_S:g} s; got {seen.step_time_s:g}. Is it in "
            "seconds, and of one step?",
            pointer=f"{pointer}/step_time_s",
        )
