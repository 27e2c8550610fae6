"""Tests of how a step answers to its residual."""

from __future__ import annotations

from dataclasses import replace

import calibration_world as world
import numpy as np
import pytest

from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import FEED_CORNER, Field, Response


def at(**logs: float) -> np.ndarray:
    residual = np.zeros((len(Field), len(world.cells())))
    for name, value in logs.items():
        residual[Field[name.upper()]] = value
    return residual


def fed(input_s: float) -> StepCells:
    """Return steps of scripts whose input takes so long."""
    cells = world.cells()
    return replace(cells, input_s=np.full(len(cells), input_s))


@pytest.mark.parametrize("input_s", [0.0, 0.02, 0.3])
def test_derivatives_are_those_of_differences(input_s):
    response = Response(fed(input_s), at())
    residual = np.random.default_rng(0).normal(0, 0.4, at().shape)
    here = response(residual)
    for field in Field:
        moved = residual.copy()
        moved[field] += 1e-6
        difference = (response(moved).channels - here.channels) / 1e-6
        assert here.by_channel[field] == pytest.approx(difference, abs=2e-4)


def test_without_a_residual_the_prediction_remains():
    cells = world.cells()
    expected = at(device=0.3, host=-2.0, fixed=1.0)
    parts = Response(cells, expected)(expected).parts
    assert parts.compute_s == pytest.approx(cells.parts.compute_s)
    parts = Response(cells, at())(at()).parts
    assert parts.compute_s == pytest.approx(cells.parts.compute_s)
    assert parts.communication_s == pytest.approx(cells.parts.communication_s)
    before, after = cells.parts.exposed_communication_s, parts.exposed_communication_s
    assert after == pytest.approx(before, rel=0.35)


@pytest.mark.parametrize(
    "field", ["device", "host", "feed", "spread", "fixed", "communication", "tail"]
)
def test_more_of_anything_but_the_window_never_shortens_a_step(field):
    response = Response(fed(0.05), at())
    steps = [response(at(**{field: z})).parts.step_time_s for z in np.linspace(-3, 3, 13)]
    assert np.all(np.diff(steps, axis=0) >= -1e-12)


def test_a_script_waits_for_its_loaders_however_fast_its_device_is():
    slow, fast = at(), at(device=-5.0, host=-5.0)
    bare, waiting = Response(fed(0.0), at()), Response(fed(2.0), at())
    assert bare(slow).parts.compute_s == pytest.approx(world.cells().parts.compute_s)
    assert np.all(bare(fast).parts.compute_s < 0.05 * bare(slow).parts.compute_s)
    # Two seconds, whatever the device does; twice as long where the host is half as fast.
    assert waiting(fast).parts.compute_s == pytest.approx(2.0, rel=1e-3)
    assert waiting(at(device=-5.0, host=-5.0, feed=np.log(2))).parts.compute_s == pytest.approx(
        4.0, rel=1e-3
    )


def test_a_step_hides_loaders_that_are_faster_and_waits_for_those_that_are_slower():
    worked = Response(fed(0.0), at())(at()).parts.compute_s
    for ratio in np.random.default_rng(1).uniform(0.05, 3.0, 50):
        cells = replace(fed(0.0), input_s=ratio * worked)
        waited = Response(cells, at())(at()).parts.compute_s
        longest = np.maximum(worked, cells.input_s)
        # At worst both take equally long: (1 + 1)^(1/5) is 1.149.
        assert np.all((waited >= longest) & (waited <= 2 ** (1 / FEED_CORNER) * longest + 1e-12))
        if not 0.5 < ratio < 2.0:
            # (1 + 0.5^5)^(1/5) is 1.006.
            assert waited == pytest.approx(longest, rel=0.0063)


def test_a_wider_window_never_lengthens_a_step():
    response = Response(world.cells(), at())
    steps = [response(at(window=z)).parts.step_time_s for z in np.linspace(-3, 3, 13)]
    assert np.all(np.diff(steps, axis=0) <= 1e-12)


def test_nothing_exposed_is_longer_than_the_communication():
    parts = Response(world.cells(), at())(at(communication=4.0, window=-4.0)).parts
    assert np.all(parts.exposed_communication_s <= parts.communication_s)
    assert not parts.exposed_communication_s[world.cells().ranks == 1].any()


def test_a_device_works_for_its_share_of_the_step() -> None:
    response = Response(world.cells(), at())
    # Where the host takes next to nothing the device works all the time but for the fixed one.
    fast = at(host=-12.0)
    fixed = response(fast).by_compute[Field.FIXED] / response(fast).parts.compute_s
    assert response(fast).device_share == pytest.approx(1 - fixed, rel=1e-6)
    shares = [response(at(host=level)).device_share for level in (-1.0, 0.0, 1.0, 3.0)]
    assert np.all(np.diff(shares, axis=0) < 0)
    assert np.all(shares[-1] > 0)


def test_a_device_that_waits_for_loaders_works_as_long_and_for_a_smaller_share() -> None:
    # The host takes next to nothing: the device works all of the step but for the fixed time.
    fast = at(host=-12.0)
    bare, waiting = (Response(fed(input_s), at())(fast) for input_s in (0.0, 0.3))
    works_s = bare.device_share * bare.parts.compute_s
    assert waiting.device_share * waiting.parts.compute_s == pytest.approx(works_s, rel=1e-6)
    assert np.all(waiting.device_share < bare.device_share)
