from __future__ import annotations

import numpy as np
import pytest

from perfmodel.errors import InvalidPlacementError
from perfmodel.placement.sharing.power import LEAST_CAP_SHARE, clock_share, power_slowdown

CAPS_W = np.linspace(100.0, 500.0, 81)


def test_a_limit_at_or_above_the_board_s_own_has_no_effect() -> None:
    assert power_slowdown(np.array([400.0, 600.0]), 400.0, 1.0).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("compute", [0.0, 0.3, 1.0])
def test_more_power_never_hurts(compute: float) -> None:
    slow = power_slowdown(CAPS_W, 400.0, compute)
    assert np.all(np.diff(slow) <= 0) and np.all(slow >= 1) and np.all(np.isfinite(slow))


def test_arithmetic_suffers_and_memory_hardly() -> None:
    slow = power_slowdown(200.0, 400.0, np.array([0.0, 0.25, 0.5, 0.75, 1.0]))
    assert np.all(np.diff(slow) > 0)
    assert slow[0] < 1.05 < 1.3 < slow[-1]


def test_a_step_that_neither_bounds_does_not_slow_down() -> None:
    assert power_slowdown(150.0, 400.0, 0.0, memory_bound_share=0.0) == 1.0
    idle = power_slowdown(150.0, 400.0, 0.5, memory_bound_share=0.1)
    assert idle < power_slowdown(150.0, 400.0, 0.9, memory_bound_share=0.1)


def test_arithmetic_takes_as_long_as_the_clock_is_low() -> None:
    # Under 0.6 TDP the dynamic part may be (0.6 - 0.2) / 0.8 / 0.95 of its most.
    clock = float(clock_share(np.array(0.6), np.array(0.95)))
    voltage = max(0.7, 1 - 0.6 * (1 - clock))
    assert clock * voltage**2 == pytest.approx(0.4 / 0.8 / 0.95, abs=1e-3)
    assert float(power_slowdown(240.0, 400.0, 1.0)) == pytest.approx(1 / clock)


def test_limits_that_boards_do_not_take_are_refused_with_the_least() -> None:
    with pytest.raises(InvalidPlacementError, match="at least 100 W") as refusal:
        power_slowdown(80.0, 400.0, 0.5)
    assert refusal.value.pointer == "/placement/power_limit_w"
    assert np.isfinite(power_slowdown(LEAST_CAP_SHARE * 400.0, 400.0, 0.5))
