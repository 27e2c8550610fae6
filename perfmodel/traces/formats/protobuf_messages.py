"""Classes of protobuf messages made from a table of their fields, without generated code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfmodel.errors import MissingExtraError

#: Name of a field -> number, type, and whether it is repeated. A type that is no scalar is the name
#: of a message in the same table.
Fields = Mapping[str, tuple[int, str, bool]]


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
