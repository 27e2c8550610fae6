"""Artefacts: complete or absent, and never served when damaged."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import synthetic_workloads as made_up
from often import often

from perfmodel.errors import DamagedArtifactError, StoreError, UnknownPredictorError
from perfmodel.predictors.serving.serving import ServingModel
from perfmodel.store.artifacts import latest, names, read_artifact, versions, write_artifact
from perfmodel.training.model_card import CARD
from perfmodel.training.train import train

FILES = {"a.json": b"{}", "members/m/b.json": b"[1, 2]"}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = write_artifact(tmp_path / "n" / "1", FILES, {"licence": "Apache-2.0"})
    artifact = read_artifact(folder)
    assert artifact.damaged == {}
    assert artifact.name == "n/1"
    assert artifact.manifest["licence"] == "Apache-2.0"
    # printf '{}' | sha256sum
    assert artifact.manifest["files"]["a.json"] == {
        "sha256": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
        "size_bytes": 2,
    }
    assert [p.name for p in (tmp_path / "n").iterdir()] == ["1"]


def test_versions_never_change(tmp_path: Path) -> None:
    first = write_artifact(tmp_path / "n" / "1", FILES, {"seed": 0})
    found = [write_artifact(tmp_path / "n" / "1", FILES, {"seed": seed}) for seed in (1, 2)]
    assert [path.name for path in found] == ["1.2", "1.3"]
    assert [read_artifact(path).manifest["seed"] for path in (first, *found)] == [0, 1, 2]
    assert sorted(path.name for path in (tmp_path / "n").iterdir()) == ["1", "1.2", "1.3"]


def test_of_two_that_write_one_version_at_the_same_time_none_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def late(source: Path, target: Path) -> None:
        """Rename once another one has written its version under the very name."""
        monkeypatch.setattr(os, "rename", rename)
        write_artifact(tmp_path / "n" / "1", FILES, {"seed": 0})
        rename(source, target)

    monkeypatch.setattr(os, "rename", late)
    made = write_artifact(tmp_path / "n" / "1", FILES, {"seed": 1})
    assert made.name == "1.2"
    assert read_artifact(tmp_path / "n" / "1").manifest["seed"] == 0
    assert read_artifact(made).manifest["seed"] == 1


@pytest.mark.parametrize("path", ["../x", "/x", "a/../b", "manifest.json", ".hidden", "a//b"])
def test_refuses_strange_file_names(tmp_path: Path, path: str) -> None:
    with pytest.raises(StoreError, match="name"):
        write_artifact(tmp_path / "n" / "1", {path: b""}, {})


def test_a_refused_write_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "n").write_text("a file where the folder belongs")
    with pytest.raises(StoreError, match="could not be written"):
        write_artifact(tmp_path / "n" / "1", FILES, {})
    assert [p.name for p in tmp_path.iterdir()] == ["n"]


def test_a_disk_that_fails_beside_another_version_is_no_name_that_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_artifact(tmp_path / "n" / "1", FILES, {})

    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(StoreError, match="No space left"):
        write_artifact(tmp_path / "n" / "1", FILES, {})
    assert [p.name for p in (tmp_path / "n").iterdir()] == ["1"]


def test_names_the_damaged_file_and_the_reason(tmp_path: Path) -> None:
    folder = write_artifact(tmp_path / "n" / "1", FILES, {})
    (folder / "a.json").write_bytes(b"[]")
    (folder / "members/m/b.json").unlink()
    artifact = read_artifact(folder)
    assert "SHA-256" in artifact.damaged["a.json"]
    assert "cannot be read" in artifact.damaged["members/m/b.json"]
    with pytest.raises(DamagedArtifactError, match=r"a\.json of the model n/1"):
        artifact.check("a.json")
    artifact.check("members/other/")


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b'{"files": {}}'])
def test_a_damaged_manifest_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = write_artifact(tmp_path / "n" / "1", FILES, {})
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(DamagedArtifactError, match="manifest"):
        read_artifact(folder)


def test_an_edited_manifest_is_refused(tmp_path: Path) -> None:
    folder = write_artifact(tmp_path / "n" / "1", FILES, {"scores": {"mape": 0.5}})
    body = json.loads((folder / "manifest.json").read_text())
    body["scores"]["mape"] = 0.05
    (folder / "manifest.json").write_text(json.dumps(body, sort_keys=True, indent=1) + "\n")
    with pytest.raises(DamagedArtifactError, match="digest"):
        read_artifact(folder)


def test_newest_sound_version_wins(tmp_path: Path) -> None:
    for version in ("1", "2", "10"):
        write_artifact(tmp_path / "n" / version, FILES, {})
    assert [p.name for p in versions(tmp_path, "n")] == ["10", "2", "1"]
    assert latest(tmp_path, "n").name == "n/10"
    (tmp_path / "n/10/a.json").write_bytes(b"xx")
    assert latest(tmp_path, "n").name == "n/2"
    (tmp_path / "n/2/manifest.json").unlink()
    assert latest(tmp_path, "n").name == "n/1"
    (tmp_path / "n/1/a.json").unlink()
    # Nothing is sound any more; the newest that can be read says what is left of it.
    assert list(latest(tmp_path, "n").damaged) == ["a.json"]


def test_unknown_models_get_the_nearest_names(tmp_path: Path) -> None:
    write_artifact(tmp_path / "default" / "1", FILES, {})
    assert names(tmp_path) == ["default"]
    with pytest.raises(UnknownPredictorError, match="default"):
        latest(tmp_path, "defualt")
    with pytest.raises(UnknownPredictorError):
        latest(tmp_path, "../default")
    with pytest.raises(UnknownPredictorError):
        latest(tmp_path / "absent", "default")


def test_mutations_never_crash_and_are_never_served(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    samples = made_up.samples(families=6)
    origin = train(samples, tmp_path / "models", members=("efficiency", "gbdt"), folds=3)
    graph = made_up.mlp(64, [200] * 3, "relu", training=False)
    workload = made_up.workload(graph, 4, training=False)
    whole = ServingModel.load(origin).predict([workload])[0].time_s
    alone = {
        ServingModel.load(origin, without=(m,)).predict([workload])[0].time_s
        for m in ("efficiency", "gbdt")
    }
    # The card is read by people alone; no answer rests on it.
    files = (p for p in origin.rglob("*") if p.is_file() and p.name != CARD)
    paths = sorted(p.relative_to(origin) for p in files)
    rng = np.random.default_rng(0)
    refused = survived = 0
    turns = often(100)
    copy = tmp_path / "copy"
    shutil.copytree(origin, copy)
    for turn in range(turns):
        path = paths[turn % len(paths)]
        _mutate(copy / path, rng)
        try:
            model = ServingModel.load(copy)
        except DamagedArtifactError:
            refused += 1
        else:
            # Only a member may be lost; it must be named, and the others answer as ever.
            assert len(model.absent) == 1
            assert model.predict([workload])[0].time_s in alone | {whole}
            survived += 1
        shutil.copyfile(origin / path, copy / path)
    record_property("mutations refused", refused)
    record_property("that cost one named member", survived)
    assert refused + survived == turns and refused > 0 and survived > 0


def _mutate(path: Path, rng: np.random.Generator) -> None:
    """Flip, cut, grow, empty, swap or remove a file; never leave it as it was."""
    before = path.read_bytes()
    content, place = bytearray(before), int(rng.integers(len(before)))
    kind = int(rng.integers(6))
    if kind == 0:
        content[place] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del content[place:]
    elif kind == 2:
        content[place:place] = rng.bytes(int(rng.integers(1, 50)))
    elif kind == 3:
        content = bytearray(rng.bytes(len(before)))
    elif kind == 4:
        content[place : place + 1] = b"9" if content[place : place + 1] != b"9" else b"1"
    else:
        path.unlink()
        return
    assert bytes(content) != before
    path.write_bytes(bytes(content))
