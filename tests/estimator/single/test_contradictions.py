"""Answers that nothing was observed for, beside each other: more work, larger models, newer chips.

Where the device works, the order is that of the work. Where it waits for its host, answers may
contradict each other, never by more than they doubt themselves (docs/adr/0076).
"""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from perfmodel.estimator import Estimator
from perfmodel.graph.job import Job
from perfmodel.graph.job_form import parse_job
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import Mode, Precision

MODELS = Path(__file__).parents[3] / "models"
NETWORKS = (
    "timm/resnet18", "timm/resnet50", "timm/vit_tiny_patch16_224", "timm/vit_small_patch16_224",
    "timm/vit_base_patch16_224", "timm/convnext_tiny", "timm/convnext_base",
    "timm/mobilenetv3_large_100", "zoo/bert-base-squad", "zoo/bert-large-squad",
)  # fmt: skip
SMALLER_AND_LARGER = (
    ("timm/resnet18", "timm/resnet50"), ("timm/convnext_tiny", "timm/convnext_base"),
    ("timm/vit_tiny_patch16_224", "timm/vit_small_patch16_224"),
    ("timm/vit_small_patch16_224", "timm/vit_base_patch16_224"),
    ("zoo/bert-base-squad", "zoo/bert-large-squad"),
)  # fmt: skip
#: Of each the second has higher peaks and more bandwidth.
OLDER_AND_NEWER = (
    ("V100-SXM2-16GB", "A100-SXM4-40GB"), ("A100-SXM4-80GB", "H100-SXM5-80GB"),
    ("A100-SXM4-80GB", "B200-SXM"), ("RTX-3090", "RTX-4090"), ("MI250X-GCD", "MI300X"),
)  # fmt: skip
GPUS = ("T4", "RTX-3090", "RTX-5090", "A100-SXM4-80GB", "H100-SXM5-80GB", "B200-SXM", "MI300X")
WAYS = (
    (Mode.INFERENCE, Precision.FP16), (Mode.INFERENCE, Precision.FP32),
    (Mode.TRAINING, Precision.AMP_FP16),
)  # fmt: skip
#: The device works on so many samples for longer than its host calls.
BUSY, FEW = 128, (1, 2, 4, 8, 16, 32)


@pytest.fixture(scope="module")
def estimator() -> Estimator:
    return Estimator.from_folder(MODELS)


def _doubts(shorter: Prediction, longer: Prediction) -> float:
    """Return by how many half widths of both the one that has to be shorter is longer."""
    widths = [math.log(one.high_s / one.low_s) / 2 for one in (shorter, longer)]
    return math.log(shorter.time_s / longer.time_s) / math.hypot(*widths)


class _Asks:
    def __init__(self, estimator: Estimator, seed: int) -> None:
        self.core = estimator.core
        self.draw = random.Random(seed)
        self.mode, self.precision = self.draw.choice(WAYS)

    def __call__(self, model: str, batch: int, device: str) -> Prediction:
        job = Job(model=model, mode=self.mode, precision=self.precision, batch_size=batch)
        pair = self.core.prepare(job), self.core.accelerators.get(device)
        return self.core.predictions([pair])[0]


@pytest.mark.parametrize("seed", range(8))
def test_a_larger_batch_takes_longer(estimator: Estimator, seed: int) -> None:
    ask = _Asks(estimator, seed)
    model, device, few = (ask.draw.choice(of) for of in (NETWORKS, GPUS, FEW))
    assert ask(model, BUSY, device).time_s < ask(model, 2 * BUSY, device).time_s
    assert _doubts(ask(model, few, device), ask(model, 2 * few, device)) < 1


@pytest.mark.parametrize("seed", range(8))
def test_a_larger_model_of_a_family_takes_longer(estimator: Estimator, seed: int) -> None:
    ask = _Asks(estimator, seed)
    device, few = ask.draw.choice(GPUS), ask.draw.choice(FEW)
    smaller, larger = SMALLER_AND_LARGER[seed % len(SMALLER_AND_LARGER)]
    assert ask(smaller, BUSY, device).time_s < ask(larger, BUSY, device).time_s
    assert _doubts(ask(smaller, few, device), ask(larger, few, device)) < 1


@pytest.mark.parametrize("seed", range(8))
def test_an_accelerator_with_higher_peaks_is_faster(estimator: Estimator, seed: int) -> None:
    ask = _Asks(estimator, seed)
    model, few = ask.draw.choice(NETWORKS), ask.draw.choice(FEW)
    older, newer = OLDER_AND_NEWER[seed % len(OLDER_AND_NEWER)]
    assert ask(model, BUSY, newer).time_s < ask(model, BUSY, older).time_s
    assert _doubts(ask(model, few, newer), ask(model, few, older)) < 1


def test_more_experts_on_a_rank_than_were_published_are_said(estimator: Estimator) -> None:
    job = parse_job(
        {"model": "Qwen/Qwen3-30B-A3B", "mode": "training", "batch_size": 1, "precision": "bf16",
         "sequence_length": 2048}
    )  # fmt: skip
    alone, all_on_each, spread = (
        estimator.estimate(job, parse_placement(written))
        for written in ("H100-SXM5-80GB", "8xH100-SXM5-80GB tp=8", "8xH100-SXM5-80GB ep=8")
    )
    # 48 layers wait for 128 experts as long as for 32; eight ranks took 6 times as long as one.
    assert all_on_each.step_time_s < 2 * alone.step_time_s
    said = "Each rank holds 128 experts"
    found = [said in " ".join(one.warnings) for one in (all_on_each, spread)]
    assert found == [True, False]
    ranking = estimator.search(job, parse_placement("8xH100-SXM5-80GB"), global_batch=8, most=40)
    held = {128 // one.choice.plan.expert for one in ranking.plans}
    assert max(held) > 32
    for count in held:
        assert (f"Each rank holds {count} experts" in " ".join(ranking.warnings)) is (count > 32)


def test_copies_beside_collectives_are_part_of_the_step(estimator: Estimator) -> None:
    job = parse_job(
        {"model": "mistralai/Mixtral-8x7B-v0.1", "mode": "training", "batch_size": 1,
         "precision": "bf16", "sequence_length": 2048, "optimizer": "adamw"}
    )  # fmt: skip
    written = "8xA100-SXM4-80GB zero=3 offload=parameters"
    one = estimator.estimate(job, parse_placement(written))
    # Gathering takes 1.2 s, and copying beside it 1.5 s: together more than the 2.5 s of the step.
    assert one.breakdown.exposed_communication_s < one.sync_time_s <= one.step_time_s


def test_no_operator_is_faster_than_its_peak(estimator: Estimator) -> None:
    # The equations are faster than operators that are called one by one.
    job = parse_job(
        {"model": "gpt2", "mode": "training", "batch_size": 4, "precision": "amp_fp16",
         "optimizer": "adamw"}
    )  # fmt: skip
    found = estimator.explain(job, parse_placement("TPU-v5e"), most=1000)
    for one in found.operators:
        assert one.achieved_flops_per_s <= (one.peak_flops_per_s or math.inf) * (1 + 1e-9), one
    times = [sum(one.time_s for one in part) for part in (found.operators, found.operator_classes)]
    assert times == pytest.approx([found.compute_time_s] * 2)
