"""The work of traced operators, and how near to the roofline of their device they came."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.graph.cost import cost_table
from perfmodel.graph.ir import Graph
from perfmodel.traces.analysis.operators import TracedOperator
from perfmodel.traces.operator_graphs import UncalledError, operator_graph
from perfmodel.types import Engine, Precision

#: How kernels that compute fp32 on TF32 units call themselves: cuBLAS, CUTLASS and cuDNN name the
#: type or the shape of the instruction.
_TF32 = re.compile(r"tf32|s1688(?:gemm|fprop|dgrad|wgrad|cudnn|_)|s884(?:cudnn|gemm)_tf")
_PRECISIONS: Mapping[str, Precision] = {
    "float16": Precision.FP16, "bfloat16": Precision.BF16, "int8": Precision.INT8,
    "float8_e4m3fn": Precision.FP8, "float8_e5m2": Precision.FP8,
    "float8_e4m3fnuz": Precision.FP8, "float8_e5m2fnuz": Precision.FP8,
}  # fmt: skip
#: Arithmetic in them is not described by a precision; scalars of them are mere numbers.
_UNRATED = frozenset({"float64", "complex64", "complex128"})
#: Rate over peak beyond which a time is not believed; clocks and published peaks differ by less.
_BELIEVED = 1.05
#: Calls are made again one by one; a step has a few hundred different ones.
_MOST_PRICED = 3000


@dataclass(frozen=True, kw_only=True)
class PricedOperator:
    """A traced operator with its work.

    Parameters
    ----------
    graph : Graph or None
        Of one call; None where it could not be priced.
    flops, size_bytes : float or None
        Of one call: operations, and compulsory traffic.
    roofline_s, arithmetic_s : float or None
        Least time of one call on the device, and that of its arithmetic alone; None without a
        device or a price.
    reason : str
        Why there is no price; empty where there is one.
    """

    operator: TracedOperator
    precision: Precision
    graph: Graph | None = None
    flops: float | None = None
    size_bytes: float | None = None
    roofline_s: float | None = None
    arithmetic_s: float | None = None
    reason: str = ""

    @property
    def told_precision(self) -> Precision | None:
        """Its arithmetic where types of operands, or names of kernels, tell it."""
        arguments = self.operator.arguments
        told = arguments is not None and any(tensor.dtype for tensor in arguments.tensors)
        return self.precision if told or self.precision is not Precision.FP32 else None

    @property
    def flops_per_s(self) -> float | None:
        """Achieved rate."""
        return self._rate(self.flops)

    @property
    def bytes_per_s(self) -> float | None:
        """Achieved compulsory traffic."""
        return self._rate(self.size_bytes)

    @property
    def roofline_share(self) -> float | None:
        """Least over measured time."""
        return self._rate(self.roofline_s)

    @property
    def peak_share(self) -> float | None:
        """Achieved over peak arithmetic."""
        return self._rate(self.arithmetic_s)

    @property
    def beyond_peak(self) -> bool:
        """Whether it computed more than the device can: its time, type or device is mistaken.

        More traffic than memory has is no mistake: caches keep operands.
        """
        share = self.peak_share
        return share is not None and share > _BELIEVED

    def _rate(self, amount: float | None) -> float | None:
        time_s = self.operator.time_per_call_s
        return amount / time_s if amount is not None and time_s > 0 else None


def priced_operators(
    operators: Sequence[TracedOperator], device: AcceleratorSpec | None
) -> tuple[PricedOperator, ...]:
    """Return operators with their work, in the same order.

    Parameters
    ----------
    operators : sequence of TracedOperator
        Longest first: beyond some thousands they are not priced.

    Raises
    ------
    MissingExtraError
        torch is absent.
    """
    return tuple(
        priced_operator(one, device)
        if i < _MOST_PRICED
        else unpriced(one, "the trace has too many different calls")
        for i, one in enumerate(operators)
    )


def unpriced(operator: TracedOperator, reason: str) -> PricedOperator:
    """Return an operator whose work is not known, with the reason."""
    return PricedOperator(operator=operator, precision=precision_of(operator), reason=reason)


def priced_operator(operator: TracedOperator, device: AcceleratorSpec | None) -> PricedOperator:
    """Return one operator with its work."""
    if not operator.op:
        return unpriced(operator, "no formula prices this operator")
    try:
        graph = operator_graph(
            operator.name,
            operator.arguments,
            operator.phase,
            is_one_kernel=operator.kernels == operator.calls,
        )
    except UncalledError as error:
        return unpriced(operator, str(error))
    table = cost_table(graph)
    if table.unpriced or not len(graph.nodes):
        names = ", ".join(table.unpriced) or "nothing"
        return unpriced(operator, f"it runs {names}, which has no formula")
    if any(t.dtype in _UNRATED and t.shape for node in graph.nodes for t in graph.inputs_of(node)):
        return unpriced(operator, "no rates are known for the type that it computes in")
    precision = precision_of(operator)
    return PricedOperator(
        operator=operator,
        precision=precision,
        graph=graph,
        flops=float(table.flops.sum()),
        size_bytes=float(table.bytes_read.sum() + table.bytes_written.sum()),
        roofline_s=None if device is None else roofline_s(graph, device, precision),
        arithmetic_s=None if device is None else sum(_arithmetic_s(graph, device, precision)),
    )


def roofline_s(graph: Graph, device: AcceleratorSpec, precision: Precision) -> float:
    """Return the least time of a graph: of each node the longer of arithmetic and traffic."""
    table = cost_table(graph)
    traffic = (table.bytes_read + table.bytes_written) / device.bandwidth_bytes_per_s
    least: float = sum(map(max, _arithmetic_s(graph, device, precision), traffic.tolist()))
    return least


def _arithmetic_s(graph: Graph, device: AcceleratorSpec, precision: Precision) -> list[float]:
    """Return the least time of the arithmetic of each node."""
    table = cost_table(graph)
    matrix, vector = (
        device.flops_per_s(precision, engine) for engine in (Engine.MATRIX, Engine.VECTOR)
    )
    return [
        flops / (matrix if is_matrix else vector)
        for flops, is_matrix in zip(
            table.flops.tolist(), table.engine_is_matrix.tolist(), strict=True
        )
    ]


def precision_of(operator: TracedOperator) -> Precision:
    """Return the arithmetic of a call: that of its narrowest operand; TF32 where kernels say so."""
    tensors = operator.arguments.tensors if operator.arguments is not None else ()
    narrow = [_PRECISIONS[t.dtype] for t in tensors if t.dtype in _PRECISIONS]
    if narrow:
        order = (Precision.FP8, Precision.INT8, Precision.FP16, Precision.BF16)
        return min(narrow, key=order.index)
    named = any(_TF32.search(name) for name in operator.kernel_names)
    return Precision.TF32 if named else Precision.FP32
