"""A retraining from its snapshot to its version, and what may befall it on the way."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from migrated import migrated_sqlite
from observed_jobs import observe_jobs
from retraining_world import FEW, SAMPLES, RetrainingWorld, times, write_profiles

from perfmodel.errors import InvalidInputError, OvertakenError, StoreError, TrainingError
from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.registry.states import State
from perfmodel.retraining import attempt as attempts
from perfmodel.retraining.judging.judging_sets import NAME
from perfmodel.retraining.run_folder import Phase, RunFolder
from perfmodel.store import durable
from perfmodel.store.artifacts import read_artifact
from perfmodel.store.retraining import ObservedDataStore
from perfmodel.store.retraining.retraining_records import RetrainingState
from perfmodel.store.state.observation_records import ObservationFilter
from perfmodel.training.learned_steps import is_kept_back, read_learned, step_key
from perfmodel.training.tuning.families import is_searched_on

EFFICIENCY = {"members": ["efficiency"]}


def _serving(world: RetrainingWorld) -> str | None:
    return world.registry.serving("default")


def test_a_first_version_is_judged_against_the_analytical_model_and_serves(
    world: RetrainingWorld,
) -> None:
    ending = world.retrain(**EFFICIENCY)
    assert ending.state is RetrainingState.DONE and ending.verdict is not None
    assert ending.verdict.serving is None and "Compared with roofline" in ending.verdict.report
    assert _serving(world) == ending.version
    # Jobs of whom a mode is kept back are judged on, and not learned from.
    version = world.models / "default" / str(ending.version)
    kept_back = [one for one in FEW if is_kept_back(one.model, one.workload.mode)]
    assert len(kept_back) == 2
    learned = read_learned(version)
    assert learned is not None and len(learned) == len(FEW) - 2
    assert not learned & {step_key(one.model, one.workload) for one in kept_back}
    assert [group["steps"] for group in ending.verdict.groups if group["dimension"] == "all"] == [2]


def test_the_next_version_is_judged_against_the_one_that_serves(world: RetrainingWorld) -> None:
    first = world.retrain(**EFFICIENCY)
    second = world.retrain(seed=1, **EFFICIENCY)
    assert second.verdict is not None and second.verdict.serving == first.version
    assert {group["judging_set"] for group in second.verdict.groups} == {
        "frozen", "left-out families",
    }  # fmt: skip
    states = world.registry.history("default").states
    assert (states[str(first.version)], states[str(second.version)]) == (
        State.RETIRED, State.SERVING,
    )  # fmt: skip


def test_the_same_snapshot_gives_the_same_bytes(
    world: RetrainingWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")
    first = world.retrain(**EFFICIENCY)
    other = RetrainingWorld(url=migrated_sqlite_in(tmp_path / "other"), folder=tmp_path / "other")
    shutil.copytree(world.profiles, other.profiles)
    second = other.retrain(**EFFICIENCY)
    assert first.version == second.version
    folders = [one.models / "default" / str(first.version) for one in (world, other)]
    contents = [
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*")}
        for folder in folders
    ]
    assert contents[0] == contents[1] and len(contents[0]) > 5
    other.close()


def migrated_sqlite_in(folder: Path) -> str:
    folder.mkdir()
    return migrated_sqlite(folder)


def test_what_is_judged_good_may_stay_a_candidate_or_be_a_shadow(world: RetrainingWorld) -> None:
    candidate = world.retrain(**EFFICIENCY, promote=False)
    shadow = world.retrain(**EFFICIENCY, shadow=True, seed=1)
    assert (candidate.state, shadow.state) == (RetrainingState.DONE, RetrainingState.DONE)
    history = world.registry.history("default")
    assert history.states[str(candidate.version)] is State.CANDIDATE
    assert history.states[str(shadow.version)] is State.SHADOW
    assert _serving(world) is None
    (judged,) = [one for one in history.changes if one.state is State.SHADOW]
    assert judged.action == "judge" and "nothing against it" in judged.why


@pytest.mark.parametrize("kept_back", [0, 1])
def test_with_nothing_to_judge_on_nothing_serves(world: RetrainingWorld, kept_back: int) -> None:
    shutil.rmtree(world.profiles)
    known = [one for one in FEW if not is_kept_back(one.model, one.workload.mode)]
    others = [one for one in FEW if one not in known]
    # A single step shows no difference that is beyond chance.
    write_profiles(world.profiles, [*known, *others[:kept_back]])
    ending = world.retrain(**EFFICIENCY)
    assert ending.state is RetrainingState.REFUSED
    assert ending.reason is not None and "nothing to judge it on" in ending.reason
    assert _serving(world) is None


# -- sources --------------------------------------------------------------------------------------


def test_a_source_is_left_out_by_its_name_and_a_wrong_name_is_refused(
    world: RetrainingWorld,
) -> None:
    poisoned = world.folder / "poisoned"
    write_profiles(poisoned, times(SAMPLES[40:60], 5.0), measured_at="2026-02-01T00:00:00Z")
    place = world.sources(world.profiles, poisoned)
    with pytest.raises(InvalidInputError, match="no source 'poisonned'.*Did you mean 'poisoned'"):
        world.retrain(place=place, without=["poisonned"], **EFFICIENCY)
    world.cancel()
    ending = world.retrain(place=place, without=["poisoned"], **EFFICIENCY)
    assert any("left out: poisoned/made-up-cpu" in line for line in world.said)
    manifest = world.registry.versions.manifest("default", str(ending.version))
    assert manifest["snapshot"]["workloads"]["samples"] == len(FEW) - 2


@pytest.mark.parametrize("damage", ["torn", "empty"])
def test_a_damaged_table_is_named_and_left_out_by_statement_alone(
    world: RetrainingWorld, damage: str
) -> None:
    (whole,) = world.profiles.glob("*/steps-*.parquet")
    bad = whole.with_name("steps-0000.parquet")
    if damage == "torn":
        bad.write_bytes(whole.read_bytes()[:-40])
    else:
        bad.touch()
    with pytest.raises(TrainingError, match=f"{bad} cannot be learned from.*without_damaged"):
        world.retrain(**EFFICIENCY)
    world.cancel()
    ending = world.retrain(without_damaged=True, **EFFICIENCY)
    assert ending.state is RetrainingState.DONE
    assert any(f"left out: {bad}" in line for line in world.said)


def test_a_table_without_rows_is_named(world: RetrainingWorld) -> None:
    import pyarrow.parquet as pq

    (whole,) = world.profiles.glob("*/steps-*.parquet")
    for kind in ("steps", "operators", "graphs"):
        table = pq.read_table(whole.with_name(whole.name.replace("steps", kind)))
        pq.write_table(table.slice(0, 0), whole.with_name(f"{kind}-0000.parquet"))
    with pytest.raises(TrainingError, match="steps-0000.parquet .*holds no measurement"):
        world.retrain(**EFFICIENCY)


def test_folders_of_records_that_grow_meanwhile_change_nothing(
    world: RetrainingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = attempts.fit_parts

    def grow(*args: Any, **kwargs: Any) -> None:
        write_profiles(world.profiles, SAMPLES[40:60])
        shutil.rmtree(world.profiles / "made-up-cpu")
        fit(*args, **kwargs)

    monkeypatch.setattr(attempts, "fit_parts", grow)
    ending = world.retrain(**EFFICIENCY)
    manifest = world.registry.versions.manifest("default", str(ending.version))
    assert manifest["snapshot"]["workloads"]["samples"] == len(FEW) - 2


# -- observations ---------------------------------------------------------------------------------


def test_observations_are_learned_from_but_for_the_newest_cells(world: RetrainingWorld) -> None:
    observe_jobs(world.database, cells=20)
    ending = world.retrain(joint={"epochs": 1, "rounds": 5, "folds": 2}, **EFFICIENCY)
    manifest = world.registry.versions.manifest("default", str(ending.version))
    learned = manifest["snapshot"]["observations"]["samples"]
    # Four of twenty are the newest; others may be kept back by their names.
    assert 8 <= learned <= 16
    assert manifest["joint"]["devices"]["T4"] == learned


def test_joint_predictors_are_judged_by_members_that_had_not_seen_the_family(
    world: RetrainingWorld,
) -> None:
    observe_jobs(world.database, cells=20)
    small = {"epochs": 1, "rounds": 5, "folds": 2}
    world.retrain(joint=small, **EFFICIENCY)
    claim = world.claim(joint=small | {"epochs": 2}, seed=1, **EFFICIENCY)
    world.attempt(claim).run()
    evidence = json.loads(
        (RunFolder(world.place.folder / claim.name).path(Phase.JUDGE) / "evidence.json").read_text()
    )
    (judged,) = (one for one in evidence["sets"] if one["name"] == NAME)
    assert set(judged["labels"]["device"]) == {"T4"} and len(judged["keys"]) >= 8
    assert not set(judged["keys"]) & set(evidence["candidate"]["learned_keys"])
    answers = [evidence[who]["answers"][NAME]["time_s"] for who in ("serving", "candidate")]
    assert answers[0] != answers[1] and min(min(answers)) > 0


def test_a_version_does_not_rest_on_observations_that_were_taken_back(
    world: RetrainingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = observe_jobs(world.database, cells=20, placement="2xT4")
    gather, removed = attempts.gather, []

    def remove(*args: Any, **kwargs: Any) -> Any:
        if not removed:
            removed.append(store.remove(ObservationFilter(key="step 3")))
        return gather(*args, **kwargs)

    monkeypatch.setattr(attempts, "gather", remove)
    ending = world.retrain(**EFFICIENCY)
    assert removed == [1]
    assert any("begins again with snapshot: 1 observations" in line for line in world.said)
    assert ending.version is not None
    # The second snapshot knows 19; of one version nothing was published before.
    assert any("observations/somebody: 19 measurements" in line for line in world.said)
    assert len(world.registry.versions.versions("default")) == 1


def test_observations_that_are_taken_back_again_and_again_end_it(
    world: RetrainingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe_jobs(world.database, cells=10, placement="2xT4")
    monkeypatch.setattr(ObservedDataStore, "taken_back", lambda self, numbers: {1})
    ending = world.retrain(**EFFICIENCY)
    assert ending.state is RetrainingState.REFUSED and ending.version is None
    assert ending.reason is not None and "3 times" in ending.reason
    assert world.registry.versions.names() == []


# -- while it takes effect ------------------------------------------------------------------------


def test_a_full_disk_while_publishing_leaves_no_version_and_is_gone_on_with(
    world: RetrainingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = world.claim(**EFFICIENCY)
    whole = durable._sync

    def full(path: Path, flags: int) -> None:
        if world.models in path.parents and "serving" in path.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        whole(path, flags)

    monkeypatch.setattr(durable, "_sync", full)
    with pytest.raises(StoreError, match="No space left"):
        world.attempt(claim).run()
    assert world.registry.versions.versions("default") == [] and _serving(world) is None
    assert not [one for one in (world.models / "default").iterdir() if one.name[0] == "."]
    monkeypatch.undo()
    world.said.clear()
    ending = world.attempt(claim).run()
    assert [line for line in world.said if "begins" in line] == ["publish: begins"]
    assert _serving(world) == ending.version


def test_a_full_disk_in_any_phase_is_said_and_gone_on_with(
    world: RetrainingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = world.claim(**EFFICIENCY)
    finish, refused = RunFolder.finish, []

    def full(self: RunFolder, phase: Phase, result: Any) -> None:
        if phase not in refused:
            refused.append(phase)
            monkeypatch.setattr("perfmodel.retraining.run_folder.write_whole", _full)
        else:
            monkeypatch.setattr("perfmodel.retraining.run_folder.write_whole", durable.write_whole)
        finish(self, phase, result)

    monkeypatch.setattr(RunFolder, "finish", full)
    for _ in Phase:
        with pytest.raises(StoreError, match="No space left on device. Check its permissions"):
            world.attempt(claim).run()
    assert refused == list(Phase)
    ending = world.attempt(claim).run()
    assert world.registry.versions.versions("default") == [ending.version]
    assert len(world.registry.history("default").changes) == 2


def _full(path: Path, content: bytes) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_version_that_came_to_serve_meanwhile_is_what_it_is_compared_with(
    world: RetrainingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = str(world.retrain(**EFFICIENCY).version)
    second = str(world.retrain(seed=1, promote=False, **EFFICIENCY).version)
    decide, promoted = attempts.decide, []

    def promote(*args: Any, **kwargs: Any) -> Any:
        if not promoted:
            promoted.append(world.registry.promote("default", second))
        return decide(*args, **kwargs)

    monkeypatch.setattr(attempts, "decide", promote)
    ending = world.retrain(seed=2, **EFFICIENCY)
    assert any(f"begins again with judge: {second} serves" in line for line in world.said)
    assert ending.verdict is not None and ending.verdict.serving == second
    assert _serving(world) == ending.version not in (first, second)


def test_a_rollback_at_the_same_moment_is_not_overruled(
    world: RetrainingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = str(world.retrain(**EFFICIENCY).version)
    second = str(world.retrain(seed=1, **EFFICIENCY).version)
    other = ModelRegistry(world.registry.files, by="an operator")
    let_serve, done = ModelRegistry._let_serve, []

    def between(self: ModelRegistry, *args: Any) -> Any:
        if self is world.registry and not done:
            done.append(other.rollback("default", why="T4 answers doubled"))
        return let_serve(self, *args)

    monkeypatch.setattr(ModelRegistry, "_let_serve", between)
    ending = world.retrain(seed=2, **EFFICIENCY)
    changes = [(one.action, one.version) for one in world.registry.history("default").changes]
    # Whoever came last knew of the rollback, or is told that another change stands; both are there
    # once, and every host sees the same one serve.
    assert changes.count(("rollback", first)) == 1
    assert changes.count(("promote", str(ending.version))) == 1
    assert _serving(world) == ModelRegistry(world.registry.files).serving("default")
    assert second not in (_serving(world),)


def test_a_promotion_that_is_overtaken_leaves_a_candidate_and_says_so(
    world: RetrainingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = str(world.retrain(**EFFICIENCY).version)

    def overtaken(*args: Any, **kwargs: Any) -> Any:
        raise OvertakenError("Another change was made at the same time and stands.")

    monkeypatch.setattr(ModelRegistry, "promote", overtaken)
    ending = world.retrain(seed=1, **EFFICIENCY)
    assert ending.state is RetrainingState.DONE
    assert ending.reason == "Another change was made at the same time and stands."
    assert _serving(world) == first


def test_one_that_was_cancelled_publishes_nothing(
    world: RetrainingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = world.claim(**EFFICIENCY)
    gather = attempts.gather

    def cancel(*args: Any, **kwargs: Any) -> Any:
        assert world.store.cancel(claim.name)
        return gather(*args, **kwargs)

    monkeypatch.setattr(attempts, "gather", cancel)
    with pytest.raises(OvertakenError, match="or it was cancelled"):
        world.attempt(claim).run()
    assert world.registry.versions.names() == []


def test_another_host_finishes_what_was_published(
    world: RetrainingWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    claim = world.claim(lease_s=0.0, **EFFICIENCY)

    def lost(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(attempts, "settle", lost)
    with pytest.raises(KeyboardInterrupt):
        world.attempt(claim).run()
    monkeypatch.undo()
    (version,) = world.registry.versions.versions("default")
    assert _serving(world) is None
    # Another host has no folder of that run, but the same database and store.
    again = world.store.claim("there", lease_s=60.0)
    assert again is not None and again.version == version
    world.runs = tmp_path / "elsewhere"
    world.said.clear()
    ending = world.attempt(again).run()
    assert (ending.version, _serving(world)) == (version, version)
    assert world.said == [f"publish: {version} was published by an earlier attempt"]
    assert len(world.registry.history("default").changes) == 2


def test_another_host_begins_anew_what_was_not_published(
    world: RetrainingWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    claim = world.claim(lease_s=0.0, **EFFICIENCY)

    def away(*args: Any, **kwargs: Any) -> None:
        raise StoreError("The store of models cannot be used.")

    monkeypatch.setattr(ModelRegistry, "publish_as", away)
    with pytest.raises(StoreError):
        world.attempt(claim).run()
    monkeypatch.undo()
    again = world.store.claim("there", lease_s=60.0)
    assert again is not None and again.version is not None
    world.runs = tmp_path / "elsewhere"
    ending = world.attempt(again).run()
    assert world.registry.versions.versions("default") == [ending.version]


def test_a_version_that_was_damaged_meanwhile_is_refused_and_not_published(
    world: RetrainingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibrate = attempts.calibrate

    def damaged(*args: Any, **kwargs: Any) -> Path:
        version = calibrate(*args, **kwargs)
        (version / "measured.json").write_text("{}")
        assert read_artifact(version).damaged
        return version

    monkeypatch.setattr(attempts, "calibrate", damaged)
    ending = world.retrain(**EFFICIENCY)
    assert ending.state is RetrainingState.REFUSED and ending.version is None
    assert ending.reason is not None and "damaged: measured.json" in ending.reason
    assert world.registry.versions.versions("default") == []


def test_searched_settings_are_judged_on_what_they_were_not_searched_on(
    world: RetrainingWorld,
) -> None:
    world.retrain(**EFFICIENCY)
    claim = world.claim(members=["gbdt"], tune=1)
    ending = world.attempt(claim).run()
    manifest = read_artifact(world.models / "default" / str(ending.version)).manifest
    assert manifest["tuning"]["gbdt"]["chosen"]["rounds"] == 400
    evidence = json.loads(
        (RunFolder(world.place.folder / claim.name).path(Phase.JUDGE) / "evidence.json").read_text()
    )
    judged = {one["name"]: set(one["labels"]["family"]) for one in evidence["sets"]}
    families = {one.family for one in FEW}
    assert judged["left-out families"] == {f for f in families if not is_searched_on(f)}
    assert len(judged["left-out families"]) >= 1
