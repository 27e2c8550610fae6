"""Copies of programs on the meta device, so that a user's module is neither changed nor run."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from perfmodel.capture.program import Program, tensors_in
from perfmodel.capture.recording.modules import Parts


def on_meta(program: Program) -> Program:
    """Copy a program onto the meta device; one that is there already is returned as it is.

    Returns
    -------
    Program
        Module, inputs, loss and optimizer state have shapes and types but no values; integer
        constants that are no parameter of anything stay what they are.
    """
    if _is_on_meta(program):
        return program
    parts = (program.module, program.optimizer, program.loss, program.args, program.kwargs)
    module, optimizer, loss, args, kwargs = meta_copy(parts)
    return replace(program, module=module, optimizer=optimizer, loss=loss, args=args, kwargs=kwargs)


def meta_copy(value: Any) -> Any:
    """Copy a nest of objects deeply, each tensor as a meta tensor."""
    memo: dict[int, Any] = {}
    for module in _modules_in(value):
        # Parameters copy themselves without asking a torch function mode.
        for tensor in (*module.parameters(), *module.buffers()):
            _shadow(tensor, memo)
    with _TensorsToMeta():
        return copy.deepcopy(value, memo)


def _modules_in(value: Any) -> Iterator[nn.Module]:
    if isinstance(value, nn.Module):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _modules_in(item)


class _TensorsToMeta(TorchFunctionMode):
    """Replaces the deep copy of a tensor by a meta tensor of its shape, shared as it was."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is Tensor.__deepcopy__:
            return _shadow(*args)
        return func(*args, **(kwargs or {}))


def _shadow(tensor: Tensor, memo: dict[int, Any]) -> Tensor:
    known = memo.get(id(tensor))
    if isinstance(known, Tensor):
        return known
    made: Tensor = torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"
    )
    if isinstance(tensor, nn.Parameter):
        made = nn.Parameter(made, requires_grad=tensor.requires_grad)
    elif tensor.is_leaf:
        made.requires_grad_(tensor.requires_grad)
    memo[id(tensor)] = made
    return made


def _is_on_meta(program: Program) -> bool:
    parts = Parts.of(program.module)
    given = (*tensors_in(program.args), *tensors_in(program.kwargs))
    tensors = (*parts.parameters, *parts.buffers, *given)
    return bool(tensors) and all([tensor.is_meta for tensor in tensors])
