"""Shape, strides and type of tensors, each kept once so that they compare by identity."""

from __future__ import annotations

import torch


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
