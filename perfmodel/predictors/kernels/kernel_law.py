"""Three laws that set devices apart, with strengths learned over devices.

    launch  = overhead x (1.7 GHz / clock) ^ clock
    compute = FLOPs / peak x (1 + power x peak / watts)
    memory  = cached bytes / cache rate + other bytes x (1 / bandwidth + latency / cycles)

What does not grow with a call is partly cycles, partly not. Arithmetic costs energy, so the more
FLOP/s a watt has to feed, the further the clock falls. And a multiprocessor has only so many bytes
under way at a time, so the more bandwidth there is for each of its cycles, the smaller the part of
it that is reached. ``clock``, ``power`` and ``latency`` are one number each for a group of
operators: those that make devices most alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.kernels.kernel_columns import KernelRoofline

#: Strengths that are tried. 0.36 J / TFLOP halves the rate at some 3 TFLOP/s a watt; a latency of
#: 1/45 cycle a byte is some 32 kB under way for some 700 cycles.
POWERS = (0.0, 0.09, 0.18, 0.36, 0.72, 1.5, 3.0, 6.0)
LATENCIES = (0.0, 1 / 180, 1 / 90, 1 / 45, 1 / 25)
CLOCKS = (0.0, 0.5, 1.0)
#: Clock that overheads are stated at.
CLOCK_HZ = 1.7e9

#: Calls no longer than this times the shortest are taken for short.
_SHORT = 3.0
#: Calls on the clear side of the ridge point, and long against what does not grow.
_CLEARLY = 4.0
_LONG = 10.0
#: Fewer calls do not speak for a device, fewer devices not for a law.
_LEAST_CALLS = 15
_LEAST_DEVICES = 3
#: A stronger law must make the devices more alike than the weaker one by this factor.
_WORTH = 0.97


@dataclass(frozen=True, kw_only=True)
class DeviceLaw:
    """Strengths of the three laws.

    Parameters
    ----------
    clock : float
        Power of the clock, in [0, 1].
    power : float
        Joule per TFLOP, >= 0.
    latency : float
        Cycles of a multiprocessor per byte, >= 0.
    """

    clock: float = 0.0
    power: float = 0.0
    latency: float = 0.0

    def launch_s(self, roofline: KernelRoofline, overhead_s: FloatArray) -> FloatArray:
        """Return the part that does not grow, from what it is at :data:`CLOCK_HZ`."""
        return overhead_s * (CLOCK_HZ / roofline.clock_hz) ** self.clock

    def compute_s(self, roofline: KernelRoofline) -> FloatArray:
        """Return the time of the arithmetic."""
        return roofline.compute_s * (1.0 + self.power * roofline.tflops_per_watt)

    def memory_s(self, roofline: KernelRoofline) -> FloatArray:
        """Return the time of the traffic."""
        return roofline.warm_memory_s + self.latency * roofline.uncached_cycles_s

    def time_s(self, roofline: KernelRoofline) -> FloatArray:
        """Return the longer of both."""
        return np.maximum(self.compute_s(roofline), self.memory_s(roofline))


def fit_law(
    roofline: KernelRoofline, device: IntArray, time_s: FloatArray, overhead_s: FloatArray
) -> DeviceLaw:
    """Return the strengths under which the devices are most alike.

    Parameters
    ----------
    roofline : KernelRoofline
        Bounds of the calls of one group of operators.
    device : ndarray of int, shape (calls,)
    time_s, overhead_s : ndarray, shape (calls,)
        Measured times, and the part that does not grow.

    Returns
    -------
    DeviceLaw
        Without a law where fewer than three devices have calls that speak for it.
    """
    lasting = time_s > _LONG * overhead_s
    bound = lasting & (roofline.compute_s > _CLEARLY * roofline.warm_memory_s)
    law = DeviceLaw(clock=_clock(roofline, device, time_s, overhead_s))
    best = _spread(law.compute_s(roofline), time_s, device, bound)
    for power in POWERS[1:]:
        tried = replace(law, power=power)
        spread = _spread(tried.compute_s(roofline), time_s, device, bound)
        if spread < _WORTH * best:
            best, law = spread, tried
    bound = lasting & (roofline.warm_memory_s > _CLEARLY * roofline.compute_s)
    best = _spread(law.memory_s(roofline), time_s, device, bound)
    for latency in LATENCIES[1:]:
        tried = replace(law, latency=latency)
        spread = _spread(tried.memory_s(roofline), time_s, device, bound)
        if spread < _WORTH * best:
            best, law = spread, tried
    return law


def _clock(
    roofline: KernelRoofline, device: IntArray, time_s: FloatArray, overhead_s: FloatArray
) -> float:
    short = (time_s < _SHORT * overhead_s) & (roofline.roofline_s < overhead_s)
    chosen, best = 0.0, np.inf
    for clock in CLOCKS:
        launch_s = DeviceLaw(clock=clock).launch_s(roofline, overhead_s)
        spread = _spread(launch_s, time_s, device, short)
        if spread < _WORTH * best:
            chosen, best = clock, spread
    return chosen


def _spread(bound_s: FloatArray, time_s: FloatArray, device: IntArray, rows: np.ndarray) -> float:
    """Return how far the devices' median log residuals lie apart; 0 where too few speak."""
    residual = np.log(time_s / np.maximum(bound_s, 1e-12))
    levels = [
        float(np.median(residual[own]))
        for own in (rows & (device == d) for d in np.unique(device).tolist())
        if np.count_nonzero(own) >= _LEAST_CALLS
    ]
    return float(np.std(levels)) if len(levels) >= _LEAST_DEVICES else 0.0
