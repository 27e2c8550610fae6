"""Tasks on a real Ray cluster; what is learned there is in ``tests/retraining/test_on_ray.py``."""

from __future__ import annotations

from pathlib import Path

import pytest
from ray_python import told_by

from perfmodel.errors import InvalidInputError, MissingExtraError
from perfmodel.store.sketches import SketchFiles
from perfmodel.training.training_engine import opened_engine

CHILD = Path(__file__).with_name("ray_child.py")


def test_tasks_run_on_the_cluster_and_are_begun_again_where_they_are_lost(tmp_path: Path) -> None:
    told = told_by(CHILD, tmp_path)
    # The task whose process was killed was begun again, and no task ran in the process that asked.
    assert told["elsewhere"] == [0, 1, 2]
    assert (tmp_path / "begun-1").read_text() == "xx"
    assert told["lost"].startswith("TrainingError: A task on the Ray cluster was lost")
    assert told["refused"].startswith("MissingExtraError: This needs the extra 'train'")
    # A node with other libraries does not fit at all.
    assert "computes with process" in told["other"]
    # Captured there, kept here.
    assert told["failures"] == 0
    kept = SketchFiles(tmp_path / "far").read("key")
    assert kept is not None and kept["family"] == "resnet"


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("perfmodel.engines.ray_tasks.import_module", absent)
    with pytest.raises(MissingExtraError, match="ray"), opened_engine("ray"):
        pass
    with pytest.raises(InvalidInputError, match="local, ray"), opened_engine("slurm"):
        pass
