"""Observed steps beside what is predicted for them: the rows that a calibration reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.estimator.placed import PlacedStep
from perfmodel.estimator.plausible import least_step_s
from perfmodel.estimator.resolve import ResolvedPlacement
from perfmodel.estimator.step import PreparedJob
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.step_parts import StepParts
from perfmodel.placement.topology.links import LinkClass
from perfmodel.placement.topology.topology import Network

if TYPE_CHECKING:
    from perfmodel.estimator.facade import Estimator

#: What a host needs to issue one operator of an eager step, with Python around it, seconds.
_HOST_S_PER_OPERATOR = 5e-5
#: Word for the job in calibrations: an answer is about one.
OBSERVED_JOB = "observed"


def weighed_cells(
    estimator: Estimator, job: Job, seen: Observation, word: str, pointer: str
) -> StepCells:
    """Return what would have been predicted for an observed step, as one row.

    Parameters
    ----------
    job : Job
        Its batch is that of the observation, whatever it says.
    word : str
        For the job; rows of equal words share a residual.
    pointer : str
        JSON pointer to the observation.

    Raises
    ------
    InvalidInputError
        It cannot be answered, or cannot be true.
    """
    alike = replace(job, batch_size=seen.batch_size, accumulation_steps=seen.accumulation_steps)
    try:
        prepared = estimator.prepare(job if alike == job else alike)
        placement = estimator.resolve(seen.placement, pointer=f"{pointer}/placement")
        predictions = estimator.predictions([(prepared, a) for a in placement.accelerators])
        placed = estimator.placed(prepared, placement, predictions)
    except InvalidInputError as error:
        if not str(error.pointer or "").startswith(pointer):
            error.pointer = pointer
        raise
    except PerfModelError as error:
        raise InvalidInputError(
            f"This observation cannot be weighed: {error}", pointer=pointer
        ) from error
    _check_plausible(prepared, placement, seen, pointer)
    return step_cells(prepared, placement, placed, word)


def step_cells(
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    placed: PlacedStep,
    word: str = OBSERVED_JOB,
) -> StepCells:
    """Return a predicted step as the one row that a calibration reads."""
    world = placement.world
    return StepCells.of_job(
        _first(placed.parts),
        batch_size=prepared.samples,
        ranks=placement.count,
        hosts=placement.fabric.host_count,
        largest_share=float(world.largest_share[0]),
        host_s=host_s(prepared),
        window_share=window_share(prepared),
        job=word,
        machine=machine_word(placement),
        fabric=fabric_word(LinkClass(int(world.intra_class[0])), placement.fabric.network),
    )


def replica_cells(
    prepared: PreparedJob, placements: Sequence[ResolvedPlacement], parts: StepParts
) -> StepCells:
    """Return the steps of a job on placements of one kind of accelerator, a row each.

    Parameters
    ----------
    placements : sequence of ResolvedPlacement
        At least one.
    parts : StepParts
        As predicted, columns of shape (placements,).
    """
    worlds = [placement.world for placement in placements]
    fabrics = [
        fabric_word(LinkClass(int(world.intra_class[0])), placement.fabric.network)
        for placement, world in zip(placements, worlds, strict=True)
    ]
    return StepCells.of_job(
        parts,
        batch_size=prepared.samples,
        ranks=[placement.count for placement in placements],
        hosts=[placement.fabric.host_count for placement in placements],
        largest_share=[float(world.largest_share[0]) for world in worlds],
        host_s=host_s(prepared),
        window_share=window_share(prepared),
        job=OBSERVED_JOB,
        machine=machine_word(placements[0]),
        fabric=fabrics,
    )


def machine_word(placement: ResolvedPlacement) -> str:
    """Return a word that placements on the same accelerators share."""
    return "+".join(kind.held.name for kind in placement.kinds)


def fabric_word(link: LinkClass, network: Network | None) -> str:
    """Return a word that placements over equal links share."""
    between = "" if network is None else network.name or f"{network.bandwidth_bytes_per_s:g}"
    return f"{link.name.lower()}|{between}"


def host_s(prepared: PreparedJob) -> float:
    """Return what the host needs to issue the operators of a step."""
    return max(prepared.step.profile.node_count, 1.0) * _HOST_S_PER_OPERATOR


def window_share(prepared: PreparedJob) -> float:
    """Return the share of a step beside which gradients can be exchanged."""
    return max(prepared.step.profile.backward_share, 0.05)


def _first(parts: StepParts) -> StepParts:
    return StepParts(
        compute_s=parts.compute_s[:1],
        exposed_communication_s=parts.exposed_communication_s[:1],
        input_stall_s=parts.input_stall_s[:1],
        overhead_s=parts.overhead_s[:1],
        communication_s=parts.communication_s[:1],
    )


def _check_plausible(
    prepared: PreparedJob, placement: ResolvedPlacement, seen: Observation, pointer: str
) -> None:
    """Refuse a step that is faster than its arithmetic at the peaks allows."""
    least_s = least_step_s(prepared, placement)
    if seen.step_time_s < least_s:
        raise InvalidInputError(
            f"step_time_s is {seen.step_time_s:g} s, but the arithmetic of the step alone takes "
            f"{least_s:.3g} s at the peak of the accelerator. Is it in seconds, of a whole step, "
            "and of this job?",
            pointer=f"{pointer}/step_time_s",
        )
