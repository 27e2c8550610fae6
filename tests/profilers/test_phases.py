"""The three phases of a measurement: what holds the device, what goes on beside, what is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE_S, until

HERE = Path(__file__).parent


class Device:
    """A device that is made up, and a process that measures on it.

    Parameters
    ----------
    phases : Path
        Folder in which its phases say what they do, and are told to.
    """

    def __init__(self, phases: Path) -> None:
        self.phases = phases
        self.process = self._started()

    def _started(self) -> subprocess.Popen[str]:
        path = f"{HERE}:{HERE.parent}:{HERE.parents[1]}"
        return subprocess.Popen(
            [sys.executable, str(HERE / "measuring_child.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": path, "PHASES": str(self.phases)},
        )  # fmt: skip

    def begin(
        self, sizes: list[int], *, on: str = "gpu", beside: int = 0, timeout_s: float = PATIENCE_S
    ) -> None:
        assert self.process.stdin is not None
        print(json.dumps([on, sizes, beside, timeout_s]), file=self.process.stdin, flush=True)

    def outcome(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def measure(self, sizes: list[int], **how: Any) -> dict[str, Any]:
        self.begin(sizes, **how)
        return self.outcome()

    @property
    def log(self) -> list[tuple[str, str, int, int]]:
        """Phases in their order: name, whether the device was free, threads, process."""
        file = self.phases / "log"
        lines = file.read_text().splitlines() if file.exists() else []
        found = []
        for name, lock, threads, process in map(str.split, lines):
            found.append((name, lock, int(threads), int(process)))
        return found

    @property
    def names(self) -> list[str]:
        return [name for name, *_ in self.log]

    def hold(self, phase: str) -> None:
        (self.phases / f"hold-{phase}").touch()

    def let_go(self, phase: str) -> None:
        (self.phases / f"hold-{phase}").unlink()

    def fail(self, phase: str, how: str) -> None:
        (self.phases / f"fail-{phase}").write_text(how)

    def kill(self) -> None:
        """Kill what measures, and start another in its place."""
        self.process.kill()
        self.end()
        self.process = self._started()

    def end(self) -> None:
        self.process.communicate(timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Device]:
    device = Device(tmp_path_factory.mktemp("phases"))
    yield device
    device.end()


@pytest.fixture
def device(server: Device) -> Device:
    """Return the device with nothing measured, held or told to fail."""
    for path in server.phases.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return server


def test_a_device_that_works_by_itself_is_held_for_the_run_alone(device: Device) -> None:
    assert device.measure([4]) == {"measured": [4], "failed": {}}
    assert [entry[:3] for entry in device.log] == [
        ("prepare-4", "free", 1), ("run-4", "held", 2), ("finish-4", "free", 1),
    ]  # fmt: skip
    prepared, ran, finished = (process for *_, process in device.log)
    # What has run is gone when the rest begins, with all that it held of the device.
    assert prepared == ran != finished


def test_where_the_host_is_the_device_nothing_overlaps(device: Device) -> None:
    assert device.measure([4, 5, 6], on="cpu", beside=2)["measured"] == [4, 5, 6]
    assert {entry[1:3] for entry in device.log} == {("held", 2)}
    order = [name.split("-") for name in device.names]
    assert [phase for phase, _ in order] == ["prepare", "run", "finish"] * 3
    assert all(len({size for _, size in order[i : i + 3]}) == 1 for i in (0, 3, 6))


def test_the_next_is_prepared_and_the_last_finished_while_one_runs(device: Device) -> None:
    held = ["run-1", "prepare-2", "prepare-3", "run-2", "finish-1"]
    for phase in held:
        device.hold(phase)
    device.begin([1, 2, 3, 4], beside=2)
    until(lambda: {"run-1", "prepare-2", "prepare-3"} <= set(device.names))
    device.let_go("run-1")
    device.let_go("prepare-2")
    until(lambda: {"finish-1", "run-2"} <= set(device.names))
    # One is finished, one runs, one is prepared; the fourth has to wait.
    assert set(device.names) == {"prepare-1", *held}
    for phase in ("finish-1", "run-2", "prepare-3"):
        device.let_go(phase)
    assert device.outcome() == {"measured": [1, 2, 3, 4], "failed": {}}
    locks = {(name.split("-")[0], lock) for name, lock, *_ in device.log}
    assert ("run", "held") in locks and ("run", "free") not in locks


@pytest.mark.parametrize("phase", ["prepare", "run", "finish"])
def test_a_failure_of_any_phase_is_kept_as_what_it_is(device: Device, phase: str) -> None:
    device.fail(f"{phase}-2", "out of order")
    device.fail(f"{phase}-3", "kill")
    found = device.measure([1, 2, 3, 4], beside=2)
    assert found["measured"] == [1, 4]
    raised, killed = found["failed"]["2"], found["failed"]["3"]
    assert raised["kind"] == "error"
    assert raised["reason"].startswith("RuntimeError: out of order\n")
    assert (killed["kind"], killed["reason"]) == (
        "crash", "The process was ended by SIGKILL (too little memory?).",
    )  # fmt: skip


def test_only_a_run_lacks_memory_of_the_device(device: Device) -> None:
    device.fail("run-1", "out of memory")
    failed = device.measure([1])["failed"]["1"]
    assert (failed["kind"], failed["capacity_bytes"]) == ("out_of_memory", 24e9)


@pytest.mark.parametrize("phase", ["prepare", "run", "finish"])
def test_a_phase_that_hangs_is_ended(device: Device, phase: str) -> None:
    device.hold(f"{phase}-1")
    failed = device.measure([1], timeout_s=3.0)["failed"]["1"]
    assert (failed["kind"], failed["timeout_s"]) == ("timeout", 3.0)
    device.let_go(f"{phase}-1")
    assert device.measure([1])["measured"] == [1]


def test_a_kill_while_one_is_finished_loses_what_had_begun_alone(device: Device) -> None:
    assert device.measure([1], beside=2)["measured"] == [1]
    device.hold("finish-2")
    device.begin([1, 2], beside=2)
    until(lambda: "finish-2" in device.names)
    device.kill()
    device.let_go("finish-2")
    assert device.measure([1, 2], beside=2) == {"measured": [1, 2], "failed": {}}
    assert device.names.count("run-1") == 1
    assert device.names.count("run-2") == 2
