"""How fast a step can be at all."""

from __future__ import annotations

from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.features.roofline import node_roofline

#: An observed step this many times as fast as its arithmetic at the peaks is a mistake.
BEYOND_THE_PEAK = 1.05
#: Algorithms for convolutions multiply less than the formulas count, at best a quarter (Winograd).
FEWER_MULTIPLICATIONS = 4.0


def least_step_s(prepared: PreparedJob, placement: ResolvedPlacement) -> float:
    """Return the time below which a step is taken for a mistake.

    ``min over kinds(sum of FLOPs / peak) / (tensor x pipeline x context) / (4 x 1.05)``

    Returns
    -------
    float
        Seconds.
    """
    fastest_s = min(
        float(node_roofline(prepared.on(kind.accelerator)).compute_s.sum())
        for kind in placement.kinds
    )
    fastest_s *= prepared.step.time_factor
    plan = placement.fabric.plan
    split = plan.tensor * plan.pipeline * plan.context
    return fastest_s / (split * FEWER_MULTIPLICATIONS * BEYOND_THE_PEAK)
