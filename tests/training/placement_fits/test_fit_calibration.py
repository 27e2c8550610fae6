"""Tests of the fit of a prior of residuals, on made-up jobs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import calibration_world as world
import numpy as np
import pytest

from perfmodel.placement.calibration.observed_steps import Comparisons, ObservedSteps
from perfmodel.placement.calibration.residual_prior import ResidualPrior
from perfmodel.placement.fitted.forms import as_plain, read_constants
from perfmodel.training.placement_fits.fit_calibration import (
    START,
    Sample,
    fit,
    fit_prior,
    gradient,
)
from perfmodel.training.placement_fits.fitted_file import rounded
from perfmodel.training.placement_rows.script_rows import Group, Measured

PLACEMENTS = tuple((hosts * share, hosts, share) for hosts in (1, 2, 4) for share in (1, 2, 4, 8))


def groups() -> dict[Group, Measured]:
    """Return two jobs on two clusters; on the second, communication takes three times as long."""
    found = {}
    for job, device in (("a", 0.2), ("b", 0.6)):
        for cluster, slower in (("near", 0.0), ("far", np.log(3))):
            at = world.cells(PLACEMENTS, job=job, cluster=cluster)
            steps = world.measured(at, device=device, communication=slower, seed=len(found))
            names = np.repeat([f"{h * m}" for _, h, m in PLACEMENTS], len(world.BATCHES))
            found[Group(job, cluster)] = Measured(steps, names)
    return found


def test_the_slope_by_the_level_of_means_points_to_the_truth():
    # Communication takes 20 times as long: its mean has to go up.
    steps = world.measured(world.cells(PLACEMENTS), communication=np.log(20))
    prior = replace(START, means={**START.means, "communication": 0.0})
    slope = gradient(Sample.of(steps, tuple(START.sds)), prior)
    assert slope[list(prior.means).index("communication")] > 0


def test_the_slope_by_a_noise_is_that_of_the_marginal_likelihood():
    # One whole step, one term: log N(y; 0, s^2 + n^2), linear where the device decides alone.
    at = world.cells(((1, 1, 1),), (32,))
    step = np.exp(0.3) * at.parts.compute_s
    steps = ObservedSteps(cells=at, step_time_s=step, sync_time_s=np.zeros(1))
    noise = replace(START.noise, freedom=1e9, compute=0.2)
    prior = ResidualPrior(
        means={**START.means, "device": 0.0, "host": -9.0, "fixed": -9.0, "spread": 0.0,
               "alone": 0.0},
        sds={"device.level.own": 0.5},
        noise=noise,
    )  # fmt: skip
    slope = gradient(Sample.of(steps, ("device.level.own",)), prior)
    variance = 0.5**2 + 0.2**2
    by_log_sd = (0.3**2 / variance**2 - 1 / variance) * 0.5**2
    assert slope[len(prior.means)] == pytest.approx(by_log_sd, rel=0.02)
    assert len(Comparisons.of(steps, noise).values) == 1


def test_a_fit_gives_a_prior_that_can_be_stored():
    prior = fit_prior(groups(), steps=2)
    again = read_constants(ResidualPrior, rounded(as_plain(prior)))
    assert again.sds.keys() == START.sds.keys()
    assert all(sd > 0 for sd in again.sds.values())
    assert again.noise.inflation > 0


def test_the_real_tables_can_be_fitted(tmp_path: Path):
    data = os.environ.get("PERFMODEL_DATA")
    if not data:
        pytest.skip("PERFMODEL_DATA names no folder of public tables")
    # Two jobs on two clusters have all that is compared: placements, jobs, machines.
    gavel = Path("gavel") / "simulation_throughputs.json"
    (tmp_path / gavel).parent.mkdir()
    (tmp_path / gavel).write_bytes((Path(data) / gavel).read_bytes())
    for job in ("bert", "ncf"):
        for cluster in ("dgx", "rtx"):
            table = Path("sia") / job / f"placements-{cluster}.csv"
            (tmp_path / table).parent.mkdir(parents=True, exist_ok=True)
            header, *rows = (Path(data) / table).read_text().splitlines()
            (tmp_path / table).write_text("\n".join([header, *rows[::12]]))
    assert fit(tmp_path, steps=1)["rows"] > 100
