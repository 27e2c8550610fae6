"""Campaigns on this machine: fresh processes, failures, and a kill in the middle."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
from made_measurements import when_asked
from waiting import PATIENCE_S, until

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.graph.job import Job
from perfmodel.profilers.device_lock import machine_lock
from perfmodel.profilers.profiling import EventKind, ProfileEvent, profile_jobs
from perfmodel.profilers.run import MeasureSettings
from perfmodel.profilers.timing import TimingPolicy
from perfmodel.profilers.worker import Failure, Measuring, Success
from perfmodel.store.profiles import ProfileStore
from perfmodel.types import Compiler, Mode

DEVICE = AcceleratorSpec(
    name="cpu-test",
    kind="cpu",
    vendor="any",
    architecture="any",
    form_factor="any",
    year=None,
    peak_flops={"fp32": 1e11},
    memory_bytes=8e9,
    bandwidth_bytes_per_s=2e10,
)


def settings_in(folder: Path, *, timeout_s: float = PATIENCE_S) -> MeasureSettings:
    return MeasureSettings(
        threads=1,
        policy=TimingPolicy(known_samples=5, max_samples=6, attempts=1),
        timeout_s=timeout_s,
        lock_path=folder / "machine.lock",
    )


def measure_in_fresh_process(job: Job, settings: MeasureSettings) -> Success | Failure:
    measuring = Measuring(job, DEVICE, settings)
    try:
        return measuring.outcome()
    finally:
        measuring.end()


def test_a_tiny_model_is_really_measured(tmp_path: Path) -> None:
    job = Job(model="zoo/mlp", mode=Mode.TRAINING, batch_size=8)
    outcome = measure_in_fresh_process(job, settings_in(tmp_path))
    assert isinstance(outcome, Success), outcome
    step = outcome.measurement.step
    assert 5 <= len(step.samples_s) <= 6
    assert min(step.samples_s) <= step.step_time_s <= max(step.samples_s)
    assert step.family == "mlp"
    assert step.provenance.threads == 1
    assert step.provenance.software["torch"]
    assert step.peak_memory_bytes is not None
    assert outcome.measurement.joined_share > 0.9
    # An operator cannot take longer than the profiled steps that hold it; overhead is the rest.
    assert sum(r.time_s for r in outcome.measurement.operators) > 0


def test_what_cannot_be_measured_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    unknown = measure_in_fresh_process(Job(model="timm/nosuchnet"), settings)
    assert isinstance(unknown, Failure)
    assert unknown.kind == "error"
    assert "nosuchnet" in unknown.reason
    wide = {"in_features": 10**5, "hidden_size": 8}  # 7 TB of inputs
    large = Job(model="zoo/mlp", model_kwargs=wide, batch_size=2**24)
    huge = measure_in_fresh_process(large, settings)
    assert isinstance(huge, Failure)
    assert huge.kind == "out_of_memory"
    assert huge.capacity_bytes
    compiled = Job(model="zoo/mlp", compiler=Compiler.TENSORRT)
    refused = measure_in_fresh_process(compiled, settings)
    assert isinstance(refused, Failure)
    assert "tensorrt" in refused.reason


def test_a_measurement_ends_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is killed leaves semaphores, of which Python warns when all has ended."""
    ended: list[int | None] = []
    monkeypatch.setattr(ForkServerProcess, "kill", lambda one: ended.append(one.exitcode))
    outcome = measure_in_fresh_process(Job(model="zoo/mlp"), settings_in(tmp_path))
    assert isinstance(outcome, Success)
    assert ended == [0]


