"""Graphs of single traced operators: the call again, on tensors without data.

A trace tells what an operator was given, not what it returned. So the operator is called with meta
tensors of the traced shapes under the recorder of captures, which gives results, attributes and
names as any captured model has them. It needs torch. Only operators that graphs price are called:
nothing else that a file names is run.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from perfmodel.errors import MissingExtraError
from perfmodel.graph.cost.base import REGISTER
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.graph.vocabulary import canonical_op
from perfmodel.traces.trace import OperatorArguments, TracedInput, TracedTensor
from perfmodel.types import Phase, Role

#: Codes of scalar types (c10/core/ScalarType.h) -> dtype.
_SCALAR_TYPES = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32",
    7: "float64", 9: "complex64", 10: "complex128", 11: "bool", 15: "bfloat16",
}  # fmt: skip
_NUMBERS = {"int": int, "SymInt": int, "float": float, "number": float, "bool": bool}
#: Arguments that say where a result lies and how: here it always lies on the meta device. Their
#: numbers are not checked by torch, and some end the process.
_PLACES = frozenset({"device", "layout", "pin_memory", "memory_format"})
#: What stands for fused attention of every device, and whatever it cannot be called without.
_FUSED = "_scaled_dot_product_fused_attention_overrideable"
_ATTENTION = "scaled_dot_product_attention"
_RENAMED = {"attn_mask": "attn_bias", "grad_out_": "grad_out"}
_NEEDED = frozenset({"grad_out", "query", "key", "value"})
#: Compositions that torch runs as one kernel on GPUs, and in parts on tensors without data; their
#: result is as their first tensor.
_ONE_KERNEL = {"aten::rms_norm": "_fused_rms_norm"}
_NO_VALUES = "the trace keeps no values of arguments (torch before 2.1)"


class UncalledError(Exception):
    """A traced call that cannot be made again, with the reason."""


def operator_graph(
    name: str, arguments: OperatorArguments | None, phase: Phase, *, is_one_kernel: bool = False
) -> Graph:
    """Return the graph of one call.

    Parameters
    ----------
    name : str
        As the trace has it: ``"aten::addmm"``.
    phase : Phase
        Kept in its nodes.
    is_one_kernel : bool
        Whether a single kernel did all of its work.

    Returns
    -------
    Graph
        Usually of one node; of several for a composition such as ``aten::linear``.

    Raises
    ------
    UncalledError
        The operator is not priced, or its arguments are not all told; with the reason.
    MissingExtraError
        torch is absent.
    """
    if arguments is None:
        raise UncalledError("the trace keeps no shapes (record_shapes was off)")
    if not arguments.tensors:
        raise UncalledError("it is given no tensor")
    if canonical_op(name) not in REGISTER or not name.startswith("aten::"):
        raise UncalledError("no formula prices this operator")
    if any(not tensor.dtype for tensor in arguments.tensors):
        raise UncalledError("the trace does not tell all types of its tensors")
    if is_one_kernel and name in _ONE_KERNEL:
        return _one_node(_ONE_KERNEL[name], arguments.tensors, phase)
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("Pricing operators of a trace", extra="train") from error
    packet = getattr(torch.ops.aten, name.removeprefix("aten::"), None)
    if packet is None:
        raise UncalledError("this version of torch has no such operator")
    reasons = []
    for overload, taken in _overloads(packet, len(arguments.inputs)):
        try:
            return _recorded(overload, arguments.inputs[:taken], phase)
        except UncalledError as error:
            reasons.append(str(error))
    raise UncalledError(next(iter(reasons), "no overload takes so many arguments"))


def _one_node(op: str, read: Sequence[TracedTensor], phase: Phase) -> Graph:
    roles = [*[Role.INPUT] * len(read), Role.ACTIVATION]
    tensors = tuple(
        Tensor(shape=one.shape, dtype=one.dtype, role=role, storage=i)
        for i, (one, role) in enumerate(zip([*read, read[0]], roles, strict=True))
    )
    inputs = tuple(range(len(read)))
    node = Node(op=op, phase=phase, inputs=inputs, outputs=(len(read),), attrs={})
    return Graph(nodes=(node,), tensors=tensors)


def _overloads(packet: Any, count: int) -> list[tuple[Any, int]]:
    """Return overloads that take so many arguments, with how many of them to hand over.

    A call with ``out=`` has the tensors that it writes at its end: it does the work of the overload
    without them, which is called in its place.
    """
    found = [getattr(packet, name) for name in packet.overloads()]
    written = {
        sum(argument.is_out for argument in one._schema.arguments)
        for one in found
        if len(one._schema.arguments) == count
    }
    plain = [one for one in found if not any(a.is_out for a in one._schema.arguments)]
    return [
        (one, count - extra)
        for extra in sorted({0, *written})
        for one in plain
        if len(one._schema.arguments) == count - extra
    ]


def _recorded(overload: Any, inputs: Sequence[TracedInput], phase: Phase) -> Graph:
    from perfmodel.capture.recording.interposition import interposed
    from perfmodel.capture.recording.recorder import Recorder

    recorder = Recorder()
    recorder.phase = phase
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    try:
        overload, values = _called(overload, inputs)
        for argument, value in zip(overload._schema.arguments, values, strict=True):
            if argument.kwarg_only:
                kwargs[argument.name] = value
            else:
                args.append(value)
        for tensor in _tensors_in([*args, *kwargs.values()]):
            recorder.enter(tensor, Role.INPUT)
        with interposed(), recorder:
            overload(*args, **kwargs)
    except UncalledError:
        raise
    except Exception as error:  # whatever torch says of arguments that a file holds
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise UncalledError(f"torch refuses its arguments: {reason[0][:160]}") from error
    return recorder.graph({"framework": "torch", "torch": "traced operator"})


def _called(overload: Any, inputs: Sequence[TracedInput]) -> tuple[Any, list[Any]]:
    """Return what to call in the place of an overload, and with what.

    Graphs have one operator for fused attention. Each device has one of its own, with results that
    the recorder does not know, and is given tensors that are not defined.
    """
    import torch

    given = dict(zip((one.name for one in overload._schema.arguments), inputs, strict=True))
    name = overload._schema.name.removeprefix("aten::")
    op = canonical_op(name)
    if name == op or not op.startswith(_ATTENTION):
        return overload, [_value(one, given[one.name]) for one in overload._schema.arguments]
    given = {_RENAMED.get(name, name): one for name, one in given.items()}
    fused = getattr(torch.ops.aten, _FUSED + op.removeprefix(_ATTENTION)).default
    neutral = {"Tensor": _meta(TracedTensor(shape=(0,), dtype="float32")), "int": 0, "float": 0.0,
               "bool": False, "List[bool]": [True, True, True, False]}  # fmt: skip
    values = []
    for argument in fused._schema.arguments:
        one = given.get(argument.name, TracedInput())
        if one.tensors or one.value or argument.has_default_value() or argument.name in _NEEDED:
            values.append(_value(argument, one))
        else:
            values.append(neutral.get(str(argument.type)))
    return fused, values


def _tensors_in(values: Sequence[Any]) -> list[Any]:
    import torch

    flat = [item for value in values for item in (value if isinstance(value, list) else [value])]
    return [item for item in flat if isinstance(item, torch.Tensor)]


def _value(argument: Any, given: TracedInput) -> Any:
    """Return what to call an operator with for one argument of its schema."""
    kind = str(argument.type)
    optional = kind.startswith("Optional[")
    kind = kind.removeprefix("Optional[").removesuffix("]") if optional else kind
    if "Tensor" in kind:
        return _tensor_value(argument, kind, given, optional=optional)
    if given.tensors:
        raise UncalledError(f"a tensor was given for {argument.name!r}")
    if argument.name == "dtype":
        return _type_value(given)
    if kind == "Generator" or argument.name in _PLACES:
        return argument.default_value
    if given.value in ("", "None"):
        if argument.has_default_value():
            return argument.default_value
        if optional:
            return None
        raise UncalledError(_NO_VALUES)
    return _literal(kind, given.value)


def _tensor_value(argument: Any, kind: str, given: TracedInput, *, optional: bool) -> Any:
    if kind.startswith("List["):
        return [_meta(tensor) for tensor in given.tensors]
    if given.value:
        raise UncalledError(f"a number was given for {argument.name!r}")
    if len(given.tensors) == 1:
        return _meta(given.tensors[0])
    if optional and not given.tensors:
        return None
    raise UncalledError(f"no tensor is told for {argument.name!r}")


def _meta(tensor: TracedTensor) -> Any:
    import torch

    dtype = getattr(torch, tensor.dtype)
    if tensor.strides is not None:
        return torch.empty_strided(tensor.shape, tensor.strides, dtype=dtype, device="meta")
    return torch.empty(tensor.shape, dtype=dtype, device="meta")


def _type_value(given: TracedInput) -> Any:
    import torch

    code = int(given.value) if given.value.isdigit() else -1
    return getattr(torch, _SCALAR_TYPES[code]) if code in _SCALAR_TYPES else None


def _literal(kind: str, text: str) -> Any:
    """Return the number, truth value or list of them that a trace prints.

    Examples
    --------
    >>> _literal("List[int]", "[1, 2]"), _literal("bool", "True"), _literal("float", "1e-05")
    ([1, 2], True, 1e-05)
    """
    plain = kind.removeprefix("List[").removesuffix("]")
    if plain == "str":
        return text
    try:
        value = float(text) if text in ("inf", "-inf", "nan") else ast.literal_eval(text[:100_000])
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise UncalledError(f"{text[:40]!r} is no value") from error
    items = value if isinstance(value, list) else [value]
    if plain not in _NUMBERS or not all(isinstance(v, (bool, int, float)) for v in items):
        raise UncalledError(f"{text[:40]!r} is no {kind}")
    if plain in ("int", "SymInt") and not all(isinstance(v, int) for v in items):
        raise UncalledError(f"{text[:40]!r} is no {kind}")
    return value
