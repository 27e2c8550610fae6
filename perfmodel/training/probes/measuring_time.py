"""How long measuring a workload takes, as far as can be said before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmodel.estimator.single.analytical import LAUNCH_S, TYPICAL_EFFICIENCY
from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.step import Step
from perfmodel.features.steps.step_work import step_work
from perfmodel.profilers.run import MeasureSettings

#: Starting a process, importing the framework and building the model.
_SETUP_S = 8.0
_USUAL = MeasureSettings(threads=1)


def measuring_s(steps: Sequence[Step]) -> FloatArray:
    """Return the seconds that measuring each step takes, shape (steps,).

    An order of magnitude, for choosing between workloads: what a machine takes to start, and as
    many steps as profilers repeat, by the analytical model.
    """
    work, policy = step_work(steps), _USUAL.policy
    step_s = (work.roofline_s + LAUNCH_S * work.calls) / TYPICAL_EFFICIENCY
    timed = np.clip(policy.budget_s / step_s, policy.min_samples, policy.max_samples)
    return np.asarray(
        _SETUP_S + step_s * (policy.warmup_min + timed + _USUAL.profiled_steps), dtype=np.float64
    )
