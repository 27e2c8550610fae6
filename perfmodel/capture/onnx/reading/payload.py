"""The values of a stored tensor: checked against the declared shape, read where they are few."""

from __future__ import annotations

import math

import numpy as np

from perfmodel.capture.onnx.dtypes import NUMPY_OF_DTYPE
from perfmodel.capture.onnx.reading.protobuf import Fields, read_varints, signed
from perfmodel.errors import UnsupportedOnnxError
from perfmodel.graph.ir import DTYPE_BYTES

#: ``TensorProto`` fields with packed little-endian elements, and the bytes of one.
_FIXED_WIDTH = {4: 4, 10: 8}
_VARINTS = (5, 7, 11)
_RAW = 9
#: Dtypes whose bits travel in ``int32_data``.
_BITS_IN_INT32 = {"float16": np.dtype("uint16")}


def check_payload(fields: Fields, name: str, shape: tuple[int, ...], dtype: str) -> int:
    """Compare the stored bytes with the declared shape.

    Parameters
    ----------
    fields : dict
        The fields of a ``TensorProto``.

    Returns
    -------
    int
        Number of elements whose values are present: all of them, or 0 where the file was
        stripped of its weights.

    Raises
    ------
    UnsupportedOnnxError
        Bytes are there, but too many or too few.
    """
    count = math.prod(shape)
    stored = _stored_bytes(fields)
    if stored == 0:
        return 0
    expected, exact = _expected_bytes(fields, count, dtype)
    if stored != expected if exact else not count <= stored:
        raise UnsupportedOnnxError(
            f"Tensor {name!r} of the ONNX file declares {list(shape)} {dtype} "
            f"({expected:,} bytes) but holds {stored:,} bytes. The file is damaged; save it "
            "again."
        )
    return count


def read_values(fields: Fields, shape: tuple[int, ...], dtype: str) -> np.ndarray | None:
    """Read the elements of a small tensor.

    Parameters
    ----------
    fields : dict
        The fields of a ``TensorProto`` that passed :func:`check_payload`.

    Returns
    -------
    numpy.ndarray or None
        None for a dtype in which numpy cannot count (bfloat16, 8-bit floats, 4-bit integers).
    """
    numpy_dtype = NUMPY_OF_DTYPE.get(dtype)
    if numpy_dtype is None:
        return None
    if math.prod(shape) == 0:
        return np.zeros(shape, numpy_dtype) if max(shape) < 2**31 else None
    if _RAW in fields:
        flat = np.frombuffer(_joined(fields, _RAW), numpy_dtype.newbyteorder("<"))
    elif 4 in fields:
        flat = np.frombuffer(_joined(fields, 4), "<f4")
    elif 10 in fields:
        flat = np.frombuffer(_joined(fields, 10), "<f8")
    else:
        flat = _integers(fields, dtype)
    if flat.size != math.prod(shape):
        return None
    return flat.reshape(shape).astype(numpy_dtype)


def _integers(fields: Fields, dtype: str) -> np.ndarray:
    values: list[int] = []
    for number in _VARINTS:
        for value in fields.get(number, ()):
            values += [value] if isinstance(value, int) else read_varints(value)
    if dtype in ("uint32", "uint64"):
        return np.array([v & 0xFFFF_FFFF_FFFF_FFFF for v in values], np.uint64)
    flat = np.array([signed(v) for v in values], np.int64)
    bits = _BITS_IN_INT32.get(dtype)
    return flat if bits is None else flat.astype(bits).view(np.dtype(dtype))


def _expected_bytes(fields: Fields, count: int, dtype: str) -> tuple[int, bool]:
    for number, width in _FIXED_WIDTH.items():
        if number in fields:
            pairs = 2 if dtype.startswith("complex") else 1
            return count * width * pairs, True
    if any(number in fields for number in _VARINTS):
        packed = dtype in ("int4", "uint4")
        return (math.ceil(count / 2) if packed else count), False
    return math.ceil(count * DTYPE_BYTES[dtype]), True


def _stored_bytes(fields: Fields) -> int:
    return sum(
        1 if isinstance(value, int) else len(value)
        for number in (*_FIXED_WIDTH, *_VARINTS, _RAW)
        for value in fields.get(number, ())
    )


def _joined(fields: Fields, number: int) -> bytes:
    return b"".join(bytes(v) for v in fields[number] if not isinstance(v, int))
