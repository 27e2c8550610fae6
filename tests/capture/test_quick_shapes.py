"""What the quick rules say of results is what PyTorch says, strides included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from perfmodel.capture.recording.quick_shapes import keeps_geometry, quick_recipes
from perfmodel.capture.recording.shapes import LAYOUT_RULES

ATEN = torch.ops.aten
HALF, FULL = torch.float16, torch.float32
SHAPES = (
    (4, 8, 6, 6), (1, 8, 6, 6), (4, 1, 6, 6), (4, 8, 1, 1), (4, 8), (1, 8), (4, 1), (7,), (1,),
    (), (3, 5, 8), (3, 0, 8), (2, 3, 4, 5, 8),
)  # fmt: skip


def meta(shape: tuple[int, ...], dtype: torch.dtype = FULL, *, last: bool = False) -> torch.Tensor:
    made = torch.empty(shape, dtype=dtype, device="meta")
    return made.contiguous(memory_format=torch.channels_last) if last else made


def layouts(dtype: torch.dtype = FULL) -> Iterator[torch.Tensor]:
    """Yield tensors of many shapes: dense, channels last, transposed, sliced, stretched."""
    for shape in SHAPES:
        whole = meta(shape, dtype)
        yield whole
        if len(shape) == 4:
            yield meta(shape, dtype, last=True)
        if len(shape) > 1:
            yield whole.transpose(0, -1)
            yield whole[..., : max(shape[-1] // 2, 1)]
            yield whole[:1].expand(shape)


def agrees(func: Any, *args: Any, **kwargs: Any) -> bool:
    """Compare a rule with PyTorch; returns whether there was a rule."""
    said = quick_recipes(func, args, kwargs)
    if said is None:
        return False
    single, recipes = said
    answer = LAYOUT_RULES.get(func, func)(*args, **kwargs)
    results = (answer,) if single else answer
    assert isinstance(answer, torch.Tensor) is single
    found = [None if r is None else (tuple(r.shape), r.stride(), r.dtype) for r in results]
    stated = [None if r is None else (tuple(r[0]), r[1], r[2]) for r in recipes]
    assert found == stated, (func, args)
    memory = {tensor.untyped_storage()._cdata for tensor in args if torch.is_tensor(tensor)}
    assert all(r is None or r.untyped_storage()._cdata not in memory for r in results)
    return True


UNARY = (
    ("gelu", ()), ("silu", ()), ("sigmoid", ()), ("tanh", ()), ("relu", ()), ("hardswish", ()),
    ("hardsigmoid", ()), ("hardtanh", (0.0, 6.0)), ("leaky_relu", (0.2,)), ("elu", ()),
    ("exp", ()), ("log", ()), ("sqrt", ()), ("rsqrt", ()), ("neg", ()), ("abs", ()), ("erf", ()),
    ("reciprocal", ()),
)  # fmt: skip
GRADIENTS = (
    ("threshold_backward", (0,)), ("gelu_backward", ()), ("silu_backward", ()),
    ("sigmoid_backward", ()), ("tanh_backward", ()), ("hardswish_backward", ()),
    ("hardsigmoid_backward", ()), ("hardtanh_backward", (0.0, 6.0)),
    ("leaky_relu_backward", (0.2, False)),
)  # fmt: skip


def test_activations() -> None:
    for name, more in UNARY:
        func = getattr(ATEN, name).default
        assert sum(agrees(func, x, *more) for x in layouts()) >= 8, name
        assert agrees(func, meta((4, 8, 6, 6), HALF, last=True), *more)
    assert sum(agrees(ATEN.pow.Tensor_Scalar, x, 2) for x in layouts()) >= 8


@pytest.mark.parametrize("dtype", [FULL, HALF])
def test_gradients_of_activations(dtype: torch.dtype) -> None:
    for name, more in GRADIENTS:
        func = getattr(ATEN, name).default
        for grad in (x for x in layouts(dtype) if x.dim() == 4 and x.shape[0] > 1):
            agrees(func, grad, torch.empty_like(grad), *more)
            agrees(func, grad, meta(tuple(grad.shape), dtype), *more)
        plain = meta((4, 8, 6, 6), dtype, last=True)
        assert agrees(func, plain, torch.empty_like(plain), *more), name
    plain = meta((4, 8, 6, 6), dtype)
    assert agrees(ATEN.elu_backward.default, plain, 1.0, 1.0, 1.0, False, torch.empty_like(plain))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_sums_and_products(name: str) -> None:
    func = getattr(ATEN, name).Tensor
    seconds = (2, 0.5, True, meta(()), meta((6,)), meta((8, 1, 1)), meta((1, 8, 1, 1)),
               meta((4, 8, 6, 6)), meta((4, 8, 6, 6), last=True), meta((4, 1, 6, 6)),
               meta((6,), HALF), meta((), torch.float64), meta((5, 4, 8, 6, 6)))  # fmt: skip
    ruled = 0
    for first in (meta((4, 8, 6, 6)), meta((4, 8, 6, 6), last=True), meta((1, 8, 6, 6), last=True),
                  meta((4, 8, 6, 6)).transpose(2, 3), meta((8, 1, 1)), meta((6,))):  # fmt: skip
        for second in seconds:
            try:
                ruled += agrees(func, first, second)
            except RuntimeError as error:
                pytest.fail(f"a rule spoke for {first.shape} and {second}: {error}")
    assert ruled >= 25


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("dtype", "kept"), [(FULL, FULL), (HALF, FULL), (HALF, HALF)])
def test_batch_norm_both_ways(training: bool, dtype: torch.dtype, kept: torch.dtype) -> None:
    forward, backward = ATEN.native_batch_norm.default, ATEN.native_batch_norm_backward.default
    ruled = 0
    for x in (x for x in layouts(dtype) if x.dim() > 1 and x.numel()):
        channel = meta((x.shape[1],), kept)
        for weight in (channel, None):
            given = (x, weight, weight, channel, channel)
            ruled += agrees(forward, *given, training, 0.1, 1e-5)
            saved = meta((x.shape[1],))
            grad = torch.empty_like(x) if weight is None else meta(tuple(x.shape), dtype)
            mask = [True, weight is not None, weight is not None]
            agrees(backward, grad, x, weight, channel, channel, saved, saved, training, 1e-5, mask)
        if training:
            agrees(forward, x, None, None, None, None, True, 0.1, 1e-5)
    assert ruled >= 8


@pytest.mark.parametrize(("dtype", "learned"), [(FULL, FULL), (HALF, HALF), (HALF, FULL)])
def test_layer_norm_both_ways(dtype: torch.dtype, learned: torch.dtype) -> None:
    forward, backward = ATEN.native_layer_norm.default, ATEN.native_layer_norm_backward.default
    ruled = 0
    for x in (x for x in layouts(dtype) if x.dim() > 1 and x.numel()):
        for axis in range(1, x.dim()):
            inner = list(x.shape[axis:])
            weight = meta(tuple(inner), learned)
            moment = meta((*x.shape[:axis], *([1] * len(inner))))
            for w, b in ((weight, weight), (None, None)):
                ruled += agrees(forward, x, inner, w, b, 1e-5)
                grad = torch.empty_like(x) if w is None else meta(tuple(x.shape), dtype)
                agrees(backward, grad, x, inner, moment, moment, w, b,
                       [True, w is not None, b is not None])  # fmt: skip
    assert ruled >= 15


@pytest.mark.parametrize("dtype", [FULL, HALF])
@pytest.mark.parametrize(("name", "overload"), [("mean", "dim"), ("sum", "dim_IntList")])
def test_sums_and_means(name: str, overload: str, dtype: torch.dtype) -> None:
    func = getattr(getattr(ATEN, name), overload)
    ruled = 0
    for x in (x for x in layouts(dtype) if x.dim()):
        for axes in ([0], [-1], [2, 3], [1, -1], [0, 2, 3]):
            for more in ((), (True,)):
                if all(-x.dim() <= axis < x.dim() for axis in axes) and x.dim() > len(axes):
                    ruled += agrees(func, x, axes, *more)
    assert ruled >= 40
    whole = meta((4, 8, 6, 6), dtype)
    for given in ((None,), ([],), ([4],), ([1, -3],)):
        assert quick_recipes(func, (whole, *given), {}) is None
    assert quick_recipes(func, (whole, [1]), {"dtype": torch.float64}) is None


@pytest.mark.parametrize(("dtype", "learned"), [(FULL, FULL), (HALF, HALF), (HALF, FULL)])
def test_group_norm_both_ways(dtype: torch.dtype, learned: torch.dtype) -> None:
    forward, backward = ATEN.native_group_norm.default, ATEN.native_group_norm_backward.default
    ruled = 0
    for x in (x for x in layouts(dtype) if x.dim() > 1 and x.numel() and x.shape[1] == 8):
        weight, pixels = meta((8,), learned), x.numel() // (8 * x.shape[0])
        for groups in (1, 4, 8):
            sizes = (x.shape[0], 8, pixels, groups)
            for w in (weight, None):
                if not agrees(forward, x, w, w, *sizes, 1e-5):
                    continue
                moment = meta((x.shape[0], groups), dtype)
                mask = [True, w is not None, w is not None]
                ruled += agrees(backward, x, x, moment, moment, w, *sizes, mask)
                ruled += agrees(backward, x, x, moment, moment, w, *sizes, [False, *mask[1:]])
    assert ruled >= 15 or learned is not dtype
    image, width = meta((4, 8, 6, 6)), meta((8,))
    assert quick_recipes(forward, (image, width, width, 4, 8, 36, 3, 1e-5), {}) is None


def test_convolutions() -> None:
    ruled = 0
    for image in (meta((4, 8, 9, 7)), meta((4, 8, 9, 7), last=True), meta((1, 8, 1, 1)),
                  meta((4, 8, 9, 7))[:, :, ::2], meta((4, 1, 9, 7), HALF), meta((8, 9, 7)),
                  meta((0, 8, 9, 7))):  # fmt: skip
        for kernel in (meta((6, 8, 3, 3)), meta((6, 8, 1, 1)), meta((8, 1, 3, 2), last=True),
                       meta((6, 1, 5, 5), HALF), meta((6, 4, 3, 3))):  # fmt: skip
            for groups in (1, 2, 8):
                for steps, around, apart in ((1, 0, 1), (2, 1, 1), (3, 2, 2)):
                    given = ([steps] * 2, [around] * 2, [apart] * 2, False, [0, 0], groups)
                    ruled += agrees(ATEN.convolution.default, image, kernel, None, *given)
    assert ruled >= 40
    transposed = ([2, 2], [0, 0], [1, 1], True, [0, 0], 1)
    args = (meta((4, 8, 9, 7)), meta((8, 6, 3, 3)), None, *transposed)
    assert quick_recipes(ATEN.convolution.default, args, {}) is None


def test_gradients_of_convolutions() -> None:
    ruled = 0
    images = (meta((4, 8, 9, 7)), meta((4, 8, 9, 7), last=True), meta((1, 8, 5, 5)),
              meta((4, 8, 1, 1)),
              torch.empty_strided((4, 8, 1, 1), (8, 1, 8, 8), device="meta"),
              meta((4, 8, 9, 7))[:, :, ::2], meta((4, 8, 9, 7), HALF), meta((8, 9, 7)))  # fmt: skip
    kernels = (meta((6, 8, 3, 3)), meta((6, 8, 1, 1)), meta((8, 1, 3, 2), last=True),
               meta((6, 8, 5, 5), HALF),
               # One pixel, and strides of either layout.
               torch.empty_strided((6, 8, 1, 1), (8, 1, 8, 8), device="meta"))  # fmt: skip
    for image in images:
        for kernel in kernels:
            groups = 8 // kernel.shape[1]
            given = ([2, 2], [2, 2], [1, 1], False, [0, 0], groups)
            if image.dim() != 4 or image.dtype is not kernel.dtype:
                args = (image, image, kernel, None, *given, [True, True, False])
                assert quick_recipes(ATEN.convolution_backward.default, args, {}) is None
                continue
            out = ATEN.convolution.default(image, kernel, None, *given)
            for mask in ([True] * 3, [True, True, False], [False, True, True]):
                for layout in (torch.contiguous_format, torch.channels_last):
                    grad = torch.empty_like(out, memory_format=layout)
                    sizes = [kernel.shape[0]]
                    ruled += agrees(
                        ATEN.convolution_backward.default, grad, image, kernel, sizes, *given, mask
                    )
    assert ruled >= 40


def test_products_with_a_bias() -> None:
    for rows, width in ((4, 8), (1, 8), (4, 1), (0, 8)):
        left = meta((rows, 5))
        for right in (meta((5, width)), meta((width, 5)).t()):
            said = agrees(ATEN.addmm.default, meta((width,)), left, right)
            assert said is (rows > 0 and width > 1)


def test_what_is_written_in_place_keeps_its_geometry() -> None:
    for name in ("relu_", "silu_", "gelu_", "hardswish_", "hardsigmoid_", "sigmoid_", "tanh_"):
        for x in layouts():
            func = getattr(ATEN, name).default
            if keeps_geometry(func, (x,)) and x.stride() and 0 not in x.stride():
                before = (x.shape, x.stride(), x.dtype)
                result = func(x)
                assert result is x
                assert (result.shape, result.stride(), result.dtype) == before
    whole, half = meta((4, 8)), meta((4, 8), HALF)
    assert keeps_geometry(ATEN.add_.Tensor, (whole, whole))
    assert keeps_geometry(ATEN.mul_.Tensor, (whole, 0.5))
    assert not keeps_geometry(ATEN.add_.Tensor, (half, whole))
    assert not keeps_geometry(ATEN.add_.Tensor, (whole, meta((8,))))
    assert not keeps_geometry(ATEN.div_.Tensor, (torch.ones(2, dtype=torch.int64), 2))


def test_what_pytorch_refuses_has_no_rule() -> None:
    image, kernel, channel = meta((4, 8, 9, 7)), meta((6, 8, 3, 3)), meta((8,))
    settings = ([1, 1], [0, 0], [1, 1], False, [0, 0])
    convolution = ATEN.convolution.default
    assert agrees(convolution, image, kernel, meta((6,)), *settings, 1)
    for weight, bias, groups in (
        (meta((6, 8, 3, 3), HALF), None, 1),
        (kernel, meta((5,)), 1),
        (kernel, meta((6,), HALF), 1),
        (meta((7, 4, 3, 3)), None, 2),
    ):
        assert quick_recipes(convolution, (image, weight, bias, *settings, groups), {}) is None
    norm = ATEN.native_batch_norm.default
    assert agrees(norm, image, channel, channel, channel, channel, True, 0.1, 1e-5)
    given = (image, channel, meta((9,)), channel, channel, True, 0.1, 1e-5)
    assert quick_recipes(norm, given, {}) is None
