"""Records of a device are kept: their jobs are known there, and one that is far off is doubted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import joint_world as world
import numpy as np
import pytest

from perfmodel.features.steps.step import Step, StepSample
from perfmodel.predictors.joint.device_beliefs import DeviceEffect
from perfmodel.predictors.joint.device_records import DeviceRecords
from perfmodel.predictors.joint.job_memory import JobMemory
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.types import Basis

SLOWER = 1.6
RECORDS = world.samples(("Gpu-New",), slower=SLOWER)


@pytest.fixture(scope="module")
def joint() -> JointPredictor:
    return JointPredictor(folds=2, epochs=3, rounds=20).fit(world.samples(world.KNOWN[:2]))


def _with_job_slower(samples: Sequence[StepSample], model: str, by: float) -> list[StepSample]:
    return [
        replace(one, step_time_s=by * one.step_time_s) if one.model == model else one
        for one in samples
    ]


def _log_times(joint: JointPredictor, steps: Sequence[Step]) -> np.ndarray:
    return np.log([answer.time_s for answer in joint.predict(steps)])


def test_a_record_of_a_job_says_more_about_that_job_there(joint: JointPredictor) -> None:
    # All jobs of the device take 1.6 times as long, one of them 1.4 times that.
    model = RECORDS[0].model
    odd = _with_job_slower(RECORDS, model, 1.4)
    own = [i for i, one in enumerate(RECORDS) if one.model == model]
    known = [one for i, one in enumerate(odd) if i not in own[1:]]
    asked = [odd[i] for i in own[1:]]
    steps, logs = [one.step for one in asked], np.log([one.step_time_s for one in asked])
    without = joint.adapt([one for one in known if one.model != model])
    off = np.abs(_log_times(without, steps) - logs).mean()
    assert off > 0.2, "ln 1.4 = 0.34 is peculiar to the job"
    adapted = joint.adapt(known)
    assert np.abs(_log_times(adapted, steps) - logs).mean() < 0.8 * off
    assert adapted.predict(steps[:1])[0].basis is Basis.CALIBRATED


def test_a_job_that_is_known_there_has_a_narrower_interval(joint: JointPredictor) -> None:
    own = [i for i, one in enumerate(RECORDS) if one.model == RECORDS[0].model]
    known = [one for i, one in enumerate(RECORDS) if i not in own[1:]]
    without = joint.adapt([one for one in known if one.model != RECORDS[0].model])
    step = [RECORDS[own[1]].step]
    wide, narrow = (predictor.predict(step)[0] for predictor in (without, joint.adapt(known)))
    assert narrow.high_s / narrow.low_s < 0.9 * wide.high_s / wide.low_s


def test_a_record_that_is_far_off_hardly_moves_other_jobs(joint: JointPredictor) -> None:
    steps = [one.step for one in RECORDS[24:]]
    sound = joint.adapt(RECORDS[:12])
    wrong = [replace(RECORDS[0], step_time_s=20 * RECORDS[0].step_time_s), *RECORDS[1:12]]
    moved = np.abs(_log_times(joint.adapt(wrong), steps) - _log_times(sound, steps))
    # ln 20 = 3 in one of twelve records: their mean would move by 0.25.
    assert moved.max() < 0.1
    kept = joint.adapt(wrong).known_.records["Gpu-New"]
    assert kept.doubt[0] > 50 * max(kept.doubt[1:].max(), 1e-4)


def test_records_that_scatter_say_how_wide_the_others_are(joint: JointPredictor) -> None:
    steps = [one.step for one in RECORDS[24:]]
    rng = np.random.default_rng(1)
    odd = [replace(r, step_time_s=r.step_time_s * np.exp(rng.normal(0, 0.6))) for r in RECORDS[:24]]
    calm, wild = joint.adapt(RECORDS[:24]), joint.adapt(odd)
    assert calm.known_.records["Gpu-New"].scatter == 1 < wild.known_.records["Gpu-New"].scatter
    widths = [[np.log(p.high_s / p.low_s) for p in one.predict(steps)] for one in (calm, wild)]
    assert np.all(np.array(widths[1]) > 1.3 * np.array(widths[0]))


def test_networks_made_alike_are_off_alike_as_far_as_records_say_so(
    joint: JointPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Convolutions, which are the families of odd numbers, take 1.6 times as long; products do not.
    odd = [
        replace(one, step_time_s=1.6 * one.step_time_s) if int(one.family[-1]) % 2 else one
        for one in world.samples(("Gpu-New",))
    ]
    known = [one for one in odd if not one.model.endswith("-2")]
    asked = [one for one in odd if one.model.endswith("-2")]
    steps, logs = [one.step for one in asked], np.log([one.step_time_s for one in asked])
    adapted = joint.adapt(known)
    assert adapted.known_.records["Gpu-New"].spread > 0
    monkeypatch.setattr("perfmodel.predictors.joint.device_records.SPREADS", (0.0,))
    off = [np.abs(_log_times(one, steps) - logs).mean() for one in (adapted, joint.adapt(known))]
    assert off[0] < 0.7 * off[1]


def test_a_device_that_is_slow_on_everything_shares_nothing_more() -> None:
    # Networks of three passes are off by make themselves.
    joint = JointPredictor(folds=2, epochs=8, rounds=20).fit(world.samples(world.KNOWN[:2]))
    assert joint.adapt(RECORDS).known_.records["Gpu-New"].spread == 0
    # A single record cannot tell whether its device or its make is slow.
    assert joint.adapt(RECORDS[:1]).known_.records["Gpu-New"].spread == 0


def test_trees_are_heard_about_a_device_with_records(joint: JointPredictor) -> None:
    step = RECORDS[0].step
    asked = joint.ask([step])
    assert not np.allclose(asked.members.network, asked.members.mixed)
    adapted = joint.adapt(RECORDS[:8])
    assert adapted.answer(asked) == adapted.predict([step])
    assert joint.answer(asked) == joint.predict([step])


def test_records_of_one_job_are_no_independent_witnesses() -> None:
    # Sixteen cells of one job that share all their variance tell of the device what one tells.
    memory = JobMemory()
    memory.variances_, memory.noise_, memory.cells_ = np.eye(9)[0], 1e-6, {}
    one, many = (_equal_records(count) for count in (1, 16))
    prior = DeviceEffect.unknown(np.ones(1))
    means = [
        prior.given(r.features, r.residuals, r.noise(memory, 0.0)).mean[0] for r in (one, many)
    ]
    assert means == pytest.approx([0.5, 0.5], rel=1e-4)


def _equal_records(count: int) -> DeviceRecords:
    ones = np.ones(count)
    return DeviceRecords(
        jobs=("job",) * count, cells=np.zeros((count, 7), dtype=np.int64), features=ones[:, None],
        residuals=ones, scale=ones, weight=ones, doubt=0 * ones, shapes=0 * ones[:, None],
    )  # fmt: skip


def test_columns_of_different_lengths_are_refused() -> None:
    stored = _equal_records(3).to_dict()
    assert DeviceRecords.from_dict(stored).to_dict() == stored
    before_scatter = {name: one for name, one in stored.items() if name != "scatter"}
    assert DeviceRecords.from_dict(before_scatter).scatter == 1
    with pytest.raises(ValueError, match="do not fit together"):
        DeviceRecords.from_dict(stored | {"scale": [1.0]})
