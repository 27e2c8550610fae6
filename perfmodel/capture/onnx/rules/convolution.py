"""Convolutions, their transposes, and the paddings that ATen does not know."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.call import MICROSOFT, Call, translates
from perfmodel.capture.onnx.rules.elementwise import binary
from perfmodel.capture.onnx.rules.matmul import activated
from perfmodel.capture.onnx.rules.movement import padded


class Window:
    """Kernel, strides, dilations and pads of a sliding window over the trailing axes.

    Parameters
    ----------
    extents : sequence of int
        Of the spatial axes of the data.
    """

    def __init__(self, call: Call, extents: Sequence[int], kernel: Sequence[int]) -> None:
        count = len(extents)
        self.extents = tuple(extents)
        self.kernel = self._checked(call, "kernel_shape", kernel, count, 1)
        self.stride = self._checked(
            call, "strides", call.ints_attr("strides", [1] * count) or [], count, 1
        )
        self.dilation = self._checked(
            call, "dilations", call.ints_attr("dilations", [1] * count) or [], count, 1
        )
        self.before, self.after = self._pads(call, count)

    @property
    def spans(self) -> list[int]:
        """Extent that the dilated kernel covers, per axis."""
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]

    def outputs(self, *, ceil: bool = False) -> tuple[int, ...]:
        """Return the extents of the result: ``(extent + pads - span) // stride + 1``."""
        result = []
        for axis, span in enumerate(self.spans):
            room = self.extents[axis] + self.before[axis] + self.after[axis] - span
            stride = self.stride[axis]
            steps = math.ceil(room / stride) if ceil else room // stride
            if ceil and steps * stride >= self.extents[axis] + self.before[axis]:
                steps -= 1  # the last window must start inside the data or the leading pad
            result.append(steps + 1)
        return tuple(result)

    def _pads(self, call: Call, count: int) -> tuple[list[int], list[int]]:
        auto = call.text_attr("auto_pad", "NOTSET")
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            return self._same(auto)
        given = call.ints_attr("pads", [0] * (2 * count)) or [0] * (2 * count)
        if auto == "VALID":
            given = [0] * (2 * count)
        if len(given) != 2 * count:
            raise call.error(f"has pads {given} for {count} spatial axes")
        return given[:count], given[count:]

    def _same(self, auto: str) -> tuple[list[int], list[int]]:
        before, after = [], []
        for extent, span, stride in zip(self.extents, self.spans, self.stride, strict=True):
            total = max(0, (math.ceil(extent / stride) - 1) * stride + span - extent)
            small, large = total // 2, total - total // 2
            before.append(small if auto == "SAME_UPPER" else large)
            after.append(large if auto == "SAME_UPPER" else small)
        return before, after

    @staticmethod
    def _checked(
        call: Call, name: str, values: Sequence[int], count: int, least: int
    ) -> tuple[int, ...]:
        if len(values) != count or any(v < least for v in values):
            raise call.error(f"has {name} {list(values)} for {count} spatial axes")
        return tuple(values)


def symmetric(call: Call, value: Value, window: Window) -> tuple[Value, tuple[int, ...]]:
    """Return the data and the padding for ATen, which pads both sides alike."""
    if window.before == window.after and min(window.before, default=0) >= 0:
        return value, tuple(window.before)
    lead = [0] * (value.rank - len(window.before))
    value = padded(call, value, [*lead, *window.before], [*lead, *window.after], mark="pad")
    return value, (0,) * len(window.before)


