"""Tensor identity: which graph tensor does a torch tensor stand for right now.

Autograd hands back saved tensors as new Python objects over the same memory, so identity is
*storage and geometry*, never ``id()``. Shape, strides and type are each kept once, so that they
compare by identity. Storages are kept alive for the whole capture, so that their addresses are not
given out twice; the tensors themselves are not, since autograd steals a gradient only when nobody
else holds it.
"""

from __future__ import annotations

import torch

from perfmodel.graph.ir import Tensor, make_tensor
from perfmodel.types import Role


class Geometry:
    """Shape, strides and type of a tensor.

    Two of one :class:`Geometries` are equal only if they are the same object, so that looking one
    up takes no walk through its extents.

    Attributes
    ----------
    extents : tuple of int
        The shape, as graphs hold it.
    type_name : str
        As graphs name the type: ``float32``.
    """

    __slots__ = ("dtype", "extents", "shape", "stride", "type_name")

    def __init__(self, shape: torch.Size, stride: tuple[int, ...], dtype: torch.dtype) -> None:
        self.shape = shape
        self.stride = stride
        self.dtype = dtype
        self.extents = tuple(shape)
        self.type_name = str(dtype).removeprefix("torch.")

    def fresh(self) -> torch.Tensor:
        """Return a new tensor without data."""
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device="meta")


class Geometries:
    """Finds the geometry of tensors; any number of threads may ask."""

    def __init__(self) -> None:
        self._known: dict[tuple[torch.Size, tuple[int, ...], torch.dtype], Geometry] = {}

    def __len__(self) -> int:
        """Count the geometries that are kept."""
        return len(self._known)

    def of(self, tensor: torch.Tensor) -> Geometry:
        """Return the geometry of a tensor."""
        return self.at(tensor.shape, tensor.stride(), tensor.dtype)

    def at(self, shape: torch.Size, stride: tuple[int, ...], dtype: torch.dtype) -> Geometry:
        """Return the geometry with some shape, strides and type."""
        key = (shape, stride, dtype)
        found = self._known.get(key)
        if found is None:
            found = self._known.setdefault(key, Geometry(shape, stride, dtype))
        return found


#: What tells the views of one storage apart: their geometry, and their offset where there is one.
_View = Geometry | tuple[int, Geometry]


class _Storage:
    """One allocation: its number and role, how often it was written, and by which graph tensor."""

    __slots__ = ("keep_alive", "last_written", "number", "role", "version", "views")

    def __init__(self, number: int, keep_alive: torch.UntypedStorage) -> None:
        self.number = number
        self.keep_alive = keep_alive
        self.version = 0
        self.last_written = -1
        self.role: Role | None = None
        self.views: dict[_View, tuple[int, int]] = {}


class TensorTable:
    """Numbers the tensors of a step.

    Attributes
    ----------
    aliases : list of tuple
        ``(stale, written, fresh)`` of each tensor that was read although its memory had been
        written through another view: ``fresh`` depends on both. For whoever reads to take out.
    roles, storages : list
        Role and number of the storage of each tensor.
    """

    def __init__(self) -> None:
        self.aliases: list[tuple[int, int, int]] = []
        self.roles: list[Role] = []
        self.storages: list[int] = []
        self._geometries: list[Geometry] = []
        self._storages: dict[int, _Storage] = {}

    def read(self, tensor: torch.Tensor, geometry: Geometry, role: Role = Role.CONSTANT) -> int:
        """Return the number of a tensor as it is now, entering it if it is new."""
        storage = self._storage_of(tensor)
        view = _view(tensor, geometry)
        known = storage.views.get(view)
        if known is None:
            number = self._enter(geometry, storage, role)
            if storage.last_written >= 0:
                self.aliases.append((storage.last_written, storage.last_written, number))
            storage.views[view] = (number, storage.version)
            return number
        number, version = known
        if version == storage.version:
            return number
        fresh = self._enter(geometry, storage, self.roles[number])
        self.aliases.append((number, storage.last_written, fresh))
        storage.views[view] = (fresh, storage.version)
        return fresh

    def write(self, tensor: torch.Tensor, geometry: Geometry) -> int:
        """Enter a tensor as the new content of its memory, in place or fresh."""
        storage = self._storage_of(tensor)
        number = self._enter(geometry, storage, storage.role or Role.ACTIVATION)
        storage.version += 1
        storage.last_written = number
        storage.views[_view(tensor, geometry)] = (number, storage.version)
        return number

    def produce(self, tensor: torch.Tensor, geometry: Geometry) -> int:
        """Enter a result that writes nothing: fresh memory, or a view of known memory."""
        memory = tensor.untyped_storage()
        storage = self._storages.get(memory._cdata)
        if storage is None:
            storage = self._storages[memory._cdata] = _Storage(len(self._storages), memory)
            number = storage.last_written = self._enter(geometry, storage, Role.ACTIVATION)
            storage.version = 1
        else:
            number = self._enter(geometry, storage, storage.role or Role.ACTIVATION)
        storage.views[_view(tensor, geometry)] = (number, storage.version)
        return number

    def storage_number(self, tensor: torch.Tensor) -> int:
        """Return the storage number of a tensor's memory."""
        return self._storage_of(tensor).number

    def tensors(self) -> tuple[Tensor, ...]:
        """Return the table as graph tensors."""
        rows = zip(self._geometries, self.roles, self.storages, strict=True)
        return tuple(
            [make_tensor(g.extents, g.type_name, role, number) for g, role, number in rows]
        )

    def _storage_of(self, tensor: torch.Tensor) -> _Storage:
        memory = tensor.untyped_storage()
        storage = self._storages.get(memory._cdata)
        if storage is None:
            storage = self._storages[memory._cdata] = _Storage(len(self._storages), memory)
        return storage

    def _enter(self, geometry: Geometry, storage: _Storage, role: Role) -> int:
        number = len(self.roles)
        self._geometries.append(geometry)
        self.roles.append(role)
        self.storages.append(storage.number)
        if storage.role is None:
            storage.role = role
        return number


def _view(tensor: torch.Tensor, geometry: Geometry) -> _View:
    offset = tensor.storage_offset()
    return (int(offset), geometry) if offset else geometry
