"""A folder with one small trained model: own members for a CPU, a joint predictor for the rest."""

from __future__ import annotations

from pathlib import Path

import joint_world
import synthetic_workloads as made_up

from perfmodel.training.train import train


def small_model(models: Path, *, joint: bool = True) -> Path:
    """Train a model in seconds and return its version folder."""
    return train(
        made_up.samples(families=4), models, members=("efficiency",), folds=2,
        corpus=joint_world.samples() if joint else (),
        joint_settings={"epochs": 2, "rounds": 20, "folds": 2},
    )  # fmt: skip
