"""A folder with one small trained model: own members for a CPU, a joint predictor for the rest."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path

import joint_world
import synthetic_workloads as made_up

from perfmodel.training.train import train


def small_model(models: Path, *, joint: bool = True) -> Path:
    """Put a small model into a folder and return its version; it is trained once for all tests."""
    kept = Path(_trained(joint).name)
    shutil.copytree(kept, models, dirs_exist_ok=True)
    return next(models / path.parent.relative_to(kept) for path in kept.glob("*/*/manifest.json"))


@cache
def _trained(joint: bool) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    train(
        made_up.samples(families=4), Path(folder.name), members=("efficiency",), folds=2,
        corpus=joint_world.samples() if joint else (),
        joint_settings={"epochs": 2, "rounds": 20, "folds": 2},
    )  # fmt: skip
    return folder
