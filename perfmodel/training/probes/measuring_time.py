"""How long measuring a workload takes, as far as can be said before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.step import Step
from perfmodel.profilers.timing import TimingPolicy
from perfmodel.training.probes.device_shares import kind_times

#: Starting a process, importing the framework and building the model.
_SETUP_S = 8.0
#: A step takes so many times what the roofline bounds it by; order of magnitude.
_OVER_ROOFLINE = 3.0
_PROFILED_STEPS = 3


def measuring_s(steps: Sequence[Step], policy: TimingPolicy | None = None) -> FloatArray:
    """Return the seconds that measuring each step takes, shape (steps,).

    An order of magnitude, for choosing between workloads: what a machine takes to start, and steps
    that take three times what the roofline bounds them by.

    Parameters
    ----------
    policy : TimingPolicy, optional
        How often a step is repeated; as profilers do it by default.
    """
    policy = policy or TimingPolicy()
    step_s = _OVER_ROOFLINE * np.array([kind_times(step).sum() for step in steps])
    timed = np.clip(
        policy.budget_s / np.maximum(step_s, 1e-9), policy.min_samples, policy.max_samples
    )
    return np.asarray(_SETUP_S + step_s * (policy.warmup_min + timed + _PROFILED_STEPS))
