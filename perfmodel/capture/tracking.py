"""Tensor identity: which graph tensor does a torch tensor stand for right now.

Autograd hands back saved tensors as new Python objects over the same memory, so identity is
*storage and geometry*, never ``id()``. Storages are kept alive for the whole capture, so that
their addresses are not given out twice; the tensors themselves are not, since autograd steals
a gradient only when nobody else holds it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from perfmodel.graph.ir import Tensor
from perfmodel.types import Role

#: Offset, shape, strides, dtype: what tells the views of one storage apart.
Geometry = tuple[int, tuple[int, ...], tuple[int, ...], torch.dtype]


class _Storage:
    """One allocation: its number, how often it was written, and by which graph tensor."""

    __slots__ = ("keep_alive", "last_written", "number", "version", "views")

    def __init__(self, number: int, keep_alive: torch.UntypedStorage) -> None:
        self.number = number
        self.keep_alive = keep_alive
        self.version = 0
        self.last_written = -1
        self.views: dict[Geometry, tuple[int, int]] = {}


class TensorTable:
    """Numbers the tensors of a step.

    Parameters
    ----------
    on_alias : callable
        Called with ``(stale, written, fresh)`` when a tensor is read whose memory was written
        through another view since; it records a node that makes ``fresh`` depend on both.
    """

    def __init__(self, on_alias: Callable[[int, int, int], None]) -> None:
        self._on_alias = on_alias
        self._storages: dict[int, _Storage] = {}
        self._names: dict[torch.dtype, str] = {}
        self.shapes: list[tuple[int, ...]] = []
        self.dtypes: list[str] = []
        self.roles: list[Role] = []
        self.storages: list[int] = []

    def read(self, tensor: torch.Tensor, role: Role = Role.CONSTANT) -> int:
        """Return the number of a tensor as it is now, entering it if it is new."""
        storage = self._storage_of(tensor)
        geometry = _geometry(tensor)
        known = storage.views.get(geometry)
        if known is None:
            number = self._enter(tensor, storage, role)
            if storage.last_written >= 0:
                self._on_alias(storage.last_written, storage.last_written, number)
            storage.views[geometry] = (number, storage.version)
            return number
        number, version = known
        if version == storage.version:
            return number
        fresh = self._enter(tensor, storage, self.roles[number])
        self._on_alias(number, storage.last_written, fresh)
        storage.views[geometry] = (fresh, storage.version)
        return fresh

    def write(self, tensor: torch.Tensor, role: Role = Role.ACTIVATION) -> int:
        """Enter a tensor as the new content of its memory, in place or fresh."""
        storage = self._storage_of(tensor)
        if storage.views:
            first = next(iter(storage.views.values()))[0]
            role = self.roles[first]
        number = self._enter(tensor, storage, role)
        storage.version += 1
        storage.last_written = number
        storage.views[_geometry(tensor)] = (number, storage.version)
        return number

    def produce(self, tensor: torch.Tensor, role: Role = Role.ACTIVATION) -> int:
        """Enter a result that writes nothing: fresh memory, or a view of known memory."""
        memory = tensor.untyped_storage()
        known = self._storages.get(memory._cdata)
        if known is None:
            known = self._storages[memory._cdata] = _Storage(len(self._storages), memory)
            number = known.last_written = self._enter(tensor, known, role)
            known.version = 1
        else:
            number = self._enter(tensor, known, self._role_of(known, role))
        known.views[_geometry(tensor)] = (number, known.version)
        return number

    def knows(self, tensor: torch.Tensor) -> bool:
        """Tell whether the memory of a tensor has been seen."""
        return tensor.untyped_storage()._cdata in self._storages

    def storage_number(self, tensor: torch.Tensor) -> int:
        """Return the storage number of a tensor's memory."""
        return self._storage_of(tensor).number

    def tensors(self) -> tuple[Tensor, ...]:
        """Return the table as graph tensors."""
        rows = zip(self.shapes, self.dtypes, self.roles, self.storages, strict=True)
        return tuple(Tensor(shape=s, dtype=d, role=r, storage=m) for s, d, r, m in rows)

    def _role_of(self, storage: _Storage, role: Role) -> Role:
        for number, _ in storage.views.values():
            return self.roles[number]
        return role

    def _storage_of(self, tensor: torch.Tensor) -> _Storage:
        memory = tensor.untyped_storage()
        storage = self._storages.get(memory._cdata)
        if storage is None:
            storage = self._storages[memory._cdata] = _Storage(len(self._storages), memory)
        return storage

    def _enter(self, tensor: torch.Tensor, storage: _Storage, role: Role) -> int:
        dtype = tensor.dtype
        name = self._names.get(dtype)
        if name is None:
            name = self._names[dtype] = str(dtype).removeprefix("torch.")
        self.shapes.append(tuple(tensor.shape))
        self.dtypes.append(name)
        self.roles.append(role)
        self.storages.append(storage.number)
        return len(self.shapes) - 1


def _geometry(tensor: torch.Tensor) -> Geometry:
    return (int(tensor.storage_offset()), tensor.shape, tensor.stride(), tensor.dtype)
