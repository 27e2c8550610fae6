"""Protobuf without generated code: messages by a table of their fields, and streams of messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perfmodel.errors import InvalidTraceError, MissingExtraError

#: Name of a field -> number, type, and whether it is repeated. A type that is no scalar is the name
#: of a message in the same table.
Fields = Mapping[str, tuple[int, str, bool]]

_MESSAGE_BYTES = 4 * 2**20


def message_classes(messages: Mapping[str, Fields]) -> Mapping[str, Any]:
    """Return a class for each message; fields that are not in the table are passed over.

    Parameters
    ----------
    messages : mapping
        Fields by name of the message. Scalar types are ``int64``, ``uint64``, ``double``, ``bool``,
        ``bytes`` (for strings too: what is no UTF-8 is no error) and ``enum`` (read as a number).

    Raises
    ------
    MissingExtraError
        protobuf is not installed; the extra ``onnx`` brings it.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as error:
        raise MissingExtraError("Reading traces in protobuf", extra="onnx") from error
    kinds = descriptor_pb2.FieldDescriptorProto
    scalars = {
        "int64": kinds.TYPE_INT64, "uint64": kinds.TYPE_UINT64, "double": kinds.TYPE_DOUBLE,
        "bool": kinds.TYPE_BOOL, "bytes": kinds.TYPE_BYTES, "enum": kinds.TYPE_INT32,
    }  # fmt: skip
    file = descriptor_pb2.FileDescriptorProto(name="trace.proto", package="trace", syntax="proto3")
    for message, fields in messages.items():
        described = file.message_type.add(name=message)
        for name, (number, kind, repeated) in fields.items():
            field = described.field.add(name=name, number=number)
            field.label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            field.type = scalars.get(kind, kinds.TYPE_MESSAGE)
            if kind not in scalars:
                field.type_name = f".trace.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"trace.{name}"))
        for name in messages
    }


def delimited(pieces: Iterator[bytes], name: str, *, tag: bytes = b"") -> Iterator[bytes]:
    """Yield messages that each stand after a tag, if any, and their length, a varint.

    Raises
    ------
    InvalidTraceError
        Something else stands there, a message is longer than 4 MiB, or the last one is cut.
    """
    buffer, at = b"", 0
    for piece in pieces:
        buffer, at = buffer[at:] + piece, 0
        while (found := varint(buffer, at + len(tag))) is not None:
            size, start = found
            if size > _MESSAGE_BYTES or buffer[at : at + len(tag)] != tag:
                raise InvalidTraceError(
                    f"{name} has a message of {size} bytes, or what is none, where messages of a "
                    "trace follow each other. It is damaged: copy it again."
                )
            if start + size > len(buffer):
                break
            yield buffer[start : start + size]
            at = start + size
    if at != len(buffer):
        raise InvalidTraceError(
            f"{name} is cut: it ends in the middle of a message. Copy it again."
        )


def varint(buffer: bytes, at: int) -> tuple[int, int] | None:
    """Return a number of at most five bytes and where it ends; None where it is not whole yet.

    Examples
    --------
    >>> varint(bytes([0x96, 0x01]), 0)
    (150, 2)
    """
    value = 0
    for count, byte in enumerate(buffer[at : at + 5]):
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return value, at + count + 1
    return None if len(buffer) - at < 5 else (2**35, at)
