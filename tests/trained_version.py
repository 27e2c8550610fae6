"""A small trained model on disk, made once in a test run where it is needed."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import synthetic_workloads as made_up

from perfmodel.training.train import train


def trained_version(folder: Path) -> Path:
    """Train on made-up steps; returns the folder of the version, which copies can be made of.

    The name of a version is that of its folder, so that equal copies are different versions.
    """
    return train(made_up.samples(families=4), folder, members=("gbdt",), folds=2)


def two_versions(models: Path) -> None:
    """Put the two versions that pages and examples name into a folder of models."""
    for number in ("20261101T080000Z-11d0c2a9", "20261121T125755Z-aaf07f3d"):
        shutil.copytree(_made(), models / "default" / number)


@cache
def _made() -> Path:
    """Train once in a process that asks more than once."""
    folder = Path(tempfile.mkdtemp(prefix="perfmodel-versions-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return trained_version(folder)
