"""Sums over the nodes of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfmodel.graph.cost import cost_table
from perfmodel.graph.cost.base import OpClass
from perfmodel.graph.ir import Graph
from perfmodel.types import Phase


@dataclass(frozen=True)
class Totals:
    flops: float
    bytes_read: float
    bytes_written: float
    flops_by_phase: Mapping[Phase, float]
    flops_by_class: Mapping[OpClass, float]
    unpriced: Mapping[str, int]


def totals(graph: Graph) -> Totals:
    table = cost_table(graph)
    return Totals(
        flops=float(table.flops.sum()),
        bytes_read=float(table.bytes_read.sum()),
        bytes_written=float(table.bytes_written.sum()),
        flops_by_phase={p: float(table.flops[table.phase == c].sum()) for c, p in enumerate(Phase)},
        flops_by_class={
            k: float(table.flops[table.op_class == c].sum()) for c, k in enumerate(OpClass)
        },
        unpriced=table.unpriced,
    )
