"""Operator schemas, read once: which arguments are tensors, which are written, which are attrs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """What the recorder needs to know of one operator overload.

    Parameters
    ----------
    op : str
        Canonical name.
    arguments : tuple of Argument
        In schema order, keyword-only ones last.
    is_transparent : bool
        No node is recorded.
    is_functional : bool
        Writes nothing and returns only fresh tensors.
    """

    op: str
    arguments: tuple[Argument, ...]
    is_transparent: bool
    is_functional: bool

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
        given = len(args)
        for position, argument in enumerate(self.arguments):
            if position < given:
                value = args[position]
            else:
                value = kwargs.get(argument.name, argument.default)
            if value is None or argument.is_dropped:
                continue
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
        return read, written, attrs


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


@cache
def signature_of(overload: torch._ops.OpOverload) -> Signature:
    """Read the schema of an operator overload.

    Parameters
    ----------
    overload : torch._ops.OpOverload
        For example ``torch.ops.aten.addmm.default``.
    """
    schema = overload._schema
    arguments = tuple(_argument(entry) for entry in schema.arguments)
    fresh = all(
        entry.alias_info is None and "Tensor" in str(entry.type) for entry in schema.returns
    )
    return Signature(
        op=canonical_op(schema.name),
        arguments=arguments,
        is_transparent=schema.name in _TRANSPARENT,
        is_functional=bool(schema.returns) and fresh and not any(a.is_written for a in arguments),
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
