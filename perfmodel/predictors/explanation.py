"""What a model tells of an answer: how it came about, and how it is divided over the operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.arrays import BoolArray, FloatArray
from perfmodel.features.nodes import node_table
from perfmodel.features.roofline import node_roofline
from perfmodel.graph.workload import Workload

#: Returns an accelerator by its name, or None.
Accelerators = Callable[[str], AcceleratorSpec | None]

#: Measured points that an explanation names at most.
MOST_NEAR = 5

#: First stage of every explanation.
ROOFLINE = "roofline"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """The time of a step after one more thing was taken into account.

    Parameters
    ----------
    time_s : float
        > 0.
    """

    name: str
    time_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredPoint:
    """A measured step near the one that was asked about.

    Parameters
    ----------
    workload : str
        For people. Where ``same_job`` holds, only what is said beside the name of the job.
    accelerator : str or None
        None where the model does not keep it.
    distance : float or None
        0 for the same; its unit depends on the source.
    measured_s, predicted_s : float or None
        Step time, and what is predicted without it; None where the model does not keep them.
    same_job : bool
        It is the same architecture at the same input size.
    """

    workload: str
    accelerator: str | None
    distance: float | None
    measured_s: float | None
    predicted_s: float | None
    source: str
    measured_over_predicted: float | None = None
    same_job: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeParts:
    """Work and time of every node of a graph, arrays of shape (nodes,).

    Parameters
    ----------
    flops, moved_bytes : ndarray
        Bytes as the model counts them: those that leave the fused kernel where it fuses.
    compute_s, memory_s : ndarray
        At the peak and at the full bandwidth.
    work_s, launch_s : ndarray
        Predicted: the work, and what a call costs beside it. Up to one factor of all nodes they
        add up to the step.
    by_kernels : ndarray of bool or None
        Nodes whose work is that of single kernels; None: none.
    """

    flops: FloatArray
    moved_bytes: FloatArray
    compute_s: FloatArray
    memory_s: FloatArray
    work_s: FloatArray
    launch_s: FloatArray
    by_kernels: BoolArray | None = None

    @property
    def time_s(self) -> FloatArray:
        """Work and launch of each node."""
        return np.asarray(self.work_s + self.launch_s)

    @property
    def roofline_s(self) -> float:
        """Sum of the rooflines of all nodes."""
        return float(np.maximum(self.compute_s, self.memory_s).sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class StepExplanation:
    """How the time of a step on one accelerator came about.

    Parameters
    ----------
    stages : tuple of Stage
        From the roofline to the prediction.
    nearest : tuple of MeasuredPoint
        Best first.
    """

    stages: tuple[Stage, ...]
    nodes: NodeParts
    nearest: tuple[MeasuredPoint, ...] = ()


def parts_of_nodes(workload: Workload, work_s: FloatArray, launch_s: FloatArray) -> NodeParts:
    """Return the parts of the nodes of a workload whose operators are launched one by one.

    Parameters
    ----------
    work_s, launch_s : ndarray, shape (nodes,)
    """
    table = node_table(workload.graph)
    roofline = node_roofline(workload)
    return NodeParts(
        flops=np.asarray(table.cost.flops, dtype=np.float64),
        moved_bytes=table.traffic_bytes,
        compute_s=roofline.compute_s,
        memory_s=roofline.memory_s,
        work_s=work_s,
        launch_s=launch_s,
    )
