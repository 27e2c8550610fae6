"""Operator schemas, read once: which arguments are tensors, which are written, which are attrs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch

from perfmodel.graph.ir import AttrValue
from perfmodel.graph.vocabulary import canonical_op

#: Arguments that say where and how, not what: they never reach the graph.
_PLACEMENT_ARGUMENTS = frozenset(
    {"device", "layout", "pin_memory", "non_blocking", "generator", "rng_state"}
)

#: Operators that only rename a tensor for autograd; no device sees them.
_TRANSPARENT = frozenset({"aten::detach", "aten::alias", "aten::lift_fresh", "aten::lift"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    """One argument of an operator schema."""

    name: str
    holds_tensors: bool
    is_written: bool
    is_dropped: bool
    default: Any


@dataclass(frozen=True, kw_only=True)
class Signature:
    """What the recorder needs to know of one operator overload.

    Parameters
    ----------
    arguments : tuple of Argument
        In schema order, keyword-only ones last.
    is_transparent : bool
        No node is recorded.
    is_functional : bool
        Writes nothing and returns only fresh tensors.
    is_view : bool
        Writes nothing and returns only views of its operands.
    """

    op: str
    arguments: tuple[Argument, ...]
    is_transparent: bool
    is_functional: bool
    is_view: bool

    def bind(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor], dict[str, AttrValue]]:
        """Sort the arguments of a call.

        Returns
        -------
        tuple
            Tensors read, in order; those of them written in place; attributes by name.
        """
        read: list[torch.Tensor] = []
        written: list[torch.Tensor] = []
        attrs: dict[str, AttrValue] = {}
        arguments = self.arguments
        for argument, value in zip(arguments, args, strict=False):
            kind = type(value)
            if kind is torch.Tensor and not argument.is_written:
                read.append(value)
            elif value is None or argument.is_dropped:
                continue
            elif kind is int or kind is bool:
                attrs[argument.name] = value
            elif kind is list and not argument.holds_tensors:
                attrs[argument.name] = _numbers(value)
            else:
                _sort(argument, value, read, written, attrs)
        given = len(args)
        if kwargs:
            for argument in arguments[given:]:
                value = kwargs.get(argument.name, argument.default)
                if value is not None and not argument.is_dropped:
                    _sort(argument, value, read, written, attrs)
        elif given < len(arguments):
            attrs.update(self._defaults[given])
        return read, written, attrs

    @cached_property
    def _defaults(self) -> tuple[dict[str, AttrValue], ...]:
        """Attributes of a call that gives so many arguments and leaves out the rest."""
        return tuple(
            {
                argument.name: attribute(argument.default)
                for argument in self.arguments[given:]
                if argument.default is not None
                and not argument.is_dropped
                and not (argument.holds_tensors and isinstance(argument.default, (list, tuple)))
            }
            for given in range(len(self.arguments))
        )


def _sort(
    argument: Argument,
    value: Any,
    read: list[torch.Tensor],
    written: list[torch.Tensor],
    attrs: dict[str, AttrValue],
) -> None:
    """Put the value of one argument where it belongs."""
    if isinstance(value, torch.Tensor):
        read.append(value)
        if argument.is_written:
            written.append(value)
    elif argument.holds_tensors and isinstance(value, (list, tuple)):
        tensors = [item for item in value if isinstance(item, torch.Tensor)]
        read.extend(tensors)
        if argument.is_written:
            written.extend(tensors)
    else:
        attrs[argument.name] = attribute(value)


def attribute(value: Any) -> AttrValue:
    """Turn a schema argument into a JSON scalar or a tuple of them."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    if isinstance(value, (list, tuple, torch.Size)):
        return tuple(attribute(item) for item in value)
    if isinstance(value, (torch.dtype, torch.memory_format)):
        return str(value).removeprefix("torch.")
    if isinstance(value, torch.SymInt):
        return int(value)
    return str(value)


def _numbers(values: list[Any]) -> AttrValue:
    for value in values:
        if type(value) is not int:
            return attribute(values)
    return tuple(values)


@cache
def signature_of(overload: torch._ops.OpOverload) -> Signature:
    """Read the schema of an operator overload."""
    schema = overload._schema
    arguments = tuple(_argument(entry) for entry in schema.arguments)
    answers = bool(schema.returns) and not any(argument.is_written for argument in arguments)
    answers = answers and all("Tensor" in str(entry.type) for entry in schema.returns)
    return Signature(
        op=canonical_op(schema.name),
        arguments=arguments,
        is_transparent=schema.name in _TRANSPARENT or schema.name.startswith("profiler::"),
        is_functional=answers and all(entry.alias_info is None for entry in schema.returns),
        is_view=answers and all(entry.alias_info is not None for entry in schema.returns),
    )


def _argument(entry: Any) -> Argument:
    kind = str(entry.type)
    return Argument(
        name=entry.name,
        holds_tensors="Tensor" in kind,
        is_written=entry.alias_info is not None and entry.alias_info.is_write,
        is_dropped=entry.name in _PLACEMENT_ARGUMENTS,
        default=entry.default_value if entry.has_default_value() else None,
    )
