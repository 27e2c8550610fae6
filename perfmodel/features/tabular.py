"""One row of named columns per workload.

Totals enter as logarithms and everything else as shares of the roofline time, so that a deeper
or a wider network of the same make lies near its relatives. The columns are a schema: an
artefact stores their names, and refuses to answer when the code computes others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.features.nodes import OP_CLASSES, PHASES, STATIC_COLUMNS, NodeTable, node_table
from perfmodel.features.roofline import SETTING_COLUMNS, NodeRoofline, node_roofline, settings
from perfmodel.graph.ir import Graph
from perfmodel.graph.workload import Workload
from perfmodel.types import Role

#: Raised when the meaning of a column changes; part of the schema.
SCHEMA_VERSION = 1

#: Node columns averaged over the roofline time of the contractions of a graph.
_CONTRACTION_MEANS = (
    "log_flops", "log_moved_bytes", "log_intensity", "log_gemm_m", "log_gemm_n", "log_gemm_k",
    "log_channels_in", "log_channels_out", "log_kernel_area", "stride", "depthwise",
    "log_groups", "log_spatial_out", "matrix_engine",
)  # fmt: skip
#: Node columns averaged over the roofline time of everything else.
_OTHER_MEANS = (
    "log_moved_bytes", "log_output", "log_last_extent", "log_reduction", "in_place",
    "log_fresh_bytes", "reordered_inputs", "log_largest_reuse", "recent_share_20",
    "recent_share_24", "recent_share_26",
)  # fmt: skip
_CONTRACTIONS = ("matmul", "convolution", "attention", "recurrent")
#: Nodes with a roofline below these limits are bound by their overhead.
_SHORT_S = (1e-6, 1e-5, 1e-4, 1e-3)
_ROLES = (Role.PARAMETER, Role.BUFFER, Role.ACTIVATION, Role.GRADIENT, Role.OPTIMIZER_STATE)
_TICK_S = 1e-9

COLUMNS: tuple[str, ...] = (
    "log_roofline_s", "log_bound_s", "log_compute_s", "log_memory_s", "log_flops",
    "log_traffic_bytes", "log_nodes", "log_launches", "log_batch", "unpriced_share",
    *(f"log_bytes_{role.value}" for role in _ROLES),
    *(f"time_share_{phase.value}_{c.value}" for phase in PHASES for c in OP_CLASSES),
    *(f"node_share_{c.value}" for c in OP_CLASSES),
    *(f"contraction_{name}" for name in _CONTRACTION_MEANS),
    *(f"other_{name}" for name in _OTHER_MEANS),
    *(f"share_below_1e{int(np.log10(limit))}_s" for limit in _SHORT_S),
    "memory_bound_share", "log_mean_launch_s",
    *SETTING_COLUMNS,
)  # fmt: skip


def workload_row(workload: Workload) -> FloatArray:
    """Return the named columns of one workload.

    Returns
    -------
    ndarray, shape (len(COLUMNS),)
        Finite.
    """
    kept = workload.__dict__.get("_tabular_row")
    if kept is not None:
        return np.asarray(kept)
    table, roofline = node_table(workload.graph), node_roofline(workload)
    row = np.concatenate(
        [
            _totals(workload, table, roofline),
            _shares(table, roofline.roofline_s),
            _means(table, roofline.roofline_s),
            _shortness(table, roofline),
            settings(workload),
        ]
    )
    workload.__dict__["_tabular_row"] = row
    return row


def workload_rows(workloads: Sequence[Workload]) -> FloatArray:
    """Return one row per workload, shape (workloads, len(COLUMNS))."""
    if not workloads:
        return np.zeros((0, len(COLUMNS)))
    return np.stack([workload_row(workload) for workload in workloads])


def _log(value: float) -> float:
    return float(np.log2(value + _TICK_S))


def _totals(workload: Workload, table: NodeTable, roofline: NodeRoofline) -> list[float]:
    graph, nodes = workload.graph, table.node_count
    unpriced = np.count_nonzero(~np.asarray(table.cost.priced))
    return [
        _log(roofline.roofline_s.sum()),
        _log(roofline.bound_s.sum()),
        _log(roofline.compute_s.sum()),
        _log(roofline.memory_s.sum()),
        float(np.log2(1.0 + np.asarray(table.cost.flops).sum())),
        float(np.log2(1.0 + table.traffic_bytes.sum())),
        float(np.log2(1.0 + nodes)),
        float(np.log2(1.0 + np.count_nonzero(~table.is_view))),
        float(np.log2(workload.batch_size)),
        unpriced / max(1, nodes),
        *np.log2(1.0 + _role_bytes(graph)).tolist(),
    ]


def _role_bytes(graph: Graph) -> FloatArray:
    """Bytes of distinct storages by the role of their first tensor, for ``_ROLES``."""
    kept = graph.__dict__.get("_role_bytes")
    if kept is None:
        kept = np.array([float(graph.storage_bytes(role)) for role in _ROLES])
        graph.__dict__["_role_bytes"] = kept
    return np.asarray(kept)


def _shares(table: NodeTable, time_s: FloatArray) -> list[float]:
    classes, count = np.asarray(table.cost.op_class, dtype=np.int64), len(OP_CLASSES)
    cell = np.asarray(table.cost.phase, dtype=np.int64) * count + classes
    by_cell = np.bincount(cell, weights=time_s, minlength=count * len(PHASES))
    by_class = np.bincount(classes, minlength=count)
    return [
        *(by_cell / max(time_s.sum(), _TICK_S)).tolist(),
        *(by_class / max(1, table.node_count)).tolist(),
    ]


def _means(table: NodeTable, time_s: FloatArray) -> list[float]:
    codes = [code for code, c in enumerate(OP_CLASSES) if c.value in _CONTRACTIONS]
    contraction = np.isin(np.asarray(table.cost.op_class), codes)
    means: list[float] = []
    for chosen, names in ((contraction, _CONTRACTION_MEANS), (~contraction, _OTHER_MEANS)):
        columns = [STATIC_COLUMNS.index(name) for name in names]
        weight = np.where(chosen, time_s, 0.0)
        total = max(float(weight.sum()), _TICK_S)
        means.extend((weight @ table.static[:, columns].astype(np.float64) / total).tolist())
    return means


def _shortness(table: NodeTable, roofline: NodeRoofline) -> list[float]:
    launches = ~table.is_view
    times = roofline.roofline_s[launches]
    count = max(1, len(times))
    memory_bound = roofline.memory_s > roofline.compute_s
    total = max(float(roofline.roofline_s.sum()), _TICK_S)
    return [
        *(float(np.count_nonzero(times < limit)) / count for limit in _SHORT_S),
        float(roofline.roofline_s[memory_bound].sum()) / total,
        _log(float(times.sum()) / count),
    ]
