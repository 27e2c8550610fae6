from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest
from process_members import answer, die, fail, hang

from perfmodel.errors import MeasurementError
from perfmodel.profilers.processes.together import Member, run_together


def test_members_answer_in_their_order_and_are_bound_to_their_cores() -> None:
    core = min(os.sched_getaffinity(0))
    members = [Member(arguments=(7,), cores=(core,)), Member(arguments=(8,))]
    first, second = run_together(answer, members, timeout_s=60)
    assert first == (7, (core,))
    assert second == (8, tuple(sorted(os.sched_getaffinity(0))))


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (fail, r"rank 1 failed: ValueError: no such thing"),
        (die, r"rank 1 ended by SIGKILL \(too little memory\?\) without an answer"),
    ],
)
def test_a_member_that_fails_or_dies_ends_those_that_wait_for_it(run: object, said: str) -> None:
    begin_s = time.monotonic()
    with pytest.raises(MeasurementError, match=said):
        run_together(
            run,  # type: ignore[arg-type]
            [Member(arguments=(position,)) for position in range(2)],
            timeout_s=60,
            what="rank",
        )
    assert time.monotonic() - begin_s < 30


def test_one_that_hangs_is_ended_in_time_with_its_children(tmp_path: Path) -> None:
    told = tmp_path / "pids"
    members = [Member(arguments=(position, str(told))) for position in range(2)]
    with pytest.raises(MeasurementError, match="process 1 gave no answer within 3 s"):
        run_together(hang, members, timeout_s=3)
    left = [int(pid) for pid in told.read_text().split()]
    assert len(left) == 2
    until_s = time.monotonic() + 5
    while any(_lives(pid) for pid in left) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not any(_lives(pid) for pid in left)


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
