"""Bad candidates as real artefacts: each goes through the whole job and is refused for it."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from migrated import migrated_sqlite
from retraining_world import SAMPLES, RetrainingWorld, times, write_profiles

from perfmodel.predictors.predictor import Sample
from perfmodel.registry.states import State
from perfmodel.retraining import attempt as attempts
from perfmodel.retraining.data import snapshot
from perfmodel.store.artifacts import read_artifact, write_artifact
from perfmodel.store.retraining.retraining_records import Retraining, RetrainingState
from perfmodel.training.learned_steps import is_kept_back
from perfmodel.training.train import train
from perfmodel.types import Mode

#: Of twelve families eight steps are kept back, six of them of training.
STEPS = tuple(one for one in SAMPLES if int(one.family.removeprefix("family")) < 12)
SETTINGS: dict[str, Any] = {
    "members": ["gbdt"],
    "margins": {"load_times": 1e3, "load_time_s": 1e3, "answers_share": 1e-3, "least_steps": 5},
}
LEARNED = [one for one in STEPS if not is_kept_back(one.model, one.workload.mode)]


@dataclasses.dataclass
class Prepared:
    """A world in which a version serves, and a candidate is written and waits to be judged.

    Both are of one second and of the same data: their folders have one name.
    """

    folder: Path
    claim: Retraining


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("prepared")
    world = RetrainingWorld(url=migrated_sqlite(folder), folder=folder)
    write_profiles(world.profiles, STEPS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "time_now", lambda: "2026-01-02T03:04:05Z")
        ending = world.retrain(**SETTINGS)
        assert ending.state is RetrainingState.DONE, ending.reason
        claim = world.claim(seed=1, **SETTINGS)
        patch.setattr(attempts, "gather", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            world.attempt(claim).run()
    world.close()
    return Prepared(folder, claim)


def _interrupt(*args: object) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def world(prepared: Prepared, tmp_path: Path) -> Iterator[RetrainingWorld]:
    shutil.copytree(prepared.folder, tmp_path / "world")
    made = RetrainingWorld(url=migrated_sqlite(tmp_path / "world"), folder=tmp_path / "world")
    yield made
    made.close()


def _candidate(world: RetrainingWorld, claim: Retraining) -> Path:
    (folder,) = (world.runs / claim.name / "calibrate" / "default").iterdir()
    return folder


def _rewritten(
    version: Path,
    files: Mapping[str, bytes] | None = None,
    manifest: Mapping[str, Any] | None = None,
) -> None:
    """Change a version and sign it again, as code that is wrong would have."""
    artifact = read_artifact(version)
    content = {path: (version / path).read_bytes() for path in artifact.manifest["files"]}
    facts = {k: v for k, v in artifact.manifest.items() if k not in ("files", "digest")}
    shutil.rmtree(version)
    write_artifact(version, {**content, **(files or {})}, {**facts, **(manifest or {})})


def _changed(version: Path, path: str, change: Callable[[Any], None]) -> None:
    plain = json.loads((version / path).read_text())
    change(plain)
    _rewritten(version, {path: json.dumps(plain).encode()})


def _learned_from(version: Path, samples: Sequence[Sample], members: Sequence[str]) -> None:
    """Put in its place a version that was trained on something else."""
    made = train(samples, version.parent / "made", members=members, folds=2)
    shutil.rmtree(version)
    shutil.move(made, version)
    shutil.rmtree(version.parent / "made")


def _slow_training(version: Path) -> None:
    wrong = [times([one], 1.3)[0] if one.workload.mode is Mode.TRAINING else one for one in LEARNED]
    _learned_from(version, wrong, ["gbdt"])


def _not_a_number(version: Path) -> None:
    (path,) = [path.relative_to(version).as_posix() for path in version.glob("efficiency/*.json")]
    text = (version / path).read_text()
    number = next(part for part in text.replace(",", " ").split() if part.startswith("0."))
    _rewritten(version, {path: text.replace(number, "NaN").encode()})


def _narrow(version: Path) -> None:
    def change(serving: Any) -> None:
        held_out = serving["held_out"]
        held_out["answers_s"] = {m: held_out["times_s"] for m in held_out["answers_s"]}

    _changed(version, "serving.json", change)


def _other_labels(version: Path) -> None:
    def change(serving: Any) -> None:
        for device in serving["devices"]:
            device["name"] = "made-up-gpu"
        serving["held_out"]["devices"] = ["made-up-gpu" for _ in serving["held_out"]["devices"]]

    _changed(version, "serving.json", change)
    _rewritten(version, manifest={"devices": ["made-up-gpu"]})


def _damaged(version: Path) -> None:
    (version / "learned.json").write_bytes(b"{}")


def _old_schema(version: Path) -> None:
    schema = read_artifact(version).manifest["schema"]
    _rewritten(version, manifest={"schema": {**schema, "version": schema["version"] - 1}})


#: What is done to a good candidate, the check that finds it, and what that says.
BAD: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "worse on one group only": (_slow_training, "error", "frozen, mode training"),
    "NaN": (_not_a_number, "finite", "8 answers are no times"),
    "constant rate": (
        lambda v: _learned_from(v, LEARNED, ["constant"]), "error", "left-out families, all steps",
    ),
    "wrong units": (
        lambda v: _learned_from(v, times(LEARNED, 1e3), ["gbdt"]), "scale", "times what was",
    ),
    "too narrow": (_narrow, "coverage", "lie inside"),
    "too large": (lambda v: _rewritten(v, {"more.bin": bytes(31_000_000)}), "size", "at most"),
    "trained on the judging set": (
        lambda v: _learned_from(v, STEPS, ["gbdt"]), "leak", "8 of the steps",
    ),
    "damaged": (_damaged, "damaged", "learned.json"),
    "old schema": (_old_schema, "schema", "columns are of version"),
    "other labels": (_other_labels, "labels", "made-up-cpu"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_candidate_is_refused_and_what_serves_goes_on(
    name: str, world: RetrainingWorld, prepared: Prepared
) -> None:
    make_bad, check, says = BAD[name]
    serving = world.registry.serving("default")
    make_bad(_candidate(world, prepared.claim))
    ending = world.attempt(prepared.claim).run()
    assert ending.state is RetrainingState.REFUSED and ending.verdict is not None
    found = [f"{f['where']} {f['detail']}" for f in ending.verdict.findings if f["check"] == check]
    assert any(says in text for text in found), ending.verdict.report
    assert ending.reason == ending.verdict.why and "The gate refused it" in ending.reason
    assert world.registry.serving("default") == serving
    if ending.version is not None:
        history = world.registry.history("default")
        assert history.states[ending.version] is State.REFUSED
        last = history.changes[-1]
        assert (last.action, last.why) == ("judge", ending.verdict.why)


def test_the_same_candidate_without_a_fault_serves(
    world: RetrainingWorld, prepared: Prepared
) -> None:
    ending = world.attempt(prepared.claim).run()
    assert ending.state is RetrainingState.DONE, ending.reason
    assert world.registry.serving("default") == ending.version


def test_one_that_answers_too_slowly_is_refused(world: RetrainingWorld) -> None:
    # As fast as the one that serves, where twenty times as fast is asked for.
    margins = {**SETTINGS["margins"], "answers_share": 20.0}
    world.store.cancel(str(world.store.open_of("default").name))  # type: ignore[union-attr]
    ending = world.retrain(**{**SETTINGS, "margins": margins})
    assert ending.verdict is not None
    assert [one["check"] for one in ending.verdict.findings] == ["speed"]


def test_a_poisoned_source_is_refused_and_left_out_by_name(world: RetrainingWorld) -> None:
    world.store.cancel(str(world.store.open_of("default").name))  # type: ignore[union-attr]
    poisoned = world.folder / "poisoned"
    write_profiles(poisoned, times(LEARNED[:30], 1.5), measured_at="2026-02-01T00:00:00Z")
    place, serving = world.sources(world.profiles, poisoned), world.registry.serving("default")
    ending = world.retrain(place=place, **SETTINGS)
    assert ending.state is RetrainingState.REFUSED and ending.verdict is not None
    assert "error" in {one["check"] for one in ending.verdict.findings}
    again = world.retrain(place=place, without=["poisoned"], **SETTINGS)
    assert any("left out: poisoned/made-up-cpu" in line for line in world.said)
    # What the same workloads took elsewhere counts again.
    assert again.state is RetrainingState.DONE, again.reason
    assert serving is not None and again.version is not None
    versions = world.registry.versions
    first, last = versions.manifest("default", serving), versions.manifest("default", again.version)
    assert first["snapshot"] == last["snapshot"]
