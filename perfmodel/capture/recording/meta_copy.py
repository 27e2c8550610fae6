"""What a model is made of, and copies of programs on the meta device.

Modules are walked through once: PyTorch walks anew for each question, one generator inside the
other for every level, and a large model has a few thousand modules. A user's module is neither
changed nor run, but copied.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from perfmodel.capture.program import Program, tensors_in


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """What a model is made of, each thing once, in the order of PyTorch."""

    paths: dict[nn.Module, str]
    parameters: list[nn.Parameter]
    buffers: list[torch.Tensor]

    @classmethod
    def of(cls, model: nn.Module) -> Parts:
        """Walk through a model."""
        paths = dict(_walk(model))
        parameters = {id(p): p for m in paths for p in m._parameters.values() if p is not None}
        buffers = {id(b): b for m in paths for b in m._buffers.values() if b is not None}
        return cls(
            paths=paths, parameters=list(parameters.values()), buffers=list(buffers.values())
        )


def _walk(model: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    seen: set[nn.Module] = set()
    waiting = [(model, "")]
    while waiting:
        module, path = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        yield module, path
        below = f"{path}." if path else ""
        children = [(c, below + name) for name, c in module._modules.items() if c is not None]
        waiting.extend(reversed(children))


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
