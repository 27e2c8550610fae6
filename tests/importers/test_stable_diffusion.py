from pathlib import Path

import pytest

from perfmodel.importers.jobs.stable_diffusion import read_stable_diffusion
from perfmodel.types import Precision

HEADER = "device_raw,year,torch_major,batch,n,p50,p90,max"


def _table(folder: Path, *lines: str) -> Path:
    (folder / "sd15_by_device.csv").write_text("\n".join([HEADER, *lines]) + "\n")
    return folder


def test_an_image_is_two_samples(tmp_path: Path) -> None:
    line = "NVIDIA GeForce RTX 3070,2023,2,4.0,9,9.0,10.0,10.5"
    (step,) = read_stable_diffusion(_table(tmp_path, line)).steps
    assert (step.accelerator, step.job.model) == ("RTX-3070", "zoo/sd15-unet")
    assert (step.job.batch_size, step.job.precision) == (8, Precision.FP16)
    # Ten steps of sampling times images a second: four images take 0.4 s.
    assert step.step_time_s == pytest.approx(0.4)
    assert (step.repeats, step.spread) == (9, pytest.approx(1.0 / 9.0))
    assert step.job.software == {"torch": "2.0.1", "attention": "fused"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("NVIDIA GeForce RTX 3070,2023,2,4.0,1,9.0,9.0,9.0", "single report"),
        ("NVIDIA GeForce RTX 3070,2023,2,4.0,9,9.0,10.0,18.0", "disagree"),
        ("AMD Radeon RX 6950 XT [ZLUDA],2025,2,1.0,3,9.0,9.5,9.9", "ZLUDA"),
    ],
)
def test_what_says_nothing_of_a_card_is_left_out(tmp_path: Path, line: str, reason: str) -> None:
    found = read_stable_diffusion(_table(tmp_path, line))
    assert not found.steps and reason in found.rejected[0].reason
