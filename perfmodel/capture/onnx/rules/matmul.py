"""Matrix products: Gemm, MatMul, Einsum and their fused kin."""

from __future__ import annotations

import math

from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.call import MICROSOFT, Call, translates
from perfmodel.capture.onnx.rules.elementwise import broadcast, unary


def transposed(call: Call, value: Value) -> Value:
    """Write the transposition of the last two dimensions, a view."""
    shape = (*value.shape[:-2], value.shape[-1], value.shape[-2])
    if value.rank == 2:
        return call.view("t", value, shape, mark="t")
    return call.view("transpose", value, shape, mark="transpose", dim0=-2, dim1=-1)


def viewed(call: Call, value: Value, shape: tuple[int, ...]) -> Value:
    """Write a view of another shape; none where the shape is right already."""
    if value.shape == shape:
        return value
    return call.view("view", value, shape, mark="view", size=shape)


def product(call: Call, left: Value, right: Value, dtype: str | None = None) -> Value:
    """Write a matrix product by numpy's rules for ``matmul``.

    A weight of two dimensions is multiplied once with all rows (``mm``), as PyTorch does;
    stacks of matrices become ``bmm``.
    """
    if not left.rank or not right.rank:
        raise call.error("multiplies a scalar as if it were a matrix")
    if left.rank == 1:
        out = product(call, viewed(call, left, (1, *left.shape)), right, dtype)
        return viewed(call, out, (*out.shape[:-2], out.shape[-1]))
    if right.rank == 1:
        out = product(call, left, viewed(call, right, (*right.shape, 1)), dtype)
        return viewed(call, out, out.shape[:-1])
    if left.shape[-1] != right.shape[-2]:
        raise call.error(
            f"multiplies {list(left.shape)} by {list(right.shape)}: inner extents differ"
        )
    if right.rank == 2:
        rows = math.prod(left.shape[:-1])
        flat = viewed(call, left, (rows, left.shape[-1]))
        out = call.emit("mm", [flat, right], (rows, right.shape[-1]), dtype)
        return viewed(call, out, (*left.shape[:-1], right.shape[-1]))
    return _batched(call, left, right, dtype)


def _batched(call: Call, left: Value, right: Value, dtype: str | None) -> Value:
    lead = broadcast(call, left.shape[:-2], right.shape[:-2])
    count = math.prod(lead)
    rows, columns = left.shape[-2], right.shape[-1]
    left, right = (_stacked(call, v, lead, count) for v in (left, right))
    out = call.emit("bmm", [left, right], (count, rows, columns), dtype)
    return viewed(call, out, (*lead, rows, columns))


def _stacked(call: Call, value: Value, lead: tuple[int, ...], count: int) -> Value:
    full = (*lead, *value.shape[-2:])
    if value.shape != full:
        value = call.view("expand", value, full, mark="expand", size=full)
    return viewed(call, value, (count, *value.shape[-2:]))


@translates("MatMul")
def _matmul(call: Call) -> Value:
    return product(call, call.input(0), call.input(1))


@translates("FusedMatMul", "TransposeMatMul", domains=(MICROSOFT,))
def _fused_matmul(call: Call) -> Value:
    left, right = call.input(0), call.input(1)
    if call.int_attr("transA", 0):
        left = transposed(call, left)
    if call.int_attr("transB", 0):
        right = transposed(call, right)
    out = product(call, left, right)
    alpha = call.float_attr("alpha", 1.0)
    return out if alpha == 1.0 else unary(call, "mul", out, mark="scale", other=alpha)


@translates("Gemm", domains=("", MICROSOFT))
@translates("FusedGemm", domains=(MICROSOFT,))
def _gemm(call: Call) -> Value:
    left, right, bias = call.input(0), call.input(1), call.optional(2)
    if call.opset < 7 and left.rank > 2:
        left = viewed(call, left, (left.shape[0], math.prod(left.shape[1:])))
    if left.rank != 2 or right.rank != 2:
        raise call.error(
            f"multiplies {list(left.shape)} by {list(right.shape)}; both must be matrices"
        )
    if call.int_attr("transA", 0):
        left = transposed(call, left)
    if call.int_attr("transB", 0):
        right = transposed(call, right)
    shape = (left.shape[0], right.shape[1])
    if left.shape[1] != right.shape[0]:
        raise call.error(
            f"multiplies {list(left.shape)} by {list(right.shape)}: inner extents differ"
        )
    if bias is None:
        out = call.emit("mm", [left, right], shape)
    else:
        if broadcast(call, shape, bias.shape) != shape:
            raise call.error(f"adds a bias of shape {list(bias.shape)} to {list(shape)}")
        factors = {"alpha": call.float_attr("alpha", 1.0), "beta": call.float_attr("beta", 1.0)}
        out = call.emit("addmm", [bias, left, right], shape, carried=factors)
    return activated(call, out)


