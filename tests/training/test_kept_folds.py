"""Families stay in the fold in which the version that serves left them out."""

from __future__ import annotations

import json
from pathlib import Path

import joint_world as world
import numpy as np
import pytest

from perfmodel.predictors.joint.job_memory import job_key
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.predictors.joint.joint_regimes import even_folds
from perfmodel.registry.file_store import open_store
from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.store.artifacts import write_artifact
from perfmodel.training.kept_folds import families_in, kept_folds

CORPUS = world.samples(("Gpu-S",))
FOLD_OF = {"family0": 2, "family1": 2, "family2": 0}


def _facts(fold_of: dict[str, int]) -> bytes:
    """What a predictor notes of its jobs; one that no member left out has the fold -1."""
    jobs = {job_key(one.step): fold_of.get(one.family, -1) for one in CORPUS}
    return json.dumps({"jobs": sorted(jobs.items())}).encode()


def test_folds_are_read_off_the_jobs_of_a_version() -> None:
    assert families_in(_facts(FOLD_OF), CORPUS) == FOLD_OF


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b'{"jobs": [["a"]]}', b'{"jobs": 3}'])
def test_damaged_facts_name_no_fold(content: bytes) -> None:
    assert families_in(content, CORPUS) == {}


def test_a_registry_tells_the_folds_of_what_serves(tmp_path: Path) -> None:
    registry = ModelRegistry(open_store(tmp_path))
    assert kept_folds(registry, "default", CORPUS) == {}
    write_artifact(tmp_path / "default" / "1", {"a.json": b"{}"}, {"seed": 0})
    assert kept_folds(registry, "default", CORPUS) == {}
    write_artifact(tmp_path / "default" / "2", {"joint/joint.json": _facts(FOLD_OF)}, {"seed": 0})
    assert registry.serving("default") == "2"
    assert kept_folds(registry, "default", CORPUS) == FOLD_OF


def test_a_fit_keeps_known_folds_and_fills_up_the_others() -> None:
    # Families have equally many steps: two in fold 2 and one in fold 0 leave room for one there
    # and two in fold 1.
    predictor = JointPredictor(folds=3, known_folds=FOLD_OF)
    folds = dict(zip([s.family for s in CORPUS], predictor.task_of(CORPUS).fold, strict=True))
    assert {family: folds[family] for family in FOLD_OF} == FOLD_OF
    assert np.bincount(list(folds.values())).tolist() == [2, 2, 2]


def test_folds_that_there_are_not_are_not_kept() -> None:
    families = [one.family for one in CORPUS]
    without = even_folds(families, 2)
    assert even_folds(families, 2, {"family0": 2, "another": 1}).tolist() == without.tolist()
