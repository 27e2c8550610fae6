r"""The law of a kernel: a launch, and the longer of its waves of tiles and its traffic.

.. math:: t = s L + (C^p + M^p)^{1/p}

``C`` is the fastest way to cut the product into tiles: rounds of the busiest multiprocessor times
the multiply-adds of a tile, over the rate of a multiprocessor. A tile costs a filling of ``fill``
steps of depth; a small one feeds the units worse (``operand``), and few tiles on a multiprocessor
hide less of their latency (``occupancy``). Parts of the depth are written and added up. Arithmetic
costs energy: with

.. math:: e = power \cdot TFLOP/s / W \cdot 2^{-(year - 2018) / halving}

the rate falls by ``(1 + e^4)^(1/4)``: not at all while the board's power suffices, in proportion
beyond. ``M`` is the traffic at the rate that the memory reaches, ``1 / (1 / (bandwidth reached) +
latency / cycles)``, or at that of the cache as far as repeated calls find their operands there.

``s L`` is a launch: what stands for its group and framework, times one constant. It is the host's
and the driver's: over the devices of the tables it follows no clock. No name of a device is in the
law: what tells devices apart are cores, clock, rates, cache, watts and year.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple, Self

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.features.kernels.kernel_columns import CACHE_BYTES_PER_CORE_CYCLE, KernelRoofline
from perfmodel.features.kernels.kernel_work import KernelWork

#: Output tiles of libraries, rows by columns, and into how many parts they cut the depth.
TILES = ((32, 32), (64, 64), (128, 32), (32, 128), (128, 64), (64, 128), (128, 128), (256, 128))
DEPTH_PARTS = (1, 2, 4, 8, 16)
#: Depth that a part has at least.
LEAST_DEPTH = 64.0


@dataclass(frozen=True, kw_only=True)
class Cut:
    """One way to cut many products.

    Parameters
    ----------
    rows, columns, parts : int
        Of a tile, and of the depth.
    rounds : ndarray
        Tiles that the busiest multiprocessor has, one after another: a partial wave counts whole.
    depth : ndarray
        Of a part.
    possible : ndarray of bool
        Whether the depth suffices.
    """

    rows: int
    columns: int
    parts: int
    rounds: FloatArray
    depth: FloatArray
    possible: np.ndarray


def cuts(work: KernelWork, core_count: FloatArray) -> Iterator[Cut]:
    """Yield every way to cut some products over the multiprocessors of their devices."""
    for rows, columns in TILES:
        tiles = work.batch * np.ceil(work.m / rows) * np.ceil(work.n / columns)
        for parts in DEPTH_PARTS:
            depth = work.k / parts
            yield Cut(
                rows=rows,
                columns=columns,
                parts=parts,
                rounds=np.ceil(tiles * parts / core_count),
                depth=depth,
                possible=(depth >= LEAST_DEPTH) | (parts == 1),
            )


#: Year that energy is stated for.
YEAR = 2018.0
#: Side of the tile that occupancy is counted in, and how many such a multiprocessor holds at most.
_SIDE = 64.0
_MOST_RESIDENT = 4.0
#: How sharply the power limit sets in.
_SHARP = 4.0
#: What joining parts of the depth takes besides its traffic, most of which stays in the cache.
_JOIN_S = 2e-6
_JOIN_SPEED = 3.0
#: Calls of a device that count half of what many count, in the law and in the trees above it.
FEW_CALLS = 1000


@dataclass(frozen=True, kw_only=True)
class LawConstants:
    """Constants of the law, each >= 0; the defaults are what is expected before any data.

    Parameters
    ----------
    launch : float
        Of what the launch of its group and framework is stated as.
    operand, fill : float
        Side at which a tile reaches half the rate; filling of a tile in steps of depth.
    occupancy : float
        Resident tiles of 64 x 64 at which half of the rate is reached.
    power, halving : float
        Watts per TFLOP/s at which the limit sets in, in 2018; years in which that halves.
    reached, latency : float
        Share of the bandwidth; cycles of a multiprocessor a byte.
    sharpness : float
        How nearly the longer of arithmetic and traffic alone counts.
    winograd : float
        How much faster convolutions are that can be multiplied less for.
    """

    launch: float = 1.0
    operand: float = 8.0
    fill: float = 32.0
    occupancy: float = 0.5
    power: float = 13.0
    halving: float = 3.0
    reached: float = 0.85
    latency: float = 0.018
    sharpness: float = 3.0
    winograd: float = 1.5

    @classmethod
    def from_dict(cls, values: Mapping[str, float]) -> Self:
        """Read what :func:`dataclasses.asdict` gave."""
        return cls(**{field.name: values[field.name] for field in fields(cls)})


class LawParts(NamedTuple):
    """What the law says of each call, and of the cut that it chose."""

    time_s: FloatArray
    launch_s: FloatArray
    compute_s: FloatArray
    memory_s: FloatArray
    rows: FloatArray
    columns: FloatArray
    depth_parts: FloatArray

    def take(self, rows: np.ndarray) -> LawParts:
        """Return those of some of the calls."""
        return LawParts(*(column[rows] for column in self))


def law_parts(
    roofline: KernelRoofline, stated_s: FloatArray, law: LawConstants, *, tiled: bool
) -> LawParts:
    """Return the parts of some calls.

    Parameters
    ----------
    stated_s : ndarray
        Launches as they are stated for their group and framework.
    tiled : bool
        Whether they are products; others have no tiles.
    """
    launch_s = law.launch * stated_s
    memory_rate = _memory_rate(roofline, law)
    compute_s, rows, columns, parts = _fastest_cut(roofline, law, memory_rate, tiled=tiled)
    cycles = roofline.core_count * roofline.clock_hz
    cache_rate = np.maximum(memory_rate, CACHE_BYTES_PER_CORE_CYCLE * cycles)
    share, traffic = roofline.cached_share, roofline.work.traffic_bytes
    memory_s = traffic * (share / cache_rate + (1.0 - share) / memory_rate)
    p = max(law.sharpness, 1.0)
    longer_s = (compute_s**p + memory_s**p) ** (1.0 / p)
    return LawParts(launch_s + longer_s, launch_s, compute_s, memory_s, rows, columns, parts)


def _memory_rate(roofline: KernelRoofline, law: LawConstants) -> FloatArray:
    cycles = roofline.core_count * roofline.clock_hz
    reached = roofline.bandwidth_bytes_per_s * law.reached
    return 1.0 / (1.0 / reached + law.latency / cycles)


def _core_rate(roofline: KernelRoofline, law: LawConstants) -> FloatArray:
    """Return the rate of one multiprocessor under the board's power."""
    ages = 2.0 ** (-(roofline.year - YEAR) / law.halving)
    strain = law.power * roofline.tflops_per_watt * ages
    whole = roofline.peak_flops_per_s / roofline.core_count
    return whole / (1.0 + strain**_SHARP) ** (1.0 / _SHARP)


