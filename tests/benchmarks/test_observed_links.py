from __future__ import annotations

import numpy as np
import pytest
from made_up_steps import made_up_profile
from placement_accuracy.observed_links import observed_slowdown

from perfmodel.placement.data_parallel.data_parallel import DataParallelCells
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.topology.links import LinkClass


def _cells(gradient_bytes: float = 1e9) -> DataParallelCells:
    groups = CommGroups.one_host([4, 4], LinkClass.NVSWITCH, 3e11)
    profile = made_up_profile(gradient_bytes=gradient_bytes)
    return DataParallelCells(profile, [0.2, 0.3], groups)


@pytest.mark.parametrize("slower", [1.0, 5.0, 80.0])
def test_the_slowdown_of_a_machine_is_found(slower: float) -> None:
    cells = _cells()
    observed = cells.parts(link_slowdown=slower).step_time_s
    # The grid has steps of a tenth in the logarithm, and the prior pulls a little towards one.
    assert observed_slowdown(cells, observed) == pytest.approx(slower, rel=0.2)


def test_steps_that_say_nothing_leave_the_links_as_they_are() -> None:
    cells = _cells(gradient_bytes=1e3)
    observed = cells.parts().step_time_s
    assert observed_slowdown(cells, observed) == pytest.approx(1.0, abs=0.06)


def test_one_odd_step_among_many_changes_little() -> None:
    groups = CommGroups.one_host(np.full(9, 4.0), LinkClass.NVSWITCH, 3e11)
    cells = DataParallelCells(made_up_profile(gradient_bytes=1e9), np.linspace(0.2, 0.5, 9), groups)
    observed = cells.parts(link_slowdown=3.0).step_time_s
    observed[4] *= 2
    assert observed_slowdown(cells, observed) == pytest.approx(3.0, rel=0.2)
