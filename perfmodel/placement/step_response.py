r"""How a step answers when what was assumed of its job turns out different.

Seven logarithms :math:`z` say how a job differs from its prediction: device time, host time, what
spreading costs, a fixed time, communication, tail and window. With the predicted computation
:math:`C_0`, host time :math:`H_0`, communication :math:`N_0` and exposed part :math:`E_0`,

.. math::

    C &= (\,(C_0 e^{z_1})^q + (H_0 e^{z_2})^q)^{1/q}\,e^{z_3} + F_0 e^{z_4}, \qquad
    N = N_0 e^{z_5} \\
    E &= \kappa\,[\,\tau N + h((1 - \tau) N,\ \omega C e^{z_7})\,], \qquad
    h(n, w) = \tfrac12 (n - w + \sqrt{(n - w)^2 + 4 \epsilon^2 n^2})

The device works or waits for its host, whichever takes longer, with a soft corner. Communication
hides behind a share :math:`\omega` of the computation; what exceeds it is exposed, and so is the
tail :math:`\tau`, gradients that are ready last. :math:`\tau_0` is what makes :math:`E_0` of
:math:`N_0`, :math:`\tau = 1 - (1 - \tau_0)^{e^{z_6}}`, and :math:`\kappa` absorbs the rest of
:math:`E_0`, within a factor of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from perfmodel.placement.step_cells import StepCells
from perfmodel.placement.step_parts import StepParts

FloatArray = npt.NDArray[np.float64]

#: Sharpness of the corner between a device that works and one that waits for its host.
CORNER = 2.5
#: Share of the communication that is still exposed where it just fits into its window.
SOFTNESS = 0.1
#: Fixed time whose logarithm is 0.
FIXED_S = 1e-3
_STEP = 1e-4
#: Residuals beyond these factors are no residuals: the exponent stays finite.
_MOST_LOG = 12.0


class Field(IntEnum):
    """The seven logarithms in which a job differs from its prediction."""

    DEVICE = 0
    HOST = 1
    SPREAD = 2
    FIXED = 3
    COMMUNICATION = 4
    TAIL = 5
    WINDOW = 6


@dataclass(frozen=True, kw_only=True)
class Response:
    """What of the cells does not depend on the residual; made once for many residuals.

    Parameters
    ----------
    cells : StepCells
    tail : ndarray
        Share of the communication that nothing hides, in [0, 1).
    anchor : ndarray
        Factor by which the predicted exposed part exceeds that of the law.
    """

    cells: StepCells
    tail: FloatArray
    anchor: FloatArray

    @classmethod
    def of(cls, cells: StepCells) -> Response:
        """Split what is predicted as exposed into a tail and what exceeds the window."""
        parts = cells.parts
        several = _communicate(cells)
        total = np.where(several, parts.communication_s, 1.0)
        exposed = np.where(several, parts.exposed_communication_s, 0.0)
        window = cells.window_share * parts.compute_s
        beyond = _exceeds(total, window)
        tail = np.clip((exposed - beyond) / np.maximum(total - beyond, 1e-12), 1e-3, 0.95)
        law = tail * total + _exceeds((1 - tail) * total, window)
        return cls(cells=cells, tail=tail, anchor=np.clip(exposed / law, 0.5, 2.0))

    def parts(self, residual: FloatArray) -> StepParts:
        """Return the parts of the steps under a residual, shape (fields, rows)."""
        before = self.cells.parts
        z = np.clip(residual, -_MOST_LOG, _MOST_LOG)
        compute = self._compute_s(z)
        communication = before.communication_s * np.exp(z[Field.COMMUNICATION])
        tail = 1 - (1 - self.tail) ** np.exp(np.minimum(z[Field.TAIL], 3.0))
        window = self.cells.window_share * compute * np.exp(z[Field.WINDOW])
        law = tail * communication + _exceeds((1 - tail) * communication, window)
        exposed = np.where(_communicate(self.cells), self.anchor * law, 0.0)
        return StepParts(
            compute_s=compute,
            exposed_communication_s=np.minimum(exposed, communication),
            input_stall_s=before.input_stall_s,
            overhead_s=before.overhead_s,
            communication_s=communication,
        )

    def _compute_s(self, z: FloatArray) -> FloatArray:
        device = np.log(self.cells.parts.compute_s) + z[Field.DEVICE]
        host = np.log(self.cells.host_s) + z[Field.HOST]
        longer = np.logaddexp(CORNER * device, CORNER * host) / CORNER
        fixed = FIXED_S * np.exp(z[Field.FIXED])
        return np.asarray(np.exp(longer + z[Field.SPREAD]) + fixed)

    def channels(self, residual: FloatArray) -> FloatArray:
        """Return what is compared with observations, shape (2, rows).

        The logarithm of the step without exposed communication, and the logarithm of the factor
        by which that communication lengthens it.
        """
        parts = self.parts(residual)
        alone = parts.compute_s + parts.input_stall_s + parts.overhead_s
        return np.stack([np.log(alone), np.log1p(parts.exposed_communication_s / alone)])

    def slopes(self, residual: FloatArray, at: FloatArray | None = None) -> FloatArray:
        """Return derivatives of the channels by the fields, shape (fields, 2, rows)."""
        here = self.channels(residual) if at is None else at
        moved = []
        for one in Field:
            beside = residual.copy()
            beside[one] += _STEP
            moved.append((self.channels(beside) - here) / _STEP)
        return np.stack(moved)


def _communicate(cells: StepCells) -> npt.NDArray[np.bool_]:
    return np.asarray((cells.ranks > 1) & (cells.parts.communication_s > 0))


def _exceeds(communication_s: FloatArray, window_s: FloatArray) -> FloatArray:
    over = communication_s - window_s
    soft = 2 * SOFTNESS * communication_s
    return np.asarray(0.5 * (over + np.sqrt(over**2 + soft**2)))
