"""The quick path of a retraining: what serves takes records in, and is judged as any version."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import joint_world
import numpy as np
import pytest
from observed_jobs import observe_jobs
from retraining_world import SAMPLES, RetrainingWorld, write_profiles
from small_models import small_model

from perfmodel.errors import TrainingError
from perfmodel.features.steps.step import Step
from perfmodel.predictors.predictor import Sample
from perfmodel.predictors.serving.serving import ServingModel
from perfmodel.predictors.serving.serving_parts import ADAPTED, JOINT, MEMBERS
from perfmodel.retraining.quick_version import quick_version, records_since
from perfmodel.retraining.run_folder import Phase
from perfmodel.store.artifacts import read_artifact
from perfmodel.store.retraining.retraining_records import RetrainingState
from perfmodel.training.adapt import MOST_RECORDS
from perfmodel.training.learned_steps import is_kept_back, read_fitted, read_learned, step_key

NEW, SLOWER = "Gpu-New", 1.8


def _of_new_device() -> list[Sample]:
    """Return steps of a device that no version knows, slower than its specification says."""
    found = []
    for one in SAMPLES:
        if one.workload.batch_size == 4:
            workload = replace(
                one.workload,
                accelerator=joint_world.device(NEW),
                threads=None,
                software={"torch": "2.0"},
            )
            time_s = float(SLOWER * joint_world.law_s(Step.of(workload)))
            found.append(
                replace(one, workload=workload, step_time_s=time_s, node_times_s={}, spread=0.0)
            )
    return found


RECORDS = _of_new_device()


def test_what_was_measured_since_is_taken_in_judged_and_serves(world: RetrainingWorld) -> None:
    version = small_model(world.models)
    write_profiles(world.profiles, RECORDS)
    ending = world.retrain(quick=True)
    assert ending.state is RetrainingState.DONE and ending.verdict is not None
    assert ending.verdict.serving == version.name
    assert world.registry.serving("default") == ending.version
    made = world.models / "default" / str(ending.version)
    manifest = read_artifact(made).manifest
    known = [one for one in RECORDS if not is_kept_back(one.model, one.workload.mode)]
    different = len({one.workload.content_hash for one in known})
    assert manifest[ADAPTED][NEW]["records"] == different > 20
    assert manifest["parent"] == f"default/{version.name}"
    # Nothing was fitted: every file of the members is what it was.
    files = (read_artifact(folder).manifest["files"] for folder in (version, made))
    before, after = ({p: e for p, e in one.items() if MEMBERS in p} for one in files)
    assert before == after and before
    # It notes what it has seen, so that nobody judges it on that.
    keys = {step_key(one.model, one.workload) for one in known}
    learned = (read_learned(made) or frozenset()) - (read_learned(version) or frozenset())
    assert learned <= keys and len(learned) == different
    assert read_fitted(made) == read_learned(version)
    kept_back = [one for one in RECORDS if one not in known]
    off = [_off(folder, kept_back) for folder in (version, made)]
    assert off[1] < 0.5 * off[0]
    groups = {(one["judging_set"], one["dimension"]) for one in ending.verdict.groups}
    assert ("frozen", "device") in groups


def _off(version: Path, samples: list[Sample]) -> float:
    answers = ServingModel.load(version).predict([one.workload for one in samples])
    measured = [one.step_time_s for one in samples]
    return float(np.abs(np.log([one.time_s for one in answers]) - np.log(measured)).mean())


def test_an_attempt_that_was_lost_goes_on(world: RetrainingWorld) -> None:
    small_model(world.models)
    write_profiles(world.profiles, RECORDS)
    claim = world.claim(quick=True)

    def lost(phase: Phase, text: str) -> None:
        if (phase, text) == (Phase.JUDGE, "begins"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt = world.attempt(claim)
        attempt._say = lost
        attempt.run()
    ending = world.attempt(claim).run()
    assert ending.state is RetrainingState.DONE
    assert not any("fit: begins" in said for said in world.said)


def test_observations_are_taken_in_where_no_record_is_kept(world: RetrainingWorld) -> None:
    small_model(world.models)
    observe_jobs(world.database, cells=20)
    ending = world.retrain(place=world.sources(), quick=True)
    # Hardly a step is kept back of them, so that the gate may refuse it; it was made all the same.
    assert ending.version is not None
    made = read_artifact(world.models / "default" / ending.version)
    assert sum(one["records"] for one in made.manifest[ADAPTED].values()) > 0


def test_without_a_version_that_serves_there_is_nothing_to_start_from(
    world: RetrainingWorld,
) -> None:
    write_profiles(world.profiles, RECORDS)
    with pytest.raises(TrainingError, match="No version of default serves"):
        world.retrain(quick=True)


def test_where_nothing_was_measured_since_it_says_so(tmp_path: Path) -> None:
    version = small_model(tmp_path)
    said: list[str] = []
    with pytest.raises(TrainingError, match="nothing new"):
        quick_version(version, joint_world.samples()[:20], tmp_path, said.append)
    assert said == []


def test_records_that_cannot_be_taken_in_are_counted(tmp_path: Path) -> None:
    version = small_model(tmp_path)
    own = next(iter(read_artifact(version).manifest["devices"]))
    probe = joint_world.samples((NEW,))[0]
    of_own = replace(
        probe,
        step=replace(probe.step, accelerator=replace(probe.step.accelerator, name=own)),
    )
    tpu = replace(probe.step.accelerator, name="Tpu", kind="tpu")
    of_tpu = replace(probe, step=replace(probe.step, accelerator=tpu))
    many = [
        replace(probe, model=f"made-up/{number}", step=probe.step)
        for number in range(MOST_RECORDS + 7)
    ]
    taken, left_out = records_since(version, [of_own, of_tpu, *many])
    assert len(taken) == MOST_RECORDS
    assert sorted(left_out.values()) == [1, 1, 7]
    assert JOINT in read_artifact(version).manifest
