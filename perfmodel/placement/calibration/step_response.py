r"""How a step answers when what was assumed of its job turns out different.

Eight logarithms :math:`z` say how a job differs from its prediction: device time, host time,
feeding, what spreading costs, a fixed time, communication, tail and window. With the predicted
computation :math:`C_0`, host time :math:`H_0`, input :math:`I_0`, communication :math:`N_0` and
exposed part :math:`E_0`,

.. math::

    W &= \lambda\,[\,(\,(C_0 e^{z_1})^q + (H_0 e^{z_2})^q)^{1/q}\,e^{z_4} + F_0 e^{z_5}\,], \qquad
    C = (W^q + (I_0 e^{z_3})^q)^{1/q}, \qquad N = N_0 e^{z_6} \\
    E &= \kappa\,[\,\tau N + h((1 - \tau) N,\ \omega C e^{z_8})\,], \qquad
    h(n, w) = \tfrac12 (n - w + \sqrt{(n - w)^2 + 4 \epsilon^2 n^2})

The device works or waits for its host, whichever takes longer, with a soft corner; :math:`\lambda`
makes the residual that is expected give back :math:`C_0`, so that nothing but what was observed
moves a prediction. A script also waits for its loaders, which prepare the next batch meanwhile;
steps that were predicted have none, so :math:`\lambda` leaves that out. Communication
hides behind a share :math:`\omega` of the computation; what exceeds it is exposed, and so is the
tail :math:`\tau`, gradients that are ready last. :math:`\tau_0` is what makes :math:`E_0` of
:math:`N_0`, :math:`\tau = 1 - (1 - \tau_0)^{e^{z_7}}`, and :math:`\kappa` absorbs the rest of
:math:`E_0`, within a factor of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.estimate import StepParts

#: Sharpness of the corner between a device that works and one that waits for its host.
CORNER = 2.5
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
    """The eight logarithms in which a job differs from its prediction."""

    DEVICE = 0
    HOST = 1
    FEED = 2
    SPREAD = 3
    FIXED = 4
    COMMUNICATION = 5
    TAIL = 6
    WINDOW = 7


@dataclass(frozen=True, kw_only=True)
class Response:
    """What of the cells does not depend on the residual; made once for many residuals.

    Parameters
    ----------
    tail : ndarray
        Share of the communication that nothing hides, in [0, 1).
    anchor : ndarray
        Factor by which the predicted exposed part exceeds that of the law.
    scale : ndarray
        Factor by which the predicted computation exceeds that of the law.
    """

    cells: StepCells
    tail: FloatArray
    anchor: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, cells: StepCells, expected: FloatArray | None = None) -> Response:
        """Split what is predicted as exposed into a tail and what exceeds the window.

        Parameters
        ----------
        expected : ndarray or None
            The residual under which steps take as long as predicted, shape (fields, rows);
            None: that of zeros.
        """
        parts = cells.parts
        several = _communicate(cells)
        total = np.where(several, parts.communication_s, 1.0)
        exposed = np.where(several, parts.exposed_communication_s, 0.0)
        window = cells.window_share * parts.compute_s
        beyond = _exceeds(total, window)
        tail = np.clip((exposed - beyond) / np.maximum(total - beyond, 1e-12), 1e-3, 0.95)
        law = tail * total + _exceeds((1 - tail) * total, window)
        z = np.zeros((len(Field), len(cells))) if expected is None else expected
        scale = parts.compute_s / (_worked(cells, z)[0] + _fixed_s(z))
        return cls(cells=cells, tail=tail, anchor=np.clip(exposed / law, 0.5, 2.0), scale=scale)

    def parts(self, residual: FloatArray) -> StepParts:
        """Return the parts of the steps under a residual, shape (fields, rows)."""
        state, before = self._state(residual), self.cells.parts
        return StepParts.of(
            state.compute_s,
            exposed_communication_s=state.exposed_s,
            input_stall_s=before.input_stall_s,
            overhead_s=before.overhead_s,
            communication_s=state.communication_s,
        )

    def channels(self, residual: FloatArray) -> FloatArray:
        """Return what is compared with observations, shape (2, rows).

        The logarithm of the step without exposed communication, and the logarithm of the factor
        by which that communication lengthens it.
        """
        return self._channels(self._state(residual))

    def linear(self, residual: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the channels and their derivatives by the fields, shape (fields, 2, rows)."""
        state = self._state(residual)
        alone = self._alone_s(state)
        by_field = np.zeros((len(Field), len(self.cells)))
        busy = state.compute_s * state.busy_share
        worked = busy * (1 - state.fixed_share)
        by_field[Field.DEVICE] = worked * state.device_share
        by_field[Field.HOST] = worked * (1 - state.device_share)
        by_field[Field.FEED] = state.compute_s - busy
        by_field[Field.SPREAD] = worked
        by_field[Field.FIXED] = busy * state.fixed_share
        by_communication, by_tail, by_window = self._exposed_slopes(state, residual[Field.TAIL])
        exposed = by_field / state.compute_s * by_window
        exposed[Field.COMMUNICATION] = by_communication
        exposed[Field.TAIL] = by_tail
        exposed[Field.WINDOW] = by_window
        growth = state.exposed_s / alone
        slopes = np.stack(
            [by_field / alone, (exposed - growth * by_field) / (alone + state.exposed_s)], axis=1
        )
        return self._channels(state), slopes

    def device_share(self, residual: FloatArray) -> FloatArray:
        """Return the share of the computation during which the device works, shape (rows,)."""
        state = self._state(residual)
        # What device and host take is raised to a power before it is added up.
        alone = (state.device_share * state.busy_share) ** (1 / CORNER)
        return alone * (1 - state.fixed_share)

    def _state(self, residual: FloatArray) -> _State:
        z = np.clip(residual, -MOST_LOG, MOST_LOG)
        worked, device_share = _worked(self.cells, z)
        fixed = self.scale * _fixed_s(z)
        busy = self.scale * worked + fixed
        compute, busy_share = _fed(self.cells, z, busy)
        communication = self.cells.parts.communication_s * np.exp(z[Field.COMMUNICATION])
        hidden = (1 - self.tail) ** np.exp(np.minimum(z[Field.TAIL], MOST_TAIL))
        tail = 1 - np.maximum(hidden, LEAST_HIDDEN)
        window = self.cells.window_share * compute * np.exp(z[Field.WINDOW])
        law = tail * communication + _exceeds((1 - tail) * communication, window)
        several = _communicate(self.cells)
        return _State(
            compute_s=compute,
            busy_share=busy_share,
            fixed_share=fixed / busy,
            device_share=device_share,
            communication_s=communication,
            tail=tail,
            window_s=window,
            exposed_s=np.where(several, np.minimum(self.anchor * law, communication), 0.0),
        )

    def _alone_s(self, state: _State) -> FloatArray:
        return state.compute_s + self.cells.parts.input_stall_s + self.cells.parts.overhead_s

    def _channels(self, state: _State) -> FloatArray:
        alone = self._alone_s(state)
        return np.stack([np.log(alone), np.log1p(state.exposed_s / alone)])

    def _exposed_slopes(self, state: _State, later: FloatArray) -> FloatArray:
        """Return the derivatives of the exposed part by communication, tail and window.

        Parameters
        ----------
        later : ndarray
            The residual of the tail.
        """
        tail, total, window = state.tail, state.communication_s, state.window_s
        hideable = (1 - tail) * total
        by_hideable, by_window = _exceeds_slopes(hideable, window)
        # d tail / dz = -(1 - tail) log(1 - tail), as 1 - tail = (1 - tail_0)^(e^z).
        moved = -(1 - tail) * np.log(1 - tail) * (later < MOST_TAIL)
        slopes = (
            self.anchor * (tail * total + by_hideable * hideable),
            self.anchor * ((1 - by_hideable) * total * moved),
            self.anchor * by_window * window,
        )
        return np.where(_communicate(self.cells), np.stack(slopes), 0.0)


