"""Costs of operators: one register of pure formulas, and tables of them for whole graphs."""

from __future__ import annotations

from perfmodel.graph.cost import (
    attention,
    convolution,
    creation,
    elementwise,
    factorization,
    indexing,
    matmul,
    movement,
    normalization,
    optimizer,
    pooling,
    recurrent,
    reduction,
    resampling,
    sequence_loss,
    spectral,
    view,
)
from perfmodel.graph.cost.table import (
    CostTable,
    CostTotals,
    cost_of,
    cost_table,
    totals,
    unpriced,
)

#: Modules whose import fills the register, one per kind of operator.
FORMULA_MODULES = (
    attention, convolution, creation, elementwise, factorization, indexing, matmul, movement,
    normalization, optimizer, pooling, recurrent, reduction, resampling, sequence_loss,
    spectral, view,
)  # fmt: skip

__all__ = [
    "FORMULA_MODULES",
    "CostTable",
    "CostTotals",
    "cost_of",
    "cost_table",
    "totals",
    "unpriced",
]
