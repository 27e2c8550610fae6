"""Single steps are corrected on plain numbers as in columns."""

from __future__ import annotations

import calibration_world as world
import numpy as np
import pytest

from perfmodel.placement.calibration.calibration import calibrate
from perfmodel.placement.calibration.correcting.single_step import SingleSteps
from perfmodel.placement.calibration.step_cells import SingleStep, StepCells
from perfmodel.placement.calibration.step_response import Field, Response

NUMBERS = (
    "batch_size", "micro_batches", "ranks", "hosts", "largest_share", "host_s", "input_s",
    "window_share",
)  # fmt: skip


def single(cells: StepCells, row: int) -> SingleStep:
    numbers = [float(getattr(cells, name)[row]) for name in NUMBERS]
    words = [str(getattr(cells, name)[row]) for name in ("job", "machine", "fabric", "setting")]
    return SingleStep(cells.parts.at(row), *numbers, *words)


@pytest.mark.parametrize("seed", range(12))
def test_numbers_say_what_columns_say(seed: int) -> None:
    random = np.random.default_rng(seed)
    jobs = ("job",) if seed % 2 else ("job", "other", "third")
    seen = world.random_cells(random, 2 + seed, jobs, guessed=seed % 3 == 0)
    calibration = calibrate(world.random_steps(random, seen))
    asked = StepCells.join([world.random_cells(random, 25, (*jobs, "new")), seen])
    columns = calibration.apply(asked)
    for row in range(25):
        found = calibration.single_steps.correct(single(asked, row))
        assert (found is None) == columns.seen[row]
        if found is not None:
            assert found.log_sd == pytest.approx(columns.log_sd[row], rel=1e-9)
            expected = tuple(columns.parts.at(row))
            assert tuple(found.parts) == pytest.approx(expected, rel=1e-9)
    # What was observed itself is for columns; a guessed row is no captured step.
    for row in range(25, len(asked)):
        assert calibration.single_steps.correct(single(asked, row)) is None


def test_machines_and_fabrics_that_were_not_observed_are_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = world.measured(world.cells(), device=0.5, communication=1.0)
    steps = calibrate(seen).single_steps
    made = []
    of = SingleSteps._surroundings
    monkeypatch.setattr(
        SingleSteps, "_surroundings", lambda *given: made.append(given) or of(*given)
    )
    at = single(world.cells(((8, 4, 2),), (32,)), 0)
    for place in ("elsewhere", "farther", "cluster"):
        assert steps.correct(at._replace(machine=place, fabric=place))
    # Those of "cluster", and those of all others.
    assert len(made) == 2


@pytest.mark.parametrize("size", [0.1, 1.0, 30.0])
def test_a_single_step_responds_as_columns_do(size: float) -> None:
    random = np.random.default_rng(0)
    cells = world.random_cells(random, 30)
    expected = random.normal(0.0, 0.3, (len(Field), 30))
    residual = expected + random.normal(0.0, size, expected.shape)
    columns = Response(cells, expected)(residual)
    for row in range(30):
        found = Response(single(cells, row), expected[:, row])(residual[:, row].tolist())
        assert tuple(found.parts) == pytest.approx(tuple(columns.parts.at(row)), rel=1e-9)
        slopes = [one[row] for one in columns.by_step]
        assert found.by_step == pytest.approx(slopes, rel=1e-9, abs=1e-12)