@dataclass(frozen=True, kw_only=True)
class _State:
    """Intermediate results of a step under a residual.

    Parameters
    ----------
    busy_share : ndarray
        Share of the computation that is not the loaders'.
    fixed_share : ndarray
        Share of what is left that is fixed.
    device_share : ndarray
        Share of what is left then that is the device's.
    """

    compute_s: FloatArray
    busy_share: FloatArray
    fixed_share: FloatArray
    device_share: FloatArray
    communication_s: FloatArray
    tail: FloatArray
    window_s: FloatArray
    exposed_s: FloatArray


def _worked(cells: StepCells, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the time that device or host work, and the share of it that is the device's."""
    device = CORNER * (np.log(cells.device_s) + z[Field.DEVICE])
    host = CORNER * (np.log(cells.host_s) + z[Field.HOST])
    longer = np.logaddexp(device, host)
    return np.exp(longer / CORNER + z[Field.SPREAD]), np.exp(device - longer)


def _fed(cells: StepCells, z: FloatArray, busy_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how long device and host work or wait for their data, and their share of that."""
    beside = (cells.input_s * np.exp(z[Field.FEED]) / busy_s) ** CORNER
    return busy_s * (1 + beside) ** (1 / CORNER), 1 / (1 + beside)


def _fixed_s(z: FloatArray) -> FloatArray:
    return np.asarray(FIXED_S * np.exp(z[Field.FIXED]))


def _communicate(cells: StepCells) -> npt.NDArray[np.bool_]:
    return np.asarray((cells.ranks > 1) & (cells.parts.communication_s > 0))


def _exceeds(communication_s: FloatArray, window_s: FloatArray) -> FloatArray:
    over = communication_s - window_s
    soft = 2 * SOFTNESS * communication_s
    return np.asarray(0.5 * (over + np.sqrt(over**2 + soft**2)))


def _exceeds_slopes(
    communication_s: FloatArray, window_s: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives of :func:`_exceeds` by both of its arguments."""
    over = communication_s - window_s
    soft = 4 * SOFTNESS**2 * communication_s
    root = np.maximum(np.sqrt(over**2 + soft * communication_s), 1e-300)
    return 0.5 * (1 + (over + soft) / root), -0.5 * (1 + over / root)