def test_a_measurement_that_is_ended_holds_its_device_no_longer(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    big = Job(model="zoo/mlp", mode=Mode.TRAINING, batch_size=200_000)
    waited: list[str] = []

    def is_held() -> bool:
        assert settings.lock_path is not None
        with settings.lock_path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    measuring = Measuring(big, DEVICE, settings)
    until(is_held)
    measuring.end()
    with machine_lock(settings.lock_path, on_wait=lambda: waited.append("held")):
        assert not waited


def test_a_job_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    big = Job(model="zoo/mlp", mode=Mode.TRAINING, batch_size=200_000)
    outcome = measure_in_fresh_process(big, settings_in(tmp_path, timeout_s=0.5))
    assert isinstance(outcome, Failure)
    assert outcome.kind == "timeout"


def test_a_job_that_takes_too_much_memory_is_ended(tmp_path: Path) -> None:
    # 200,000 x 784 inputs of 4 bytes are 0.6 GB, and the process alone holds some 0.3 GB.
    big = Job(model="zoo/mlp", mode=Mode.TRAINING, batch_size=200_000)
    settings = replace(settings_in(tmp_path), memory_limit_bytes=0.6e9)
    outcome = measure_in_fresh_process(big, settings)
    assert isinstance(outcome, Failure)
    assert outcome.kind == "memory"
    assert outcome.reason.endswith("GB of memory; 0.6 are allowed.")


def test_a_failing_model_is_recorded_and_the_campaign_goes_on(tmp_path: Path) -> None:
    jobs = [Job(model="zoo/nosuch"), Job(model="zoo/mlp", batch_size=4)]
    store = ProfileStore(tmp_path / "profiles")
    events: list[ProfileEvent] = []
    arguments = {"store": store, "device": DEVICE, "settings": settings_in(tmp_path)}
    report = profile_jobs(jobs, on_event=events.append, **arguments)  # type: ignore[arg-type]
    assert (report.finished, report.failed, report.skipped) == (1, 1, 0)
    assert [event.kind for event in events] == [
        EventKind.STARTED, EventKind.FAILED, EventKind.STARTED, EventKind.FINISHED,
    ]  # fmt: skip
    # Known from the first result on, and nothing is left after the last.
    assert [event.remaining_s is None for event in events] == [True, False, False, False]
    assert events[-1].remaining_s == 0.0
    assert "nosuch" in next(iter(store.failures(DEVICE.name).values()))["reason"]
    events.clear()
    again = profile_jobs(jobs, on_event=events.append, **arguments)  # type: ignore[arg-type]
    assert (again.finished, again.failed, again.skipped) == (0, 0, 2)
    assert ["nosuch" in event.failed_before for event in events] == [True, False]
    assert events[1].failed_before == ""
    retried = profile_jobs(jobs, retry_failed=True, **arguments)  # type: ignore[arg-type]
    assert (retried.finished, retried.failed, retried.skipped) == (0, 1, 1)


def test_what_had_less_time_than_there_is_now_is_measured_again(tmp_path: Path) -> None:
    """A probe of a minute cuts its last job short, which says nothing of one of ten."""
    given_s = []

    def measure(job: Job, device: AcceleratorSpec, settings: MeasureSettings) -> Failure:
        given_s.append(settings.timeout_s)
        return Failure(kind="timeout", reason="too long", timeout_s=settings.timeout_s)

    store = ProfileStore(tmp_path / "profiles")
    for timeout_s in (16.0, 120.0, 120.0, 60.0):
        profile_jobs(
            [Job(model="zoo/mlp")], store=store, device=DEVICE, begin=when_asked(measure),
            settings=settings_in(tmp_path, timeout_s=timeout_s),
        )  # fmt: skip
    assert given_s == [16.0, 120.0]


JOBS = [Job(model="zoo/mlp", batch_size=size) for size in range(1, 5)]

SCRIPT = """
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
sys.path.insert(0, {tests!r})
from perfmodel.profilers.profiling import EventKind, profile_jobs
from perfmodel.store.profiles import ProfileStore
from test_profiling import DEVICE, JOBS, settings_in

finished = 0

def say(event):
    global finished
    print(event.kind, flush=True)
    finished += event.kind == EventKind.FINISHED
    if finished == 2:
        time.sleep(3600)  # whoever ends this may come late

if __name__ == "__main__":
    folder = Path({folder!r})
    profile_jobs(
        JOBS, store=ProfileStore(folder / "profiles"), device=DEVICE,
        settings=settings_in(folder), on_event=say,
    )
"""


def test_a_killed_campaign_loses_and_repeats_nothing(tmp_path: Path) -> None:
    here = Path(__file__).parent
    store = ProfileStore(tmp_path / "profiles")

    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(tests=str(here), folder=str(tmp_path)))
    campaign = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": f"{here.parents[1]}:{here.parent}"},
    )  # fmt: skip
    assert campaign.stdout is not None
    finished = 0
    while finished < 1:
        finished += campaign.stdout.readline().strip() == EventKind.FINISHED
    time.sleep(0.05)  # somewhere in the second measurement
    campaign.send_signal(signal.SIGKILL)
    campaign.wait(PATIENCE_S)
    campaign.stdout.close()
    kept = {path: path.stat().st_mtime_ns for path in store.folder.rglob("*.json.gz")}
    assert len(kept) in (1, 2)

    rest = profile_jobs(JOBS, store=store, device=DEVICE, settings=settings_in(tmp_path))
    assert (rest.skipped, rest.finished, rest.failed) == (len(kept), 4 - len(kept), 0)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert sorted(step.batch_size for step in store.steps()) == [1, 2, 3, 4]


def test_two_campaigns_take_turns(tmp_path: Path) -> None:
    # The lock is that of an opened file: a thread that opens it anew is as far away as a process.
    lock, turns = tmp_path / "machine.lock", []

    def other() -> None:
        with machine_lock(lock):
            turns.append("other")

    thread = threading.Thread(target=other)
    with machine_lock(lock):
        thread.start()
        thread.join(0.3)
        turns.append("own")
    thread.join(PATIENCE_S)
    assert turns == ["own", "other"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_lock_that_another_user_made_is_held_as_well() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        lock = Path(folder) / "machine.lock"
        with machine_lock(lock):
            assert lock.stat().st_mode & 0o777 == 0o644
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                os.setuid(65_534)
                with machine_lock(lock):
                    os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
