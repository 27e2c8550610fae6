"""Where the time of a step on a placement goes, as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepParts:
    """Parts of steps, seconds; arrays of one shape.

    Parameters
    ----------
    compute_s : ndarray
        The slowest accelerator computes, bubbles of a pipeline included.
    exposed_communication_s : ndarray
        Communication that no computation hides.
    input_stall_s, overhead_s : ndarray
        Waiting for data; everything else (host, stragglers).
    communication_s : ndarray
        All communication, hidden or not.
    """

    compute_s: FloatArray
    exposed_communication_s: FloatArray
    input_stall_s: FloatArray
    overhead_s: FloatArray
    communication_s: FloatArray

    @property
    def step_time_s(self) -> FloatArray:
        """Time of the whole step: the parts that do not overlap."""
        exposed = self.compute_s + self.exposed_communication_s
        return exposed + self.input_stall_s + self.overhead_s
