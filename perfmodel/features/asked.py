"""What a question is about: one operator alone, or a whole step.

They are two populations. What an operator takes alone no neighbour averages out, so answers about
it are less sure than those about steps of hundreds of them.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.sketch import StepSketch
from perfmodel.graph.cost import cost_table
from perfmodel.graph.cost.base import OpClass
from perfmodel.graph.ir import Graph
from perfmodel.types import Phase

#: Share of the traffic of the largest call of a forward pass below which one only counts things.
_COUNTER = 0.01
_FORWARD = tuple(Phase).index(Phase.FORWARD)
_REDUCTION = tuple(OpClass).index(OpClass.REDUCTION)

CodeArray = npt.NDArray[np.int8]


class Asked(StrEnum):
    """What is asked about."""

    OPERATOR = "operator alone"
    STEP = "whole step"

    @classmethod
    def of(cls, graph: Graph) -> Asked:
        """Return what a graph stands for.

        Of the forward pass neither counters nor reductions count, as the loss of a training step
        is one.
        """
        table = cost_table(graph)
        moved = np.where(table.priced, table.bytes_read + table.bytes_written, np.inf)
        return cls._of_calls(moved, np.ones(len(moved)), table.phase, table.op_class)

    @classmethod
    def of_sketch(cls, sketch: StepSketch) -> Asked:
        """Return what the graph of a sketch stands for."""
        moved = np.where(sketch.priced, sketch.traffic_bytes, np.inf)
        return cls._of_calls(moved, sketch.count, sketch.phase, sketch.op_class)

    @classmethod
    def _of_calls(
        cls, moved: FloatArray, count: FloatArray, phase: CodeArray, op_class: CodeArray
    ) -> Asked:
        """Look at the bytes that calls move; infinitely many where that is not known."""
        forward = phase == _FORWARD
        largest = np.max(moved, where=forward & np.isfinite(moved), initial=0.0)
        works = forward & (moved > _COUNTER * largest) & (op_class != _REDUCTION)
        return cls.OPERATOR if count[works].sum() <= 1 else cls.STEP
