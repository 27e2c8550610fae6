"""What a placement needs to know of a job's step beyond its time on one accelerator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepProfile:
    """Volumes and shares of one step of one replica.

    Parameters
    ----------
    samples : int
        Samples of the step, all its micro-batches.
    parameter_count : float
        Trainable and frozen parameters.
    parameter_bytes, gradient_bytes, optimizer_state_bytes : float
        What they occupy; zero gradients and state in inference.
    input_bytes : float
        Inputs of the step as they arrive on the accelerator.
    forward_share, backward_share, optimizer_share : float
        Shares of the time of the step on one accelerator; they add up to 1.
    gradient_ready : ndarray, shape (points,)
        Share of the step that has passed when each piece of the gradients is ready, ascending.
    gradient_piece_bytes : ndarray, shape (points,)
        Bytes of each piece; they add up to ``gradient_bytes``.
    node_count : float
        Calls of operators, which the host has to launch.
    """

    samples: int
    parameter_count: float
    parameter_bytes: float
    gradient_bytes: float
    optimizer_state_bytes: float
    input_bytes: float
    forward_share: float
    backward_share: float
    optimizer_share: float
    gradient_ready: FloatArray
    gradient_piece_bytes: FloatArray
    node_count: float
