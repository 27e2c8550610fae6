"""How an answer of a trained artefact came about, where it is not the joint predictor's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.features.roofline import node_roofline
from perfmodel.graph.workload import Workload
from perfmodel.predictors.explanation import (
    MOST_NEAR,
    ROOFLINE,
    MeasuredPoint,
    NodeParts,
    Stage,
    StepExplanation,
    parts_of_nodes,
)
from perfmodel.predictors.members.efficiency import EfficiencyPredictor
from perfmodel.predictors.members.ensemble import mix
from perfmodel.predictors.members.operator_trees import BASE_OVERHEAD_S
from perfmodel.predictors.predictor import Predictor
from perfmodel.predictors.serving.distance import TrainingDistance

if TYPE_CHECKING:
    from perfmodel.predictors.serving.intervals import HeldOut

#: Source of points: steps that this project measured.
PROFILE = "profile"


def explain_members(
    members: Mapping[str, Predictor],
    workload: Workload,
    *,
    mixed_s: float,
    answer_s: float,
    nearest: tuple[MeasuredPoint, ...] = (),
) -> StepExplanation | None:
    """Explain an answer of members that were trained on the profiles of a device.

    Parameters
    ----------
    members : mapping of str to Predictor
        Heaviest first; the first one that divides a step over its nodes does so.
    mixed_s : float
        What all members say together.
    answer_s : float
        The answer, which may be a measurement.

    Returns
    -------
    StepExplanation or None
        None where no member divides a step.
    """
    for member in members.values():
        times = member.predict_nodes(workload)
        if times is not None and times.sum() > 0:
            break
    else:
        return None
    nodes = _with_overhead(workload, np.asarray(times))
    stages = [
        Stage(name=ROOFLINE, time_s=nodes.roofline_s),
        Stage(name="operator efficiencies", time_s=float(np.sum(nodes.work_s))),
        Stage(name="launches", time_s=float(np.sum(times))),
        Stage(name="other members", time_s=mixed_s),
        Stage(name="measurement of this job", time_s=answer_s),
    ]
    return StepExplanation(stages=tuple(stages), nodes=nodes, nearest=nearest)


def near_samples(
    distance: TrainingDistance,
    held_out: HeldOut,
    weights: Mapping[str, float],
    workload: Workload,
) -> tuple[MeasuredPoint, ...]:
    """Return the training samples that look most like a workload.

    Parameters
    ----------
    weights : mapping of str to float
        Of the members that answer.

    Returns
    -------
    tuple of MeasuredPoint
        Nearest first; predicted by members that had not seen the family. ``distance`` is the root
        mean square of differences in standard deviations.
    """
    if len(held_out.times_s) != len(distance.labels):
        return ()
    answers = np.stack([held_out.answers_s[member] for member in weights], axis=1)
    predicted_s = mix(answers, np.array(list(weights.values())))
    return tuple(
        MeasuredPoint(
            workload=distance.labels[i],
            accelerator=held_out.devices[i],
            distance=far,
            measured_s=float(held_out.times_s[i]),
            predicted_s=float(predicted_s[i]),
            measured_over_predicted=float(held_out.times_s[i] / predicted_s[i]),
            source=PROFILE,
        )
        for i, far in distance.neighbours(workload, MOST_NEAR)
    )


def explain_efficiencies(
    fallback: EfficiencyPredictor, workload: Workload, answer_s: float
) -> StepExplanation:
    """Explain an answer from typical efficiencies."""
    work_s, launch_s = fallback.node_parts(workload)
    nodes = parts_of_nodes(workload, work_s, launch_s)
    stages = (
        Stage(name=ROOFLINE, time_s=nodes.roofline_s),
        Stage(name="operator efficiencies", time_s=float(work_s.sum())),
        Stage(name="launches", time_s=float(nodes.time_s.sum())),
        Stage(name="least time of the arithmetic", time_s=answer_s),
    )
    return StepExplanation(stages=stages, nodes=nodes)


def _with_overhead(workload: Workload, times_s: FloatArray) -> NodeParts:
    """Part the time of each node as the predictor of operators does: roofline and one dispatch."""
    roofline_s = node_roofline(workload).roofline_s
    launch_s = times_s * BASE_OVERHEAD_S / (roofline_s + BASE_OVERHEAD_S)
    return parts_of_nodes(workload, times_s - launch_s, launch_s)
