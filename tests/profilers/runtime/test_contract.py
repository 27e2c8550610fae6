"""What every device runtime keeps, whatever the device."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from fake_torch import FakeOutOfMemoryError, FakeTorch

from perfmodel.errors import InvalidInputError, MeasurementError
from perfmodel.profilers.described import described_device
from perfmodel.profilers.runtime import DeviceRuntime, MemoryPeak, StepTime, open_runtime
from perfmodel.profilers.runtime.accelerator import AcceleratorRuntime
from perfmodel.profilers.runtime.cpu import CpuRuntime
from perfmodel.profilers.runtime.replay import (
    Recording,
    RecordingRuntime,
    ReplayRuntime,
    read_recording,
)
from perfmodel.profilers.timing import time_steps


def accelerator() -> DeviceRuntime:
    return AcceleratorRuntime(torch=FakeTorch())


def replayed() -> DeviceRuntime:
    """Everything that a measurement asks, recorded on the CPU and read back."""
    recorder = RecordingRuntime(CpuRuntime())
    recorder.time(lambda: time.sleep(0.002))
    recorder.elapsed_s(recorder.record(), recorder.record())
    recorder.reset_peak_memory()
    recorder.peak_memory()
    recorder.telemetry.start()
    recorder.telemetry.stop()
    return ReplayRuntime(read_recording(recorder.recording.to_json()))


RUNTIMES: dict[str, Callable[[], DeviceRuntime]] = {
    "cpu": CpuRuntime,
    "accelerator": accelerator,
    "replay": replayed,
    "recording": lambda: RecordingRuntime(CpuRuntime()),
}


@pytest.fixture(params=list(RUNTIMES))
def runtime(request: pytest.FixtureRequest) -> DeviceRuntime:
    return RUNTIMES[request.param]()


def test_a_step_is_run_once_and_timed_from_both_sides(runtime: DeviceRuntime) -> None:
    ran: list[int] = []
    timed = runtime.time(lambda: ran.append(1))
    assert ran == [1]
    assert isinstance(timed, StepTime)
    assert timed.wall_s > 0
    assert timed.device_s >= 0


def test_time_between_two_events_is_not_negative(runtime: DeviceRuntime) -> None:
    begin = runtime.record()
    end = runtime.record()
    runtime.synchronise()
    assert runtime.elapsed_s(begin, end) >= 0


def test_facts_name_the_device_and_survive_a_way_through_json(runtime: DeviceRuntime) -> None:
    facts = runtime.facts
    assert facts.name
    assert facts.found_by
    told = read_recording(Recording(facts=facts).to_json())
    assert told.facts == facts
    assert runtime.torch_device.split(":")[0] in ("cpu", "cuda", "xpu")


def test_memory_peaks_are_told_with_their_method(runtime: DeviceRuntime) -> None:
    runtime.reset_peak_memory()
    peak = runtime.peak_memory()
    assert isinstance(peak, MemoryPeak)
    assert peak.method
    assert peak.allocated_bytes is None or peak.allocated_bytes >= 0
    runtime.release_memory()


def test_only_a_lack_of_memory_is_out_of_memory(runtime: DeviceRuntime) -> None:
    assert not runtime.is_out_of_memory(RuntimeError("shapes cannot be multiplied"))
    assert not runtime.is_out_of_memory(ValueError("negative"))


def test_an_allocation_that_no_machine_has_is_out_of_memory_on_the_cpu() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**15)
    assert CpuRuntime().is_out_of_memory(caught.value)


def test_telemetry_can_be_started_again_and_is_one_object(runtime: DeviceRuntime) -> None:
    assert runtime.telemetry is runtime.telemetry
    for _ in range(2):
        runtime.telemetry.start()
        runtime.telemetry.sample()
        reading = runtime.telemetry.stop()
        assert reading.energy_j is None or reading.energy_j >= 0


def test_a_replay_answers_what_was_recorded_and_begins_again() -> None:
    recorder = RecordingRuntime(CpuRuntime())
    taken = [recorder.time(lambda s=s: time.sleep(s)) for s in (0.001, 0.004)]  # type: ignore[misc]
    replay = ReplayRuntime(read_recording(recorder.recording.to_json()))
    assert [replay.time(lambda: None) for _ in range(4)] == taken * 2
    assert replay.facts == recorder.facts


def test_a_recorder_launches_and_waits_as_its_device_does() -> None:
    torch = FakeTorch()
    recorder = RecordingRuntime(AcceleratorRuntime(torch=torch))
    assert recorder.asynchronous
    assert not RecordingRuntime(CpuRuntime()).asynchronous
    recorder.time(recorder.graph_of(lambda: torch.work(0.1)))
    assert recorder.recording.steps[0].device_s == pytest.approx(0.1)


def test_a_recording_of_a_real_gpu_is_identified_and_replayed() -> None:
    """ResNet-18 in fp32, 32 images, eager, on an NVIDIA H200 with PyTorch 2.11."""
    replay = ReplayRuntime(read_recording(Path("tests/recordings/h200-resnet18.json")))
    found = described_device(replay)
    assert found.accelerator.name == "H200-SXM"
    assert found.in_catalog and not found.notes
    assert replay.facts.found_by == ("nvml", "torch")
    timing = time_steps(lambda: None, clock=replay)
    # The first step loads kernels: 0.7 s; all that follow take 4.8 ms on both clocks.
    assert timing.median_s == pytest.approx(4.8e-3, rel=0.02)
    assert timing.device_s == pytest.approx(timing.median_s, rel=0.02)
    assert not timing.noisy
    assert replay.peak_memory().method == "allocator"


def test_what_was_not_recorded_is_not_made_up() -> None:
    with pytest.raises(MeasurementError, match="no memory peaks"):
        ReplayRuntime(RecordingRuntime(CpuRuntime()).recording).peak_memory()
    with pytest.raises(InvalidInputError, match="No recording"):
        read_recording(b'{"form": "another"}')
    written = RecordingRuntime(CpuRuntime()).recording.to_json()
    with pytest.raises(InvalidInputError, match="colour"):
        read_recording(written.replace(b'"backend"', b'"colour": "green", "backend"'))


def test_an_accelerator_is_timed_by_its_own_queue() -> None:
    # An hour of work is queued in no time: the device's clock tells, the host's does not.
    torch = FakeTorch()
    timed = AcceleratorRuntime(torch=torch).time(lambda: torch.work(3_600.0))
    assert timed.device_s == pytest.approx(3_600.0)
    assert timed.wall_s < 1_800.0
    assert torch.waits == 2  # before the first launch and after the last


def test_an_accelerator_tells_live_from_reserved_memory() -> None:
    torch = FakeTorch()
    runtime = AcceleratorRuntime(torch=torch)
    torch.allocate(300)
    torch.free(200)
    runtime.reset_peak_memory()
    torch.allocate(50)
    # Live since the reset: 300 - 200 + 50; the allocator still holds the 300.
    peak = runtime.peak_memory()
    assert (peak.allocated_bytes, peak.reserved_bytes) == (150.0, 300.0)
    assert runtime.is_out_of_memory(FakeOutOfMemoryError("tried to allocate 2 GiB"))
    assert runtime.is_out_of_memory(RuntimeError("HIP out of memory"))


@pytest.mark.parametrize(
    ("torch", "backend", "architecture"),
    [
        (FakeTorch(), "cuda", "sm_80"),
        (FakeTorch(hip="7.0", gcnArchName="gfx942:sramecc+:xnack-"), "rocm", "gfx942"),
        (FakeTorch(kind="xpu", major=None, gpu_subslice_count=64), "xpu", None),
    ],
)
def test_one_runtime_serves_every_backend(
    torch: FakeTorch, backend: str, architecture: str | None
) -> None:
    facts = AcceleratorRuntime(torch=torch).facts
    assert (facts.backend, facts.architecture) == (backend, architecture)
    assert facts.memory_bytes == 85.1e9


def test_a_slice_is_told_from_the_whole() -> None:
    torch = FakeTorch(name="NVIDIA A100-SXM4-80GB MIG 1g.10gb", total_memory=10_200_000_000)
    assert AcceleratorRuntime(torch=torch).facts.mig_profile == "1g.10gb"


@pytest.mark.parametrize("generic", [True, False])
def test_a_graph_is_recorded_once_and_launched_as_a_whole(generic: bool) -> None:
    torch, ran = FakeTorch(generic_graphs=generic), []
    runtime = AcceleratorRuntime(torch=torch)

    def step() -> None:
        ran.append(1)
        torch.work(0.1)

    launch = runtime.graph_of(step)
    # Three steps before the capture and the captured one; a launch runs no Python of the step.
    assert len(ran) == 4
    assert runtime.time(launch).device_s == pytest.approx(0.1)
    assert len(ran) == 4


def test_a_step_that_looks_at_values_cannot_be_recorded() -> None:
    torch = FakeTorch()

    def step() -> None:
        if torch.recording is not None:
            raise RuntimeError("operation not permitted when stream is capturing")

    with pytest.raises(MeasurementError, match="not permitted"):
        AcceleratorRuntime(torch=torch).graph_of(step)
    with pytest.raises(MeasurementError, match="launches no graphs"):
        CpuRuntime().graph_of(step)


def test_an_absent_accelerator_is_refused_with_what_to_do() -> None:
    with pytest.raises(MeasurementError, match="doctor"):
        AcceleratorRuntime(torch=FakeTorch(count=0))
    with pytest.raises(MeasurementError, match="sees 1 accelerators"):
        AcceleratorRuntime(index=1, torch=FakeTorch())


def test_devices_are_opened_by_name(tmp_path: Path) -> None:
    recorder = RecordingRuntime(CpuRuntime())
    recorder.time(lambda: None)
    path = tmp_path / "recording.json"
    path.write_bytes(recorder.recording.to_json())
    assert isinstance(open_runtime("cpu"), CpuRuntime)
    assert isinstance(open_runtime(f"replay:{path}"), ReplayRuntime)
    with pytest.raises(InvalidInputError, match="gpu:<index>"):
        open_runtime("abacus")
