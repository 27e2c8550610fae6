"""Fit what is particular to collectives between ranks on the cores of one host.

Gloo copies through the system where NCCL drives links, so that these rows say nothing of
accelerators and must not bend their constants. The forms and their protocol changes are taken from
those; learned are the share of the memory's rate that each operation reaches, the latency of a hop,
and how much both changes cost, with wide priors.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.collectives.collective_constants import Collective, CollectiveConstants
from perfmodel.placement.least_squares import dampened, least_squares
from perfmodel.placement.topology.links import LINKS, LinkClass
from perfmodel.training.placement_fits.robust_scale import logit, sigmoid
from perfmodel.training.placement_rows.collective_rows import CollectiveCells

HOST = LinkClass.HOST_MEMORY
_LINK = "host-memory"

#: Scatter of log times of processes that a system schedules.
_SCATTER = 0.3
#: Prior: long messages reach a fifth of the rate at which memory could be copied twice, a hop
#: takes some system calls, and the changes of protocol cost what they do elsewhere.
_SHARE, _SHARE_WIDTH = 0.2, 1.5
_LATENCY_WIDTH = 1.5
_FILL_WIDTH = 1.0
_STEPS = 60
_OPERATIONS = tuple(Collective)


def fit_host_memory(cells: CollectiveCells, constants: CollectiveConstants) -> CollectiveConstants:
    """Return constants with what cells on CPUs say of their class of links.

    Parameters
    ----------
    cells : CollectiveCells
        Between ranks on cores alone; none leaves the priors of this class in place.
    constants : CollectiveConstants
        Of accelerators, which stay as they are.
    """
    middle = np.array([*[logit(_SHARE)] * len(_OPERATIONS), 0.0, 0.0])
    if not len(cells):
        return _with(constants, middle)
    width = np.array([*[_SHARE_WIDTH] * len(_OPERATIONS), _LATENCY_WIDTH, _FILL_WIDTH])
    measured = np.log(cells.time_s)

    def residuals(vector: FloatArray) -> FloatArray:
        predicted = np.log(cells.predicted_s(_with(constants, vector)))
        off = dampened((predicted - measured) / _SCATTER, 1.0)
        return np.concatenate([off, (vector - middle) / width])

    return _with(constants, least_squares(residuals, middle, steps=_STEPS))


def _with(constants: CollectiveConstants, vector: FloatArray) -> CollectiveConstants:
    shares = sigmoid(vector[: len(_OPERATIONS)]).tolist()
    latency, fill = np.exp(vector[len(_OPERATIONS) :]).tolist()
    return replace(
        constants,
        efficiency={**constants.efficiency, HOST: dict(zip(_OPERATIONS, shares, strict=True))},
        fill_scale={**constants.fill_scale, HOST: fill},
        latency_scale={**constants.latency_scale, HOST: 1.0},
        link_latency_s={
            **constants.link_latency_s,
            _LINK: LINKS[_LINK].latency_s * latency,
        },
    )
