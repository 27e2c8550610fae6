from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from placement_accuracy.plans_published import evaluate

pytest.importorskip("torch")

#: GPTs of 2 and 4 layers on made-up clusters: (device, accelerators, layers, seconds).
ROWS = [
    ("A100-SXM-80GB", 8, 2, 0.1),
    ("A100-SXM-80GB", 16, 2, 0.125),
    ("H100-SXM-80GB", 8, 4, 0.1),
    ("H100-SXM-80GB", 8, 2, 0.05),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    with (folder / "llm_training_misc.csv").open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(
            ["source", "src", "device", "framework", "model", "hidden", "layers", "heads",
             "seq_len", "vocab", "precision", "num_devices", "tp", "pp", "global_batch",
             "micro_batch", "step_time_s"]
        )  # fmt: skip
        for device, count, layers, seconds in ROWS:
            writer.writerow(
                ["Made-Up 2099", "made up", device, "Megatron-LM", f"GPT-{layers}", 256, layers, 4,
                 64, 1024, "bf16", count, 2, 1, count, 2, seconds]
            )  # fmt: skip
    return folder


def test_every_source_has_a_line_with_what_stands_beside_it(data: Path) -> None:
    (line,) = evaluate(data, models=data / "none")
    assert line.name == "plans-published-made-up"
    assert list(line.groups) == ["A100-SXM4-80GB"] * 2 + ["H100-SXM5-80GB"] * 2
    assert line.measured.tolist() == [seconds for *_, seconds in ROWS]
    assert np.all(line.predicted > 0)
    assert line.low is not None and line.high is not None
    assert np.all((line.low < line.predicted) & (line.predicted < line.high))
    assert "of 4 that move nothing to the host 0 are said not to fit" in line.note


def test_nothing_of_a_device_is_in_its_baseline(data: Path) -> None:
    (line,) = evaluate(data, models=data / "none")
    ideal = line.baselines["flops_over_peak"]
    # Both H100 rows reach the same share of the peak: twice the layers in twice the time, but for
    # the words; what they reach times the least time is the answer for the A100.
    assert np.isfinite(ideal).all()
    assert ideal[1] == pytest.approx(ideal[0])
    linear = line.baselines["linear_from_the_fewest"]
    # Twice the accelerators and the batch take as long as before.
    assert np.isnan(linear[[0, 2, 3]]).all() and linear[1] == pytest.approx(0.1)


def test_a_folder_without_the_table_has_no_lines(tmp_path: Path) -> None:
    assert evaluate(tmp_path) == []
