r"""In which order the workloads of a campaign tell most about a device.

The design is that of :mod:`~perfmodel.training.probes.probe_plan`: the coefficients of a device
have a prior covariance, measuring a step narrows it, whatever time comes out, and the next workload
is the one after which the mean variance of what the operator cares about is smallest. What was
measured before narrows it first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmodel.features.steps.step import Step
from perfmodel.training.probes.probe_plan import (
    ProbeChooser,
    narrowed,
    noise_with_misfit,
    prior_of,
    probe_order,
)


def measuring_order(
    chooser: ProbeChooser,
    candidates: Sequence[Step],
    *,
    measured: Sequence[Step] = (),
    cared: Sequence[Step] = (),
    most: int | None = None,
) -> list[int]:
    """Return the candidates in the order in which they are worth measuring.

    Parameters
    ----------
    candidates : sequence of Step
        What could be measured, on one device.
    measured : sequence of Step
        What was, on that device, since the chooser learned.
    cared : sequence of Step
        What the operator will ask about it; the candidates and what was measured by default.
    most : int, optional
        How many are put in order; all by default.

    Returns
    -------
    list of int
        Positions among the candidates, best first.
    """
    if not candidates:
        return []
    steps = [*candidates, *measured]
    features = np.asarray(chooser.device_features(steps), dtype=np.float64)
    noise = noise_with_misfit(features, chooser.noise_)
    count = len(candidates)
    prior = narrowed(
        prior_of(chooser, candidates[0].accelerator.name), features[count:], noise[count:]
    )
    population = np.asarray(chooser.device_features(cared), dtype=np.float64) if cared else features
    return probe_order(features[:count], prior, noise[:count], most or count, population=population)
