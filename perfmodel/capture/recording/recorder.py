"""The dispatch mode that writes down every operator of a step and runs none of them.

Operators on meta tensors propagate shapes only. Tensors that live on the CPU during a capture
are constants of the program (step counters, index ranges): as long as an operator reads nothing
else it is computed, so that ``.item()`` on a constant works; where a constant meets a meta
tensor, its shape goes on alone.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from perfmodel.capture.recording.quick_shapes import keeps_geometry
from perfmodel.capture.recording.shapes import LAYOUT_RULES, SHAPE_RULES, shape_memory
from perfmodel.capture.recording.signature import Signature, signature_of
from perfmodel.capture.recording.tracking import Geometry, TensorTable
from perfmodel.errors import CaptureBudgetError, CaptureError
from perfmodel.graph.ir import AttrValue, Graph, Node, make_node
from perfmodel.types import Phase, Role

#: A factory call for more elements than this makes shapes only, even when it asks for the CPU.
LARGEST_CONSTANT = 1 << 16

_ALLOCATIONS = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
_META = torch.device("meta")

#: Operators that bring a value to the host.
VALUE_READS = frozenset({"_local_scalar_dense", "is_nonzero", "equal"})


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records operators, tensors and phases of one step.

    Parameters
    ----------
    most_nodes : int or None
        Operators that may be recorded; None: any number.

    Notes
    -----
    Enter it as a context, run the step, then ask for :meth:`graph`.
    """

    def __init__(self, *, most_nodes: int | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._most_nodes = sys.maxsize if most_nodes is None else most_nodes
        self.table = TensorTable()
        self.phase = Phase.FORWARD
        self.module_path = ""
        self._shapes = shape_memory()
        self._geometry = self._shapes.geometries.of
        self._nodes: list[Node] = []
        self._name_of_sequence: dict[int, str] = {}

    def enter(self, tensor: torch.Tensor, role: Role) -> None:
        """Enter a tensor that the step is given."""
        self.table.read(tensor, self._geometry(tensor), role)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Tell PyTorch that its compiler need not be kept away from each single call.

        It does not run during a capture, and switching it off and on again for every operator
        takes a tenth of what recording it does.
        """
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Record one operator call and answer with shapes."""
        kwargs = kwargs or {}
        signature = signature_of(func)
        if signature.is_transparent:
            return func(*args, **kwargs)
        read, written, attrs = signature.bind(args, kwargs)
        on_meta = [tensor.is_meta for tensor in read]
        if signature.op in VALUE_READS and True not in on_meta:
            # The host reads its own constant.
            return self._computed(func, args, kwargs, read, attrs)
        places = [self._geometry(tensor) for tensor in read]
        table = self.table
        inputs = tuple([table.read(t, place) for t, place in zip(read, places, strict=True)])
        if table.aliases:
            self._record_aliases()
        if True not in on_meta:
            result = self._computed(func, args, kwargs, read, attrs)
        elif False not in on_meta and signature.is_functional and signature.op not in SHAPE_RULES:
            if signature.op == "_to_copy" and "device" in kwargs:
                kwargs = {**kwargs, "device": _META}
            result, known = self._shapes.answer(func, args, kwargs, read, places, attrs)
            if known is not None:
                outputs = self._enter_fresh(result, known)
                self._append(signature.op, inputs, outputs, attrs)
                return result
        else:
            result = self._propagated(func, signature, args, kwargs, read, on_meta)
        outputs = self._enter_results(result, written)
        if signature.op == "_cudnn_rnn" or signature.op == "_cudnn_rnn_backward":
            self._append(_recurrent_name(signature.op, attrs), inputs, outputs, attrs)
        else:
            self._append(signature.op, inputs, outputs, attrs)
        return result

    def graph(self, source: Mapping[str, str]) -> Graph:
        """Return what was recorded, without allocations that nobody reads."""
        used = {index for node in self._nodes for index in node.inputs}
        nodes = tuple(
            [
                node
                for node in self._nodes
                if node.op not in _ALLOCATIONS or not used.isdisjoint(node.outputs)
            ]
        )
        return Graph(nodes=nodes, tensors=self.table.tensors(), source=dict(source))

    def _computed(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        read: list[torch.Tensor],
        attrs: Mapping[str, AttrValue],
    ) -> Any:
        """Run an operator on constants of the program, or make a tensor."""
        return func(*args, **_relocated(attrs, kwargs) if not read else kwargs)

    def _propagated(
        self,
        func: Any,
        signature: Signature,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        read: list[torch.Tensor],
        on_meta: list[bool],
    ) -> Any:
        """Propagate shapes through an operator that is not remembered."""
        rule = SHAPE_RULES.get(signature.op)
        if False in on_meta:
            return self._propagate_mixed(rule or LAYOUT_RULES.get(func, func), args, kwargs)
        if rule is not None:
            return rule(*args, **kwargs)
        if signature.is_view:
            return func(*args, **kwargs)
        if _only_writes_lists(func):
            return None
        if signature.op in VALUE_READS:
            return self._value(read[0])
        return args[0] if keeps_geometry(func, args) else func(*args, **kwargs)

    def _value(self, tensor: torch.Tensor) -> Any:
        if self.phase is Phase.OPTIMIZER:
            return placeholder(tensor)
        raise CaptureError(
            "The program asks for the value of a tensor (.item(), bool() or a branch on data), "
            "which is unknown while a step is captured by shape. Make the value a Python number "
            "or remove the branch."
        )

    def _propagate_mixed(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        shadows: dict[int, torch.Tensor] = {}
        shaped = func(*_on_meta(args, shadows), **_on_meta(dict(kwargs), shadows))
        return _originals(shaped, shadows)

    def _enter_fresh(self, result: Any, geometries: tuple[Geometry | None, ...]) -> tuple[int, ...]:
        if isinstance(result, torch.Tensor):
            return (self.table.produce(result, geometries[0]),)  # type: ignore[arg-type]
        produce = self.table.produce
        pairs = zip(result, geometries, strict=True)
        return tuple([produce(tensor, place) for tensor, place in pairs if place is not None])

    def _enter_results(self, result: Any, written: list[torch.Tensor]) -> tuple[int, ...]:
        table, geometry = self.table, self._geometry
        if not written and isinstance(result, torch.Tensor):
            return (table.produce(result, geometry(result)),)
        pending = {id(tensor): tensor for tensor in written}
        outputs: list[int] = []
        for tensor in _tensors_of(result):
            if pending.pop(id(tensor), None) is not None:
                outputs.append(table.write(tensor, geometry(tensor)))
            else:
                outputs.append(table.produce(tensor, geometry(tensor)))
        outputs.extend([table.write(tensor, geometry(tensor)) for tensor in pending.values()])
        return tuple(outputs)

    def _append(
        self,
        op: str,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        attrs: Mapping[str, AttrValue],
    ) -> None:
        self._nodes.append(make_node(op, self.phase, inputs, outputs, attrs, self._origin()))
        if len(self._nodes) > self._most_nodes:
            raise CaptureBudgetError(
                f"The step has more than {self._most_nodes} operators. State more nodes in "
                "capture_budget, as far as this service allows it, or capture fewer layers.",
                pointer="/job",
            )

    def _record_aliases(self) -> None:
        for stale, written, fresh in self.table.aliases:
            read = (stale, written) if stale != written else (written,)
            self._append("alias", read, (fresh,), {})
        self.table.aliases.clear()

    def _origin(self) -> str:
        if self.phase is Phase.FORWARD or self.module_path:
            if torch.is_grad_enabled():
                created = torch.autograd._get_sequence_nr() - 1  # type: ignore[attr-defined]
                # The first call that sees a number is the one that autograd made it for.
                self._name_of_sequence.setdefault(created, self.module_path)
            return self.module_path
        running = torch._C._current_autograd_node()
        if running is None:
            return ""
        return self._name_of_sequence.get(running._sequence_nr(), "")


class PlaceholderValues(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Answers the optimizer's questions for values while its state is made."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the operator, or answer with a placeholder."""
        if func is torch.ops.aten._local_scalar_dense.default and args[0].is_meta:
            return placeholder(args[0])
        if _only_writes_lists(func) and args[0][0].is_meta:
            return None
        return func(*args, **(kwargs or {}))


@cache
def _only_writes_lists(func: Any) -> bool:
    """Tell a for-each operator in place: it changes no shape and returns nothing.

    On meta tensors PyTorch would take it apart into one slow call for each parameter.
    """
    schema = func._schema
    return schema.name.startswith("aten::_foreach_") and not schema.returns


def placeholder(tensor: torch.Tensor) -> bool | int | float:
    """Return a value for a number that decides coefficients, never which operators run."""
    if tensor.dtype is torch.bool:
        return True
    return 1.0 if tensor.is_floating_point() else 1


def _recurrent_name(op: str, attrs: Mapping[str, AttrValue]) -> str:
    mode = attrs.get("mode", 2)
    name = ("rnn_relu", "rnn_tanh", "lstm", "gru")[mode if isinstance(mode, int) else 2]
    return f"{name}_backward" if op.endswith("_backward") else name


def _relocated(attrs: Mapping[str, AttrValue], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Send a factory call to the meta device, unless it makes a small constant.

    Floating tensors with extents are workspaces that activations get written to, and autograd
    insists that both live on one device; numbers and small index tensors stay constants.
    """
    size = attrs.get("size", ())
    extents = [e for e in size if isinstance(e, int)] if isinstance(size, tuple) else []
    numbers = [n for n in map(attrs.get, ("end", "n", "m", "steps")) if isinstance(n, int)]
    is_small = max(math.prod(extents), *numbers, 0) <= LARGEST_CONSTANT
    if is_small and not (extents and _is_floating(attrs)):
        return kwargs
    return {**kwargs, "device": _META}


def _is_floating(attrs: Mapping[str, AttrValue]) -> bool:
    dtype = attrs.get("dtype")
    if dtype is None:
        return not isinstance(attrs.get("fill_value", 0.0), int)
    return isinstance(dtype, str) and "float" in dtype


def _on_meta(value: Any, shadows: dict[int, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor) and not value.is_meta:
        shadow = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=_META)
        shadows[id(shadow)] = value
        return shadow
    if isinstance(value, (list, tuple)):
        return type(value)(_on_meta(item, shadows) for item in value)
    if isinstance(value, dict):
        return {key: _on_meta(item, shadows) for key, item in value.items()}
    if isinstance(value, torch.device):
        return _META
    return value


def _originals(result: Any, shadows: dict[int, torch.Tensor]) -> Any:
    """Give back the constant itself where an operator wrote into it and returned it."""
    if isinstance(result, torch.Tensor):
        return shadows.get(id(result), result)
    if isinstance(result, (list, tuple)):
        return type(result)(_originals(item, shadows) for item in result)
    return result


def _tensors_of(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, (list, tuple)):
        return [tensor for item in result for tensor in _tensors_of(item)]
    return []
