"""Kernels of steps: which were learned, and what no kernel is answered below."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up_kernels import DEVICES, LAUNCH_S, law, made_up_calls
from synthetic_workloads import mlp

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import DamagedArtifactError
from perfmodel.estimator.kernels.loading import load_kernels
from perfmodel.features.arrays import FloatArray
from perfmodel.features.kernels.kernel_calls import KernelCalls, kernel_calls
from perfmodel.features.kernels.kernel_columns import kernel_roofline
from perfmodel.features.steps.sketch import step_sketch
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.predictors.boosting import BoosterSettings
from perfmodel.predictors.kernels.kernel_base import kernel_group
from perfmodel.predictors.kernels.kernel_predictor import KernelPredictor, device_weights
from perfmodel.predictors.kernels.kernel_seen import KernelsSeen
from perfmodel.predictors.kernels.kernel_times import (
    SHORTEST_STREAM_S,
    AnalyticalKernels,
    KernelSpread,
)
from perfmodel.predictors.kernels.step_kernels import step_kernels
from perfmodel.predictors.kernels.trained_kernels import TrainedKernels
from perfmodel.types import Basis, Phase, Precision, Role

SETTINGS = BoosterSettings(rounds=30, depth=4, learning_rate=0.2, min_child_weight=2.0)
_WIDTHS = {"product": 0.1, "pointwise": 0.1}
SPREAD = KernelSpread(known=_WIDTHS, unseen=_WIDTHS)
CATALOG = Catalog.default()
SHIPPED = Path(__file__).parents[3] / "models"


@pytest.fixture(scope="module")
def fitted() -> KernelPredictor:
    calls = made_up_calls(120)
    return KernelPredictor(SETTINGS).fit(calls, law(calls))


@pytest.fixture(scope="module")
def model(fitted: KernelPredictor) -> TrainedKernels:
    fitted.spread_ = SPREAD
    return TrainedKernels(fitted, "kernels/made-up")


def _gemm(device: str, dtype: str = "fp16", size: int = 8192) -> KernelCalls:
    return kernel_calls(
        op=["gemm"], dtype=[dtype], accelerator=[CATALOG.get(device)],
        shape=[{"m": size, "n": size, "k": size}],
    )  # fmt: skip


def _share_of_peak(time_s: FloatArray, calls: KernelCalls) -> float:
    return float(kernel_roofline(calls).compute_s[0] / time_s[0])


def test_no_kernel_on_an_unseen_device_beats_what_kernels_usually_reach() -> None:
    calls = made_up_calls(120)
    predictor = KernelPredictor(SETTINGS).fit(calls, law(calls))
    usual = predictor.base_.reached_["product"]
    # The law: products reach 0.4 to 0.8 of the peak, less their launch.
    assert 0.6 < usual < 0.8
    # As trees may answer far from what they have seen.
    predictor.log_limits_ = {group: (-5.0, -5.0) for group in predictor.log_limits_}
    asked = _gemm("H200-SXM")
    assert _share_of_peak(predictor.predict(asked), asked) == pytest.approx(usual)


def test_a_known_device_is_bound_by_its_own_best(fitted: KernelPredictor) -> None:
    own = {k for k in fitted.base_.reached_ if k.startswith("product ")}
    cards = ("A100-PCIe-40GB", "H100-SXM5-80GB", "T4", "V100-PCIe-32GB")
    assert own == {f"product {name}" for name in (*cards, "NVIDIA")}
    assert all(0.5 <= share <= 1.0 for share in fitted.base_.reached_.values())


def test_what_another_maker_reaches_binds_no_card() -> None:
    apple = tuple(f"Apple-M{k}-{kind}-GPU" for k in (1, 2, 3) for kind in ("Pro", "Max"))
    calls = made_up_calls(90, devices=(*DEVICES, *apple))
    slow = np.where(calls.maker_names == "Apple", 1.4, 1.0)
    predictor = KernelPredictor(SETTINGS).fit(calls, law(calls) * slow)
    reached = predictor.base_.reached_
    # Six of ten devices are Apple's.
    assert reached["product Apple"] <= reached["product"] < reached["product NVIDIA"]
    predictor.log_limits_ = {group: (-5.0, -5.0) for group in predictor.log_limits_}
    asked = _gemm("H200-SXM")
    assert _share_of_peak(predictor.predict(asked), asked) == pytest.approx(
        reached["product NVIDIA"]
    )


def test_an_open_question_means_implementations_of_the_maker() -> None:
    calls = made_up_calls(30, devices=("T4", "A30", "Apple-M1-GPU"))
    ours = np.where(calls.maker_names == "Apple", "mlx 0.12", "torch 2.9")
    seen = KernelsSeen.of(replace(calls, kernel=ours), kernel_group(calls))
    assert seen.implementations("product", "fp16", "Apple") == ("mlx 0.12",)
    assert seen.implementations("product", "fp16", "NVIDIA") == ("torch 2.9",)
    assert seen.implementations("product", "bf16", "Apple") == ("mlx 0.12",)
    # What runs bf16 runs fp16 as well; what was told of fp16 may be older than bf16.
    of_bf16 = replace(calls, kernel=np.full(len(calls), "vllm 0.24"), dtype=np.char.replace(
        calls.dtype, "fp16", "bf16"))  # fmt: skip
    both = KernelsSeen(usual={**seen.usual, **KernelsSeen.of(of_bf16, kernel_group(calls)).usual})
    assert both.implementations("product", "fp16", "NVIDIA") == ("torch 2.9", "vllm 0.24")
    assert both.implementations("product", "bf16", "NVIDIA") == ("vllm 0.24",)
    # Of a maker that was never learned from, all count.
    assert seen.implementations("product", "fp16", "AMD") == ("mlx 0.12", "torch 2.9")
    assert seen.implementations("moe", "fp16", "AMD") == ("",)


def test_a_version_of_other_columns_is_refused(tmp_path: Path) -> None:
    calls = made_up_calls(60)
    KernelPredictor(SETTINGS).fit(calls, law(calls)).save(tmp_path)
    state = json.loads((tmp_path / "kernels.state.json").read_text())
    del state["columns"]["facts"][-1]
    (tmp_path / "kernels.state.json").write_text(json.dumps(state))
    with pytest.raises(DamagedArtifactError, match="other columns"):
        KernelPredictor.load(tmp_path)


def test_a_device_of_few_calls_weighs_less() -> None:
    t4, a30 = Catalog.default().get("T4"), Catalog.default().get("A30")
    calls = kernel_calls(
        op=["gemm"] * 1010,
        dtype=["fp16"] * 1010,
        accelerator=[t4] * 1000 + [a30] * 10,
        shape=[{"m": 1.0, "n": 1.0, "k": 1.0}] * 1010,
    )
    weight = device_weights(calls)
    # 1000 / 2000 against 10 / 1010.
    assert weight[:1000].sum() / weight[1000:].sum() == pytest.approx(0.5 / (10 / 1010))


def test_what_was_learned_of_one_maker_carries_over_to_it_alone(model: TrainedKernels) -> None:
    names = ("A30", "MI300X", "Core-i9-10940X")
    found = [model.times(_gemm(name)) for name in names]
    assert [bool(one.carries_over[0]) for one in found] == [True, False, False]
    assert [one.basis[0] for one in found] == [
        Basis.EXTRAPOLATED, Basis.EXTRAPOLATED, Basis.ANALYTICAL,
    ]  # fmt: skip


def test_products_in_a_type_that_was_never_learned_are_answered_by_their_law(
    fitted: KernelPredictor, model: TrainedKernels
) -> None:
    asked = _gemm("A30", "tf32", size=1024)
    found = model.times(asked)
    assert (found.basis[0], bool(found.carries_over[0])) == (Basis.EXTRAPOLATED, True)
    named = replace(asked, kernel=np.array(["torch 2.9 made_up"]))
    time_s, launch_s = fitted.parts(named, trees=False)
    assert found.time_s == pytest.approx(time_s)
    # Law and launch add up to it, and trees would have said something else.
    assert 0 < launch_s[0] < time_s[0] != fitted.predict(named)[0]
    # Types that were left out of the law lie further from it than kernels from the trees.
    assert found.high_s[0] / found.time_s[0] == pytest.approx(np.exp(0.84))
    # Peaks of tf32 are half of those of 16 bits: so much longer where arithmetic decides.
    large, half = (replace(_gemm("A30", dtype), kernel=named.kernel) for dtype in ("tf32", "bf16"))
    ratio = fitted.parts(large, trees=False)[0] / fitted.parts(half, trees=False)[0]
    assert ratio[0] == pytest.approx(2.0, rel=0.2)
    assert not model.times(_gemm("MI300X", "tf32")).carries_over[0]


def test_what_has_no_law_of_cuts_is_analytical(model: TrainedKernels) -> None:
    shape = {"batch": 1, "tokens": 128, "context": 0, "heads": 8, "kv_heads": 8, "head_dim": 64,
             "kv_element_bytes": 2}  # fmt: skip
    asked = kernel_calls(
        op=["attention_prefill"], dtype=["bf16"], accelerator=[CATALOG.get("A30")], shape=[shape]
    )
    found = model.times(asked)
    assert found.basis[0] == Basis.ANALYTICAL
    assert found.time_s[0] == AnalyticalKernels().times(asked).time_s[0]


def test_a_framework_that_is_timed_on_the_device_holds_no_host() -> None:
    calls = made_up_calls(120)
    words = np.where(calls.op == "gemm", "vllm 0.24 made_up", "torch 2.9 made_up")
    predictor = KernelPredictor(SETTINGS).fit(replace(calls, kernel=words), law(calls))
    predictor.spread_ = KernelSpread(known=_WIDTHS, unseen={name: 0.3 for name in _WIDTHS})
    trained = TrainedKernels(predictor, "kernels/made-up")
    known, small = trained.times(_gemm("T4", size=64)), made_up_calls(3, devices=("T4",), largest=4)
    assert known.device_s == pytest.approx(known.time_s)
    assert known.device_high_s == pytest.approx(known.time_s * np.exp(0.1))
    # Additions were timed with the host: a stream of 256 elements takes the shortest there is, and
    # what is left of it is known no better than on a device that was never seen.
    (row,) = np.flatnonzero(small.op == "add")
    added = trained.times(small)
    assert added.device_s[row] < added.time_s[row]
    assert added.device_s[row] == pytest.approx(SHORTEST_STREAM_S, rel=0.4)
    long = kernel_calls(
        op=["add"], dtype=["fp16"], accelerator=[CATALOG.get("T4")],
        shape=[{"rows": 2.0**16, "width": 2.0**14, "inputs": 2.0}],
    )  # fmt: skip
    answer = trained.times(long)
    assert answer.high_s / answer.time_s == pytest.approx(np.exp(0.1))
    assert answer.device_high_s / answer.device_s == pytest.approx(np.exp(0.3), rel=0.01)


def test_implementations_that_differ_widen_the_interval_by_their_deviation() -> None:
    calls = made_up_calls(120)
    slow = np.arange(len(calls)) % 2 == 0
    words = np.where(slow, "vllm 0.24 made_up", "torch 2.9 made_up")
    time_s = law(calls) * np.where(slow, 1.5, 1.0)
    predictor = KernelPredictor(SETTINGS).fit(replace(calls, kernel=words), time_s)
    predictor.spread_ = SPREAD
    asked = _gemm("T4", size=256)
    each = [
        predictor.predict(replace(asked, kernel=np.array([word])))[0] for word in np.unique(words)
    ]
    found = TrainedKernels(predictor, "kernels/made-up").times(asked)
    assert found.time_s[0] == pytest.approx(np.sqrt(each[0] * each[1]))
    # Two that lie d apart deviate by d / 2; nine in ten lie within 1.645 deviations.
    half_width = np.hypot(0.1, 1.645 * abs(np.log(each[1] / each[0])) / 2)
    assert half_width > 0.15
    assert found.high_s[0] / found.time_s[0] == pytest.approx(np.exp(half_width))


@pytest.mark.parametrize(("op", "waits"), [("relu", 0.0), ("sum", 1.0), ("native_batch_norm", 2.0)])
def test_what_sums_waits_for_its_sums(op: str, waits: float) -> None:
    """No element, no traffic worth the name: a launch and the waits are left."""
    tensors = tuple(
        Tensor(shape=(16,), dtype="float32", role=Role.INPUT, storage=i) for i in range(2)
    )
    node = Node(op=op, phase=Phase.FORWARD, inputs=(0,), outputs=(1,), attrs={})
    sketch = step_sketch(Graph(nodes=(node,), tensors=tensors))
    found = step_kernels(AnalyticalKernels(), sketch, CATALOG.get("MI300X"), Precision.FP32)
    assert found.time_s[0] == pytest.approx(4e-6 + 3.2e-6 * waits, rel=1e-2)
    assert found.low_s[0] == pytest.approx(2e-6 + 1e-6 * waits, rel=1e-2)
    assert found.high_s[0] == pytest.approx(12e-6 + 6e-6 * waits, rel=1e-2)


def test_one_device_of_a_maker_shows_nothing_of_others() -> None:
    calls = made_up_calls(60, devices=("T4", "MI100", "V100-PCIe-32GB"))
    predictor = KernelPredictor(SETTINGS).fit(calls, law(calls))
    predictor.spread_ = SPREAD
    trained = TrainedKernels(predictor, "kernels/made-up")
    assert not trained.times(_gemm("MI300X")).carries_over[0]
    assert trained.times(_gemm("A30")).carries_over[0]


def test_the_device_needs_less_than_a_call_that_a_host_launches(model: TrainedKernels) -> None:
    calls = made_up_calls(40, devices=("A30",))
    found = model.times(calls)
    work_s = law(calls) - LAUNCH_S
    long = work_s > 1e-4
    assert long.any()
    assert found.device_s[long] == pytest.approx(found.time_s[long], rel=0.05)
    assert (found.device_s > 0).all()


def test_a_step_is_its_kernels(model: TrainedKernels) -> None:
    sketch = step_sketch(mlp(4096, [1024] * 5, "relu", training=False))
    found = step_kernels(model, sketch, CATALOG.get("A30"), Precision.FP16)
    moves = found.time_s > 0
    assert moves.any()
    assert (found.low_s[moves] < found.time_s[moves]).all()
    assert (found.time_s[moves] < found.high_s[moves]).all()
    assert np.array_equal(found.time_s > 0, sketch.traffic_bytes > 0)
    nothing = step_kernels(AnalyticalKernels(), sketch, CATALOG.get("A30"), Precision.FP16)
    assert not nothing.carries_over.any()


@pytest.mark.skipif(not (SHIPPED / "kernels").is_dir(), reason="no model of kernels is shipped")
def test_the_shipped_model_answers_no_product_at_the_peak() -> None:
    model, problems = load_kernels(SHIPPED)
    assert not problems
    for device in ("H100-SXM5-80GB", "H200-SXM", "A40", "L4", "RTX-4090"):
        asked = _gemm(device, "fp32")
        assert 0.2 < _share_of_peak(model.times(asked).time_s, asked) < 0.95, device
