"""What perfmodel knows about an accelerator before it has measured anything on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from perfmodel.types import Engine, Precision

#: Keys of :attr:`AcceleratorSpec.peak_flops`.
RATES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")

#: Rates tried in turn when an accelerator states none for a precision: an accelerator without
#: TF32 runs the work in fp32; one without fp16 arithmetic stores fp16 and computes in fp32. The
#: range of bf16 is that of fp32: fp16 units (V100, T4) cannot stand in for it, fp32 ones do.
_FALLBACK: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "fp64": ("fp64", "fp32"),
        "fp32": ("fp32", "tf32", "bf16", "fp16"),
        "tf32": ("tf32", "fp32", "bf16", "fp16"),
        "fp16": ("fp16", "bf16", "fp32"),
        "bf16": ("bf16", "fp32", "fp16"),
        "fp8": ("fp8", "bf16", "fp16", "fp32"),
        "int8": ("int8", "fp16", "bf16", "fp32"),
    }
)

#: Compilers for TPUs compute fp16 in bf16; libraries for CPUs do not.
_CPU_FALLBACK: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {**_FALLBACK, "fp16": ("fp16", "fp32", "bf16")}
)

#: Rates that say all about how a precision is computed on an accelerator that lacks it.
_COMPUTED_AS: Mapping[Precision, tuple[str, ...]] = MappingProxyType(
    {
        Precision.TF32: ("fp32",),
        Precision.FP8: ("bf16", "fp16"),
        Precision.INT8: ("bf16", "fp16"),
    }
)

Kind = Literal["gpu", "cpu", "tpu", "npu"]


#: An fp16 rate that many times that of fp32 comes from units for matrices.
MATRIX_UNITS = 3.0

#: Share of the bf16 peak that the fastest matrix product reaches on most devices.
USUAL_MATMUL_SHARE = 0.8
_NARROW = ("fp16", "bf16", "fp8", "int8")


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceleratorSpec:
    """Facts of one accelerator (for a CPU: of one machine).

    Parameters
    ----------
    name : str
        Canonical name, for example ``"A100-SXM4-80GB"``.
    vendor, architecture, form_factor : str
        For example ``"NVIDIA"``, ``"Ampere GA100"``, ``"SXM4"``.
    peak_flops : mapping of str to float
        Dense peak in FLOP/s per key of :data:`RATES` (int8: operations/s). ``fp16`` and ``bf16``
        are *with fp32 accumulation*, as PyTorch computes.
    peak_flops_fp16_accumulate : float or None
        fp16 peak with fp16 accumulation (the headline figure of GeForce cards), where it differs.
    matmul_flops_per_s : float or None
        Fastest large bf16 matrix product that was measured, where anybody did.
    has_fp4 : bool
        Matrix units multiply elements of four bits, twice as many as of eight at least.
    memory_bytes, bandwidth_bytes_per_s : float
        Device memory and its peak bandwidth.
    cache_bytes : float or None
        Last-level on-chip cache (L2 of a GPU, L3 of a CPU).
    core_count : int or None
        SMs, CUs, tensor processors or CPU cores.
    clock_hz : float or None
        Boost clock.
    sustained_clock_hz : float or None
        Clock that lasts under load, where its maker states another one than the boost clock.
    tdp_w : float or None
        Board or socket power limit.
    link : str or None
        Name of the link to its neighbours in a node (``"nvlink3"``), or None.
    link_bandwidth_bytes_per_s : float or None
        One direction, per device.
    sources : mapping of str to str
        Where each field's number comes from; key ``"*"`` stands for all others.
    """

    name: str
    kind: Kind
    vendor: str
    architecture: str
    form_factor: str
    year: int | None
    peak_flops: Mapping[str, float] = field(hash=False)
    memory_bytes: float
    bandwidth_bytes_per_s: float
    peak_flops_fp16_accumulate: float | None = None
    matmul_flops_per_s: float | None = None
    has_fp4: bool = False
    cache_bytes: float | None = None
    core_count: int | None = None
    clock_hz: float | None = None
    sustained_clock_hz: float | None = None
    tdp_w: float | None = None
    pcie_generation: float | None = None
    link: str | None = None
    link_bandwidth_bytes_per_s: float | None = None
    sources: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    notes: str = ""

    def flops_per_s(self, precision: Precision, engine: Engine = Engine.MATRIX) -> float:
        """Return the peak rate at which work of a precision can run.

        Matrix work runs at the rate of its precision; where the accelerator states none, at that of
        the next type that can hold it. Vector work runs at the plain fp32 rate whatever its storage
        type.

        Returns
        -------
        float
            FLOP/s, > 0.
        """
        key = self.rate_of(precision if engine is Engine.MATRIX else Precision.FP32)
        return self.peak_flops[key]

    def rate_of(self, precision: Precision) -> str:
        """Return the key of :attr:`peak_flops` at whose rate matrix work of a precision runs."""
        tried = _CPU_FALLBACK if self.kind == "cpu" else _FALLBACK
        for key in tried[precision.matrix_rate]:
            if key in self.peak_flops:
                return key
        return max(self.peak_flops, key=lambda key: self.peak_flops[key])

    @property
    def usual_precision(self) -> Precision:
        """What people train with on it: 16 bits in units for matrices, beside fp32.

        bf16 where its products are faster than those of fp32, else fp16 where they are
        :data:`MATRIX_UNITS` times as fast; work does not gain from less. On a CPU, fp32.
        """
        fp32, fp16, bf16 = (self.peak_flops.get(rate, 0.0) for rate in ("fp32", "fp16", "bf16"))
        if self.kind == "cpu":
            return Precision.FP32
        if bf16 > fp32:
            return Precision.AMP_BF16
        return Precision.AMP_FP16 if fp16 > 0 and fp16 >= MATRIX_UNITS * fp32 else Precision.FP32

    def reachable_share(self, precision: Precision) -> float:
        """Return how much of its matrix peak a device reaches, of what devices usually reach.

        Some devices reach half of their stated peak with any matrix product; a graph that needs
        mostly products then runs at half speed, which no other fact tells. Devices that reach
        more than usual are not told apart: nothing says that other work gains from it.

        Parameters
        ----------
        precision : Precision
            Arithmetic of the matrix work; 16 bits and less are taken alike.

        Returns
        -------
        float
            In (0, 1]; 1 where nothing was measured.
        """
        return min(1.0, self.fastest_share(precision) / USUAL_MATMUL_SHARE)

    def fastest_share(self, precision: Precision) -> float:
        """Return how much of its matrix peak the fastest product reached that was measured.

        Parameters
        ----------
        precision : Precision
            As for :meth:`reachable_share`.

        Returns
        -------
        float
            > 0; 1 where nothing was measured.
        """
        if self.matmul_flops_per_s is None or precision.matrix_rate not in _NARROW:
            return 1.0
        peak = self.peak_flops.get("bf16", self.flops_per_s(Precision.BF16))
        return self.matmul_flops_per_s / peak

    @property
    def sustained_share(self) -> float:
        """Share of its peak arithmetic that lasts under load, in (0, 1]; 1 where none is stated."""
        if self.sustained_clock_hz is None or self.clock_hz is None:
            return 1.0
        return min(1.0, self.sustained_clock_hz / self.clock_hz)

    @property
    def is_measured(self) -> bool:
        """Tell whether its rates are what a machine reached; others are stated by its maker."""
        return self.sources.get("peak_flops", "").startswith("measured")

    def with_higher_rates(self, other: AcceleratorSpec) -> AcceleratorSpec:
        """Return this description with each rate of another one of the device that is higher.

        Whatever else runs while a rate is measured can only lower it. A type that then computes
        slower than fp32 is left out: its work is widened.
        """
        rates = {**other.peak_flops, **self.peak_flops}
        highest = {rate: max(v, other.peak_flops.get(rate, 0.0)) for rate, v in rates.items()}
        least = highest.get("fp32", 0.0)
        peaks = {r: v for r, v in highest.items() if r not in _NARROW or v >= least}
        return replace(
            self,
            peak_flops=MappingProxyType(peaks),
            bandwidth_bytes_per_s=max(self.bandwidth_bytes_per_s, other.bandwidth_bytes_per_s),
        )

    @property
    def chip(self) -> tuple[str, str, int | None]:
        """Vendor, architecture and cores: the same for all cards that carry one chip."""
        return self.vendor, self.architecture, self.core_count

    def computed_as(self, precision: Precision) -> Precision:
        """Return the precision in which an accelerator computes what is asked of it.

        TF32 is a way to compute fp32 that an accelerator has or has not; without units for 8 bits,
        weights and activations of 8 bits are multiplied in 16. A CPU without units for 16 bits
        gains nothing from them.

        Returns
        -------
        Precision
            Itself for all others: their type says how tensors are stored too.

        Examples
        --------
        >>> from perfmodel.devices.catalog import Catalog
        >>> Catalog.default().get("V100-SXM2-16GB").computed_as(Precision.TF32).value
        'fp32'
        """
        used = self.rate_of(precision)
        if used == precision.matrix_rate:
            return precision
        if self.kind == "cpu" or used in _COMPUTED_AS.get(precision, ()):
            return Precision(used)
        return precision

    def supports(self, precision: Precision) -> bool:
        """Tell whether the accelerator states a rate of its own for a precision."""
        return precision.matrix_rate in self.peak_flops
