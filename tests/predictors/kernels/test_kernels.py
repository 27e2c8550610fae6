from pathlib import Path

import numpy as np
import pytest
from made_up_kernels import law, made_up_calls

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import DamagedArtifactError, TrainingError
from perfmodel.features.kernels.kernel_calls import kernel_calls
from perfmodel.features.kernels.kernel_columns import kernel_roofline
from perfmodel.predictors.boosting import Booster, BoosterSettings, slim
from perfmodel.predictors.kernels.kernel_base import kernel_group
from perfmodel.predictors.kernels.kernel_offsets import OffsetPrior, group_offsets
from perfmodel.predictors.kernels.kernel_predictor import KernelPredictor

SETTINGS = BoosterSettings(rounds=60, depth=5, learning_rate=0.15, min_child_weight=2.0)


@pytest.fixture(scope="module")
def fitted() -> KernelPredictor:
    calls = made_up_calls(240)
    return KernelPredictor(SETTINGS).fit(calls, law(calls))


def test_a_law_carries_over_to_a_device_that_was_not_measured(fitted: KernelPredictor) -> None:
    calls = made_up_calls(240, devices=("A30",))
    error = np.abs(fitted.predict(calls) / law(calls) - 1)
    assert error.mean() < 0.12


def test_answers_are_finite_and_never_below_the_floor(fitted: KernelPredictor) -> None:
    calls = made_up_calls(60, seed=7, devices=("MI300X", "K80"))
    times = fitted.predict(calls)
    assert np.isfinite(times).all()
    assert (times >= kernel_roofline(calls).floor_s).all()
    assert (times > 0).all()


def test_a_group_without_measurements_is_answered(fitted: KernelPredictor) -> None:
    calls = kernel_calls(
        op=["attention_decode"],
        dtype=["bf16"],
        accelerator=[Catalog.default().get("T4")],
        shape=[
            {
                "batch": 4, "tokens": 1, "context": 511, "heads": 8, "kv_heads": 8,
                "head_dim": 64, "kv_element_bytes": 2,
            }
        ],
    )  # fmt: skip
    assert kernel_group(calls).tolist() == ["decode"]
    assert 1e-6 < fitted.predict(calls)[0] < 1e-3


def test_a_fit_is_repeatable_and_order_does_not_matter(fitted: KernelPredictor) -> None:
    calls = made_up_calls(60, seed=3)
    again = made_up_calls(240)
    twin = KernelPredictor(SETTINGS).fit(again, law(again))
    assert np.array_equal(fitted.predict(calls), twin.predict(calls))
    order = np.random.default_rng(0).permutation(len(calls))
    assert np.allclose(fitted.predict(calls.take(order)), fitted.predict(calls)[order])


def test_save_and_load_answer_alike(fitted: KernelPredictor, tmp_path: Path) -> None:
    facts = fitted.save(tmp_path)
    calls = made_up_calls(60, seed=5)
    assert np.array_equal(KernelPredictor.load(tmp_path).predict(calls), fitted.predict(calls))
    assert facts["groups"] == ["pointwise", "product"]


def test_damaged_files_are_refused(fitted: KernelPredictor, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    packed = tmp_path / "product.facts.json.xz"
    content = packed.read_bytes()
    for damaged in (content[: len(content) // 2], b"", content[:50] + b"\0" * 50 + content[100:]):
        packed.write_bytes(damaged)
        with pytest.raises(DamagedArtifactError):
            KernelPredictor.load(tmp_path)
    packed.write_bytes(content)
    state = tmp_path / "kernels.state.json"
    for text in ("{}", "[]", state.read_text().replace('"base"', '"bass"')):
        state.write_text(text)
        with pytest.raises(DamagedArtifactError):
            KernelPredictor.load(tmp_path)


def test_a_few_kernels_correct_a_device_that_is_slow_as_a_whole(fitted: KernelPredictor) -> None:
    calls = made_up_calls(120, seed=9, devices=("A30",))
    slow = law(calls) * 1.5
    before = np.abs(fitted.predict(calls) / slow - 1).mean()
    probes = np.arange(0, 120, 12)
    adapted = fitted.adapt(calls.take(probes), slow[probes])
    after = np.abs(adapted.predict(calls) / slow - 1).mean()
    assert after < 0.65 * before  # shrunk: ten kernels do not settle a factor of 1.5
    others = made_up_calls(30, seed=9, devices=("T4",))
    assert np.array_equal(adapted.predict(others), fitted.predict(others))


def test_adaptation_goes_to_disk(fitted: KernelPredictor, tmp_path: Path) -> None:
    calls = made_up_calls(12, seed=9, devices=("A30",))
    adapted = fitted.adapt(calls, law(calls) * 1.4)
    adapted.save(tmp_path)
    assert np.array_equal(KernelPredictor.load(tmp_path).predict(calls), adapted.predict(calls))


def test_more_probes_move_an_offset_further() -> None:
    def level(count: int) -> float:
        found = group_offsets(["a"] * count, np.full(count, 0.3), np.full(count, 0.5), ["a", "b"])
        return found["a"].level

    assert 0 < level(1) < level(3) < level(10) < 0.3


def test_the_posterior_by_hand() -> None:
    # one kernel, launch share 1/2: only device and group move; 0.3 * (1 + 1) / (1 + 1 + 2)
    prior = OffsetPrior(device=1.0, group=1.0, launch=1.0, kernel=2**0.5)
    found = group_offsets(["a"], np.array([0.3]), np.array([0.5]), ["b"], prior)
    assert found["a"].level == pytest.approx(0.15)
    assert found["b"].level == pytest.approx(0.075)
    assert found["a"].launch == pytest.approx(0.0)


def test_nothing_to_learn_from_is_an_error(fitted: KernelPredictor) -> None:
    calls = made_up_calls(6)
    with pytest.raises(TrainingError, match="learned nothing"):
        KernelPredictor().predict(calls)
    with pytest.raises(TrainingError, match="finite and positive"):
        KernelPredictor(SETTINGS).fit(calls, np.zeros(len(calls)))
    with pytest.raises(TrainingError, match="as many"):
        fitted.adapt(calls, np.ones(3))
    assert fitted.predict(calls.take(np.zeros(0, dtype=np.int64))).shape == (0,)


def test_a_slim_booster_answers_alike_and_is_small() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, 6)).astype(np.float32)
    target = rows[:, 0] * 2.0 + np.sin(rows[:, 1].astype(np.float64))
    plain = Booster.train(rows, target, np.ones(3000), list("abcdef"), SETTINGS)
    small = slim(plain)
    # leaves to three digits: half a thousandth of each, 60 trees
    assert np.abs(small.predict(rows) - plain.predict(rows)).max() < 60 * 5e-4 * np.ptp(target)
    assert np.abs(small.predict(rows) - plain.predict(rows)).mean() < 1e-3
    assert len(small.model.save_raw("json")) < len(plain.model.save_raw("json"))
