"""Which profiles the members of a version learn from, and which devices they answer for.

A member adds up the operators of a step. A GPU works through a queue that its host fills, so that a
step there is the longer of both (:mod:`perfmodel.predictors.step_models.node_network`): where there
is a joint predictor it answers for GPUs, profiled or not, and members learn from all other devices.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfmodel.predictors.predictor import Sample

#: Samples, and families, that members need at least.
LEAST_SAMPLES, _LEAST_FAMILIES = 4, 2
_OVERLAPPING = "gpu"


def answered_by_members(samples: Sequence[Sample], *, jointly: bool) -> list[Sample]:
    """Return the samples of devices that members answer for.

    Parameters
    ----------
    jointly : bool
        There is a joint predictor.
    """
    return [s for s in samples if not jointly or s.workload.accelerator.kind != _OVERLAPPING]


def learned_by_members(samples: Sequence[Sample], *, jointly: bool) -> list[Sample]:
    """Return the samples that members learn from: of the devices that they answer for.

    Where these are too few they learn from all, since a version has members.
    """
    own = answered_by_members(samples, jointly=jointly)
    enough = len(own) >= LEAST_SAMPLES and len({s.family for s in own}) >= _LEAST_FAMILIES
    return own if enough else list(samples)
