r"""How a step answers when what was assumed of its job turns out different.

Ten logarithms :math:`z` say how a job differs from its prediction: device time, host time,
feeding, what spreading costs, a fixed time, communication, that between hosts, that within them,
tail and window. With the predicted computation :math:`C_0`, host time :math:`H_0`, input
:math:`I_0`, communication :math:`N_0`, of which the ranks of the fullest host alone would take the
share :math:`\sigma`, and exposed part :math:`E_0`,

.. math::

    W &= \lambda\,[\,(\,(C_0 e^{z_1})^q + (H_0 e^{z_2})^q)^{1/q}\,e^{z_4} + F_0 e^{z_5}\,], \qquad
    C = (W^p + (I_0 e^{z_3})^p)^{1/p}, \qquad
    N = N_0 e^{z_6}\,[\,(1 - \sigma) e^{z_7} + \sigma e^{z_8}\,] \\
    E &= \kappa\,[\,\tau N + h((1 - \tau) N,\ \omega C e^{z_{10}})\,], \qquad
    h(n, w) = \tfrac12 (n - w + \sqrt{(n - w)^2 + 4 \epsilon^2 n^2})

The device works or waits for its host, whichever takes longer, with a soft corner; :math:`\lambda`
makes the residual that is expected give back :math:`C_0`, so that nothing but what was observed
moves a prediction. A script also waits for its loaders, which prepare the next batches ahead, so
that their corner is sharper, :math:`p > q`; steps that were predicted have none, so
:math:`\lambda` leaves that out. Communication
hides behind a share :math:`\omega` of the computation; what exceeds it is exposed, and so is the
tail :math:`\tau`, gradients that are ready last. :math:`\tau_0` is what makes :math:`E_0` of
:math:`N_0`, :math:`\tau = 1 - (1 - \tau_0)^{e^{z_9}}`, and :math:`\kappa` absorbs the rest of
:math:`E_0`, within a factor of two.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from perfmodel.features.arrays import FloatArray, Numbers, PlainNumbers
from perfmodel.placement.calibration.step_cells import SingleStep, StepCells

#: Sharpness of the corner between a device that works and one that waits for its host.
CORNER = 2.5
#: And between a step and its loaders, which are processes of their own that work ahead: where both
#: take equally long a step is 15 % longer.
FEED_CORNER = 5.0
#: Share of the communication that is still exposed where it just fits into its window.
SOFTNESS = 0.1
#: Fixed time whose logarithm is 0.
FIXED_S = 1e-3
#: Residuals beyond these factors are no residuals: the exponent stays finite.
MOST_LOG = 12.0
MOST_TAIL = 3.0
#: Some of the communication can always be hidden: the logarithm of its share stays finite.
LEAST_HIDDEN = 1e-9


class Field(IntEnum):
    """The ten logarithms in which a job differs from its prediction."""

    DEVICE = 0
    HOST = 1
    FEED = 2
    SPREAD = 3
    FIXED = 4
    COMMUNICATION = 5
    BETWEEN = 6
    WITHIN = 7
    TAIL = 8
    WINDOW = 9


class Responded(NamedTuple):
    """Steps under a residual.

    Parameters
    ----------
    parts : StepParts or StepNumbers
    by_compute, by_exposed : list of number or ndarray
        Derivatives of the computation and of the exposed part by the fields.
    """

    parts: Any
    by_compute: list[Numbers]
    by_exposed: list[Numbers]

    @property
    def alone_s(self) -> Numbers:
        """What the steps take without exposed communication."""
        return self.parts.compute_s + self.parts.input_stall_s + self.parts.overhead_s

    @property
    def by_step(self) -> list[Numbers]:
        """Derivatives of the logarithm of the step by the fields."""
        step = self.parts.step_time_s
        return [(a + b) / step for a, b in zip(self.by_compute, self.by_exposed, strict=True)]

    @property
    def channels(self) -> FloatArray:
        """What is compared with observations, shape (2, rows).

        The logarithm of the step without exposed communication, and the logarithm of the factor
        by which that communication lengthens it.
        """
        alone = self.alone_s
        return np.stack([np.log(alone), np.log1p(self.parts.exposed_communication_s / alone)])

    @property
    def by_channel(self) -> FloatArray:
        """Derivatives of the channels by the fields, shape (fields, 2, rows)."""
        compute, exposed = np.array(self.by_compute), np.array(self.by_exposed)
        alone, step = self.alone_s, self.parts.step_time_s
        growth = self.parts.exposed_communication_s / alone
        return np.stack([compute / alone, (exposed - growth * compute) / step], axis=1)

    @property
    def device_share(self) -> Numbers:
        """The share of the computation during which the device works."""
        by_device, worked, fixed = (self.by_compute[i] for i in _BUSY)
        busy = worked + fixed
        # What is added up was raised to a power before.
        alone = (by_device / worked) ** (1 / CORNER)
        alone = alone * (busy / self.parts.compute_s) ** (1 / FEED_CORNER)
        return alone * worked / busy


_BUSY = (Field.DEVICE, Field.SPREAD, Field.FIXED)


class Response:
    """What of steps does not depend on the residual; made once for many residuals.

    Parameters
    ----------
    step : StepCells or SingleStep
        Columns of steps, or one.
    expected : sequence of number or ndarray
        The residual under which they take as long as predicted, one for each field.
    """

    def __init__(self, step: StepCells | SingleStep, expected: Numbers) -> None:
        self._step: Any = step
        self._of: Any = np if isinstance(step, StepCells) else PlainNumbers
        self._logs = self._of.log(step.device_s), self._of.log(step.host_s)
        device, host, _, spread, fixed, *_ = expected
        worked, fixed_s, _ = self._work(device, host, spread, fixed)
        #: Factor by which the predicted computation exceeds that of the law.
        self._scale = self._step.parts.compute_s / (worked + fixed_s)
        #: Share of communication that nothing hides, and the factor of its exposed part; None where
        #: no step communicates.
        self._exposure = self._exposing() if self._of.any(step.communicates) else None

    def __call__(self, residual: Numbers) -> Responded:
        """Return the steps under a residual, one number or column for each field."""
        of, step, before = self._of, self._step, self._step.parts
        # In the order of the fields: looked up by name each takes as long as an addition.
        device, host, feed, spread, fixed, communication, between, within, tail, window = of.clip(
            residual, -MOST_LOG, MOST_LOG
        )
        worked, fixed_s, device_share = self._work(device, host, spread, fixed)
        worked, fixed_s = self._scale * worked, self._scale * fixed_s
        busy = worked + fixed_s
        fed = 1 + (step.input_s * of.exp(feed) / busy) ** FEED_CORNER
        compute = busy * fed ** (1 / FEED_CORNER)
        here = compute / fed
        by_fixed = here * fixed_s / busy
        by_work, nothing = here - by_fixed, 0.0 * compute
        by_compute = [
            by_work * device_share, by_work * (1 - device_share), compute - here, by_work,
            by_fixed, nothing, nothing, nothing, nothing, nothing,
        ]  # fmt: skip
        across = (1 - step.within_share) * of.exp(between)
        inside = step.within_share * of.exp(within)
        total = before.communication_s * of.exp(communication) * (across + inside)
        exposed, by_exposed = nothing, [nothing] * len(by_compute)
        if self._exposure is not None:
            window_s = step.window_share * compute * of.exp(window)
            exposed, by_total, by_tail, by_window = self._exposed(total, tail, window_s)
            of_inside = by_total * inside / (across + inside)
            # What computation grows by widens the window as well.
            wider = by_window / compute
            by_computation = [wider * one for one in by_compute[: Field.COMMUNICATION]]
            by_exposed = [
                *by_computation, by_total, by_total - of_inside, of_inside, by_tail, by_window,
            ]  # fmt: skip
        exposed = of.minimum(exposed, total)
        parts = type(before)(
            compute_s=compute,
            exposed_communication_s=exposed,
            input_stall_s=before.input_stall_s,
            overhead_s=before.overhead_s,
            # Computing hides no more than it takes.
            communication_s=of.minimum(total, exposed + compute),
        )
        return Responded(parts, by_compute, by_exposed)

    def _exposing(self) -> tuple[Numbers, Numbers]:
        """Return the share of the communication that nothing hides, and the factor of the law."""
        of, step, parts = self._of, self._step, self._step.parts
        total = of.where(step.communicates, parts.communication_s, 1.0)
        exposed = of.where(step.communicates, parts.exposed_communication_s, 0.0)
        window = step.window_share * parts.compute_s
        beyond = self._exceeds(total, window)
        tail = (exposed - beyond) / of.maximum(total - beyond, 1e-12)
        tail = of.minimum(of.maximum(tail, 1e-3), 0.95)
        law = tail * total + self._exceeds((1 - tail) * total, window)
        anchor = of.minimum(of.maximum(exposed / law, 0.5), 2.0)
        return tail, of.where(step.communicates, anchor, 0.0)

    def _exposed(
        self, total: Numbers, later: Numbers, window: Numbers
    ) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Return what of communication is exposed; derivatives by itself, its tail, the window."""
        assert self._exposure is not None
        of, (tail, anchor) = self._of, self._exposure
        hidden = (1 - tail) ** of.exp(of.minimum(later, MOST_TAIL))
        tail = 1 - of.maximum(hidden, LEAST_HIDDEN)
        hideable = (1 - tail) * total
        over, soft = hideable - window, 4 * SOFTNESS**2 * hideable
        root = of.maximum(of.sqrt(over**2 + soft * hideable), 1e-300)
        by_hideable = 0.5 * (1 + (over + soft) / root)
        # d tail / dz = -(1 - tail) log(1 - tail), as 1 - tail = (1 - tail_0)^(e^z).
        by_tail = -hideable * of.log(1 - tail) * (later < MOST_TAIL)
        return (
            anchor * (tail * total + self._exceeds(hideable, window)),
            anchor * (tail * total + by_hideable * hideable),
            anchor * (1 - by_hideable) * by_tail,
            anchor * -0.5 * (1 + over / root) * window,
        )

    def _work(
        self, device: Numbers, host: Numbers, spread: Numbers, fixed: Numbers
    ) -> tuple[Numbers, Numbers, Numbers]:
        """Return the time that device or host work, the fixed time, and the device's share."""
        of, (device_log, host_log) = self._of, self._logs
        by_device, by_host = CORNER * (device_log + device), CORNER * (host_log + host)
        longer = of.logaddexp(by_device, by_host)
        worked = of.exp(longer / CORNER + spread)
        return worked, FIXED_S * of.exp(fixed), of.exp(by_device - longer)

    def _exceeds(self, communication_s: Numbers, window_s: Numbers) -> Numbers:
        over, soft = communication_s - window_s, 2 * SOFTNESS * communication_s
        return 0.5 * (over + self._of.sqrt(over**2 + soft**2))
