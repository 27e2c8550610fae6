"""What the type of a kernel's arithmetic says: bytes of its operands and its peak rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import UnknownWordError
from perfmodel.types import Precision


@dataclass(frozen=True, kw_only=True)
class KernelDtype:
    """Storage and arithmetic of one kind of kernel.

    Parameters
    ----------
    rate : Precision
        Whose matrix rate the arithmetic runs at.
    input_bytes, weight_bytes, output_bytes : float
        Bytes an element; block scales included.
    scaled : float
        Elements that share a scale, 0 where there is none.
    speed_up : float
        Peak over that of ``rate``, on accelerators that have the narrower type.
    """

    rate: Precision
    input_bytes: float
    weight_bytes: float
    output_bytes: float
    scaled: float = 0.0
    speed_up: float = 1.0


def _plain(rate: Precision, size: float) -> KernelDtype:
    return KernelDtype(rate=rate, input_bytes=size, weight_bytes=size, output_bytes=size)


def _narrow(rate: Precision, given: float, weight: float, scaled: float = 0.0) -> KernelDtype:
    """Return a type whose results are stored in sixteen bits."""
    return KernelDtype(
        rate=rate, input_bytes=given, weight_bytes=weight, output_bytes=2.0, scaled=scaled
    )


#: Four-bit elements with an eight-bit scale for every 16 (nvfp4) or 32 (mxfp4) of them.
_NVFP4_BYTES = 0.5 + 1 / 16
_MXFP4_BYTES = 0.5 + 1 / 32

DTYPES: Mapping[str, KernelDtype] = MappingProxyType(
    {
        "fp32": _plain(Precision.FP32, 4.0),
        "tf32": _plain(Precision.TF32, 4.0),
        "fp16": _plain(Precision.FP16, 2.0),
        "bf16": _plain(Precision.BF16, 2.0),
        "fp8": _narrow(Precision.FP8, 1.0, 1.0),
        "fp8_block": _narrow(Precision.FP8, 1.0, 1.0, 128.0),
        "int8": _narrow(Precision.INT8, 1.0, 1.0),
        "w8a16": _narrow(Precision.BF16, 2.0, 1.0),
        "w4a16": _narrow(Precision.BF16, 2.0, 0.5),
        "w4a16_mxfp4": _narrow(Precision.BF16, 2.0, _MXFP4_BYTES, 32.0),
        "w4a8_mxfp4": _narrow(Precision.FP8, 1.0, _MXFP4_BYTES, 32.0),
        "nvfp4": KernelDtype(
            rate=Precision.FP8,
            input_bytes=_NVFP4_BYTES,
            weight_bytes=_NVFP4_BYTES,
            output_bytes=2.0,
            scaled=16.0,
            speed_up=2.0,
        ),
    }
)


def kernel_dtype(word: str) -> KernelDtype:
    """Return what a type is; raises UnknownWordError for one that is not known."""
    if word not in DTYPES:
        raise UnknownWordError(word, field="dtype", known=sorted(DTYPES))
    return DTYPES[word]


def peak_flops_per_s(dtype: KernelDtype, device: AcceleratorSpec) -> float:
    """Return the peak rate of matrix work of a type on a device, in FLOP/s."""
    return device.flops_per_s(dtype.rate) * dtype.speed_up
