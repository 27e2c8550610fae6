"""How a single step answers to a residual: :mod:`.step_response` on plain numbers.

The same equations for the one step that most questions ask, where columns would take ten times as
long; a test holds both to each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from perfmodel.placement.calibration.step_response import (
    CORNER,
    FIXED_S,
    LEAST_HIDDEN,
    MOST_LOG,
    MOST_TAIL,
    SOFTNESS,
)
from perfmodel.placement.step_parts import StepNumbers


class SingleStep(NamedTuple):
    """One predicted step; as a row of :class:`.StepCells`."""

    parts: StepNumbers
    batch_size: float
    micro_batches: float
    ranks: float
    hosts: float
    largest_share: float
    host_s: float
    input_s: float
    window_share: float
    job: str
    machine: str
    fabric: str
    setting: str

    @property
    def identity(self) -> tuple[object, ...]:
        """What tells its cell from all others, as :meth:`.StepCells.identities`."""
        return (
            self.job, self.machine, self.fabric, self.setting, self.batch_size,
            self.micro_batches, self.ranks, self.hosts, self.largest_share,
        )  # fmt: skip

    @property
    def communicates(self) -> bool:
        """Whether it shares gradients."""
        return self.ranks > 1 and self.parts.communication_s > 0


class Responded(NamedTuple):
    """A step under a residual.

    Parameters
    ----------
    growth : float
        Logarithm of the factor by which exposed communication lengthens the step.
    slopes : list of float
        Derivatives of the logarithm of the step by the fields.
    """

    parts: StepNumbers
    growth: float
    slopes: list[float]


class _Communication(NamedTuple):
    """Communication under a residual, and the derivatives of its exposed part."""

    communication_s: float = 0.0
    exposed_s: float = 0.0
    by_communication: float = 0.0
    by_tail: float = 0.0
    by_window: float = 0.0


def respond(step: SingleStep, expected: Sequence[float], residual: Sequence[float]) -> Responded:
    """Return a step under a residual, as :meth:`.Response.linear` and :meth:`.Response.parts`.

    Parameters
    ----------
    expected : sequence of float
        The residual under which it takes as long as predicted, one of each field.
    """
    # Fields in their order: names take a third of the time of positions by name.
    usual_device, usual_host, _, usual_spread, usual_fixed, *_ = expected
    device, host, feed, spread, fixed, communication, tail, window = _bounded(residual)
    before = step.parts
    worked, _ = _worked(step, usual_device, usual_host, usual_spread)
    scale = before.compute_s / (worked + FIXED_S * math.exp(usual_fixed))
    worked, device_share = _worked(step, device, host, spread)
    worked *= scale
    fixed_s = scale * FIXED_S * math.exp(fixed)
    busy_s = worked + fixed_s
    beside = (step.input_s * math.exp(feed) / busy_s) ** CORNER
    compute_s, busy_share = busy_s * (1 + beside) ** (1 / CORNER), 1 / (1 + beside)
    found = _Communication()
    if step.communicates:
        found = _communication(step, communication, tail, window, compute_s)
    alone_s = compute_s + before.input_stall_s + before.overhead_s
    here_s = compute_s * busy_share
    by_fixed = here_s * fixed_s / busy_s
    worked = here_s - by_fixed
    # What computation grows by widens the window as well.
    step_s = alone_s + found.exposed_s
    longer = (1 + found.by_window / compute_s) / step_s
    slopes = [
        longer * worked * device_share,
        longer * worked * (1 - device_share),
        longer * (compute_s - here_s),
        longer * worked,
        longer * by_fixed,
        found.by_communication / step_s,
        found.by_tail / step_s,
        found.by_window / step_s,
    ]
    parts = StepNumbers(
        compute_s, found.exposed_s, before.input_stall_s, before.overhead_s, found.communication_s
    )
    return Responded(parts, math.log1p(found.exposed_s / alone_s), slopes)


def _bounded(residual: Sequence[float]) -> Sequence[float]:
    if max(residual) <= MOST_LOG and min(residual) >= -MOST_LOG:
        return residual
    return [max(-MOST_LOG, min(MOST_LOG, one)) for one in residual]


def _worked(step: SingleStep, device: float, host: float, spread: float) -> tuple[float, float]:
    """Return the time that device or host work, and the share of it that is the device's."""
    by_device = CORNER * (math.log(step.parts.compute_s) + device)
    by_host = CORNER * (math.log(step.host_s) + host)
    longer = max(by_device, by_host) + math.log1p(math.exp(-abs(by_device - by_host)))
    return math.exp(longer / CORNER + spread), math.exp(by_device - longer)


def _communication(
    step: SingleStep, communication: float, later: float, wider: float, compute_s: float
) -> _Communication:
    """Return communication under the residual of itself, of its tail and of the window."""
    total, exposed = step.parts.communication_s, step.parts.exposed_communication_s
    window = step.window_share * step.parts.compute_s
    beyond = _exceeds(total, window)
    tail = min(max((exposed - beyond) / max(total - beyond, 1e-12), 1e-3), 0.95)
    law = tail * total + _exceeds((1 - tail) * total, window)
    anchor = min(max(exposed / law, 0.5), 2.0)
    hidden = (1 - tail) ** math.exp(min(later, MOST_TAIL))
    tail = 1 - max(hidden, LEAST_HIDDEN)
    total *= math.exp(communication)
    window = step.window_share * compute_s * math.exp(wider)
    hideable = (1 - tail) * total
    over, soft = hideable - window, 4 * SOFTNESS**2 * hideable
    root = max(math.sqrt(over**2 + soft * hideable), 1e-300)
    by_hideable, by_window = 0.5 * (1 + (over + soft) / root), -0.5 * (1 + over / root)
    moved = -(1 - tail) * math.log(1 - tail) * (later < MOST_TAIL)
    return _Communication(
        communication_s=total,
        exposed_s=min(anchor * (tail * total + _exceeds(hideable, window)), total),
        by_communication=anchor * (tail * total + by_hideable * hideable),
        by_tail=anchor * (1 - by_hideable) * total * moved,
        by_window=anchor * by_window * window,
    )


def _exceeds(communication_s: float, window_s: float) -> float:
    over = communication_s - window_s
    soft = 2 * SOFTNESS * communication_s
    return 0.5 * (over + math.sqrt(over**2 + soft**2))
