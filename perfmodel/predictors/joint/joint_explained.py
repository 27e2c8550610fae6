"""How an answer of the joint predictor came about, and which measured cells are near it.

Of every cell it learned from, the predictor keeps the codes of device and settings, and how far the
cell lay from what a member says that had not seen its family: no time and no name. A time is
restored where the graph that is asked about is also that of the cell (the same mode, precision and
batch): the same member predicts the cell anew, and the residual says what was measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.sketch import StepSketch
from perfmodel.features.steps.step import Step
from perfmodel.features.steps.step_table import FUSING, StepTable, row_memory_s, step_table
from perfmodel.features.steps.whole_step import whole_rows
from perfmodel.graph.workload import Workload
from perfmodel.predictors.explanation import (
    MOST_NEAR,
    ROOFLINE,
    Accelerators,
    MeasuredPoint,
    NodeParts,
    Stage,
    StepExplanation,
)
from perfmodel.predictors.joint.job_memory import cell_of, code_of, job_key, software_of_code
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.predictors.joint.joint_regimes import framework_word, of_regime
from perfmodel.types import Compiler, Framework, MemoryFormat, Mode

_TICK_S = 1e-9

#: What the stages of an answer are called, by the fields of :class:`.joint_members.LogStages`.
_NAMES = {
    "network": "launches",
    "trees": "whole-graph trees",
    "memory": "measured cells of this job",
    "device": "records of this accelerator",
    "least": "least time of the arithmetic",
}

T = TypeVar("T")
#: Sources of points: cells of the same architecture, and graphs of a like shape.
CELL, GRAPH = "training cell", "training graph"
#: Positions in a cell.
_DEVICE, _MODE, _COMPILER, _LAYOUT, _ERA, _PRECISION, _BATCH = range(7)
#: The graph of a cell is that of a step where these agree.
_OF_A_GRAPH = [_MODE, _PRECISION, _BATCH]


def explain_jointly(
    joint: JointPredictor, workload: Workload, accelerators: Accelerators
) -> StepExplanation:
    """Explain an answer.

    In the node networks each row of the sketch has a part of the step for its work and one for its
    launches, and all of them add up. The stage of launches is what they make of all that the device
    works by itself. What comes after them changes the whole step by a factor.
    """
    step = Step.of(workload)
    table = step_table([step])
    parts = joint.row_parts(table)
    work_s = np.mean([one.work_s for one in parts], axis=0)
    launch_s = np.mean([one.launch_s for one in parts], axis=0)
    nodes = _nodes(step.sketch, table, work_s, launch_s)
    logs = joint.log_stages(step, table, parts)
    # Members differ a little in how they divide a step; all together they say how much is work.
    alone_s = float(np.mean([one.work_alone_s for one in parts]))
    of_work = alone_s / max(float(work_s.sum() + launch_s.sum()), _TICK_S)
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
    count, row = sketch.count, np.arange(len(moved))

    def each(of_row: FloatArray) -> FloatArray:
        return np.append(of_row, 0.0)[sketch.class_of_node]

    return NodeParts(
        flops=each(table.flops),
        moved_bytes=each(moved),
        compute_s=each(table.flops / peaks),
        memory_s=each(row_memory_s(table, row, np.zeros_like(row))),
        work_s=each(work_s / count),
        launch_s=each(launch_s / count),
    )


@dataclass(frozen=True, kw_only=True)
class _Cell:
    """A measured cell, decoded; repeats of it count as one, with their median."""

    codes: tuple[int, ...]
    device: str
    mode: Mode
    compiler: Compiler
    layout: MemoryFormat
    precision: str
    residual: float
    distance: float

    def like(self, step: Step, spec: AcceleratorSpec) -> Step:
        """Return the cell as a step, with the graph of another step of it."""
        era = self.codes[_ERA]
        own_era = cell_of(step)[_ERA]
        return replace(
            step,
            accelerator=spec,
            compiler=self.compiler,
            memory_format=self.layout,
            software=step.software if era == own_era else software_of_code(era),
            threads=spec.core_count if spec.kind == "cpu" else None,
        )

    def has_graph_of(self, cell: tuple[int, ...]) -> bool:
        """Tell whether the graph of another cell of the job is that of this one."""
        return all(self.codes[k] == cell[k] for k in _OF_A_GRAPH)

    @property
    def label(self) -> str:
        """What is known of it beside its architecture and its device."""
        settings = [f"{self.mode.value} batch {2 ** self.codes[_BATCH]}", self.precision]
        if self.layout is not MemoryFormat.CHANNELS_FIRST:
            settings.append(self.layout.value)
        if self.compiler is not Compiler.EAGER:
            settings.append(self.compiler.value)
        framework = software_of_code(self.codes[_ERA]).get("framework")
        if framework is not None:
            settings.append(framework)
        return " ".join(settings)


def near_cells(
    joint: JointPredictor, step: Step, accelerators: Accelerators, most: int = MOST_NEAR
) -> tuple[MeasuredPoint, ...]:
    """Return the measured cells of the same architecture that say most about a step.

    Returns
    -------
    tuple of MeasuredPoint
        Those with a time first, then nearest first; ``distance`` is the share of the variance of a
        job that the two do not have in common. Empty for a job that was never measured.
    """
    job = job_key(step)
    fold = joint.fold_of_job_.get(job)
    if fold is None or job not in joint.known_.memory.cells_:
        return ()
    own = cell_of(step)
    cells = _nearest(joint, job, own, most)
    specs = [accelerators(cell.device) for cell in cells]
    restored = {
        i: cell.like(step, spec)
        for i, (cell, spec) in enumerate(zip(cells, specs, strict=True))
        if spec is not None and cell.has_graph_of(own)
    }
    times_s = np.exp(joint.unseen_log_times(list(restored.values()), fold)) if restored else ()
    predicted = dict(zip(restored, np.asarray(times_s).tolist(), strict=True))
    return tuple(
        _point(joint, cell, spec, predicted.get(i))
        for i, (cell, spec) in enumerate(zip(cells, specs, strict=True))
    )


def near_graphs(
    joint: JointPredictor, step: Step, accelerators: Accelerators, most: int = MOST_NEAR
) -> tuple[MeasuredPoint, ...]:
    """Return the models with the graphs that look most like that of a step.

    Returns
    -------
    tuple of MeasuredPoint
        Nearest first, each model once, as the cell of it that is most like the step; ``distance``
        is in standard deviations of the columns that describe a graph.
    """
    rows, _ = whole_rows(step_table([step]))
    found = []
    for i, distance in joint.novelty_.neighbours(rows[0], most):
        label = joint.novelty_.labels_[i]
        (cell,) = _nearest(joint, joint.novelty_.jobs_[i], cell_of(step), 1)
        measured = _point(joint, cell, accelerators(cell.device), None)
        named = f"{label} {measured.workload}"
        found.append(
            replace(measured, workload=named, distance=distance, source=GRAPH, same_job=False)
        )
    return tuple(found)


def _nearest(joint: JointPredictor, job: str, asked: tuple[int, ...], most: int) -> list[_Cell]:
    """Decode the cells to be shown: first those with the graph that is asked about."""
    codes, residuals = joint.known_.memory.cells_[job]
    likeness = joint.known_.memory.likeness(job, np.array(asked, dtype=np.int64))
    different, first, place = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    distance = np.maximum(1.0 - likeness[first], 0.0)
    differs = different != np.array(asked)
    other_graph = differs[:, _OF_A_GRAPH].any(axis=1)
    ties = (differs.sum(axis=1), differs[:, _DEVICE])
    order = np.lexsort((*different.T[::-1], *ties, np.round(distance, 9), other_graph))
    devices = {code_of(name): name for name in joint.known_.trained}
    modes, compilers, layouts = _by_code(Mode), _by_code(Compiler), _by_code(MemoryFormat)
    precisions = {code_of(word): word for word in ("fp32", "fp16", "tf32", "int8")}
    return [
        _Cell(
            codes=tuple(cell),
            device=devices[cell[_DEVICE]],
            mode=modes[cell[_MODE]],
            compiler=compilers[cell[_COMPILER]],
            layout=layouts[cell[_LAYOUT]],
            precision=precisions.get(cell[_PRECISION], ""),
            residual=float(np.median(residuals[place.ravel() == i])),
            distance=float(distance[i]),
        )
        for i, cell in ((i, different[i].tolist()) for i in order[:most].tolist())
    ]


def _by_code(words: type[T]) -> dict[int, T]:
    return {code_of(word.value): word for word in words}  # type: ignore[attr-defined]


def _point(
    joint: JointPredictor, cell: _Cell, spec: AcceleratorSpec | None, predicted_s: float | None
) -> MeasuredPoint:
    kind = "gpu" if spec is None else ("cpu" if spec.kind == "cpu" else "gpu")
    fused = "fused" if cell.compiler in FUSING else "eager"
    framework = framework_word(Framework.of(software_of_code(cell.codes[_ERA])))
    scale = float(of_regime(joint.spread_, [(kind, cell.mode.value, fused, framework)])[0])
    ratio = math.exp(cell.residual * scale)
    return MeasuredPoint(
        workload=cell.label,
        accelerator=cell.device,
        distance=cell.distance,
        measured_s=None if predicted_s is None else predicted_s * ratio,
        predicted_s=predicted_s,
        measured_over_predicted=ratio,
        source=CELL,
        same_job=True,
    )
