"""What a placement keeps in the memory of the host, and how much longer a step takes for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from perfmodel.errors import InvalidPlacementError
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.single.plan_engine import transformer_training
from perfmodel.placement.estimate import StepParts
from perfmodel.placement.memory.memory import activation_share, memory_plan
from perfmodel.placement.memory.memory_parts import memory_parts, micro_batches_in_flight
from perfmodel.placement.offload.host_traffic import HostTraffic, copied_bytes_per_s
from perfmodel.placement.topology.topology import Offload, Plan
from perfmodel.types import Mode, Precision

#: Half width in logarithms of what copies and updates of the host add.
HALF_WIDTH = float(np.log(2.0))


def offloaded(
    prepared: PreparedJob, placement: ResolvedPlacement, parts: StepParts
) -> tuple[StepParts, float]:
    """Return the parts of a step a part of which lies in the memory of the host.

    Parameters
    ----------
    placement : ResolvedPlacement
        Its plan offloads something.

    Returns
    -------
    parts : StepParts
    share : float
        Of the step, that the host adds.

    Raises
    ------
    InvalidPlacementError
        Inference, a link to the host of which nothing is known, or activations of a model whose
        layers are not known.
    """
    _check(prepared, placement)
    traffic = _traffic(prepared, placement)
    rate = min(copied_bytes_per_s(one) or 0.0 for one in placement.accelerators)
    profile, batches = prepared.step.profile, prepared.job.accumulation_steps
    whole = profile.forward_share + profile.backward_share
    plan = placement.fabric.plan
    optimizer_s = profile.optimizer_share * parts.compute_s
    optimizer_s = optimizer_s / (_shards(plan) if plan.zero_stage else 1.0)
    passes_s = np.maximum(parts.compute_s - optimizer_s, 0.0) / batches
    forward_s = passes_s * profile.forward_share / whole
    late = batches * traffic.exposed_s(forward_s, passes_s - forward_s, rate)
    back = traffic.returned_bytes / rate
    moved = (batches * traffic.pass_bytes + traffic.returned_bytes) / rate
    updates_there = Offload.OPTIMIZER in plan.offload
    found = replace(
        parts,
        compute_s=parts.compute_s - (optimizer_s if updates_there else 0.0),
        exposed_communication_s=parts.exposed_communication_s + late + back,
        overhead_s=parts.overhead_s + traffic.update_s,
        communication_s=parts.communication_s + moved,
    )
    # Copies go beside collectives: together they may last longer than the step that they are in.
    found = replace(found, communication_s=np.minimum(found.communication_s, found.step_time_s))
    added = float((late + back + traffic.update_s)[0])
    return found, added / float(found.step_time_s[0])


def offload_warnings(placement: ResolvedPlacement) -> tuple[str, ...]:
    """Say what of a step lies in the memory of the host."""
    named = " and ".join(_SAID[one] for one in placement.fabric.plan.offload)
    return (OFFLOAD_WARNING.format(f"{named[0].upper()}{named[1:]}"),)


def _traffic(prepared: PreparedJob, placement: ResolvedPlacement) -> HostTraffic:
    """Return what the fullest rank copies and the fullest host updates."""
    plan, job = placement.fabric.plan, prepared.job
    profile = prepared.memory_profile
    model = float(plan.tensor * plan.pipeline)
    shards = _shards(plan)
    parameters = profile.parameter_bytes / model / (shards if plan.zero_stage >= 3 else 1.0)
    # What else counts as a gradient is passing.
    trained = (
        min(profile.gradient_bytes, profile.parameter_bytes)
        / model
        / (shards if plan.zero_stage else 1.0)
    )
    number_bytes = 2.0 if job.arithmetic in _IN_16_BITS else 4.0
    held = memory_parts(profile, memory_plan(replace(plan, offload=()), placement.count, job))
    activations = float(held.activation_corners.max())
    gone = 1.0 - _left(prepared) if Offload.ACTIVATIONS in plan.offload else 0.0
    in_flight = float(
        micro_batches_in_flight(
            plan.pipeline, job.accumulation_steps, plan.schedule, plan.virtual_stages
        )
    )
    updates = Offload.OPTIMIZER in plan.offload
    stay = Offload.PARAMETERS in plan.offload
    return HostTraffic(
        parameter_bytes=parameters if stay else 0.0,
        gradient_bytes=trained if updates else 0.0,
        activation_bytes=gone * activations / in_flight,
        returned_bytes=trained if updates and not stay else 0.0,
        updated=placement.fullest_host * trained / number_bytes if updates else 0.0,
    )


def _left(prepared: PreparedJob) -> float:
    """Return the part of the activations that stays; 1 where the layers are not known."""
    training = transformer_training(prepared)
    shape = None if training is None else training.shape
    return activation_share(prepared.job, prepared.memory_profile, shape)


def _shards(plan: Plan) -> float:
    return (plan.data or 1) * plan.context / plan.replicate


def _check(prepared: PreparedJob, placement: ResolvedPlacement) -> None:
    at = "/placement/plan/offload"
    if prepared.job.mode is not Mode.TRAINING:
        raise InvalidPlacementError(
            "What lies in the memory of the host is answered for training alone; leave offload "
            "out.",
            pointer=at,
        )
    unknown = [one.name for one in placement.accelerators if copied_bytes_per_s(one) is None]
    if unknown:
        raise InvalidPlacementError(
            f"Nothing is known of the link between {', '.join(unknown)} and a host with a memory "
            "of its own, so that offload is not answered there. Leave it out.",
            pointer=at,
        )
    known = _left(prepared) < 1.0
    if Offload.ACTIVATIONS in placement.fabric.plan.offload and not known:
        raise InvalidPlacementError(
            "Activations are offloaded layer by layer, and the layers of this model are not known: "
            "no transformer was recognised in it. Leave activations out of offload.",
            pointer=at,
        )


_IN_16_BITS = frozenset({Precision.FP16, Precision.BF16, Precision.FP8})
_SAID = {
    Offload.OPTIMIZER: "state and update of the optimizer",
    Offload.PARAMETERS: "parameters",
    Offload.ACTIVATIONS: "activations of layers that wait",
}

#: Said of every step of which something lies in the memory of the host.
OFFLOAD_WARNING = (
    "{0} lie in the memory of the host: copies are answered at the rate of the slot and updates at "
    "that of a published host, and whether that memory is large enough is not looked at."
)
