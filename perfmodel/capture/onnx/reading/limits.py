"""How much an ONNX file may ask of the process that reads it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class OnnxLimits:
    """Bounds on an ONNX file; past any of them it is refused, not tried.

    The defaults keep the worst file under 2 s and 512 MB, and let a transformer of several
    billion parameters through.

    Parameters
    ----------
    max_file_bytes : int
        Size of the file; weights are mapped, not read, so this may be large.
    max_fields : int
        Protobuf fields of the structure (nodes, names, attributes), weights not counted.
    max_nodes : int
        Operator calls after functions, branches and loops are unrolled.
    max_edges : int
        Inputs, outputs and elements of list attributes of those calls together.
    max_graph_nodes : int
        Nodes of the resulting Graph, backward pass included.
    max_nesting : int
        Depth of subgraphs within subgraphs and functions within functions.
    max_attribute_items : int
        Elements of one list attribute.
    max_text_bytes : int
        Length of one name or string attribute, and of a name with those of the functions around
        it.
    max_attributes : int
        Attributes of one node, imported operator sets of the file or of one function.
    max_constant_elements : int
        Elements of a tensor whose *values* are kept or computed (shape arithmetic).
    max_rank : int
        Dimensions of one tensor.
    max_tensor_bytes : int
        Dense size of one tensor, declared or computed; it is never allocated.
    """

    max_file_bytes: int = 2 * 1024**3
    max_fields: int = 500_000
    max_nodes: int = 12_000
    max_edges: int = 1_000_000
    max_graph_nodes: int = 80_000
    max_nesting: int = 16
    max_attribute_items: int = 65_536
    max_text_bytes: int = 1_024
    max_attributes: int = 256
    max_constant_elements: int = 1_024
    max_rank: int = 16
    max_tensor_bytes: int = 2**40
