"""The work of the nodes of a step, as far as single kernels like theirs were measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.sketch import step_sketch
from perfmodel.features.steps.step_table import FUSING
from perfmodel.graph.workload import Workload
from perfmodel.predictors.explanation import NodeParts
from perfmodel.predictors.kernels.kernel_times import KernelModel
from perfmodel.predictors.kernels.step_kernels import step_kernels


def with_kernels(workload: Workload, nodes: NodeParts, model: KernelModel) -> NodeParts:
    """Return parts of nodes in which learned kernels stand for the work.

    What a compiler fuses runs no kernels of its own: those steps stay as they are. So do nodes
    whose kernels were not learned on several devices of the maker.
    """
    if workload.compiler in FUSING:
        return nodes
    sketch, spec = step_sketch(workload.graph), workload.accelerator
    found = step_kernels(model, sketch, spec, spec.computed_as(workload.precision))
    row = sketch.class_of_node

    def each(of_row: FloatArray) -> FloatArray:
        return np.append(of_row, 0.0)[row]

    learned = each(found.carries_over.astype(np.float64)) > 0
    work_s = np.where(learned, each(found.time_s), nodes.work_s)
    return replace(nodes, work_s=work_s, by_kernels=learned)
