"""Turn the bytes of an ONNX file into values, and refuse what must not be read.

Here, and only here, tensors of the file are met, wherever they hide (initializers, sparse
ones, attributes, subgraphs, functions, training information): in this one place values in another
file (external data) are left where they are, and a payload that does not fit its declared shape
is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

from perfmodel.capture.onnx.dtypes import DTYPE_OF_ONNX
from perfmodel.capture.onnx.reading.limits import OnnxLimits
from perfmodel.capture.onnx.reading.model import (
    AttributeReference,
    Dim,
    OnnxFunction,
    OnnxGraph,
    OnnxModel,
    OnnxNode,
    OnnxTensor,
    OnnxValueInfo,
)
from perfmodel.capture.onnx.reading.order import sort_nodes
from perfmodel.capture.onnx.reading.payload import check_payload, read_values
from perfmodel.capture.onnx.reading.protobuf import (
    FieldBudget,
    Fields,
    read_fields,
    read_varints,
    signed,
)
from perfmodel.errors import UnsupportedOnnxError
from perfmodel.graph.ir import DTYPE_BYTES

#: Newest version of the standard operator set whose meaning is known here.
NEWEST_OPSET = 28

#: ``AttributeProto`` type tag of each field that may carry the value.
_INT, _FLOAT, _STRING, _TENSOR, _GRAPH = 2, 1, 3, 4, 5
_FLOATS, _INTS, _STRINGS, _TENSORS, _GRAPHS, _SPARSE, _SPARSES = 6, 7, 8, 9, 10, 11, 12


def decode_model(data: memoryview, limits: OnnxLimits) -> OnnxModel:
    """Read a whole file.

    Parameters
    ----------
    data : memoryview of bytes
        The serialised ``ModelProto``; may be a window into a mapped file.

    Raises
    ------
    UnsupportedOnnxError
        Damaged bytes, a limit exceeded, a cycle, a duplicate producer.
    """
    if len(data) > limits.max_file_bytes:
        raise UnsupportedOnnxError(
            f"The ONNX file has {len(data):,} bytes; at most {limits.max_file_bytes:,} are read. "
            "Remove the weights (perfmodel needs their shapes only) or raise "
            "OnnxLimits.max_file_bytes."
        )
    return _Decoder(limits).model(data)


class _Decoder:
    """Reads messages; holds the budget that they share."""

    def __init__(self, limits: OnnxLimits) -> None:
        self.limits = limits
        self.budget = FieldBudget(limits.max_fields)

    def model(self, data: memoryview) -> OnnxModel:
        fields = read_fields(data, self.budget)
        graphs = _messages(fields, 7)
        if len(graphs) != 1:
            raise UnsupportedOnnxError(
                f"The bytes hold {len(graphs)} graphs where an ONNX model holds one; this is no "
                "ONNX file, or a damaged one. Upload the file as written by onnx.save."
            )
        opsets = self.opsets(fields, 8)
        if not opsets:
            raise UnsupportedOnnxError(
                "The ONNX file imports no operator set; it is damaged or cut off. Upload the "
                "file as written by onnx.save."
            )
        for info in _messages(fields, 20):  # training graphs: never run, but searched
            training = read_fields(info, self.budget)
            for graph in (*_messages(training, 1), *_messages(training, 2)):
                self.graph(graph, depth=1)
        functions = [self.function(f) for f in _messages(fields, 25)]
        return OnnxModel(
            graph=self.graph(graphs[0], depth=0),
            opsets=opsets,
            functions=dict(functions),
            producer=f"{self.text(fields, 2)} {self.text(fields, 3)}".strip(),
        )

    def opsets(self, fields: Fields, number: int) -> dict[str, int]:
        found: dict[str, int] = {}
        for message in _messages(fields, number):
            entry = read_fields(message, self.budget)
            found[_domain(self.text(entry, 1))] = signed(_integer(entry, 2))
        self.check_count(len(found), "imported operator sets")
        newest = found.get("", 1)
        if not 1 <= newest <= NEWEST_OPSET:
            raise UnsupportedOnnxError(
                f"The ONNX file imports opset {newest} of the standard operators; 1 to "
                f"{NEWEST_OPSET} are known. Export it with one of them."
            )
        return found

    def graph(self, data: memoryview, *, depth: int) -> OnnxGraph:
        if depth > self.limits.max_nesting:
            raise UnsupportedOnnxError(
                f"The ONNX file nests subgraphs more than {self.limits.max_nesting} deep. "
                "Flatten the control flow, or raise OnnxLimits.max_nesting."
            )
        fields = read_fields(data, self.budget)
        name = self.text(fields, 2)
        tensors = [self.tensor(t) for t in _messages(fields, 5)]
        tensors += [self.sparse(t) for t in _messages(fields, 15)]
        inputs = tuple(self.value_info(v) for v in _messages(fields, 11))
        known = {t.name: t for t in tensors}
        if len(known) != len(tensors):
            raise _duplicate(_first_twice([t.name for t in tensors]), name)
        nodes = self.nodes(_messages(fields, 1), depth)
        available = {*known, *(v.name for v in inputs)}
        return OnnxGraph(
            name=name,
            nodes=sort_nodes(nodes, available, name),
            initializers=known,
            inputs=tuple(v for v in inputs if v.name not in known),
            outputs=tuple(self.value_info(v) for v in _messages(fields, 12)),
            value_info={v.name: v for v in map(self.value_info, _messages(fields, 13))},
        )

    def nodes(self, messages: list[memoryview], depth: int) -> list[OnnxNode]:
        if len(messages) > self.limits.max_nodes:
            raise UnsupportedOnnxError(
                f"The ONNX file has a graph of {len(messages):,} nodes; at most "
                f"{self.limits.max_nodes:,} are read. Raise OnnxLimits.max_nodes if you mean it."
            )
        return [self.node(m, position, depth) for position, m in enumerate(messages)]

    def node(self, data: memoryview, position: int, depth: int) -> OnnxNode:
        fields = read_fields(data, self.budget)
        op = self.text(fields, 4)
        if not op:
            raise UnsupportedOnnxError(
                f"Node {position} of the ONNX file has no operator type; the file is damaged."
            )
        self.check_count(len(fields.get(5, ())), f"attributes of node {position}")
        return OnnxNode(
            op=op,
            domain=_domain(self.text(fields, 7)),
            overload=self.text(fields, 8),
            name=self.text(fields, 3) or f"{op}_{position}",
            inputs=self.texts(fields, 1),
            outputs=self.texts(fields, 2),
            attrs=dict(self.attribute(a, depth) for a in _messages(fields, 5)),
        )

    def function(self, data: memoryview) -> tuple[tuple[str, str, str], OnnxFunction]:
        fields = read_fields(data, self.budget)
        name, inputs = self.text(fields, 1), self.texts(fields, 4)
        self.check_count(len(fields.get(11, ())), f"attributes of function {name!r}")
        function = OnnxFunction(
            name=name,
            inputs=inputs,
            outputs=self.texts(fields, 5),
            defaults=dict(self.attribute(a, 1) for a in _messages(fields, 11)),
            nodes=sort_nodes(self.nodes(_messages(fields, 7), 1), set(inputs), name),
            opsets=self.opsets(fields, 9),
        )
        return (_domain(self.text(fields, 10)), name, self.text(fields, 13)), function

    def attribute(self, data: memoryview, depth: int) -> tuple[str, object]:
        fields = read_fields(data, self.budget)
        name = self.text(fields, 1)
        reference = self.text(fields, 21)
        if reference:
            return name, AttributeReference(name=reference)
        kind = _integer(fields, 20) or _kind_by_content(fields)
        return name, self.attribute_value(fields, kind, name, depth)

    def attribute_value(self, fields: Fields, kind: int, name: str, depth: int) -> object:
        # Everything that may hold a tensor is walked, whatever the type tag says, so that
        # nothing that is damaged can hide behind a wrong tag.
        tensors = tuple(self.tensor(t) for t in (*_messages(fields, 5), *_messages(fields, 10)))
        sparse = tuple(self.sparse(t) for t in (*_messages(fields, 22), *_messages(fields, 23)))
        graphs = tuple(
            self.graph(g, depth=depth + 1) for g in (*_messages(fields, 6), *_messages(fields, 11))
        )
        several: dict[int, tuple[object, ...]] = {
            _FLOATS: tuple(self.floats(fields, 7, name)),
            _INTS: tuple(self.integers(fields, 8, name)),
            _STRINGS: self.texts(fields, 9),
            _TENSORS: tensors,
            _GRAPHS: graphs,
            _SPARSES: sparse,
        }
        if kind in several:
            return several[kind]
        if kind == _INT:
            return signed(_integer(fields, 3))
        if kind == _FLOAT:
            return (self.floats(fields, 2, name) or [0.0])[-1]
        if kind == _STRING:
            return self.text(fields, 4)
        single = {_TENSOR: tensors, _GRAPH: graphs, _SPARSE: sparse}.get(kind, ())
        return single[-1] if single else None

    def floats(self, fields: Fields, number: int, name: str) -> list[float]:
        values: list[float] = []
        for window in _messages(fields, number):
            self.check_items(len(values) + len(window) // 4, name)
            if len(window) % 4:
                raise UnsupportedOnnxError(f"Attribute {name!r} of the ONNX file is damaged.")
            values.extend(memoryview(bytes(window)).cast("f"))
        return values

    def integers(self, fields: Fields, number: int, name: str) -> list[int]:
        values: list[int] = []
        for value in fields.get(number, ()):
            size = 1 if isinstance(value, int) else len(value)
            self.check_items(len(values) + size, name)
            values += [value] if isinstance(value, int) else read_varints(value)
        return [signed(v) for v in values]

    def check_items(self, count: int, name: str) -> None:
        if count > self.limits.max_attribute_items:
            raise UnsupportedOnnxError(
                f"Attribute {name!r} of the ONNX file has {count:,} elements; at most "
                f"{self.limits.max_attribute_items:,} are read. Store it as an initializer, or "
                "raise OnnxLimits.max_attribute_items."
            )

    def check_count(self, count: int, what: str) -> None:
        if count > self.limits.max_attributes:
            raise UnsupportedOnnxError(
                f"The ONNX file has {count:,} {what}; at most {self.limits.max_attributes} are "
                "read. Raise OnnxLimits.max_attributes if you mean it."
            )

    def sparse(self, data: memoryview) -> OnnxTensor:
        fields = read_fields(data, self.budget)
        values = [self.tensor(t) for t in _messages(fields, 1)]
        for indices in _messages(fields, 2):
            self.tensor(indices)
        if not values:
            raise UnsupportedOnnxError("A sparse tensor of the ONNX file has no values.")
        shape = self.dims(fields, 3, values[-1].name, values[-1].dtype)
        return OnnxTensor(name=values[-1].name, shape=shape, dtype=values[-1].dtype, values=None)

    def tensor(self, data: memoryview) -> OnnxTensor:
        fields = read_fields(data, self.budget)
        name = self.text(fields, 8)
        dtype = _dtype(_integer(fields, 2), f"Tensor {name!r}")
        shape = self.dims(fields, 1, name, dtype)
        if 13 in fields or any(v != 0 for v in fields.get(14, ())):
            # Its values are in another file (external data), which is never opened: the shape is
            # here, and where it lies is not even read.
            return OnnxTensor(name=name, shape=shape, dtype=dtype, values=None)
        count = check_payload(fields, name, shape, dtype)
        keep = 0 < count <= self.limits.max_constant_elements
        values = read_values(fields, shape, dtype) if keep or math.prod(shape) == 0 else None
        return OnnxTensor(name=name, shape=shape, dtype=dtype, values=values)

    def dims(self, fields: Fields, number: int, name: str, dtype: str) -> tuple[int, ...]:
        shape = tuple(self.integers(fields, number, "dims"))
        if any(extent < 0 for extent in shape):
            raise UnsupportedOnnxError(
                f"Tensor {name!r} of the ONNX file has the shape {list(shape)}; every extent of "
                "a stored tensor must be >= 0. The file is damaged."
            )
        self.check_shape(shape, name, dtype)
        return shape

    def check_shape(self, shape: tuple[int, ...], name: str, dtype: str | None) -> None:
        if len(shape) > self.limits.max_rank:
            raise UnsupportedOnnxError(
                f"Tensor {name!r} of the ONNX file has {len(shape)} dimensions; at most "
                f"{self.limits.max_rank} are read."
            )
        size = math.prod(e for e in shape if e) * DTYPE_BYTES.get(dtype or "", 1)
        if size > self.limits.max_tensor_bytes:
            raise UnsupportedOnnxError(
                f"Tensor {name!r} of the ONNX file declares the shape {list(shape)}, more than "
                f"{self.limits.max_tensor_bytes:,} bytes. No accelerator holds it; correct the "
                "file."
            )

    def value_info(self, data: memoryview) -> OnnxValueInfo:
        fields = read_fields(data, self.budget)
        name = self.text(fields, 1)
        types = _messages(fields, 2)
        declared = read_fields(types[-1], self.budget) if types else {}
        tensor = _messages(declared, 1)
        if not tensor:
            return OnnxValueInfo(name=name, dtype=None, dims=None, is_tensor=not declared)
        inner = read_fields(tensor[-1], self.budget)
        number = _integer(inner, 1)
        shapes = _messages(inner, 2)
        dtype = DTYPE_OF_ONNX.get(number)
        return OnnxValueInfo(
            name=name,
            dtype=dtype,
            dims=self.declared_dims(shapes[-1], name, dtype) if shapes else None,
        )

    def declared_dims(self, data: memoryview, name: str, dtype: str | None) -> tuple[Dim, ...]:
        dims: list[Dim] = []
        for message in _messages(read_fields(data, self.budget), 1):
            fields = read_fields(message, self.budget)
            if 1 in fields:
                dims.append(signed(_integer(fields, 1)))
            else:
                dims.append(self.text(fields, 2) or None)
        self.check_shape(tuple(d for d in dims if isinstance(d, int) and d > 0), name, dtype)
        return tuple(dims)

    def text(self, fields: Fields, number: int) -> str:
        return (self.texts(fields, number) or ("",))[-1]

    def texts(self, fields: Fields, number: int) -> tuple[str, ...]:
        windows = _messages(fields, number)
        for window in windows:
            if len(window) > self.limits.max_text_bytes:
                raise UnsupportedOnnxError(
                    f"The ONNX file has a name or string attribute of {len(window):,} bytes; at "
                    f"most {self.limits.max_text_bytes:,} are read. Raise "
                    "OnnxLimits.max_text_bytes if you mean it."
                )
        return tuple(bytes(w).decode("utf-8", "replace") for w in windows)


def _messages(fields: Mapping[int, list[int | memoryview]], number: int) -> list[memoryview]:
    found = fields.get(number, [])
    if any(isinstance(value, int) for value in found):
        raise UnsupportedOnnxError(
            f"Field {number} of the ONNX file holds a number where a message belongs; the file "
            "is damaged."
        )
    return cast("list[memoryview]", found)


def _integer(fields: Fields, number: int) -> int:
    value = fields.get(number, [0])[-1]
    if not isinstance(value, int):
        raise UnsupportedOnnxError(
            f"Field {number} of the ONNX file holds a message where a number belongs; the file "
            "is damaged."
        )
    return value


def _dtype(number: int, what: str) -> str:
    if number not in DTYPE_OF_ONNX:
        raise UnsupportedOnnxError(
            f"{what} of the ONNX file has element type {number}, which is not supported. Use "
            f"one of {', '.join(DTYPE_OF_ONNX.values())}."
        )
    return DTYPE_OF_ONNX[number]


def _domain(text: str) -> str:
    return "" if text == "ai.onnx" else text


def _kind_by_content(fields: Fields) -> int:
    # Files of IR version 1 leave the type tag out.
    tags = {
        3: _INT, 2: _FLOAT, 4: _STRING, 5: _TENSOR, 6: _GRAPH, 7: _FLOATS, 8: _INTS,
        9: _STRINGS, 10: _TENSORS, 11: _GRAPHS, 22: _SPARSE, 23: _SPARSES,
    }  # fmt: skip
    return next((tag for number, tag in tags.items() if number in fields), 0)


def _first_twice(names: list[str]) -> str:
    seen: set[str] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]


def _duplicate(name: str, graph: str) -> UnsupportedOnnxError:
    return UnsupportedOnnxError(
        f"Initializer {name!r} stands twice in graph {graph!r} of the ONNX file. Each name may "
        "be defined once."
    )
