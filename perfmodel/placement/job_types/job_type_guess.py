r"""What is guessed of the steps of a job of which nothing but a name and some steps are known.

A calibration corrects a predicted step; a job without a graph has none. This is what stands in for
it, from the batches and times of the steps that were observed:

.. math::

    D(b, s) = \tfrac{2}{5}\, t\, \tfrac{b}{\bar b}\, e^{-a (s - \bar s)}, \qquad
    H = \tfrac{9}{10}\, t, \qquad C = (D^q + H^q)^{1/q}

with the medians :math:`t` of the times without synchronisation, :math:`\bar b` of the batches and
:math:`\bar s` of the accelerators' speeds. How much of a step the device takes, which grows with
the batch, and how much its host, which does not, is left open: both guesses are wide, and what was
observed soon settles them. Gradients are guessed to grow with the square root of the work.

All of it scales with the observed times, so that no unit and no size of job is preferred.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from perfmodel.errors import InvalidInputError
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.calibration.step_response import CORNER
from perfmodel.placement.data_parallel.step_profile import StepProfile

#: Shares of a training step that most captured models are near to: a backward pass does twice
#: the work of the forward pass.
FORWARD_SHARE, BACKWARD_SHARE, OPTIMIZER_SHARE = 0.32, 0.63, 0.05
#: Tensors that parameters come in, and the share of the backward pass after which the first of
#: them has its gradient.
_PIECES = 100
_FIRST_READY = 0.02


def job_type_profile(*, parameter_count: float, gradient_item_bytes: float = 4.0) -> StepProfile:
    """Return a profile whose gradients become ready evenly during the backward pass.

    Parameters
    ----------
    parameter_count : float
        Trained parameters, > 0.
    gradient_item_bytes : float
        Bytes of one gradient as it is communicated: 4, or 2 where it is halved.

    Examples
    --------
    >>> job_type_profile(parameter_count=1e6).gradient_bytes
    4000000.0
    """
    if not parameter_count > 0:
        raise InvalidInputError(
            f"A job that trains needs parameters; got {parameter_count}.",
            pointer="/job/parameter_count",
        )
    gradient_bytes = parameter_count * gradient_item_bytes
    begin = FORWARD_SHARE + _FIRST_READY * BACKWARD_SHARE
    return StepProfile(
        parameter_bytes=parameter_count * 4.0,
        gradient_bytes=gradient_bytes,
        input_bytes=0.0,
        forward_share=FORWARD_SHARE,
        backward_share=BACKWARD_SHARE,
        optimizer_share=OPTIMIZER_SHARE,
        gradient_ready=np.linspace(begin, FORWARD_SHARE + BACKWARD_SHARE, _PIECES),
        gradient_piece_bytes=np.full(_PIECES, gradient_bytes / _PIECES),
        node_count=8.0 * _PIECES,
    )


#: Shares of the median step that device and host would take alone.
_DEVICE_SHARE, _HOST_SHARE = 0.4, 0.9
#: How the time of a device falls with its speed, in logarithms; fitted to tables of many jobs.
_SPEED_POWER = 0.8
#: Parameters of a job whose steps take a tenth of a second on a round device.
_PARAMETERS, _ROUND_STEP_S = 2.5e7, 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class JobTypeGuess:
    """Steps of a job before its observations are weighed.

    Parameters
    ----------
    step_s : float
        Median of the observed times without synchronisation, > 0.
    batch_size : float
        Median of the observed micro-batches, >= 1.
    log_speed : float
        Median of the logarithmic speeds of the accelerators, as
        :attr:`.job_type_cells.JobTypeCells.log_speed`.
    """

    step_s: float
    batch_size: float
    log_speed: float

    @classmethod
    def of(cls, alone_s: FloatArray, batch_size: FloatArray, log_speed: FloatArray) -> Self:
        """Guess from observed steps; their order does not matter.

        Parameters
        ----------
        alone_s : ndarray, shape (steps,)
            One micro-batch without synchronisation, s, > 0.
        batch_size, log_speed : ndarray, shape (steps,)

        Examples
        --------
        >>> one = np.array([0.2])
        >>> JobTypeGuess.of(one, np.array([32.0]), np.array([0.0])).step_s
        0.2
        """
        if not len(alone_s):
            raise InvalidInputError("A job that is known by its name needs an observed step.")
        return cls(
            step_s=float(np.exp(np.median(np.log(alone_s)))),
            batch_size=float(np.exp(np.median(np.log(batch_size)))),
            log_speed=float(np.median(log_speed)),
        )

    @property
    def host_s(self) -> float:
        """What the host takes for one micro-batch, s."""
        return _HOST_SHARE * self.step_s

    def device_s(self, samples: npt.ArrayLike, log_speed: npt.ArrayLike) -> FloatArray:
        """Return what devices take for so many samples, s.

        Parameters
        ----------
        samples, log_speed : array_like
            Samples of a replica and step, and the speed of its accelerator.
        """
        faster = np.asarray(log_speed, dtype=np.float64) - self.log_speed
        share = np.asarray(samples, dtype=np.float64) / self.batch_size
        return np.asarray(_DEVICE_SHARE * self.step_s * share * np.exp(-_SPEED_POWER * faster))

    def compute_s(self, device_s: FloatArray, micro_batches: npt.ArrayLike = 1.0) -> FloatArray:
        """Return the time of steps of one accelerator, whichever of device and host is longer, s.

        Examples
        --------
        The share of the device is 2/5 and that of the host 9/10 of a step of 1 s; with a soft
        corner that makes 0.95 s.

        >>> guess = JobTypeGuess(step_s=1.0, batch_size=8.0, log_speed=0.0)
        >>> round(float(guess.compute_s(guess.device_s(8, 0.0))), 2)
        0.95
        """
        host_s = self.host_s * np.asarray(micro_batches, dtype=np.float64)
        return np.asarray((device_s**CORNER + host_s**CORNER) ** (1 / CORNER))

    def profile(self) -> StepProfile:
        """Return what is guessed of a job's gradients."""
        round_s = self.step_s * np.exp(_SPEED_POWER * self.log_speed)
        parameters = _PARAMETERS * float(np.sqrt(round_s / _ROUND_STEP_S))
        return job_type_profile(parameter_count=parameters)
