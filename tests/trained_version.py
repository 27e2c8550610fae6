"""A small trained model on disk, made once in a test run where it is needed."""

from __future__ import annotations

from pathlib import Path

import synthetic_workloads as made_up

from perfmodel.training.train import train


def trained_version(folder: Path) -> Path:
    """Train on made-up steps; returns the folder of the version, which copies can be made of.

    The name of a version is that of its folder, so that equal copies are different versions.
    """
    return train(made_up.samples(families=4), folder, members=("gbdt",), folds=2)
