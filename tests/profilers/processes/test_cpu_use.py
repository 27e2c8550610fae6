from __future__ import annotations

import time

import pytest

from perfmodel.profilers.processes.cpu_use import CpuMeter, CpuUse, other_share


def test_what_members_use_is_not_others() -> None:
    members = [CpuUse(wall_s=2.0, busy_s=8.0, own_s=3.0), CpuUse(wall_s=2.0, busy_s=8.0, own_s=4.0)]
    # 8 - 7 - 4 ticks of 10 ms, of 4 cores x 2 s.
    assert other_share(members, cores=4) == pytest.approx(0.96 / 8)


@pytest.mark.parametrize(("busy_s", "share"), [(0.5, 0.0), (100.0, 1.0)])
def test_a_share_lies_between_none_and_all(busy_s: float, share: float) -> None:
    assert other_share([CpuUse(wall_s=1.0, busy_s=busy_s, own_s=1.0)], cores=2) == share


def test_no_time_has_no_share() -> None:
    assert other_share([CpuUse(wall_s=0.0, busy_s=0.0, own_s=0.0)]) == 0.0


def test_work_of_this_process_is_its_own() -> None:
    meter = CpuMeter()
    end_s = time.process_time() + 0.05
    while time.process_time() < end_s:
        pass
    use = meter.use()
    assert use.own_s >= 0.05 and use.wall_s >= 0.05
