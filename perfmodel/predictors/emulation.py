"""Floating-point types narrower than 32 bits on CPUs that have no arithmetic for them.

What 16 bits cost on CPUs that have no arithmetic for them was measured with PyTorch 2.13 on one
core of a Zen 4 (products of 768 x 768, linear layers and convolutions), its vector units held back
to those of older CPUs: fp16 takes 4 to 37 times as long as fp32, whatever the units; bf16 1.8 to
2.4 times with AVX-512, and 5 to 40 times without it. Nothing is known of how Arm CPUs do. What is
widened from fp8 goes through 16 bits, so that it costs what bf16 does there at least. Integers of 8
bits are no such type: every CPU with vectors multiplies them, and libraries do it no slower than
fp32 (recalled, not measured here).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.types import Precision

#: FLOP per cycle and core from which on a CPU has units for vectors of 512 bits.
_WIDE_VECTORS = 48.0
_X86_VENDORS = ("Intel", "AMD")


class Emulation(NamedTuple):
    """How many times as long a step takes as with fp32 arithmetic on the same tensors.

    Parameters
    ----------
    half_width : float
        What it adds to the half width of an interval, in logarithms.
    """

    factor: float
    half_width: float


_BY_WIDE_VECTORS = Emulation(2.1, math.log(1.3))
_WITHOUT_KERNELS = Emulation(15.0, math.log(2.5))


def emulation(arithmetic: Precision, spec: AcceleratorSpec) -> Emulation | None:
    """Return what it costs to compute 8 or 16 bits without units; None where nothing is known.

    Vector units that add up fp16 in fp16 are units: libraries have kernels for CPUs with them,
    which widen it on the way in, at the rate of fp32 (recalled, not measured here).

    Examples
    --------
    >>> from perfmodel.devices.catalog import Catalog
    >>> from perfmodel.types import Precision
    >>> known = Catalog.default()
    >>> [emulation(Precision.BF16, known.get(n)) for n in ("EPYC-7742", "EPYC-9654", "A10")]
    [Emulation(factor=15.0, half_width=0.9162907318741551), None, None]
    >>> [emulation(Precision.FP16, known.get(n)) is None for n in ("EPYC-9654", "Xeon-Gold-6454S")]
    [False, True]
    >>> emulation(Precision.FP8, known.get("EPYC-7742")).factor
    15.0
    """
    rate = arithmetic.matrix_rate
    if rate == "fp8" and rate not in spec.peak_flops:
        rate = "bf16"
    if spec.kind != "cpu" or spec.vendor not in _X86_VENDORS or rate not in ("fp16", "bf16"):
        return None
    if rate in spec.peak_flops or (rate == "fp16" and spec.peak_flops_fp16_accumulate):
        return None
    if rate == "bf16" and _has_wide_vectors(spec):
        return _BY_WIDE_VECTORS
    return _WITHOUT_KERNELS


def _has_wide_vectors(spec: AcceleratorSpec) -> bool:
    if not spec.core_count or not spec.clock_hz or "fp32" not in spec.peak_flops:
        return False
    return spec.peak_flops["fp32"] / (spec.core_count * spec.clock_hz) >= _WIDE_VECTORS


#: Said where a type is emulated on a CPU.
EMULATED_WARNING = (
    "{device} has no {rate} arithmetic: the {what} is answered as {factor:g} times that of fp32 "
    "arithmetic on tensors of 16 bits; libraries without kernels for it were seen to take about as "
    "long. Compute in fp32 there."
)
