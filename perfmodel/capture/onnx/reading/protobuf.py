"""Read protobuf's wire format under a budget, without copying payloads.

An uploaded file is read by these few lines of Python rather than by a native parser: a field
costs a known amount, nothing recurses, and a weight stays a window into the mapped file.

References
----------
Protocol Buffers, "Encoding": https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from perfmodel.errors import UnsupportedOnnxError

#: One decoded message: for each field number its values in file order. Varints are unsigned
#: integers; everything else is a window of bytes.
Fields = dict[int, list["int | memoryview"]]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_TRUNCATED = (
    "The bytes are no complete ONNX file: {detail}. Upload the whole file, as written by "
    "onnx.save or torch.onnx.export."
)


class FieldBudget:
    """Count of protobuf fields that may still be read."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.left = limit

    def spend(self, count: int) -> None:
        """Take ``count`` fields away."""
        self.left -= count
        if self.left < 0:
            raise UnsupportedOnnxError(
                f"The ONNX file has more than {self.limit:,} protobuf fields in its structure. "
                "Split the model, or raise OnnxLimits.max_fields."
            )


def read_fields(data: memoryview, budget: FieldBudget) -> Fields:
    """Read the fields of one message.

    Parameters
    ----------
    data : memoryview of bytes
        The message without its length prefix.
    budget : FieldBudget
        Pays one for each field.

    Returns
    -------
    dict of int to list
        Values by field number, in file order; nested messages stay windows of bytes.

    Raises
    ------
    UnsupportedOnnxError
        A field that runs past the end, an unknown wire type, or no budget left.

    Examples
    --------
    >>> read_fields(memoryview(bytes([0x08, 0x96, 0x01])), FieldBudget(10))
    {1: [150]}
    """
    fields: Fields = {}
    position, end = 0, len(data)
    while position < end:
        budget.spend(1)
        key, position = _varint(data, position)
        number, kind = key >> 3, key & 7
        value: int | memoryview
        if kind == _VARINT:
            value, position = _varint(data, position)
        else:
            size, position = _payload_size(data, position, kind)
            if position + size > end:
                raise _damaged(f"field {number} needs {size} bytes, {end - position} are left")
            value = data[position : position + size]
            position += size
        if number == 0:
            raise _damaged("field number 0")
        fields.setdefault(number, []).append(value)
    return fields


def read_varints(data: memoryview) -> list[int]:
    """Read a packed list of unsigned varints.

    Examples
    --------
    >>> read_varints(memoryview(bytes([1, 0x96, 0x01])))
    [1, 150]
    """
    values = []
    position = 0
    while position < len(data):
        value, position = _varint(data, position)
        values.append(value)
    return values


def signed(value: int) -> int:
    """Return the two's-complement int64 behind an unsigned varint.

    Examples
    --------
    >>> signed(2**64 - 1)
    -1
    """
    value &= 0xFFFF_FFFF_FFFF_FFFF
    return value - (1 << 64) if value >> 63 else value


def _payload_size(data: memoryview, position: int, kind: int) -> tuple[int, int]:
    if kind == _BYTES:
        return _varint(data, position)
    if kind == _FIXED32:
        return 4, position
    if kind == _FIXED64:
        return 8, position
    raise _damaged(f"wire type {kind}")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data):
            raise _damaged("a number runs past the end")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise _damaged("a number of more than 64 bits")


def _damaged(detail: str) -> UnsupportedOnnxError:
    return UnsupportedOnnxError(_TRUNCATED.format(detail=detail))
