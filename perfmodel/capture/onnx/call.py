"""One operator call as a translation rule sees it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from perfmodel.capture.onnx.builder import NAME_MARK, GraphBuilder, Spec, Value
from perfmodel.capture.onnx.reading.limits import OnnxLimits
from perfmodel.capture.onnx.reading.model import AttributeReference, OnnxNode
from perfmodel.errors import UnsupportedOnnxError
from perfmodel.graph.ir import AttrValue
from perfmodel.types import Mode

_NONE: Mapping[str, AttrValue] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Call:
    """Arguments of one ONNX operator call, and the pen to write its translation with.

    Parameters
    ----------
    name : str
        Name of the call, prefixed where it stands in a function or a loop.
    attrs : dict
        With references to a function's arguments resolved.
    opset : int
        Version of the operator set of the node's domain.
    """

    node: OnnxNode
    name: str
    inputs: tuple[Value | None, ...]
    attrs: dict[str, object]
    opset: int
    mode: Mode
    builder: GraphBuilder

    @property
    def limits(self) -> OnnxLimits:
        """Bounds in force."""
        return self.builder.limits

    def input(self, position: int) -> Value:
        """Return an argument that must be there."""
        value = self.optional(position)
        if value is None:
            raise self.error(f"has no input {position}")
        if value.items is not None:
            raise self.error(f"takes a sequence as input {position}, which is not supported there")
        return value

    def optional(self, position: int) -> Value | None:
        """Return an argument, or None where it is left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    def known(self, position: int, what: str) -> np.ndarray:
        """Return the elements of an argument on which shapes depend."""
        value = self.input(position)
        if value.known is None:
            raise self.error(
                f"takes its {what} from data that is known only when the model runs; make it a "
                "constant, or bind the dimension it comes from"
            )
        return value.known

    def known_ints(self, position: int, what: str) -> list[int]:
        """Return an argument on which shapes depend, as a list of integers."""
        values = self.known(position, what)
        if values.ndim > 1 or values.dtype.kind not in "iu":
            raise self.error(
                f"takes its {what} from a tensor of shape {list(values.shape)} "
                f"{values.dtype}, where a list of integers belongs"
            )
        return [int(v) for v in values.reshape(-1)]

    def int_attr(self, name: str, default: int | None = None) -> int:
        """Return an integer attribute."""
        value = self.attrs.get(name, default)
        if not isinstance(value, int):
            raise self.error(f"has no integer attribute {name!r} (got {value!r})")
        return value

    def float_attr(self, name: str, default: float) -> float:
        """Return a finite number attribute."""
        value = self.attrs.get(name, default)
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise self.error(f"has no finite attribute {name!r} (got {value!r})")
        return float(value)

    def text_attr(self, name: str, default: str) -> str:
        """Return a string attribute."""
        value = self.attrs.get(name, default)
        if not isinstance(value, str):
            raise self.error(f"has no string attribute {name!r} (got {value!r})")
        return value

    def ints_attr(self, name: str, default: Sequence[int] | None = None) -> list[int] | None:
        """Return a list of integers, or the default."""
        value = self.attrs.get(name)
        if value is None:
            return list(default) if default is not None else None
        if not isinstance(value, tuple) or not all(isinstance(v, int) for v in value):
            raise self.error(f"has no list of integers {name!r} (got {value!r:.80})")
        return list(value)

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from the front.

        Raises
        ------
        UnsupportedOnnxError
            Out of range.
        """
        if not -rank <= axis < max(rank, 1):
            raise self.error(f"has axis {axis}, but its tensor has {rank} dimensions")
        return axis + rank if axis < 0 else axis

    def emit(
        self,
        op: str,
        inputs: Sequence[Value | None],
        shape: Sequence[int],
        dtype: str | None = None,
        *,
        mark: str = "",
        carried: Mapping[str, AttrValue] = _NONE,
        **attrs: AttrValue,
    ) -> Value:
        """Write a node with one result.

        Parameters
        ----------
        dtype : str, optional
            By default the widest float among the inputs, after autocast.
        mark : str
            Names a node that only prepares or finishes the work.
        carried : mapping
            Attributes, where they stand in a mapping already.
        """
        chosen = dtype or self.result_dtype(op, inputs)
        return self.emit_many(
            op, inputs, [(tuple(shape), chosen)], mark=mark, carried={**carried, **attrs}
        )[0]

    def emit_many(
        self,
        op: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[Spec],
        *,
        mark: str = "",
        view: bool = False,
        carried: Mapping[str, AttrValue] = _NONE,
        **attrs: AttrValue,
    ) -> list[Value]:
        """Write a node with several results."""
        name = f"{self.name}{NAME_MARK}{mark}" if mark else self.name
        both = {**carried, **attrs}
        return self.builder.emit(op, inputs, outputs, both, name=name, view=view)

    def view(
        self, op: str, value: Value, shape: Sequence[int], *, mark: str = "", **attrs: AttrValue
    ) -> Value:
        """Write a node whose result shares its input's storage."""
        placed = self.builder.placed(value)
        spec = (tuple(shape), placed.dtype)
        return self.emit_many(op, [placed], [spec], mark=mark, view=True, carried=attrs)[0]

    def cast(self, value: Value, dtype: str, *, mark: str = "") -> Value:
        """Write a copy in another type."""
        name = f"{self.name}{NAME_MARK}{mark}" if mark else self.name
        spec = (value.shape, dtype)
        return self.builder.emit("_to_copy", [value], [spec], {"dtype": dtype}, name=name)[0]

    def result_dtype(self, op: str, inputs: Sequence[Value | None]) -> str:
        """Return the dtype of a result computed from some inputs."""
        first = next((v.dtype for v in inputs if v is not None), "float32")
        return self.builder.float_dtype(op, inputs, first)

    def error(self, reason: str) -> UnsupportedOnnxError:
        """Return the error that says what is wrong with this call."""
        domain = f"{self.node.domain}::" if self.node.domain else ""
        return UnsupportedOnnxError(f"ONNX node {self.name!r} ({domain}{self.node.op}) {reason}.")


Rule = Callable[[Call], "Value | Sequence[Value | None]"]

#: Translation rules by domain and operator.
RULES: dict[tuple[str, str], Rule] = {}

MICROSOFT = "com.microsoft"


def translates(*ops: str, domains: Sequence[str] = ("",)) -> Callable[[Rule], Rule]:
    """Enter a translation rule for operators."""

    def enter(rule: Rule) -> Rule:
        for domain in domains:
            for op in ops:
                if (domain, op) in RULES:
                    raise ValueError(f"ONNX operator {domain}::{op} has two rules.")
                RULES[domain, op] = rule
        return rule

    return enter


def resolve_attrs(node: OnnxNode, arguments: dict[str, object]) -> dict[str, object]:
    """Replace references to a function's arguments by what the call passed."""
    resolved = {}
    for name, value in node.attrs.items():
        if isinstance(value, AttributeReference):
            value = arguments.get(value.name)
        if value is not None:
            resolved[name] = value
    return resolved
