import itertools

import numpy as np
import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.placement.job_types.completion import JobTypePrior
from perfmodel.placement.job_types.job_type_cells import job_type_cells
from perfmodel.placement.topology.topology import Node, Placement
from perfmodel.training.placement_fits.fit_job_types import (
    calibrated,
    constants,
    fit_prior,
    guess,
    repeat_variance,
)
from perfmodel.training.placement_rows.job_type_records import MeasuredCells, thinned


def invented(seed: int = 0) -> MeasuredCells:
    """Jobs whose level differs, and whose devices and counts differ by the same for all."""
    rng = np.random.default_rng(seed)
    kinds = list(itertools.product(range(4), (8, 32), ("K80", "T4"), (1, 4)))
    level = rng.normal(0, 1, 4)
    log_s = [
        level[job] + 0.7 * np.log2(batch) / 3 + (0.9 if device == "K80" else 0.0) + 0.05 * count
        for job, batch, device, count in kinds
    ]
    cells = job_type_cells(
        [(f"job{job}", batch) for job, batch, _, _ in kinds],
        [Placement(nodes=(Node(accelerator=d, count=count),)) for _, _, d, count in kinds],
        catalog=Catalog.default(),
    )
    return MeasuredCells(cells=cells, log_s=np.array(log_s) + rng.normal(0, 0.01, len(log_s)))


def test_a_fit_lowers_variances_that_a_table_does_not_show() -> None:
    prior = fit_prior([invented()], 0.01**2)
    before = guess()
    # Devices and counts act alike on all names: what is a name's own of them shrinks.
    assert prior.variances["name.device"] < before["name.device"]
    assert prior.variances["name.several"] < before["name.several"]
    assert prior.variances["itself"] < before["itself"]


def test_constants_say_the_prior_again() -> None:
    table = invented()
    prior = calibrated(fit_prior([table], 0.01**2), [table], seeds=1)
    again = JobTypePrior.from_constants(constants(prior))
    assert again.mean == pytest.approx(prior.mean, abs=1e-6)
    assert again.quantiles == pytest.approx(prior.quantiles, abs=1e-6)
    assert all(value >= 1 for value in again.quantiles.values())


def test_variance_of_repeats_by_hand() -> None:
    # One cell measured twice, 0.2 apart in log: (0.2)^2 / 2 = 0.02, over 0.4549 (the median of
    # a chi-square of one degree).
    table = invented().take(np.array([0, 0]))
    twice = MeasuredCells(cells=table.cells, log_s=np.array([0.0, 0.2]))
    assert repeat_variance(twice) == pytest.approx(0.02 / 0.4549)


def test_thinning_keeps_every_job_on_every_device() -> None:
    few = thinned(invented(), 2, np.random.default_rng(0))
    # 4 jobs x 2 devices x 2 cells.
    assert len(few.log_s) == 16
