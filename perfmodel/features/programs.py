"""Inference that an accelerator runs as one program, out of memory on its chip.

NPUs and TPUs compile a whole graph: no host calls its operators, what they hand to each other
stays on the chip, vectors are worked on beside products, and parameters have been cast to the type
of the products. What is left to wait for is products, and what comes from outside.
"""

from __future__ import annotations

import numpy as np

from perfmodel.features.arrays import BoolArray, FloatArray
from perfmodel.features.nodes import node_table
from perfmodel.graph.ir import Graph
from perfmodel.graph.workload import Workload
from perfmodel.types import Compiler, Mode, Precision

#: Share of their roofline that such programs reach: of 405 published steps of encoders, GPT-2 and
#: ResNet-50 on two NPUs 0.42 and 0.37 in geometric mean (docs/adr/0067).
PROGRAM_EFFICIENCY = 0.4

_WIDE = (Precision.FP32, Precision.TF32)


def is_program(workload: Workload) -> bool:
    """Tell whether one program runs a whole step; TPUs run nothing else."""
    kind = workload.accelerator.kind
    compiled = kind == "tpu" or (kind == "npu" and workload.compiler is not Compiler.EAGER)
    return compiled and workload.mode is Mode.INFERENCE


def outside_bytes(workload: Workload) -> FloatArray:
    """Return what each node reads that no other wrote: parameters, buffers and inputs.

    Returns
    -------
    ndarray, shape (nodes,)
        Bytes, never more than the node has to move: of a table of words the rows looked up.
    """
    table = node_table(workload.graph)
    sizes = table.size_bytes
    if workload.precision not in _WIDE:
        sizes = np.where(_is_wide(workload.graph), sizes / 2, sizes)
    read = table.flow.in_writer < 0
    found = np.bincount(
        table.flow.in_node[read],
        weights=sizes[table.flow.in_tensor[read]],
        minlength=table.node_count,
    )
    return np.minimum(found, table.traffic_bytes)


def _is_wide(graph: Graph) -> BoolArray:
    kinds = graph.kinds
    wide = np.array([graph.tensors[one].dtype == "float32" for one in kinds.first_tensors])
    return np.asarray(wide[np.array(kinds.tensors, dtype=np.int64)])
