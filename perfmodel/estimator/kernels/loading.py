"""The predictor of kernels that lies beside the models of steps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from perfmodel.errors import PerfModelError
from perfmodel.features.kernels.kernel_calls import KernelCalls
from perfmodel.predictors.kernels.kernel_times import AnalyticalKernels, KernelModel, KernelTimes
from perfmodel.registry.file_store import LocalFiles
from perfmodel.registry.state_log import StateLog
from perfmodel.store.artifacts import KERNELS, Artifact, read_artifact, versions


class LazyKernels:
    """A version that is loaded when it is first asked; most processes never ask."""

    def __init__(self, version: str, load: Callable[[], KernelModel]) -> None:
        self.version = version
        self._load = load
        self._loading = threading.Lock()
        self._model: KernelModel | None = None

    def times(self, calls: KernelCalls) -> KernelTimes:
        """Return the time of each call."""
        with self._loading:
            if self._model is None:
                self._model = self._load()
        return self._model.times(calls)


def load_kernels(folder: Path, before: KernelModel | None = None) -> tuple[KernelModel, list[str]]:
    """Return the predictor of kernels of a folder of models, and what is wrong with others.

    Parameters
    ----------
    folder : Path
        Holds ``kernels/<version>/``; where nothing sound does, the analytical one answers.
    before : KernelModel or None
        One that is loaded already; it goes on where it is the one to answer.
    """
    problems: list[str] = []
    for version in _may_serve(folder, problems):
        name = f"{KERNELS}/{version}"
        if before is not None and before.version == name:
            return before, problems
        try:
            artifact = read_artifact(folder / KERNELS / version)
            artifact.check("")
        except PerfModelError as error:
            problems.append(error.message)
            continue
        return LazyKernels(name, partial(_load, artifact)), problems
    return AnalyticalKernels(), problems


def check_kernels(folder: Path, version: str) -> None:
    """Load a version, ``"kernels/<version>"``; nothing is kept of it.

    Raises
    ------
    DamagedArtifactError
        A file of it is not what was written, or it cannot be loaded.
    """
    artifact = read_artifact(folder / version)
    artifact.check("")
    _load(artifact)


def _may_serve(folder: Path, problems: list[str]) -> list[str]:
    try:
        found = [path.name for path in versions(folder, KERNELS)]
    except PerfModelError:
        return []
    try:
        history = StateLog(LocalFiles(folder), KERNELS).history()
    except PerfModelError as error:
        problems.append(error.message)
        return []
    problems += history.damaged
    return list(history.may_serve(found))


def _load(artifact: Artifact) -> KernelModel:
    from perfmodel.predictors.kernels.kernel_predictor import KernelPredictor
    from perfmodel.predictors.kernels.trained_kernels import TrainedKernels

    return TrainedKernels(KernelPredictor.load(artifact.folder), artifact.name)
