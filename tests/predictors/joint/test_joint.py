"""The joint predictor on a small world whose law is known."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import joint_world as world
import numpy as np
import pytest
import synthetic_workloads as made_up

from perfmodel.errors import TrainingError
from perfmodel.features.steps.sketch import step_sketch
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.features.steps.step_table import step_bounds_s, step_table
from perfmodel.features.steps.whole_step import UNTOLD_COLUMNS, WHOLE_COLUMNS, whole_rows
from perfmodel.predictors.joint.job_memory import cell_of, job_key
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.predictors.joint.joint_members import ALL
from perfmodel.predictors.joint.known_devices import KnownDevices
from perfmodel.predictors.prediction import Prediction
from perfmodel.predictors.step_models.error_scale import ErrorScale
from perfmodel.types import Basis, Compiler, Framework, Role

SAMPLES = world.samples()
#: A device that is 1.6 times as slow as its specification says, without noise.
BIASED = world.samples(("Gpu-New",), slower=1.6, noise=0.0)


def _new(name: str, **how: int) -> Step:
    return Step.of(world.new_workload(name, **how))


def _error(predictor: JointPredictor, samples: Sequence[StepSample]) -> np.ndarray:
    answers = predictor.predict([sample.step for sample in samples])
    pairs = zip(answers, samples, strict=True)
    return np.array([abs(np.log(a.time_s / s.step_time_s)) for a, s in pairs])


def _width(prediction: Prediction) -> float:
    return float(np.log(prediction.high_s / prediction.low_s))


def test_answers_of_new_networks_are_near_the_law(joint: JointPredictor) -> None:
    steps = [_new(name, width=w) for name in world.KNOWN for w in (330, 450, 700)]
    for step, answer in zip(steps, joint.predict(steps), strict=True):
        assert answer.time_s == pytest.approx(world.law_s(step), rel=0.15)
        assert answer.basis is Basis.INTERPOLATED and not answer.out_of_distribution
        assert answer.coverage == 0.9 and len(answer.nearest) == 1


def test_what_was_learned_from_is_answered_as_if_its_family_were_unseen(
    joint: JointPredictor,
) -> None:
    adapted = joint.adapt(BIASED[:4]).as_if_unseen()
    answers = np.log([one.time_s for one in adapted.predict([s.step for s in SAMPLES])])
    logs = np.log([sample.step_time_s for sample in SAMPLES])
    # Residuals are of members that had not seen the family; no answer beats the peaks.
    bounds = np.log(step_bounds_s(step_table([s.step for s in SAMPLES])))
    assert answers == pytest.approx(np.maximum(logs - joint.residuals_, bounds), abs=1e-6)
    plain = np.log([one.time_s for one in joint.predict([s.step for s in SAMPLES])])
    assert np.abs(plain - logs).mean() < 0.8 * np.abs(answers - logs).mean()
    # A record of a device since then is unknown to it as well.
    (probed,), (unprobed,) = (one.predict([BIASED[9].step]) for one in (adapted, joint))
    assert probed.warnings == unprobed.warnings


def test_families_left_out_are_answered_well(joint: JointPredictor) -> None:
    assert len(joint.residuals_) == len(joint.regimes_) == len(SAMPLES)
    assert np.mean(np.abs(joint.residuals_)) < 0.1
    assert len(joint.members_) == joint.settings.folds + 1
    assert set(joint.regimes_) == {
        (kind, mode, "eager", "pytorch")
        for kind in ("cpu", "gpu")
        for mode in ("training", "inference")
    }


def test_no_member_saw_the_families_it_is_judged_by(joint: JointPredictor) -> None:
    # The fold of a job is that of its family; each family lies in one fold, none in ALL.
    folds: dict[str, set[int]] = {}
    for sample in SAMPLES:
        folds.setdefault(sample.family, set()).add(joint.fold_of_job_[job_key(sample.step)])
    assert all(len(found) == 1 for found in folds.values())
    assert set().union(*folds.values()) == set(range(joint.settings.folds))
    assert ALL not in set().union(*folds.values())


def test_a_time_changes_no_answer_of_the_member_it_is_kept_from() -> None:
    settings = {"folds": 3, "epochs": 1, "rounds": 5}
    slow = [
        replace(s, step_time_s=10 * s.step_time_s) if s.family == "family2" else s for s in SAMPLES
    ]
    one, other = (JointPredictor(**settings).fit(corpus) for corpus in (SAMPLES, slow))
    steps = [s.step for s in SAMPLES if s.family == "family2"]
    table = step_table(steps)
    rows, reference = whole_rows(table)
    own = one.fold_of_job_[job_key(steps[0])]
    for place, (ours, theirs) in enumerate(zip(one.members_, other.members_, strict=True)):
        kept_from = place == own
        logs = [m.net.log_times(table)[0] for m in (ours, theirs)]
        assert np.array_equal(*logs) == kept_from
        logs = [m.boost.log_times(rows, reference) for m in (ours, theirs)]
        assert np.array_equal(*logs) == kept_from


def test_trees_say_nothing_about_a_device_they_have_not_seen(joint: JointPredictor) -> None:
    other = JointPredictor(folds=3, epochs=1, rounds=2).fit(SAMPLES)
    swapped = copy.copy(joint)
    pairs = zip(joint.members_, other.members_, strict=True)
    swapped.members_ = [replace(ours, boost=theirs.boost) for ours, theirs in pairs]
    steps = [_new("Gpu-New"), _new("Gpu-S")]
    (new, known), (new_too, known_too) = joint.predict(steps), swapped.predict(steps)
    assert new_too.time_s == new.time_s
    assert known_too.time_s != known.time_s


def test_intervals_hold_the_answer_and_are_ordered(joint: JointPredictor) -> None:
    steps = [sample.step for sample in SAMPLES] + [_new("Gpu-New"), _new("Cpu", width=5)]
    for answer in joint.predict(steps):
        assert 0 < answer.low_s < answer.time_s < answer.high_s < np.inf


def test_intervals_cover_new_networks_of_the_same_world(joint: JointPredictor) -> None:
    rng = np.random.default_rng(5)
    steps = [_new(n, width=int(w)) for n in world.KNOWN for w in rng.integers(300, 1000, size=15)]
    inside = [
        a.low_s <= world.law_s(s) * np.exp(0.02 * rng.standard_normal()) <= a.high_s
        for s, a in zip(steps, joint.predict(steps), strict=True)
    ]
    # Promised 0.9; of 45 exchangeable ones fewer than 0.75 would be a chance of one in 500.
    assert np.mean(inside) >= 0.75


def test_what_was_measured_is_calibrated(joint: JointPredictor) -> None:
    answers = joint.predict([sample.step for sample in SAMPLES[:20]])
    assert {answer.basis for answer in answers} == {Basis.CALIBRATED}
    assert np.median(_error(joint, SAMPLES)) < 0.03


def test_cells_of_a_job_narrow_its_interval() -> None:
    # Every job has a factor of its own, the same in all its cells: exp of a normal number, 0.3.
    rng = np.random.default_rng(3)
    factors = {
        model: np.exp(0.3 * rng.standard_normal()) for model in sorted({s.model for s in SAMPLES})
    }
    corpus = [replace(s, step_time_s=factors[s.model] * s.step_time_s) for s in SAMPLES]
    predictor = JointPredictor(folds=3, epochs=10, rounds=40).fit(corpus)
    known = [_width(answer) for answer in predictor.predict([s.step for s in corpus])]
    new = [_width(answer) for answer in predictor.predict([_new(name) for name in world.KNOWN])]
    assert np.median(known) < 0.6 * np.median(new)


def test_a_job_that_errs_alike_everywhere_is_recalled() -> None:
    # One model takes three times as long as the law wherever it was measured, Gpu-L aside.
    odd = "made-up/f2-1"
    corpus = [
        replace(s, step_time_s=3.0 * s.step_time_s) if s.model == odd else s
        for s in world.samples((*world.KNOWN, "Gpu-New", "Gpu-M", "Gpu-T"))
        if not (s.model == odd and s.step.accelerator.name == "Gpu-L")
    ]
    predictor = JointPredictor(folds=3, epochs=8, rounds=30).fit(corpus)
    asked = [s for s in SAMPLES if s.model == odd and s.step.accelerator.name == "Gpu-L"]
    answers = predictor.predict([s.step for s in asked])
    factors = [a.time_s / s.step_time_s for a, s in zip(answers, asked, strict=True)]
    # Sixteen cells on four GPUs say so of one job among eighteen; without them the factor is 1.
    assert np.median(factors) > 1.8
    assert all(answer.basis is Basis.TRANSFERRED for answer in answers)


def test_an_unseen_device_is_named_wider_and_extrapolated(joint: JointPredictor) -> None:
    seen, unseen = joint.predict([_new("Gpu-L"), _new("Gpu-New")])
    assert _width(unseen) > _width(seen)
    assert unseen.basis is Basis.EXTRAPOLATED and seen.basis is Basis.INTERPOLATED
    assert any("Gpu-New" in warning for warning in unseen.warnings)
    assert not any("Gpu-L" in warning for warning in seen.warnings)
    assert unseen.time_s == pytest.approx(world.law_s(_new("Gpu-New")), rel=0.3)


def test_a_strange_network_lies_outside(joint: JointPredictor) -> None:
    deep = made_up.convnet(4, 64, 40, 7, training=False, size=56)
    far, near = joint.predict([world.step(step_sketch(deep), "Gpu-S"), _new("Gpu-S")])
    assert far.out_of_distribution and far.basis is Basis.EXTRAPOLATED
    assert not near.out_of_distribution


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_trees_make_answers_wider_and_narrower_but_what_lies_outside_wider_alone(
    joint: JointPredictor, factor: float
) -> None:
    class Constant(ErrorScale):
        def __init__(self, factor: float) -> None:
            self.factor = factor

        def factors(self, rows: np.ndarray) -> np.ndarray:
            return np.full(len(rows), self.factor)

    def widths(factor: float) -> list[float]:
        other = copy.copy(joint)
        other.errors_ = Constant(factor)
        deep = made_up.convnet(4, 64, 40, 7, training=False, size=56)
        asked = [world.step(step_sketch(deep), "Gpu-S"), _new("Gpu-S"), SAMPLES[0].step]
        return [_width(one) for one in other.predict(asked)]

    (far, *near), (usual, *others) = widths(factor), widths(1.0)
    assert far == usual if factor < 1 else far > usual
    assert all((one > other) == (factor > 1) for one, other in zip(near, others, strict=True))


def test_settings_that_few_samples_have_are_said_to_be_pooled(joint: JointPredictor) -> None:
    (answer,) = joint.predict([replace(_new("Gpu-S"), compiler=Compiler.INDUCTOR)])
    assert any("calibrate" in warning for warning in answer.warnings)
    assert np.isfinite([answer.low_s, answer.high_s]).all()


def test_together_equals_one_by_one(joint: JointPredictor) -> None:
    steps = [SAMPLES[0].step, _new("Gpu-New"), _new("Cpu"), SAMPLES[100].step]
    alone = [joint.predict([step])[0] for step in steps]
    for one, other in zip(alone, joint.predict(steps), strict=True):
        assert (one.time_s, one.low_s, one.high_s) == pytest.approx(
            (other.time_s, other.low_s, other.high_s), rel=1e-4
        )
        assert (one.basis, one.nearest, one.warnings) == (
            other.basis,
            other.nearest,
            other.warnings,
        )
    assert joint.predict([]) == []


def test_a_graph_without_work_has_a_finite_answer(joint: JointPredictor) -> None:
    make = made_up.GraphBuilder()
    make.node("t", (make.tensor((4, 4), Role.INPUT),), [(4, 4)])
    (answer,) = joint.predict([world.step(step_sketch(make.build()), "Gpu-S")])
    assert 0 < answer.low_s <= answer.time_s <= answer.high_s < np.inf


def test_no_answer_beats_the_arithmetic_of_the_device(joint: JointPredictor) -> None:
    # A record that claims a thousandth of the time moves answers down to the peak, not below.
    fast = [replace(sample, step_time_s=1e-3 * sample.step_time_s) for sample in BIASED[:30]]
    steps = [sample.step for sample in BIASED]
    bounds = step_bounds_s(step_table(steps))
    answers = joint.adapt(fast).predict(steps)
    times, lowest = (np.array([getattr(a, end) for a in answers]) for end in ("time_s", "low_s"))
    assert np.all(lowest >= bounds * (1 - 1e-9))
    assert np.all(times >= lowest)
    assert np.any(times <= bounds * (1 + 1e-9)), "the bound is what holds them"


def test_a_device_with_few_samples_is_less_sure() -> None:
    # Of Gpu-L two samples are left: its new jobs get a part of the spread of devices.
    few = [s for s in SAMPLES if s.step.accelerator.name != "Gpu-L"]
    few += [s for s in SAMPLES if s.step.accelerator.name == "Gpu-L"][:2]
    predictor = JointPredictor(folds=2, epochs=2, rounds=5).fit(few)
    small, large, none = (
        _width(predictor.predict([_new(name)])[0]) for name in ("Gpu-S", "Gpu-L", "Gpu-New")
    )
    assert small < large <= none


@pytest.mark.parametrize("probes", [1, 3, 10])
def test_probes_of_a_biased_device_reduce_its_error(joint: JointPredictor, probes: int) -> None:
    chosen = np.random.default_rng(probes).permutation(len(BIASED))
    asked = [BIASED[i] for i in chosen[probes:]]
    adapted = joint.adapt([BIASED[i] for i in chosen[:probes]])
    before, after = _error(joint, asked), _error(adapted, asked)
    assert before.mean() > 0.3, "log 1.6 = 0.47"
    assert after.mean() < 0.5 * before.mean()


def test_probes_narrow_intervals_and_silence_the_warning(joint: JointPredictor) -> None:
    step = _new("Gpu-New")
    widths = [_width(joint.adapt(BIASED[:k]).predict([step])[0]) for k in (0, 1, 4, 16)]
    # Four that scatter a little more than usual may say so.
    assert all(later < 1.02 * former for former, later in pairwise(widths))
    assert widths[1] < 0.7 * widths[0] and widths[-1] < 0.7 * widths[0]
    (answer,) = joint.adapt(BIASED[:4]).predict([step])
    assert answer.basis is Basis.INTERPOLATED
    assert not any("No step" in warning for warning in answer.warnings)


def test_adapting_leaves_the_original_as_it_was(joint: JointPredictor) -> None:
    steps = [_new("Gpu-New"), _new("Gpu-S"), SAMPLES[0].step]
    before, effects = joint.predict(steps), copy.deepcopy(joint.known_.beliefs.effects)
    adapted = joint.adapt(BIASED[:5])
    assert joint.predict(steps) == before and joint.known_.beliefs.effects == effects == {}
    # Other devices are answered as before by the adapted one too.
    for own, other in zip(adapted.predict(steps[1:]), before[1:], strict=True):
        assert (own.time_s, own.high_s) == pytest.approx((other.time_s, other.high_s), rel=1e-6)
    assert adapted.predict(steps[:1])[0].time_s > 1.2 * before[0].time_s


def test_one_probe_after_the_other_equals_all_at_once(joint: JointPredictor) -> None:
    step = _new("Gpu-New")
    (whole,) = joint.adapt(BIASED[:6]).predict([step])
    (parts,) = joint.adapt(BIASED[:2]).adapt(BIASED[2:6]).predict([step])
    (turned,) = joint.adapt(BIASED[:6][::-1]).predict([step])
    for other in (parts, turned):
        assert (other.time_s, other.low_s) == pytest.approx((whole.time_s, whole.low_s), rel=1e-4)


def test_a_known_device_is_moved_less_by_a_probe(joint: JointPredictor) -> None:
    slow = world.samples(("Gpu-L",), slower=1.6, noise=0.0)
    step_known, step_new = _new("Gpu-L"), _new("Gpu-New")
    (known,), (new,) = joint.predict([step_known]), joint.predict([step_new])
    moved = [joint.adapt([one]).predict([step_known])[0].time_s for one in slow[:6]]
    moved_new = [joint.adapt([one]).predict([step_new])[0].time_s for one in BIASED[:6]]
    assert 1.0 < np.mean(moved) / known.time_s < np.mean(moved_new) / new.time_s < 1.7


def test_features_of_a_device_are_shares(joint: JointPredictor) -> None:
    shares = joint.device_features([sample.step for sample in SAMPLES[:10]])
    assert shares.shape == (10, len(joint.device_covariance("Gpu-New"))) and np.all(shares >= 0)
    assert shares.sum(axis=1) == pytest.approx(np.ones(10))
    assert joint.noise_ > 0


def test_the_same_seed_answers_the_same() -> None:
    few = [s for s in SAMPLES if s.family in ("family0", "family1", "family2")]
    settings = {"folds": 2, "epochs": 1, "rounds": 5}
    one, other = (JointPredictor(seed=3, **settings).fit(few) for _ in range(2))
    steps = [_new("Gpu-S"), _new("Gpu-New"), few[0].step]
    assert one.predict(steps) == other.predict(steps)


def test_two_families_are_enough_and_one_is_refused() -> None:
    two = [s for s in SAMPLES if s.family in ("family0", "family1")]
    predictor = JointPredictor(epochs=1, rounds=5).fit(two)
    assert predictor.settings.folds > 2, "some parts hold no family"
    assert np.isfinite(predictor.residuals_).all()
    assert np.isfinite(predictor.predict([_new("Gpu-S")])[0].high_s)
    for corpus in ([s for s in SAMPLES if s.family == "family0"], []):
        with pytest.raises(TrainingError, match="two families"):
            JointPredictor(epochs=1, rounds=5).fit(corpus)


def test_reports_every_member() -> None:
    lines: list[str] = []
    JointPredictor(folds=2, epochs=1, rounds=2, report=lines.append).fit(SAMPLES)
    assert len(lines) == 3


def test_members_fitted_side_by_side_are_those_fitted_in_turn() -> None:
    # In a process of its own: forking is safe only before numeric libraries start threads. What
    # fitting would load in each fork is loaded once before.
    program = (
        f"import sys; sys.path.insert(0, {str(Path(world.__file__).parent)!r})\n"
        "import torch._dynamo, xgboost\n"
        "import joint_world as world\n"
        "from perfmodel.engines.local_engine import LocalEngine\n"
        "from perfmodel.features.steps.step import Step\n"
        "from perfmodel.predictors.joint.joint import JointPredictor\n"
        "samples = world.samples(('Gpu-S', 'Gpu-L'))[:60:2]\n"
        "step = Step.of(world.new_workload('Gpu-S'))\n"
        "for workers in (2, 1):\n"
        "    engine = LocalEngine(workers=workers)\n"
        "    model = JointPredictor(folds=2, epochs=1, rounds=5, engine=engine).fit(samples)\n"
        "    print(model.predict([step])[0].time_s)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    side_by_side, in_turn = map(float, run.stdout.split())
    assert side_by_side == pytest.approx(in_turn, rel=1e-6)


def test_a_maker_that_was_never_measured_is_answered_less_surely(joint: JointPredictor) -> None:
    own = _new("Gpu-New")
    other = replace(own, accelerator=replace(own.accelerator, vendor="Another"))
    ours, theirs = joint.predict([own, other])
    # Nothing else differs, and the maker is no input of the networks.
    assert theirs.time_s == pytest.approx(ours.time_s)
    assert _width(theirs) > 1.2 * _width(ours)
    assert any("maker" in warning for warning in theirs.warnings)
    assert not any("maker" in warning for warning in ours.warnings)


def test_a_known_job_on_a_new_device_is_extrapolated(joint: JointPredictor) -> None:
    known = SAMPLES[0].step
    (answer,) = joint.predict([replace(known, accelerator=world.device("Gpu-New"))])
    assert answer.basis is Basis.EXTRAPOLATED


def test_operators_alone_are_no_jobs_and_no_known_devices() -> None:
    operators = [
        replace(
            sample,
            step=replace(sample.step, alone=True),
            family="operator/made-up",
            source="operators",
        )
        for sample in BIASED[::6]
    ]
    settings = {"folds": 2, "epochs": 2, "rounds": 10}
    plain = JointPredictor(**settings).fit(SAMPLES)
    found = JointPredictor(**settings).fit(SAMPLES, operators=operators)
    assert found.known_.trained == plain.known_.trained and "Gpu-New" not in found.known_.trained
    assert found.fold_of_job_ == plain.fold_of_job_
    assert len(found.residuals_) == len(SAMPLES)
    # The networks heard them.
    steps = [sample.step for sample in BIASED[:5]]
    pairs = zip(found.predict(steps), plain.predict(steps), strict=True)
    assert all(one.time_s != other.time_s for one, other in pairs)


def test_what_was_asked_once_is_answered_after_any_records(joint: JointPredictor) -> None:
    steps = [sample.step for sample in BIASED[:12]]
    asked = joint.ask(steps)
    assert joint.answer(asked) == joint.predict(steps)
    adapted = joint.adapt(BIASED[12:17])
    assert adapted.answer(asked) == adapted.predict(steps) != joint.predict(steps)


def test_a_framework_without_records_is_said_and_answered_wider(joint: JointPredictor) -> None:
    step = Step.of(world.new_workload("Gpu-L"))
    plain, foreign = joint.predict([step, replace(step, software={"framework": "jax"})])
    assert joint.known_.frameworks == (Framework.PYTORCH,)
    assert any("No step under jax" in warning for warning in foreign.warnings)
    assert not any("No step under" in warning for warning in plain.warnings)
    assert foreign.high_s / foreign.low_s > 1.2 * plain.high_s / plain.low_s


def test_what_a_cpu_says_of_a_job_is_not_recalled_on_gpus() -> None:
    odd = "made-up/f2-1"
    asked = next(s.step for s in BIASED if s.model == odd)
    predictor = JointPredictor(folds=2, epochs=2, rounds=5).fit(SAMPLES)
    memory = predictor.known_.memory_of(asked.accelerator.name)
    # Two batch sizes in two modes on two GPUs; those on the CPU do not count.
    recalled = memory.recall(job_key(asked), np.array(cell_of(asked)))
    assert recalled.cells == 8 == sum(job_key(s.step) == job_key(asked) for s in SAMPLES)
    assert sum(s.model == odd for s in SAMPLES) == 12
    # A job that was measured on CPUs alone is new on GPUs.
    only = [s for s in SAMPLES if s.model != odd or s.step.accelerator.kind == "cpu"]
    new = JointPredictor(folds=2, epochs=1, rounds=5).fit(only)
    on_gpu, on_cpu = new.predict(
        [replace(asked, accelerator=world.device(n)) for n in ("Gpu-L", "Cpu")]
    )
    assert on_gpu.basis is Basis.INTERPOLATED and on_cpu.basis is Basis.CALIBRATED


def test_trees_that_are_told_nothing_of_a_device_are_heard_where_a_job_ran_on_several(
    joint: JointPredictor,
) -> None:
    class Deaf(KnownDevices):
        def hears_untold(self, device: str, devices: int) -> float:
            return 0.0

    plain = copy.copy(joint)
    plain.known_ = Deaf(**{one.name: getattr(joint.known_, one.name) for one in fields(Deaf)})
    known, new = [s.step for s in SAMPLES[:12]], _new("Gpu-New")
    elsewhere = next(s.step for s in BIASED if s.model == SAMPLES[0].model)
    asked = [*known, new, elsewhere]
    pairs = list(zip(joint.predict(asked), plain.predict(asked), strict=True))
    # Devices that were learned from have trees of their own, and a new job ran nowhere.
    assert all(one == other for one, other in pairs[:-1])
    one, other = pairs[-1]
    alone = float(np.exp(joint.untold_.log_times(*whole_rows(step_table([elsewhere])))[0]))
    # On two GPUs: (2 - 1) / (2 - 1 + 2) of a half, on the logarithm.
    assert one.time_s == pytest.approx(other.time_s ** (5 / 6) * alone ** (1 / 6), rel=1e-9)
    # What is not known of the device is narrower by as much, and all else as wide.
    assert 5 / 6 * _width(other) < _width(one) < _width(other)
    # They do not see what device it is, but for what a step should take there.
    table = step_table([elsewhere])
    rows, reference = whole_rows(table)
    told = rows.copy()
    told[:, [i for i, name in enumerate(WHOLE_COLUMNS) if name not in UNTOLD_COLUMNS]] += 1.0
    assert np.array_equal(
        joint.untold_.log_times(rows, reference), joint.untold_.log_times(told, reference)
    )
    # Once the device has records, trees that know it are heard instead.
    adapted, before = (one.adapt(BIASED[:3]) for one in (joint, plain))
    assert adapted.predict([elsewhere]) == before.predict([elsewhere])
