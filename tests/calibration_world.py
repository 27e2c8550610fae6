"""A made-up job on a made-up cluster whose residual is known."""

from __future__ import annotations

import numpy as np

from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.residual_prior import Noise, ResidualPrior
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Field, Response
from perfmodel.placement.step_parts import StepParts

#: Ranks, hosts, fullest host.
PLACEMENTS = ((1, 1, 1), (2, 1, 2), (4, 1, 4), (8, 1, 8), (2, 2, 1), (8, 2, 4), (16, 2, 8))
BATCHES = (16, 32, 64)

PRIOR = ResidualPrior(
    means={"device": 0.0, "host": 0.0, "communication": 0.0},
    sds={
        "device.level.own": 0.5,
        "device.batch_curve.own": 0.1,
        "host.level.own": 0.5,
        "spread.share_slope.own": 0.05,
        "communication.level.place": 0.8,
        "communication.level.own": 0.6,
        "communication.one_host.own": 0.3,
        "communication.placement.own": 0.1,
        "tail.level.own": 0.3,
        "window.level.own": 0.3,
    },
    noise=Noise(compute=0.03, sync=0.02, sync_share=0.1),
)


def cells(placements=PLACEMENTS, batches=BATCHES, *, job="job", cluster="cluster") -> StepCells:
    """Return every placement with every batch: 2 ms a sample, 60 ms of gradients a host crossed."""
    rows = [(n, h, m, b) for n, h, m in placements for b in batches]
    ranks, hosts, share, batch = np.array(rows, dtype=np.float64).T
    compute = 0.004 + 0.002 * batch
    communication = np.where(ranks > 1, 0.01 * (1 - 1 / ranks) + 0.06 * (1 - 1 / hosts), 0.0)
    exposed = np.maximum(communication - 0.6 * compute, 0.1 * communication)
    parts = StepParts.of(compute, exposed_communication_s=exposed, communication_s=communication)
    return StepCells.of_job(
        parts, batch_size=batch, ranks=ranks, hosts=hosts, largest_share=share, host_s=0.01,
        job=job, machine=cluster, fabric=cluster,
    )  # fmt: skip


def measured(at: StepCells, *, device=0.0, communication=0.0, seed=None) -> ObservedSteps:
    """Return steps of a job that differs by known logarithms, with 1 % of noise if seeded."""
    residual = np.zeros((len(Field), len(at)))
    residual[Field.DEVICE] = device
    residual[Field.COMMUNICATION] = communication
    parts = Response.of(at).parts(residual)
    spread = 0.0 if seed is None else 0.01
    factor = np.exp(np.random.default_rng(seed or 0).normal(0.0, spread, len(at)))
    return ObservedSteps(
        cells=at,
        step_time_s=parts.step_time_s * factor,
        sync_time_s=parts.exposed_communication_s * factor,
    )
