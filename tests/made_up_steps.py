"""Made-up jobs and groups for tests of data-parallel steps."""

from __future__ import annotations

import numpy as np

from perfmodel.placement.data_parallel.step_profile import StepProfile


def made_up_profile(
    *, gradient_bytes: float = 4e8, pieces: int = 100, optimizer_share: float = 0.05
) -> StepProfile:
    """Return a job whose gradients become ready evenly between 35 % of the step and its end."""
    forward = 0.33
    return StepProfile(
        parameter_bytes=gradient_bytes,
        gradient_bytes=gradient_bytes,
        input_bytes=1e7,
        forward_share=forward,
        backward_share=1 - forward - optimizer_share,
        optimizer_share=optimizer_share,
        gradient_ready=np.linspace(0.35, 1 - optimizer_share, pieces),
        gradient_piece_bytes=np.full(pieces, gradient_bytes / pieces),
        node_count=500.0,
    )
