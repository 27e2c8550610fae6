"""Tensors of the v2 inference protocol: texts in, columns out."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from perfmodel.errors import InvalidInputError

#: The only tensor that is read: one question a text.
REQUEST = "request"
#: Most questions of one call.
MOST_QUESTIONS = 10_000


def read_texts(body: Mapping[str, Any], binary: bytes) -> list[bytes]:
    """Return the questions of an inference request.

    Parameters
    ----------
    binary : bytes
        What follows the JSON, where the binary tensor extension is used.
    """
    inputs = body.get("inputs")
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        raise InvalidInputError(f"inputs must hold one tensor, {REQUEST!r}.", pointer="/inputs")
    tensor = inputs[0]
    if tensor.get("name") != REQUEST or tensor.get("datatype") != "BYTES":
        raise InvalidInputError(
            f"The tensor must be {REQUEST!r} of BYTES; got {tensor.get('name')!r} of "
            f"{tensor.get('datatype')!r}.",
            pointer="/inputs/0",
        )
    parameters = tensor.get("parameters")
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    texts = _texts(tensor.get("data")) if size is None else _binary_texts(binary, size)
    if len(texts) > MOST_QUESTIONS:
        raise InvalidInputError(
            f"At most {MOST_QUESTIONS} questions a call; got {len(texts)}.", pointer="/inputs/0"
        )
    _check_shape(tensor.get("shape"), len(texts))
    return texts


def _check_shape(shape: Any, count: int) -> None:
    whole = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    product = 1
    for extent in shape if whole else ():
        product *= extent
    if not whole or not shape or product != count:
        raise InvalidInputError(
            f"The shape {shape!r} is not that of {count} texts; send [{count}].",
            pointer="/inputs/0/shape",
        )


def _texts(data: Any) -> list[bytes]:
    """Return the texts of a tensor in JSON, flat or nested."""
    if isinstance(data, str):
        return [data.encode()]
    if isinstance(data, list):
        return [text for item in data for text in _texts(item)]
    raise InvalidInputError("data must hold texts, each a question.", pointer="/inputs/0/data")


def _binary_texts(binary: bytes, size: Any) -> list[bytes]:
    """Return the texts of a binary tensor: each its length (4 bytes, little-endian), then it."""
    if type(size) is not int or size != len(binary):
        raise InvalidInputError(
            f"binary_data_size is {size!r}, but {len(binary)} bytes follow the JSON.",
            pointer="/inputs/0/parameters/binary_data_size",
        )
    texts, at = [], 0
    while at < len(binary):
        if at + 4 > len(binary):
            raise _torn()
        (length,) = struct.unpack_from("<I", binary, at)
        at += 4 + length
        if at > len(binary):
            raise _torn()
        texts.append(binary[at - length : at])
    return texts


def _torn() -> InvalidInputError:
    return InvalidInputError("The binary data ends inside a text.", pointer="/inputs/0")


def tensor(name: str, datatype: str, data: Sequence[Any]) -> dict[str, Any]:
    """Return a tensor of one element a question."""
    return {"name": name, "datatype": datatype, "shape": [len(data)], "data": list(data)}
