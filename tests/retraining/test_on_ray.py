"""``perfmodel retrain --engine ray`` beside the same retraining on this machine alone."""

from __future__ import annotations

import json
from pathlib import Path

from migrated import migrated_sqlite
from ray_python import told_by
from retraining_world import QUICK, SAMPLES, write_profiles
from small_tables import write_timm_table

CHILD = Path(__file__).with_name("ray_child.py")
SETTINGS = {**QUICK, "members": ["gbdt", "gnn"], "joint": {"epochs": 1, "rounds": 5, "folds": 2}}


def _files(version: Path) -> dict[str, bytes]:
    return {str(p.relative_to(version)): p.read_bytes() for p in version.rglob("*") if p.is_file()}


def test_what_a_cluster_retrains_has_the_bytes_of_a_local_retraining(tmp_path: Path) -> None:
    write_profiles(tmp_path / "profiles", SAMPLES[:24])
    # One capture: each is a process that imports torch.
    write_timm_table(
        tmp_path / "tables" / "timm", modes=["infer"], batches=[32], models=["test_resnet"]
    )
    for engine in ("local", "ray"):
        (tmp_path / engine).mkdir()
        migrated_sqlite(tmp_path / engine)
    # Of low priority, on a machine that may be busy.
    told = told_by(CHILD, tmp_path, json.dumps(SETTINGS), patience_s=1500)
    local, far = (told[engine] for engine in ("local", "ray"))
    assert all(
        "capture: 0 sketches were kept, 1 are captured" in one["said"] for one in told.values()
    )
    assert [one["state"] for one in told.values()] == ["done", "done"], told
    assert local["version"] == far["version"]
    files = [_files(tmp_path / one / "models" / far["version"]) for one in told]
    assert len(files[0]) > 12
    assert [n for n in {*files[0], *files[1]} if files[0].get(n) != files[1].get(n)] == []