def convolve(
    call: Call, value: Value, weight: Value, bias: Value | None, dtype: str | None = None
) -> Value:
    """Write a convolution of ``(batch, channels, ...)`` with ``(out, channels/groups, ...)``."""
    spatial = value.rank - 2
    groups = call.int_attr("group", 1)
    if spatial < 1 or weight.rank != value.rank:
        raise call.error(f"convolves {list(value.shape)} with {list(weight.shape)}")
    window = Window(call, value.shape[2:], call.ints_attr("kernel_shape", weight.shape[2:]) or [])
    fits = groups >= 1 and value.shape[1] == weight.shape[1] * groups
    if not fits or weight.shape[0] % groups or window.kernel != weight.shape[2:]:
        raise call.error(
            f"convolves {list(value.shape)} with {list(weight.shape)} in {groups} groups"
        )
    outputs = window.outputs()
    if min(outputs) < 1:
        raise call.error(f"has a window larger than its data {list(value.shape)}")
    value, padding = symmetric(call, value, window)
    return call.emit(
        "convolution",
        [value, weight, bias],
        (value.shape[0], weight.shape[0], *outputs),
        dtype,
        stride=window.stride,
        padding=padding,
        dilation=window.dilation,
        transposed=False,
        output_padding=(0,) * spatial,
        groups=groups,
    )


@translates("Conv")
def _conv(call: Call) -> Value:
    return convolve(call, call.input(0), call.input(1), call.optional(2))


@translates("FusedConv", domains=(MICROSOFT,))
def _fused_conv(call: Call) -> Value:
    out = convolve(call, call.input(0), call.input(1), call.optional(2))
    addend = call.optional(3)
    if addend is not None:
        out = binary(call, "add", out, addend, mark="add")
    return activated(call, out)


@translates("ConvTranspose")
def _conv_transpose(call: Call) -> Value:
    value, weight, bias = call.input(0), call.input(1), call.optional(2)
    spatial, groups = value.rank - 2, call.int_attr("group", 1)
    if spatial < 1 or weight.rank != value.rank or groups < 1 or value.shape[1] != weight.shape[0]:
        raise call.error(f"convolves {list(value.shape)} with {list(weight.shape)}")
    window = Window(call, value.shape[2:], call.ints_attr("kernel_shape", weight.shape[2:]) or [])
    extra = call.ints_attr("output_padding", [0] * spatial) or [0] * spatial
    full = [
        (e - 1) * s + span + o
        for e, s, span, o in zip(window.extents, window.stride, window.spans, extra, strict=True)
    ]
    outputs = _transposed_outputs(call, window, full)
    cut = [f - o for f, o in zip(full, outputs, strict=True)]
    even = all(c >= 0 and c % 2 == 0 for c in cut)
    padding = tuple(c // 2 for c in cut) if even else (0,) * spatial
    written = tuple(outputs) if even else tuple(full)
    channels = weight.shape[1] * groups
    out = call.emit(
        "convolution",
        [value, weight, bias],
        (value.shape[0], channels, *written),
        stride=window.stride,
        padding=padding,
        dilation=window.dilation,
        transposed=True,
        output_padding=tuple(extra),
        groups=groups,
    )
    if even:
        return out
    shape = (value.shape[0], channels, *outputs)
    grow = [max(0, -c) for c in cut]
    out = padded(call, out, [0] * out.rank, [0, 0, *grow], mark="pad")
    for axis, extent in enumerate(shape):
        if out.shape[axis] != extent:
            cropped = (*shape[: axis + 1], *out.shape[axis + 1 :])
            out = call.view(
                "slice", out, cropped, mark="slice", dim=axis, start=0, end=extent, step=1
            )
    return out


def _transposed_outputs(call: Call, window: Window, full: list[int]) -> list[int]:
    wanted = call.ints_attr("output_shape")
    if wanted is not None:
        outputs = wanted[-len(full) :]
    elif call.text_attr("auto_pad", "NOTSET").startswith("SAME"):
        outputs = [e * s for e, s in zip(window.extents, window.stride, strict=True)]
    else:
        outputs = [f - b - a for f, b, a in zip(full, window.before, window.after, strict=True)]
    if len(outputs) != len(full) or min(outputs) < 1:
        raise call.error(f"has the result extents {outputs}")
    return outputs