def activated(call: Call, value: Value) -> Value:
    """Write the activation that a fused operator names, if any."""
    names = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "LeakyRelu": "leaky_relu",
             "HardSigmoid": "hardsigmoid", "Clip": "clamp", "Gelu": "gelu"}  # fmt: skip
    name = call.text_attr("activation", "")
    if not name:
        return value
    if name not in names:
        raise call.error(f"fuses the activation {name!r}, which is not known")
    return unary(call, names[name], value, mark=names[name])


@translates("Einsum")
def _einsum(call: Call) -> Value:
    equation = call.text_attr("equation", "").replace(" ", "")
    terms, arrow, result = equation.partition("->")
    names = terms.split(",")
    values = [call.input(p) for p in range(len(call.inputs))]
    if "." in equation:
        raise call.error(f"uses an ellipsis in the equation {equation!r}, which is not supported")
    if len(names) != len(values) or any(
        len(n) != v.rank or len(set(n)) != len(n) for n, v in zip(names, values, strict=True)
    ):
        raise call.error(f"has the equation {equation!r}, which does not fit its inputs")
    if not arrow:
        letters = "".join(names)
        result = "".join(sorted(c for c in set(letters) if c.isalpha() and letters.count(c) == 1))
    extents: dict[str, int] = {}
    for letters, value in zip(names, values, strict=True):
        for letter, extent in zip(letters, value.shape, strict=True):
            if extents.setdefault(letter, extent) != extent:
                raise call.error(f"gives {letter!r} two extents in {equation!r}")
    if set(result) - set(extents):
        raise call.error(f"has the equation {equation!r}, whose result names unknown letters")
    have, value = names[0], values[0]
    for position in range(1, len(values)):
        later = set("".join(names[position + 1 :]) + result)
        have, value = _contract(call, (have, value), (names[position], values[position]), later)
    return _arranged(call, *_summed(call, have, value, set(result)), result)


Lettered = tuple[str, Value]


def _contract(call: Call, left: Lettered, right: Lettered, keep: set[str]) -> Lettered:
    """Multiply two lettered tensors as one ``bmm`` over their shared, kept letters."""
    left = _summed(call, *left, keep | set(right[0]))
    right = _summed(call, *right, keep | set(left[0]))
    (a, x), (b, y) = left, right
    extents = dict(zip(a + b, x.shape + y.shape, strict=True))
    batch = [c for c in a if c in b and c in keep]
    inner = [c for c in a if c in b and c not in keep]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]

    def extent(letters: list[str]) -> int:
        return math.prod(extents[c] for c in letters)

    x = _arranged(call, a, x, "".join(batch + rows + inner))
    y = _arranged(call, b, y, "".join(batch + inner + columns))
    if batch:
        x = viewed(call, x, (extent(batch), extent(rows), extent(inner)))
        y = viewed(call, y, (extent(batch), extent(inner), extent(columns)))
        out = call.emit("bmm", [x, y], (extent(batch), extent(rows), extent(columns)))
    else:
        x = viewed(call, x, (extent(rows), extent(inner)))
        y = viewed(call, y, (extent(inner), extent(columns)))
        out = call.emit("mm", [x, y], (extent(rows), extent(columns)))
    letters = batch + rows + columns
    return "".join(letters), viewed(call, out, tuple(extents[c] for c in letters))


def _summed(call: Call, letters: str, value: Value, keep: set[str]) -> Lettered:
    gone = tuple(p for p, c in enumerate(letters) if c not in keep)
    if not gone:
        return letters, value
    shape = tuple(e for p, e in enumerate(value.shape) if p not in gone)
    left = "".join(c for c in letters if c in keep)
    return left, call.emit("sum", [value], shape, mark="sum", dim=gone, keepdim=False)


def _arranged(call: Call, letters: str, value: Value, wanted: str) -> Value:
    order = tuple(letters.index(c) for c in wanted)
    if order == tuple(range(len(order))):
        return value
    shape = tuple(value.shape[p] for p in order)
    return call.view("permute", value, shape, mark="permute", dims=order)
