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
    Field,
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
    before = step.parts
    worked, _ = _worked(step, expected)
    scale = before.compute_s / (worked + FIXED_S * math.exp(expected[Field.FIXED]))
    z = [max(-MOST_LOG, min(MOST_LOG, one)) for one in residual]
    worked, device_share = _worked(step, z)
    worked *= scale
    fixed_s = scale * FIXED_S * math.exp(z[Field.FIXED])
    busy_s = worked + fixed_s
    beside = (step.input_s * math.exp(z[Field.FEED]) / busy_s) ** CORNER
    compute_s, busy_share = busy_s * (1 + beside) ** (1 / CORNER), 1 / (1 + beside)
    found = _communication(step, z, residual, compute_s) if step.communicates else _Communication()
    alone_s = compute_s + before.input_stall_s + before.overhead_s
    by_field = [0.0] * len(Field)
    here_s = compute_s * busy_share
    by_field[Field.FEED] = compute_s - here_s
    by_field[Field.FIXED] = here_s * fixed_s / busy_s
    worked = here_s - by_field[Field.FIXED]
    by_field[Field.DEVICE] = worked * device_share
    by_field[Field.HOST] = worked * (1 - device_share)
    by_field[Field.SPREAD] = worked
    # What computation grows by widens the window as well.
    step_s = alone_s + found.exposed_s
    longer = (1 + found.by_window / compute_s) / step_s
    slopes = [longer * one for one in by_field]
    slopes[Field.COMMUNICATION] = found.by_communication / step_s
    slopes[Field.TAIL] = found.by_tail / step_s
    slopes[Field.WINDOW] = found.by_window / step_s
    parts = StepNumbers(
        compute_s, found.exposed_s, before.input_stall_s, before.overhead_s, found.communication_s
    )
    return Responded(parts, math.log1p(found.exposed_s / alone_s), slopes)


def _worked(step: SingleStep, z: Sequence[float]) -> tuple[float, float]:
    """Return the time that device or host work, and the share of it that is the device's."""
    device = CORNER * (math.log(step.parts.compute_s) + z[Field.DEVICE])
    host = CORNER * (math.log(step.host_s) + z[Field.HOST])
    longer = max(device, host) + math.log1p(math.exp(-abs(device - host)))
    return math.exp(longer / CORNER + z[Field.SPREAD]), math.exp(device - longer)


def _communication(
    step: SingleStep, z: Sequence[float], residual: Sequence[float], compute_s: float
) -> _Communication:
    total, exposed = step.parts.communication_s, step.parts.exposed_communication_s
    window = step.window_share * step.parts.compute_s
    beyond = _exceeds(total, window)
    tail = min(max((exposed - beyond) / max(total - beyond, 1e-12), 1e-3), 0.95)
    law = tail * total + _exceeds((1 - tail) * total, window)
    anchor = min(max(exposed / law, 0.5), 2.0)
    hidden = (1 - tail) ** math.exp(min(z[Field.TAIL], MOST_TAIL))
    tail = 1 - max(hidden, LEAST_HIDDEN)
    total *= math.exp(z[Field.COMMUNICATION])
    window = step.window_share * compute_s * math.exp(z[Field.WINDOW])
    hideable = (1 - tail) * total
    over, soft = hideable - window, 4 * SOFTNESS**2 * hideable
    root = max(math.sqrt(over**2 + soft * hideable), 1e-300)
    by_hideable, by_window = 0.5 * (1 + (over + soft) / root), -0.5 * (1 + over / root)
    moved = -(1 - tail) * math.log(1 - tail) * (residual[Field.TAIL] < MOST_TAIL)
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
