"""Arguments of operator calls as Kineto writes them, in its several dialects.

Since PyTorch 1.8 ``Input dims``, from 1.9 ``Input Dims`` with ``Input type``; from 2.1 ``Concrete
Inputs`` with the numbers and lists, and ``Input Strides``. A tensor list has nested dims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from perfmodel.traces.trace import OperatorArguments, TracedInput, TracedTensor

#: C++ names of scalar types (c10/core/ScalarType.h) -> dtype.
DTYPES: Mapping[str, str] = MappingProxyType(
    {
        "float": "float32", "double": "float64", "c10::Half": "float16",
        "c10::BFloat16": "bfloat16", "long int": "int64", "long": "int64", "int": "int32",
        "short int": "int16", "short": "int16", "signed char": "int8", "unsigned char": "uint8",
        "bool": "bool", "c10::Float8_e4m3fn": "float8_e4m3fn", "c10::Float8_e5m2": "float8_e5m2",
        "c10::Float8_e4m3fnuz": "float8_e4m3fnuz", "c10::Float8_e5m2fnuz": "float8_e5m2fnuz",
        "c10::complex<float>": "complex64", "c10::complex<double>": "complex128",
        "unsigned short": "uint16", "unsigned int": "uint32", "unsigned long": "uint64",
    }
)  # fmt: skip
#: Types of what is no tensor, before PyTorch 1.13 kinds of values (ATen/core/ivalue.h); anything
#: else that is not in :data:`DTYPES` is a tensor of a type that is not known here.
_NO_TENSOR = frozenset(
    {"", "Scalar", "ScalarList", "GenericList", "Device", "None", "Int", "Double", "ComplexDouble",
     "Bool", "String", "Tuple", "GenericDict", "Stream", "Object", "Generator"}
)  # fmt: skip
_LARGEST = 2**62


def kineto_arguments(fields: Sequence[Any]) -> OperatorArguments:
    """Return arguments from the lists that an event carries.

    Parameters
    ----------
    fields : sequence
        Dims, types, concrete values and strides; each a list, or None where the event lacks it.

    Examples
    --------
    >>> found = kineto_arguments(([[2, 3], []], ["c10::Half", "Scalar"], ["", "1"], None))
    >>> found.tensors[0].shape, found.tensors[0].dtype, found.inputs[1].value
    ((2, 3), 'float16', '1')
    """
    dims, types, values, strides = (field if isinstance(field, list) else [] for field in fields)
    return OperatorArguments(
        inputs=tuple(
            _input(dims[i], _at(types, i), _at(values, i), _at(strides, i))
            for i in range(len(dims))
        )
    )


def _input(dims: Any, kind: Any, value: Any, strides: Any) -> TracedInput:
    text = value if isinstance(value, str) else ""
    shape = _extents(dims)
    if shape is None:
        listed = dims if isinstance(dims, list) else []
        kinds = kind if isinstance(kind, list) else [kind] * len(listed)
        several = [_tensor(d, _at(kinds, i), _at(strides, i)) for i, d in enumerate(listed)]
        return TracedInput(tensors=tuple(t for t in several if t is not None), value=text)
    if not shape and (not isinstance(kind, str) or kind in _NO_TENSOR):
        return TracedInput(value=text)
    one = _tensor(dims, kind, strides)
    return TracedInput(tensors=() if one is None else (one,), value=text)


def _tensor(dims: Any, kind: Any, strides: Any) -> TracedTensor | None:
    shape = _extents(dims)
    if shape is None:
        return None
    dtype = DTYPES.get(kind, "") if isinstance(kind, str) else ""
    steps = _extents(strides) if isinstance(strides, list) else None
    fits = steps is not None and len(steps) == len(shape)
    return TracedTensor(shape=shape, dtype=dtype, strides=steps if fits else None)


def _extents(dims: Any) -> tuple[int, ...] | None:
    """Return the extents of one tensor; None for a list of tensors, or nonsense."""
    if not isinstance(dims, list):
        return None
    if all(type(extent) is int and 0 <= extent < _LARGEST for extent in dims):
        return tuple(dims)
    return None


def _at(values: Any, position: int) -> Any:
    return values[position] if isinstance(values, list) and position < len(values) else None
