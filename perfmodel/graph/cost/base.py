"""The register of cost formulas.

A cost is a pure function of an operator's tensors and attributes; a handful of lines each, in
the file of its operator class. An operator without a formula is *unpriced*: it has no cost, it
is listed by name, and it is never counted as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from perfmodel.graph.node import AttrValue, Tensor
from perfmodel.types import Engine


class OpClass(StrEnum):
    """Operators that behave alike on hardware; a categorical feature of the predictors."""

    MATMUL = "matmul"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    RECURRENT = "recurrent"
    NORMALIZATION = "normalization"
    SOFTMAX = "softmax"
    POOLING = "pooling"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    MOVEMENT = "movement"  # copies, casts, concatenation, transposition that materialises
    INDEXING = "indexing"  # gather, scatter, embedding, sort, top-k
    RESAMPLING = "resampling"  # interpolation, grid sample
    CREATION = "creation"  # fills, random numbers
    OPTIMIZER = "optimizer"  # fused and for-each optimizer updates
    VIEW = "view"  # metadata only: no work on the device
    OTHER = "other"


#: Classes whose operators are products, which matrix units compute.
PRODUCTS = (OpClass.MATMUL, OpClass.CONVOLUTION, OpClass.ATTENTION, OpClass.RECURRENT)


@dataclass(frozen=True, slots=True)
class Cost:
    """Work of one operator call.

    Parameters
    ----------
    flops : float
        Floating-point operations; a multiply-add counts 2.
    bytes_read, bytes_written : float
        Compulsory traffic: each operand read once, each result written once.
    """

    flops: float
    bytes_read: float
    bytes_written: float
    engine: Engine = Engine.VECTOR


Tensors = tuple[Tensor, ...]
Attrs = Mapping[str, AttrValue]
#: From the operands, the results and the attributes of a call to its cost.
Formula = Callable[[Tensors, Tensors, Attrs], Cost]


@dataclass(frozen=True, slots=True)
class CostEntry:
    """One entry of the register: class and formula of an operator."""

    op_class: OpClass
    formula: Formula


REGISTER: dict[str, CostEntry] = {}


def register(*ops: str, op_class: OpClass) -> Callable[[Formula], Formula]:
    """Enter a formula for operators under their :attr:`Node.op` names.

    Parameters
    ----------
    *ops : str
        Operator names; an in-place form (trailing ``_``) is entered with its plain form.

    Raises
    ------
    ValueError
        An operator that already has a formula.
    """

    def enter(formula: Formula) -> Formula:
        for op in ops:
            for name in (op, f"{op}_"):
                if name in REGISTER:
                    raise ValueError(f"Operator {name!r} has two cost formulas.")
                REGISTER[name] = CostEntry(op_class, formula)
        return formula

    return enter


def register_weights(
    weights: Mapping[str, int],
    *,
    op_class: OpClass,
    elements: Callable[[Tensors, Tensors], int],
) -> None:
    """Enter operators that do so many operations an element, each operand streamed once.

    Parameters
    ----------
    elements : callable
        Counts the elements that matter among operands and results.
    """

    def weighing(weight: int) -> Formula:
        return lambda ins, outs, attrs: streamed(weight * elements(ins, outs), ins, outs)

    for op, weight in weights.items():
        register(op, op_class=op_class)(weighing(weight))


def weights_of(groups: Mapping[int, str]) -> Mapping[str, int]:
    """Return the operations an element of each operator, given the operators of each number."""
    return {op: weight for weight, ops in groups.items() for op in ops.split()}


def bytes_of(tensors: Tensors) -> int:
    """Return the dense bytes of some tensors together."""
    return sum(t.size_bytes for t in tensors)


def elements_of(tensors: Tensors) -> int:
    """Return the elements of some tensors together."""
    return sum(t.element_count for t in tensors)


def largest_of(tensors: Tensors) -> int:
    """Return the elements of the largest of some tensors; 0 where there is none."""
    return max((t.element_count for t in tensors), default=0)


def streamed(
    flops: float, inputs: Tensors, outputs: Tensors, engine: Engine = Engine.VECTOR
) -> Cost:
    """Price an operator that reads every input once and writes every output once."""
    return Cost(float(flops), float(bytes_of(inputs)), float(bytes_of(outputs)), engine)
