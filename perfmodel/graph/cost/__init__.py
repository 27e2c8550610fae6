"""Costs of operators: one register of pure formulas, and tables of them for whole graphs."""

from __future__ import annotations

from perfmodel.graph.cost import (
    attention,
    convolution,
    elementwise,
    indexing,
    matmul,
    movement,
    normalization,
    optimizer,
    pooling,
    recurrent,
    reduction,
)
from perfmodel.graph.cost.cost_table import CostTable, cost_of, cost_table

#: Modules whose import fills the register, one per kind of operator.
FORMULA_MODULES = (
    attention, convolution, elementwise, indexing, matmul, movement, normalization, optimizer,
    pooling, recurrent, reduction,
)  # fmt: skip

__all__ = ["FORMULA_MODULES", "CostTable", "cost_of", "cost_table"]
