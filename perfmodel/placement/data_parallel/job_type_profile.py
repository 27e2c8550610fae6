"""The profile of a job whose graph is not known, from its number of parameters."""

from __future__ import annotations

import numpy as np

from perfmodel.errors import InvalidInputError
from perfmodel.placement.data_parallel.step_profile import StepProfile

#: Shares of a training step that most captured models are near to: a backward pass does twice
#: the work of the forward pass.
FORWARD_SHARE, BACKWARD_SHARE, OPTIMIZER_SHARE = 0.32, 0.63, 0.05
#: Tensors that parameters come in, and the share of the backward pass after which the first of
#: them has its gradient.
_PIECES = 100
_FIRST_READY = 0.02


def job_type_profile(
    *,
    samples: int,
    parameter_count: float,
    gradient_item_bytes: float = 4.0,
    optimizer_states: float = 1.0,
    input_bytes: float = 0.0,
) -> StepProfile:
    """Return a profile whose gradients become ready evenly during the backward pass.

    Parameters
    ----------
    samples : int
        Samples of the step.
    parameter_count : float
        Trained parameters, > 0.
    gradient_item_bytes : float
        Bytes of one gradient as it is communicated: 4, or 2 where it is halved.
    optimizer_states : float
        fp32 numbers that the optimizer keeps of each parameter.
    input_bytes : float
        Inputs of the step.

    Raises
    ------
    InvalidInputError
        No parameters.

    Examples
    --------
    >>> job_type_profile(samples=8, parameter_count=1e6).gradient_bytes
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
        samples=samples,
        parameter_count=parameter_count,
        parameter_bytes=parameter_count * 4.0,
        gradient_bytes=gradient_bytes,
        optimizer_state_bytes=parameter_count * 4.0 * optimizer_states,
        input_bytes=input_bytes,
        forward_share=FORWARD_SHARE,
        backward_share=BACKWARD_SHARE,
        optimizer_share=OPTIMIZER_SHARE,
        gradient_ready=np.linspace(begin, FORWARD_SHARE + BACKWARD_SHARE, _PIECES),
        gradient_piece_bytes=np.full(_PIECES, gradient_bytes / _PIECES),
        node_count=8.0 * _PIECES,
    )
