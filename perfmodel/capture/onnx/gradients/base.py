"""One forward node as its backward rule sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from perfmodel.capture.onnx.builder import NAME_MARK, GraphBuilder, Spec, Value, onnx_node_name
from perfmodel.graph.ir import AttrValue, Node

_NONE: Mapping[str, AttrValue] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Backward:
    """A forward node, the gradients of its outputs, and the pen to write with.

    Parameters
    ----------
    grads : tuple of Value or None
        Gradient of each output; None where the loss does not depend on it.
    wanted : tuple of bool
        Which inputs need a gradient.
    made_by : dict of int to Node
        Producer of each tensor of the forward pass.
    """

    node: Node
    grads: tuple[Value | None, ...]
    wanted: tuple[bool, ...]
    builder: GraphBuilder
    made_by: dict[int, Node]

    @property
    def grad(self) -> Value:
        """Gradient of the first output, which is there for every operator but splits."""
        grad = self.grads[0]
        if grad is None:
            out = self.output(0)
            return self.emit("zeros", [], out.shape, out.dtype, size=out.shape)
        return grad

    def input(self, position: int) -> Value:
        """Return a forward input."""
        return self._value(self.node.inputs[position])

    def output(self, position: int) -> Value:
        """Return a forward output."""
        return self._value(self.node.outputs[position])

    @property
    def inputs(self) -> list[Value]:
        """All forward inputs."""
        return [self._value(i) for i in self.node.inputs]

    def attr_ints(self, name: str) -> tuple[int, ...]:
        """Return an integer or a tuple of integers, always as a tuple."""
        value = self.node.attrs.get(name, ())
        items = value if isinstance(value, tuple) else (value,)
        return tuple(v for v in items if isinstance(v, int))

    def emit(
        self,
        op: str,
        inputs: Sequence[Value | None],
        shape: Sequence[int],
        dtype: str | None = None,
        *,
        carried: Mapping[str, AttrValue] = _NONE,
        **attrs: AttrValue,
    ) -> Value:
        """Write a node with one result, by default of the first input's type.

        ``carried`` are attributes taken over from the forward node.
        """
        chosen = dtype or next((v.dtype for v in inputs if v is not None), "float32")
        return self.emit_many(op, inputs, [(tuple(shape), chosen)], carried=carried, **attrs)[0]

    def emit_many(
        self,
        op: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[Spec],
        *,
        carried: Mapping[str, AttrValue] = _NONE,
        **attrs: AttrValue,
    ) -> list[Value]:
        """Write a node with several results."""
        return self.builder.emit(op, inputs, outputs, {**carried, **attrs}, name=self._name)

    def view(
        self,
        op: str,
        value: Value,
        shape: Sequence[int],
        *,
        carried: Mapping[str, AttrValue] = _NONE,
        **attrs: AttrValue,
    ) -> Value:
        """Write a node whose result shares its input's storage."""
        spec = (tuple(shape), value.dtype)
        both = {**carried, **attrs}
        return self.builder.emit(op, [value], [spec], both, name=self._name, view=True)[0]

    def viewed(self, value: Value, shape: Sequence[int]) -> Value:
        """Write a view of another shape; none where the shape is right already."""
        if value.shape == tuple(shape):
            return value
        return self.view("view", value, shape, size=tuple(shape))

    def cast(self, value: Value, dtype: str) -> Value:
        """Write a copy in another type; none where the type is right already."""
        if value.dtype == dtype:
            return value
        spec = (value.shape, dtype)
        return self.builder.emit("_to_copy", [value], [spec], {"dtype": dtype}, name=self._name)[0]

    def summed_to(self, grad: Value, shape: tuple[int, ...]) -> Value:
        """Write the sum over axes along which an operand was broadcast."""
        if grad.shape == shape:
            return grad
        lead = grad.rank - len(shape)
        dim = tuple(range(lead)) + tuple(
            lead + a for a, e in enumerate(shape) if e == 1 and grad.shape[lead + a] != 1
        )
        if dim:
            kept = tuple(1 if a in dim else e for a, e in enumerate(grad.shape))
            grad = self.emit("sum", [grad], kept, dim=dim, keepdim=True)
        return self.viewed(grad, shape)

    def zeros(self, shape: Sequence[int], dtype: str) -> Value:
        """Write a tensor of zeros."""
        return self.emit("zeros", [], shape, dtype, size=tuple(shape))

    @property
    def _name(self) -> str:
        return f"{onnx_node_name(self.node.name)}{NAME_MARK}backward"

    def _value(self, index: int) -> Value:
        tensor = self.builder.tensors[index]
        return Value(tensor.shape, tensor.dtype, index)


Gradient = Callable[[Backward], "Value | Sequence[Value | None]"]

#: Backward rules by forward operator; each returns the gradients of the inputs, in order.
GRADIENTS: dict[str, Gradient] = {}


def differentiates(*ops: str) -> Callable[[Gradient], Gradient]:
    """Enter a backward rule for forward operators."""

    def enter(rule: Gradient) -> Gradient:
        for op in ops:
            if op in GRADIENTS:
                raise ValueError(f"Operator {op!r} has two backward rules.")
            GRADIENTS[op] = rule
        return rule

    return enter
