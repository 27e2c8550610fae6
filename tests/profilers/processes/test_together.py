from __future__ import annotations

import itertools
import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from process_members import answer, die, fail, hang
from waiting import PATIENCE_S, until

from perfmodel.errors import MeasurementError
from perfmodel.profilers.processes import together
from perfmodel.profilers.processes.together import Member, run_together


def test_members_answer_in_their_order_and_are_bound_to_their_cores() -> None:
    core = min(os.sched_getaffinity(0))
    members = [Member(arguments=(7,), cores=(core,)), Member(arguments=(8,))]
    first, second = run_together(answer, members, timeout_s=PATIENCE_S)
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
    with pytest.raises(MeasurementError, match=said):
        run_together(
            run,  # type: ignore[arg-type]
            [Member(arguments=(position,)) for position in range(2)],
            timeout_s=PATIENCE_S,
            what="rank",
        )


def test_one_that_hangs_is_ended_in_time_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "pids"
    # Time is up once the first one has answered, which it does when the second one hangs.
    looks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: 0.0 if next(looks) < 2 else 1e6)
    monkeypatch.setattr(together, "time", clock)
    members = [Member(arguments=(position, str(told))) for position in range(2)]
    with pytest.raises(MeasurementError, match="process 1 gave no answer within 300 s"):
        run_together(hang, members, timeout_s=300)
    left = [int(pid) for pid in told.read_text().split()]
    assert len(left) == 2
    until(lambda: not any(_lives(pid) for pid in left))


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
