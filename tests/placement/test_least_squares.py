from __future__ import annotations

import numpy as np

from perfmodel.placement.least_squares import least_squares


def test_a_decay_is_found_from_afar() -> None:
    times = np.linspace(0.0, 4.0, 30)
    seen = 5.0 * np.exp(-1.7 * times)
    found = least_squares(lambda x: x[0] * np.exp(-x[1] * times) - seen, np.array([1.0, 0.2]))
    np.testing.assert_allclose(found, [5.0, 1.7], rtol=1e-5)


def test_the_curved_valley_of_rosenbrock() -> None:
    found = least_squares(
        lambda x: np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]]), np.array([-1.2, 1.0])
    )
    np.testing.assert_allclose(found, [1.0, 1.0], atol=1e-4)


def test_an_unknown_that_changes_nothing_stays() -> None:
    found = least_squares(lambda x: np.array([x[0] - 2.0]), np.array([0.0, 7.0]))
    np.testing.assert_allclose(found, [2.0, 7.0], atol=1e-6)


def test_no_step_makes_it_worse() -> None:
    start = np.array([3.0])
    found = least_squares(lambda x: np.array([np.cos(x[0]), 0.1 * x[0]]), start, steps=1)
    before = np.cos(3.0) ** 2 + 0.3**2
    assert np.cos(found[0]) ** 2 + (0.1 * found[0]) ** 2 <= before
