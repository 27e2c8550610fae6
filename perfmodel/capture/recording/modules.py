"""The modules of a model, and what they hold, walked through once.

PyTorch walks anew for each question, one generator inside the other for every level; a large model
has a few thousand modules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn


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
