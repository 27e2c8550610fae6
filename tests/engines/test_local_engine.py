"""Tasks in forked processes: order, errors, processes that die, and what is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from waiting import PATIENCE_S, until

from perfmodel.engines.local_engine import LocalEngine
from perfmodel.engines.task_engine import one_thread
from perfmodel.errors import MissingExtraError, TrainingError, UnknownPredictorError

ENGINES = [LocalEngine(), LocalEngine(workers=3)]


def scaled(factor: int, task: int) -> tuple[int, int]:
    return factor * task, os.getpid()


@pytest.mark.parametrize("engine", ENGINES)
def test_results_come_with_the_position_of_their_task(engine: LocalEngine) -> None:
    found = dict(engine.run(scaled, 10, [3, 1, 2, 5]))
    assert [found[position][0] for position in range(4)] == [30, 10, 20, 50]
    here = {process == os.getpid() for _, process in found.values()}
    assert here == {engine.workers == 1}


def waiting(folder: Path, task: int) -> int:
    while task == 0 and not (folder / "seen").exists():
        time.sleep(0.01)
    return task


def test_who_is_ready_first_is_told_first(tmp_path: Path) -> None:
    order = []
    for position, _ in LocalEngine(workers=2).run(waiting, tmp_path, [0, 1]):
        order.append(position)
        (tmp_path / "seen").touch()
    assert order == [1, 0]


def failing(error: Exception, task: int) -> int:
    if task == 1:
        raise error
    return task


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "error",
    [
        UnknownPredictorError("gbtd", known=["gbdt"]),
        MissingExtraError("Training", extra="train"),
        ValueError("plain"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_arrives_as_it_was_raised(engine: LocalEngine, error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        list(engine.run(failing, error, [0, 1, 2]))
    assert str(caught.value) == str(error)
    assert getattr(caught.value, "allowed", ()) == getattr(error, "allowed", ())


def dying(folder: Path, task: int) -> int:
    begun = folder / f"{task}"
    with begun.open("a") as file:
        file.write("x")
    if task == 1 and len(begun.read_text()) <= int((folder / "deaths").read_text()):
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def test_what_a_killed_process_worked_on_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / "deaths").write_text("2")
    found = dict(LocalEngine(workers=2).run(dying, tmp_path, [0, 1, 2, 3]))
    assert found == {task: task for task in range(4)}
    assert (tmp_path / "1").read_text() == "xxx"


def test_a_task_that_kills_every_process_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "deaths").write_text("99")
    with pytest.raises(TrainingError, match=r"killed 3 times.* of 3 tasks left.*memory"):
        list(LocalEngine(workers=2).run(dying, tmp_path, [0, 1, 2]))


def sleeping(folder: Path, task: int) -> int:
    (folder / f"{os.getpid()}").touch()
    time.sleep(10 * PATIENCE_S if task else 0)
    return task


def test_who_wants_no_more_results_ends_the_processes(tmp_path: Path) -> None:
    begin = time.monotonic()
    results = LocalEngine(workers=2).run(sleeping, tmp_path, [0, 1, 2])
    assert next(results) == (0, 0)
    results.close()  # type: ignore[attr-defined]
    assert time.monotonic() - begin < PATIENCE_S
    assert not [name for name in os.listdir(tmp_path) if psutil.pid_exists(int(name))]


def test_processes_end_with_the_one_that_forked_them(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib, test_local_engine as t\n"
        "engine = t.LocalEngine(workers=2)\n"
        "list(engine.run(t.sleeping, pathlib.Path(sys.argv[1]), [1, 2]))"
    )
    here = Path(__file__).parent
    parent = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path],
        env={**os.environ, "PYTHONPATH": f"{here}:{here.parent}"},
    )
    until(lambda: len(os.listdir(tmp_path)) == 2)
    parent.kill()
    parent.wait()
    until(lambda: not any(psutil.pid_exists(int(name)) for name in os.listdir(tmp_path)))


def threads(shared: None, task: int) -> int:
    import torch

    return torch.get_num_threads()


def test_tasks_compute_on_one_thread_and_leave_the_threads_as_they_were() -> None:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    # Threads that the parent has used must not be waited for in its children.
    total = torch.ones(300_000).add(1).sum()
    try:
        for engine in ENGINES:
            assert dict(engine.run(threads, None, [0, 1])) == {0: 1, 1: 1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert float(total) == 600_000


def tensors(shared: None, task: int) -> Any:
    import torch

    return torch.full((200_000,), float(task)).add(1)


def test_large_tensors_come_back_after_the_parent_has_used_threads() -> None:
    import torch

    torch.ones(300_000).add(1)
    for position, found in LocalEngine(workers=2).run(tensors, None, [0, 1, 2]):
        assert found.numpy().max() == position + 1.0


def test_sums_inside_do_not_depend_on_the_threads() -> None:
    import torch

    numbers = torch.from_numpy(np.random.default_rng(0).standard_normal(400_000))
    before = torch.get_num_threads()
    found = set()
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        with one_thread():
            found.add(float(numbers.sum()))
    torch.set_num_threads(before)
    assert len(found) == 1
