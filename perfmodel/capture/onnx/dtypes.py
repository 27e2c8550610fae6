"""Element types: ONNX numbers, PyTorch names, numpy types."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

#: ``TensorProto.DataType`` to PyTorch name; strings and sub-4-bit types are left out.
DTYPE_OF_ONNX: Mapping[int, str] = MappingProxyType(
    {
        1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
        9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64",
        15: "complex128", 16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz",
        19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4",
    }
)  # fmt: skip

#: The same, backwards.
ONNX_OF_DTYPE: Mapping[str, int] = MappingProxyType({v: k for k, v in DTYPE_OF_ONNX.items()})

#: Types in which values can be held; bfloat16 and smaller ones are held as float32 or not at all.
NUMPY_OF_DTYPE: Mapping[str, np.dtype] = MappingProxyType(
    {
        name: np.dtype(name)
        for name in (
            "float32", "float64", "float16", "uint8", "int8", "uint16", "int16", "int32",
            "int64", "uint32", "uint64", "bool", "complex64", "complex128",
        )
    }
)  # fmt: skip

FLOAT_DTYPES = frozenset({"float32", "float16", "bfloat16", "float64"})

#: From narrow to wide, for the result of mixed arguments.
_WIDTH = ("float16", "bfloat16", "float32", "float64")


def is_float(dtype: str) -> bool:
    """Tell whether a dtype takes part in differentiation."""
    return dtype in FLOAT_DTYPES


def widest_float(dtypes: list[str]) -> str | None:
    """Return the widest floating type of some, or None where there is none.

    Examples
    --------
    >>> widest_float(["float16", "int64", "float32"])
    'float32'
    """
    floats = [d for d in dtypes if d in FLOAT_DTYPES]
    return max(floats, key=_WIDTH.index) if floats else None