def _fastest_cut(
    roofline: KernelRoofline, law: LawConstants, memory_rate: FloatArray, *, tiled: bool
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    work, rate = roofline.work, _core_rate(roofline, law)
    count = len(rate)
    if not tiled:
        one = np.ones(count)
        return work.flops / (rate * roofline.core_count), one, one, one
    best = np.full(count, np.inf)
    chosen = np.ones((3, count))
    for cut in cuts(work, roofline.core_count):
        time_s = _cut_s(cut, roofline, law, rate, memory_rate)
        faster = cut.possible & (time_s < best)
        best = np.where(faster, time_s, best)
        chosen[:, faster] = np.array([[cut.rows], [cut.columns], [cut.parts]])
    skips = work.least_flops < work.flops
    return np.where(skips, best / law.winograd, best), chosen[0], chosen[1], chosen[2]


def _cut_s(
    cut: Cut,
    roofline: KernelRoofline,
    law: LawConstants,
    rate: FloatArray,
    memory_rate: FloatArray,
) -> FloatArray:
    area = float(cut.rows * cut.columns)
    fed = 1.0 / (1.0 + law.operand * (cut.rows + cut.columns) / (2.0 * area))
    resident = np.minimum(cut.rounds, max(1.0, _MOST_RESIDENT * _SIDE**2 / area))
    resident = resident * area / _SIDE**2
    hidden = resident / (resident + law.occupancy)
    time_s = cut.rounds * 2.0 * area * (cut.depth + law.fill) / (rate * fed * hidden)
    if cut.parts == 1:
        return time_s
    joined = 2.0 * cut.parts * roofline.work.output_bytes / (_JOIN_SPEED * memory_rate)
    return time_s + joined + _JOIN_S
