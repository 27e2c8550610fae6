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
from perfmodel.types import Compiler, Mode

#: What is answered rests on it where no model has learned of an accelerator.
PROGRAM_BASIS = "one efficiency, fitted to published inference on two NPUs"
#: Share of their roofline that such programs reach: of 405 published steps of encoders, GPT-2 and
#: ResNet-50 on two NPUs 0.42 and 0.37 in geometric mean (docs/adr/0067).
PROGRAM_EFFICIENCY = 0.4
#: Time of the host to call one, in seconds: that of an operator elsewhere (docs/adr/0067).
PROGRAM_CALL_S = 30e-6


def is_program(workload: Workload) -> bool:
    """Tell whether one program runs a whole step; TPUs run nothing else."""
    kind = workload.accelerator.kind
    compiled = kind == "tpu" or (kind == "npu" and workload.compiler is not Compiler.EAGER)
    return compiled and workload.mode is Mode.INFERENCE


def outside_bytes(graph: Graph) -> tuple[FloatArray, FloatArray]:
    """Return what each node reads that no other wrote: parameters, buffers and inputs.

    Returns
    -------
    ndarray, shape (nodes,)
        Bytes as they lie there, and those of them that are fp32: programs in 16 bits have cast
        these before.
    """
    table = node_table(graph)
    read = table.flow.in_writer < 0
    nodes, tensors = table.flow.in_node[read], table.flow.in_tensor[read]
    found = np.zeros((2, table.node_count))
    np.add.at(found[0], nodes, table.size_bytes[tensors])
    np.add.at(found[1], nodes, np.where(_is_wide(graph), table.size_bytes, 0.0)[tensors])
    return found[0], found[1]


def _is_wide(graph: Graph) -> BoolArray:
    kinds = graph.kinds
    wide = np.array([graph.tensors[one].dtype == "float32" for one in kinds.first_tensors], bool)
    return np.asarray(wide[np.array(kinds.tensors, dtype=np.int64)])
