import math

import numpy as np
import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.placement.calibration.step_response import CORNER
from perfmodel.placement.job_types.job_type_guess import JobTypeGuess

STEPS_S, BATCHES, SPEEDS = np.array([0.1, 0.2, 0.4]), np.array([16.0, 32.0, 64.0]), np.zeros(3)


def guess() -> JobTypeGuess:
    return JobTypeGuess.of(STEPS_S, BATCHES, SPEEDS)


def test_medians_stand_for_the_job() -> None:
    assert guess().step_s == pytest.approx(0.2)
    assert guess().batch_size == pytest.approx(32.0)


def test_the_order_of_steps_does_not_matter() -> None:
    other = [2, 0, 1]
    assert JobTypeGuess.of(STEPS_S[other], BATCHES[other], SPEEDS) == guess()


def test_device_grows_with_samples_and_host_does_not() -> None:
    # At the median batch 0.4 * 0.2 s = 0.08 s, at twice the batch twice that; the host 0.9 * 0.2 s.
    device_s = guess().device_s([32, 64], [0.0, 0.0])
    assert device_s == pytest.approx([0.08, 0.16])
    assert guess().host_s == pytest.approx(0.18)
    whole = (0.08**CORNER + 0.18**CORNER) ** (1 / CORNER)
    assert guess().compute_s(device_s)[0] == pytest.approx(whole)


def test_a_faster_device_is_faster_and_keeps_its_host() -> None:
    slow, fast = guess().device_s([32, 32], [0.0, 1.0])
    assert fast == pytest.approx(slow * math.exp(-0.8))


def test_two_micro_batches_take_twice_as_long() -> None:
    one = guess().compute_s(guess().device_s(32, 0.0))
    two = guess().compute_s(guess().device_s(64, 0.0), 2)
    assert two == pytest.approx(2 * one)


def test_units_do_not_matter_to_the_shape() -> None:
    longer = JobTypeGuess.of(100 * STEPS_S, BATCHES, SPEEDS)
    ratio = longer.compute_s(longer.device_s(BATCHES, SPEEDS)) / guess().compute_s(
        guess().device_s(BATCHES, SPEEDS)
    )
    assert ratio == pytest.approx(100.0)
    # A hundred times the work has ten times the gradients.
    assert longer.profile().gradient_bytes == pytest.approx(10 * guess().profile().gradient_bytes)


def test_no_steps_are_no_guess() -> None:
    with pytest.raises(InvalidInputError, match="needs an observed step"):
        JobTypeGuess.of(np.array([]), np.array([]), np.array([]))
