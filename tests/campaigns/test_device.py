"""The device of a worker: what it answers to, its locks, and whether it is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaign_world import SPEC

from perfmodel.campaigns.device import CampaignDevice, local_device
from perfmodel.profilers.device_lock import device_lock_path


def test_the_processor_of_this_machine_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfmodel.devices.local_cpu.LocalCpu.describe", lambda self: SPEC)
    device = local_device()
    assert device.is_present()
    assert device.words == {"any", "gpu", "gpu-test"}
    assert device.turn_lock.name == "perfmodel-campaign-cpu.lock"
    assert device.machine == f"{device.host}/cpu/gpu-test"


def test_a_device_that_was_recorded_is_gone_with_its_recording(tmp_path: Path) -> None:
    from perfmodel.campaigns.device import _answers

    # Asked in a process of its own, as after a failure.
    assert not _answers(f"replay:{tmp_path}/gone.json")
    assert _answers("cpu")


@pytest.mark.parametrize(
    ("device", "visible", "lock"),
    [
        ("cpu", "", "perfmodel-cpu.lock"),
        ("gpu", "", "perfmodel-gpu-0.lock"),
        ("cuda:1", "", "perfmodel-gpu-1.lock"),
        # The first that this process sees is the third of the machine.
        ("gpu", "2,3", "perfmodel-gpu-2.lock"),
        ("gpu:1", "GPU-8a, GPU-9b", "perfmodel-gpu-GPU-9b.lock"),
        ("replay:run.json", "", "perfmodel-cpu.lock"),
    ],
)
def test_each_device_has_a_lock_of_its_own(
    monkeypatch: pytest.MonkeyPatch, device: str, visible: str, lock: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert device_lock_path(device).name == lock
    assert CampaignDevice(spec=SPEC, device=device).turn_lock != device_lock_path(device)
