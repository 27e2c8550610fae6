r"""How long a tuned engine takes for its kernels on a GPU.

A kernel of F operations and N elements of b bytes takes the longest of three times, smoothly:

.. math::

    t = \left( \left(\frac{F}{e P}\right)^p + \left(\frac{b M}{m W}\right)^p
        + \left(\frac{(j_f b F + j_b b M) \, q^{y - 2020}}{T}\right)^p \right)^{1/p} + l

with the peak P of the type, the bandwidth W, the power limit T and the year y of the device. A
share s of the traffic reaches memory, :math:`s = 1 / (1 + C / c)` for a cache of C bytes: engines
choose batches and orders that keep much in it. What no kernel of the step writes (weights, inputs,
kept keys and values: G of the elements of a kernel) is read anew in each step, and of all that a
step is given a cache has no more than C bytes left of the step before:

.. math::

    M = s N + \max\left(0, \; 1 - \frac{C}{b \sum G} - s\right) G

The third time is that of energy: cards with a low
limit for their peak lower their clocks, and chips of later years need less for the same work.

Seven numbers beside p and l are learned; none is of a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.predictors.engines.engine_kernels import EngineKernels
from perfmodel.types import Precision

#: Bytes of an element by the rate at which products run.
_ITEM_BYTES: Mapping[str, float] = {
    "int8": 1.0, "fp8": 1.0, "fp16": 2.0, "bf16": 2.0, "tf32": 4.0, "fp32": 4.0,
}  # fmt: skip
#: Year that the energies stand for.
_YEAR = 2020


@dataclass(frozen=True, kw_only=True)
class EngineLaw:
    """The law with its constants, all > 0.

    Parameters
    ----------
    matmul_share, convolution_share : float
        Share e of the peak that products and convolutions reach.
    bandwidth_share : float
        Share m of the bandwidth.
    operation_j, byte_j : float
        Energy of an operation on elements of one byte, and of a byte of traffic, in 2020: J.
    yearly : float
        What energies are multiplied by with each year (q).
    cache_bytes : float
        Cache c that halves the traffic.
    sharpness : float
        Exponent p; the larger, the more the longest time counts alone.
    launch_s : float
        What a kernel takes besides.
    """

    matmul_share: float
    convolution_share: float
    bandwidth_share: float
    operation_j: float
    byte_j: float
    yearly: float
    cache_bytes: float
    sharpness: float
    launch_s: float

    def time_s(self, kernels: EngineKernels, spec: AcceleratorSpec, precision: Precision) -> float:
        """Return the time of all kernels, one after another.

        Parameters
        ----------
        spec : AcceleratorSpec
            One of :func:`is_covered`.
        precision : Precision
            Of products and of what is stored; where the device has no units for it, the rate and
            the width of the type that stands in.
        """
        rate = spec.rate_of(precision)
        width = _ITEM_BYTES[rate]
        if spec.tdp_w is None or spec.year is None:
            raise ValueError(f"{spec.name} states no power limit or no year.")
        moved = self._moved_bytes(kernels, spec, width)
        share = np.where(kernels.is_convolution, self.convolution_share, self.matmul_share)
        compute = kernels.flops / (share * spec.peak_flops[rate])
        memory = moved / (self.bandwidth_share * spec.bandwidth_bytes_per_s)
        joules = kernels.flops * width * self.operation_j + moved * self.byte_j
        energy = joules * self.yearly ** (spec.year - _YEAR) / spec.tdp_w
        longest = np.maximum(np.maximum(np.maximum(compute, memory), energy), 1e-15)
        # Over the longest first: powers of small numbers vanish.
        parts = sum((one / longest) ** self.sharpness for one in (compute, memory, energy))
        return float(np.sum(longest * parts ** (1.0 / self.sharpness) + self.launch_s))

    def roofline_s(
        self, kernels: EngineKernels, spec: AcceleratorSpec, precision: Precision
    ) -> float:
        """Return the time of all kernels at the peak and the full bandwidth: no engine is faster.

        Parameters
        ----------
        spec, precision
            As of :meth:`time_s`.
        """
        rate = spec.rate_of(precision)
        memory = self._moved_bytes(kernels, spec, _ITEM_BYTES[rate]) / spec.bandwidth_bytes_per_s
        return float(np.maximum(kernels.flops / spec.peak_flops[rate], memory).sum())

    def _moved_bytes(
        self, kernels: EngineKernels, spec: AcceleratorSpec, width: float
    ) -> npt.NDArray[np.float64]:
        """Return the bytes of each kernel that reach memory."""
        cache = spec.cache_bytes or 0.0
        share = 1.0 / (1.0 + cache / self.cache_bytes)
        given = float(kernels.given.sum()) * width
        fresh = max(0.0, 1.0 - cache / given - share) if given > 0 else 0.0
        return width * (share * kernels.elements + fresh * kernels.given)


def is_covered(spec: AcceleratorSpec, precision: Precision) -> bool:
    """Tell whether the law speaks of an accelerator: an NVIDIA GPU whose limit and year are known.

    Only for types of at most 16 bits: engines in fp32 were not learned from.
    """
    known = spec.tdp_w is not None and spec.year is not None
    return (
        (spec.vendor, spec.kind) == ("NVIDIA", "gpu")
        and known
        and _ITEM_BYTES.get(spec.rate_of(precision), 8.0) <= _ITEM_BYTES["fp16"]
    )
