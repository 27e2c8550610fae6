"""How many micro-batches a stage of a pipeline holds the activations of.

A stage runs forward ahead of its backward passes: by all micro-batches where those come last
(GPipe), else by as many as there are stages from it to the end. With ``v`` chunks of layers a stage
(interleaved) the first of ``p`` runs ``(v - 1) p + 2 (p - 1) + 1`` chunks ahead, each a ``v``-th of
its layers (Narayanan et al., "Efficient Large-Scale Language Model Training", SC 2021, section 2.2,
and the order of Megatron-LM's schedule).
"""

from __future__ import annotations

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.topology.topology import Schedule

Numbers = FloatArray | float


def micro_batches_in_flight(
    pipeline: Numbers,
    micro_batches: Numbers,
    schedule: Schedule,
    virtual_stages: Numbers = 1.0,
    *,
    is_last: bool = False,
) -> FloatArray:
    """Return how many micro-batches a stage holds at most, of all its layers; broadcast.

    Parameters
    ----------
    virtual_stages : float or ndarray
        Chunks of layers a stage; counts where the schedule is interleaved.
    is_last : bool
        Of the last stage in place of the first, which holds most.

    Examples
    --------
    >>> float(micro_batches_in_flight(4, 16, Schedule.ONE_F_ONE_B))
    4.0
    >>> float(micro_batches_in_flight(8, 16, Schedule.INTERLEAVED, 2))
    11.5
    >>> float(micro_batches_in_flight(1, 16, Schedule.GPIPE))
    1.0
    """
    p, n = np.asarray(pipeline, dtype=np.float64), np.asarray(micro_batches, dtype=np.float64)
    ahead = np.ones_like(p) if is_last else p
    if schedule is Schedule.GPIPE:
        ahead = n
    elif schedule is Schedule.INTERLEAVED:
        v = np.maximum(virtual_stages, 1.0)
        chunks = (v - 1) * p + (0.0 if is_last else 2 * (p - 1)) + 1
        ahead = np.where(v > 1, chunks / v, ahead)
    return np.asarray(np.where(p > 1, np.minimum(n, ahead), 1.0))
