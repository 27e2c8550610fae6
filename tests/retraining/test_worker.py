"""Retrainings in processes of their own: stopped, killed, too large, cancelled, without a store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from retraining_world import RetrainingWorld
from waiting import PATIENCE_S, until
from webdav_server import webdav_store

from perfmodel.errors import StoreError
from perfmodel.retraining.worker import RetrainingWorker, WorkerOptions
from perfmodel.store.retraining import RetrainingLogStore
from perfmodel.store.retraining.retraining_records import Retraining, RetrainingState


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that is started loads torch to limit its threads."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def _until(what: Callable[[], object]) -> None:
    # A retraining in a process of its own works for some ten seconds on an idle machine.
    until(what, patience_s=2 * PATIENCE_S, every_s=0.05)


def _worker(world: RetrainingWorld, **options: float) -> RetrainingWorker:
    return RetrainingWorker(
        world.database.connections, world.place, WorkerOptions(**{"lease_s": 30.0, **options})
    )


def _start(world: RetrainingWorld, **settings: object) -> str:
    return world.store.start("default", settings=world.quick(**settings))[0].name


def _found(world: RetrainingWorld, name: str) -> Retraining:
    found = world.store.find(name)
    assert found is not None
    return found


def _texts(world: RetrainingWorld, name: str) -> list[str]:
    return [one.text for one in RetrainingLogStore(world.database.connections).lines(name)]


def _command(world: RetrainingWorld) -> list[str]:
    return [
        sys.executable, "-m", "perfmodel.cli", "retrain", "work", "--until-idle", "--quiet",
        "--lease", "1", "--database", world.url, "--models", str(world.models),
        "--profiles", str(world.profiles), "--runs", str(world.runs), "--processes", "1",
    ]  # fmt: skip


@pytest.fixture
def started() -> Iterator[Callable[[Sequence[str]], subprocess.Popen[bytes]]]:
    """Start processes; those that a failing test leaves behind end with it."""
    with ExitStack() as stack:

        def start(command: Sequence[str]) -> subprocess.Popen[bytes]:
            process = stack.enter_context(subprocess.Popen(command))
            stack.callback(process.kill)
            return process

        yield start


def _children(process_id: int) -> list[psutil.Process]:
    return psutil.Process(process_id).children(recursive=True)


def test_stopped_and_killed_it_goes_on_from_the_last_finished_phase(
    world: RetrainingWorld, started: Callable[[Sequence[str]], subprocess.Popen[bytes]]
) -> None:
    name = _start(world, members=["gbdt"], folds=5)
    # SIGTERM in mid-fit: what is done goes back at once, and was no attempt.
    worker = started(_command(world))
    _until(lambda: "fit: begins" in _texts(world, name))
    children = _children(worker.pid)
    (child,) = [one for one in children if "perfmodel.retraining.child" in one.cmdline()]
    assert child.nice() >= 15 and _found(world, name).phase == "fit"
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE_S) == 130
    _until(lambda: not any(one.is_running() and one.status() != "zombie" for one in children))
    stopped = _found(world, name)
    assert (stopped.state, stopped.attempts) == (RetrainingState.WAITING, 0)
    # kill -9 of the worker in mid-fit: its child ends as well, and the lease runs out.
    begun = _texts(world, name).count("fit: begins")
    worker = started(_command(world))
    _until(lambda: _texts(world, name).count("fit: begins") > begun)
    children = _children(worker.pid)
    worker.kill()
    worker.wait()
    _until(lambda: not any(one.is_running() and one.status() != "zombie" for one in children))
    assert _found(world, name).state is RetrainingState.RUNNING
    # kill -9 of the child: the worker begins another, which goes on.
    killed: list[int] = []

    def kill(phase: str, text: str) -> None:
        if (phase, text) == ("fit", "begins") and not killed:
            (child,) = [one for one in _children(os.getpid()) if "child" in str(one.cmdline())]
            killed.append(child.pid)
            child.kill()

    last = RetrainingWorker(
        world.database.connections, world.place, WorkerOptions(lease_s=30.0), on_line=kill
    )
    _until(lambda: last.do_one() is not None and not _found(world, name).state.is_open)
    texts = _texts(world, name)
    assert any("ended by SIGKILL" in text for text in texts) and killed
    assert texts.count("capture: is finished") == 1 and texts.count("snapshot: begins") == 1
    ended = _found(world, name)
    assert (ended.state, ended.fraction) == (RetrainingState.DONE, 1.0), ended.reason
    assert world.registry.versions.versions("default") == [ended.version]
    assert not (world.runs / name).exists()


def test_its_processes_fit_in_processes_of_their_own(world: RetrainingWorld) -> None:
    name = _start(world, members=["gbdt"])
    worker = RetrainingWorker(
        world.database.connections, replace(world.place, workers=2), WorkerOptions(lease_s=3.0)
    )
    thread = threading.Thread(target=worker.do_one, daemon=True)
    thread.start()
    # Whoever watches for the end of its parent holds nothing that a forked process needs.
    _until(lambda: not _found(world, name).state.is_open)
    assert _found(world, name).state is RetrainingState.DONE, _found(world, name).reason
    thread.join(PATIENCE_S)


def test_one_that_takes_too_much_memory_is_ended_and_says_so(world: RetrainingWorld) -> None:
    name = _start(world, members=["efficiency"])
    assert _worker(world, memory_bytes=1e6).do_one() is not None
    failed = _found(world, name)
    assert failed.state is RetrainingState.FAILED
    assert failed.reason is not None and "0.001 are allowed. Allow more (--memory" in failed.reason
    assert world.registry.versions.names() == [] and not (world.runs / name).exists()


def test_of_two_hosts_one_retrains(world: RetrainingWorld) -> None:
    name = _start(world, members=["efficiency"])
    hosts = [
        RetrainingWorker(
            world.database.connections,
            replace(world.place, folder=world.folder / f"runs of {host}"),
            WorkerOptions(lease_s=30.0),
        )
        for host in ("one", "other")
    ]
    with ThreadPoolExecutor(2) as both:
        done = list(both.map(lambda host: host.do_one(), hosts))
    # The other finds nothing to do while the first has it, and nothing afterwards.
    assert sorted(one is None for one in done) == [False, True]
    ended = _found(world, name)
    assert (ended.state, ended.attempts) == (RetrainingState.DONE, 1), ended.reason
    assert world.registry.versions.versions("default") == [ended.version]
    assert [one.do_one() for one in hosts] == [None, None]


def test_cancelling_ends_the_process_on_whatever_host_it_runs(world: RetrainingWorld) -> None:
    name = _start(world, members=["efficiency"])
    worker = _worker(world, lease_s=3.0)
    thread = threading.Thread(target=worker.do_one)
    thread.start()
    _until(lambda: _found(world, name).state is RetrainingState.RUNNING)
    assert world.store.cancel(name)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert _found(world, name).state is RetrainingState.CANCELLED
    assert not [one for one in _children(os.getpid()) if "child" in str(one.cmdline())]
    assert world.registry.versions.names() == []


def test_a_store_that_is_away_is_waited_for_and_what_is_wrong_is_said(
    world: RetrainingWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with webdav_store(tmp_path / "dav") as server:
        options = {**server.options, "timeout": 2.0}
    place = world.place
    object.__setattr__(place, "models", server.url)
    object.__setattr__(place, "models_options", options)
    name = _start(world, members=["efficiency"])
    worker = RetrainingWorker(world.database.connections, place, WorkerOptions(pause_s=3600.0))
    assert worker.do_one() is not None
    waiting = _found(world, name)
    assert (waiting.state, waiting.attempts, waiting.phase) == (
        RetrainingState.WAITING, 1, "fit",  # which keeps to the folds of the version that serves
    )  # fmt: skip
    assert "It is tried again in 3600 s." in _texts(world, name)[-1]
    assert "webdav://models cannot be used" in _texts(world, name)[-1]
    # Nobody begins it before that time.
    assert worker.do_one() is None


def test_what_is_told_again_stands_once_in_the_log(
    world: RetrainingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = _start(world, members=["efficiency"])
    worker = _worker(world)
    claim = world.store.claim("worker", lease_s=30.0)
    assert claim is not None
    lines = [{"phase": "fit", "text": "begins"}]
    with monkeypatch.context() as patched:
        patched.setattr(type(world.store), "tell", _away)
        assert not worker.tell(claim, lines)
    assert worker.tell(claim, lines)
    assert _texts(world, name).count("fit: begins") == 1
    assert _found(world, name).phase == "fit"


def _away(*_: object, **__: object) -> None:
    raise StoreError("The database is away.")
