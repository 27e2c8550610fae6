"""How an answer of the joint predictor came about."""

from __future__ import annotations

import math

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.sketch import StepSketch
from perfmodel.features.steps.step import Step
from perfmodel.features.steps.step_table import StepTable, step_table
from perfmodel.graph.workload import Workload
from perfmodel.predictors.explanation import (
    ROOFLINE,
    Accelerators,
    NodeParts,
    Stage,
    StepExplanation,
)
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.predictors.joint.joint_nearest import near_cells, near_graphs

_TICK_S = 1e-9

#: What the stages of an answer are called, by the fields of :class:`LogStages`.
_NAMES = {
    "network": "launches",
    "trees": "whole-graph trees",
    "memory": "measured cells of this job",
    "device": "records of this accelerator",
    "least": "least time of the arithmetic",
}


def explain_jointly(
    joint: JointPredictor, workload: Workload, accelerators: Accelerators
) -> StepExplanation:
    """Explain an answer.

    The node networks are additive: each row of the sketch has a time of its work and one of its
    launches, and all of them add up. What comes after them changes the whole step by a factor.
    """
    step = Step.of(workload)
    table = step_table([step])
    parts = joint.row_parts(table)
    work_s = np.mean([one.work_s for one in parts], axis=0)
    launch_s = np.mean([one.launch_s for one in parts], axis=0)
    nodes = _nodes(step.sketch, table, work_s, launch_s)
    logs = joint.log_stages(step, table, parts)
    # Members differ a little in how they divide a step; all together they say how much is work.
    of_work = float(work_s.sum()) / max(float(work_s.sum() + launch_s.sum()), _TICK_S)
    efficiencies = Stage(name="operator efficiencies", time_s=math.exp(logs.network) * of_work)
    rest = [
        Stage(name=name, time_s=math.exp(getattr(logs, stage))) for stage, name in _NAMES.items()
    ]
    return StepExplanation(
        stages=(Stage(name=ROOFLINE, time_s=nodes.roofline_s), efficiencies, *rest),
        nodes=nodes,
        nearest=near_cells(joint, step, accelerators) or near_graphs(joint, step, accelerators),
    )


def _nodes(
    sketch: StepSketch, table: StepTable, work_s: FloatArray, launch_s: FloatArray
) -> NodeParts:
    """Give each node its part of its row; views have none."""
    matrix = np.where(table.wide, table.peaks[0, 1], table.peaks[0, 0])
    peaks = np.where(table.matrix, matrix, table.peaks[0, 2])
    moved = table.fused_bytes if table.fused[0] else table.traffic_bytes
    count = sketch.count

    def each(of_row: FloatArray) -> FloatArray:
        return np.append(of_row, 0.0)[sketch.class_of_node]

    return NodeParts(
        flops=each(table.flops),
        moved_bytes=each(moved),
        peak_flops_per_s=each(peaks),
        compute_s=each(table.flops / peaks),
        memory_s=each(moved / table.peaks[0, 3]),
        work_s=each(work_s / count),
        launch_s=each(launch_s / count),
    )
