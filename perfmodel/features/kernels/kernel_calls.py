"""Calls of kernels as columns: what ran, on which accelerator, with which extents.

Tables of kernels have a hundred thousand rows; everything that learns from them works on columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError
from perfmodel.features.arrays import Columns, FloatArray, IntArray, StrArray


@dataclass(frozen=True, kw_only=True)
class KernelCalls(Columns):
    """Many kernel calls; row ``i`` of every column belongs to call ``i``.

    Parameters
    ----------
    op : ndarray of str, shape (calls,)
        Operator: a key of :data:`perfmodel.features.kernels.kernel_work.FORMULAS`.
    dtype : ndarray of str, shape (calls,)
        A key of :data:`perfmodel.features.kernels.kernel_work.DTYPES`.
    kernel : ndarray of str, shape (calls,)
        Implementation, ``"<framework> <version> <source>"``, as far as it is known; ``""`` if not.
    device : ndarray of int, shape (calls,)
        Position in ``devices``.
    shape : mapping of str to ndarray, shape (calls,)
        Named extents; NaN where a call does not have one.
    """

    op: StrArray
    dtype: StrArray
    kernel: StrArray
    device: IntArray
    devices: tuple[AcceleratorSpec, ...]
    shape: Mapping[str, FloatArray]

    def __len__(self) -> int:
        return len(self.op)

    @property
    def device_names(self) -> StrArray:
        """Canonical name of the device of each call."""
        names = np.array([spec.name for spec in self.devices] or [""], dtype=np.str_)
        return names[self.device]

    @property
    def maker_names(self) -> StrArray:
        """Who made the device of each call."""
        names = np.array([spec.vendor for spec in self.devices] or [""], dtype=np.str_)
        return names[self.device]

    def fact(self, read: Sequence[float]) -> FloatArray:
        """Return one number per device, spread over the calls."""
        return np.asarray(read, dtype=np.float64)[self.device]


def kernel_calls(
    *,
    op: Sequence[str],
    dtype: Sequence[str],
    accelerator: Sequence[AcceleratorSpec],
    shape: Sequence[Mapping[str, float]],
    kernel: Sequence[str] | None = None,
) -> KernelCalls:
    """Return calls from one value, specification and mapping a call.

    Parameters
    ----------
    shape : sequence of mapping of str to float
        Named extents of each call.
    kernel : sequence of str or None
        Implementations; None where none is known.

    Raises
    ------
    InvalidInputError
        The sequences differ in length.

    Examples
    --------
    >>> from perfmodel.devices.catalog import Catalog
    >>> t4 = Catalog.default().get("T4")
    >>> calls = kernel_calls(
    ...     op=["gemm"], dtype=["fp32"], accelerator=[t4], shape=[{"m": 8, "n": 16, "k": 32}]
    ... )
    >>> len(calls), float(calls.shape["k"][0])
    (1, 32.0)
    """
    sources = [""] * len(op) if kernel is None else kernel
    lengths = {len(op), len(dtype), len(accelerator), len(shape), len(sources)}
    if len(lengths) > 1:
        raise InvalidInputError(
            f"Columns of kernel calls have {sorted(lengths)} entries; give one entry a call."
        )
    position: dict[str, int] = {}
    specs: list[AcceleratorSpec] = []
    for spec in accelerator:
        if spec.name not in position:
            position[spec.name] = len(specs)
            specs.append(spec)
    return KernelCalls(
        op=np.array(op, dtype=np.str_),
        dtype=np.array(dtype, dtype=np.str_),
        kernel=np.array(sources, dtype=np.str_),
        device=np.array([position[spec.name] for spec in accelerator], dtype=np.int64),
        devices=tuple(specs),
        shape=MappingProxyType(_columns(shape)),
    )


def _columns(shape: Sequence[Mapping[str, float]]) -> dict[str, FloatArray]:
    names = sorted({name for extents in shape for name in extents})
    nan = float("nan")
    return {
        name: np.array([extents.get(name, nan) for extents in shape], dtype=np.float64)
        for name in names
    }
