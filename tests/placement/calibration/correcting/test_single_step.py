"""Single steps are corrected on plain numbers as in columns."""

from __future__ import annotations

import calibration_world as world
import numpy as np
import pytest

from perfmodel.placement.calibration import calibration as calibration_module
from perfmodel.placement.calibration.calibration import calibrate
from perfmodel.placement.calibration.correcting.single_step import SingleSteps
from perfmodel.placement.calibration.residual_prior import fitted_prior
from perfmodel.placement.calibration.script_gap import LinkGap, ScriptGap
from perfmodel.placement.calibration.step_cells import SingleStep, StepCells
from perfmodel.placement.calibration.step_response import Field, Response

#: With links on one machine, over one of two fabrics.
GAP = ScriptGap(
    usual={Field.DEVICE: 0.3, Field.HOST: 0.5},
    machines={"a": {Field.DEVICE: -0.2, Field.HOST: 1.0}},
    jobs={"a": 1},
    sds={Field.DEVICE: 0.5, Field.HOST: 0.5},
    links={
        "a": {
            "x|net": LinkGap(
                least=(2.0, 1.0, 1.0),
                most=(8.0, 2.0, 8.0),
                communication=(0.5, 0.4, -0.3, 0.2),
                tail=-0.6,
            )
        }
    },
)
WORDS = ("job", "machine", "fabric", "setting", "wiring")
NUMBERS = (
    "batch_size", "micro_batches", "ranks", "hosts", "largest_share", "within_share", "host_s",
    "input_s", "window_share",
)  # fmt: skip


def single(cells: StepCells, row: int) -> SingleStep:
    numbers = [float(getattr(cells, name)[row]) for name in NUMBERS]
    words = [str(getattr(cells, name)[row]) for name in WORDS]
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


@pytest.mark.parametrize("seed", range(4))
def test_cells_that_are_not_weighed_together_are_for_columns_too(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration_module, "MOST_TOGETHER", 5)
    random = np.random.default_rng(seed)
    seen = world.random_cells(random, 12, ("job", "other"))
    calibration = calibrate(world.random_steps(random, seen))
    asked = StepCells.join([seen, world.random_cells(random, 25, ("job", "new"))])
    columns = calibration.apply(asked)
    assert columns.seen[: len(seen)].all()
    for row in range(len(asked)):
        found = calibration.single_steps.correct(single(asked, row))
        assert (found is None) == columns.seen[row]
        if found is not None:
            expected = tuple(columns.parts.at(row))
            assert tuple(found.parts) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_numbers_say_of_scripts_what_columns_say(seed: int) -> None:
    random = np.random.default_rng(seed)
    seen = world.random_cells(random, 3 + seed)
    calibration = calibrate(world.random_steps(random, seen), fitted_prior().of_scripts(GAP))
    asked = world.random_cells(random, 60, ("job", "new"))
    columns = calibration.apply(asked)
    over = [GAP.over(*place) is not None for place in zip(asked.machine, asked.fabric, strict=True)]
    assert np.any(over & (asked.ranks > 1))
    for row in np.flatnonzero(~columns.seen).tolist():
        found = calibration.single_steps.correct(single(asked, row))
        assert found is not None
        assert found.log_sd == pytest.approx(columns.log_sd[row], rel=1e-9)
        assert tuple(found.parts) == pytest.approx(tuple(columns.parts.at(row)), rel=1e-9)


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
