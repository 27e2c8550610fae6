"""A made-up job on a made-up cluster whose residual is known."""

from __future__ import annotations

import numpy as np

from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.residual_prior import Noise, ResidualPrior
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Field, Response
from perfmodel.placement.estimate import StepParts

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
        "communication.level.job": 0.6,
        "between.level.place": 0.8,
        "between.placement.own": 0.1,
        "within.level.place": 0.8,
        "within.level.own": 0.3,
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
    parts = Response(at, np.zeros(residual.shape))(residual).parts
    spread = 0.0 if seed is None else 0.01
    factor = np.exp(np.random.default_rng(seed or 0).normal(0.0, spread, len(at)))
    return ObservedSteps(
        cells=at,
        step_time_s=parts.step_time_s * factor,
        sync_time_s=parts.exposed_communication_s * factor,
    )


def seen(at: StepCells, step_time_s: float) -> ObservedSteps:
    """Return one cell as it was observed, without a log of its synchronisation."""
    return ObservedSteps(
        cells=at, step_time_s=np.array([step_time_s]), sync_time_s=np.array([np.nan])
    )


def random_cells(random: np.random.Generator, rows: int, jobs=("job",), guessed=False) -> StepCells:
    """Return unlike steps on three machines, two fabrics and in two settings."""
    compute = random.lognormal(-2.0, 1.0, rows)
    ranks = random.choice([1.0, 1.0, 2.0, 4.0, 8.0, 16.0], rows)
    hosts = np.minimum(ranks, random.choice([1.0, 2.0, 4.0], rows))
    communication = np.where(ranks > 1, compute * random.uniform(0.05, 1.0, rows), 0.0)
    parts = StepParts.of(
        compute,
        exposed_communication_s=communication * random.uniform(0.0, 1.0, rows),
        communication_s=communication,
        input_stall_s=0.01 * random.uniform(0.0, 1.0, rows),
    )
    # The same wherever cells are.
    within = np.where(hosts > 1, 0.9 / hosts, 1.0)
    return StepCells(
        parts=parts, within_share=within, batch_size=random.choice([8.0, 16.0, 64.0], rows),
        micro_batches=random.choice([1.0, 1.0, 2.0], rows), ranks=ranks, hosts=hosts,
        largest_share=np.ceil(ranks / hosts), host_s=random.uniform(0.001, 0.1, rows),
        window_share=random.uniform(0.05, 0.9, rows), device_s=compute,
        guessed=np.full(rows, guessed) & (random.uniform(size=rows) < 0.5),
        job=random.choice(jobs, rows), machine=random.choice(["a", "b", "a+c"], rows),
        fabric=random.choice(["x|", "x|net", "y|net"], rows),
        setting=random.choice(["", "", "zero1"], rows), wiring=random.choice(["", "fast"], rows),
        input_s=random.choice([0.0, 0.003, 0.3], rows), place=np.arange(rows),
    )  # fmt: skip


def random_steps(random: np.random.Generator, at: StepCells) -> ObservedSteps:
    """Return what such steps were seen to take: long on one machine, half of them with a log."""
    factor = random.lognormal(0.3, 0.5, len(at)) * np.where(at.machine == "b", 8.0, 1.0)
    step = at.parts.step_time_s * factor
    logged = (random.uniform(size=len(at)) < 0.5) & (at.ranks > 1)
    sync = np.where(logged, step * random.uniform(0.0, 0.6, len(at)), np.nan)
    return ObservedSteps(cells=at, step_time_s=step, sync_time_s=sync)
