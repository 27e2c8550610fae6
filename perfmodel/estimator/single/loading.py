"""Find the model that answers, and say what is wrong with those that cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import DamagedArtifactError, PerfModelError
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.predictors.prediction import StepModel
from perfmodel.registry.file_store import LocalFiles
from perfmodel.registry.mirror import manifests_elsewhere
from perfmodel.registry.state_log import StateLog
from perfmodel.registry.states import State
from perfmodel.store.artifacts import KERNELS, Artifact, names, read_artifact, versions

if TYPE_CHECKING:
    from perfmodel.predictors.serving.serving import ServingModel

#: Name of the model that answers where several are installed.
DEFAULT_NAME = "default"

_SHOWN = (
    "scores", "data", "created_at", "devices", "licence", "libraries", "members", "weights",
    "joint", "adapted", "parent", "snapshot", "code", "seed",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """The model that answers.

    Parameters
    ----------
    models : tuple of mapping
        Facts of every version that was found, the one that answers first.
    problems : tuple of str
        What is wrong with the others, or with parts of the one that answers.
    devices : tuple of AcceleratorSpec
        Measured devices that the model learned from or was adapted to; the catalogue may not
        hold them.
    """

    model: StepModel
    models: tuple[Mapping[str, Any], ...] = ()
    problems: tuple[str, ...] = ()
    devices: tuple[AcceleratorSpec, ...] = ()


@dataclass(kw_only=True)
class _Found:
    """What lies in a folder.

    Parameters
    ----------
    artifacts : list of Artifact
        Those whose files are here.
    elsewhere : list of Artifact
        Those of which only the manifest is.
    best : list of str
        Names of those that may answer, the best first.
    """

    artifacts: list[Artifact] = field(default_factory=list)
    elsewhere: list[Artifact] = field(default_factory=list)
    best: list[str] = field(default_factory=list)
    states: dict[str, State] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def load_model(
    folder: Path, in_memory: Mapping[str, StepModel] = MappingProxyType({})
) -> LoadedModel:
    """Load the best model of a folder; a damaged one never stops the start.

    The version that was promoted last answers, or the one before it if that is damaged. Where none
    ever was, the newest sound version does that no change of state speaks of. If every version is
    damaged, the best of which a part is sound; if nothing is, the analytical model.

    Parameters
    ----------
    folder : Path
        Holds ``<name>/<version>/``; may be missing.
    in_memory : mapping of str to StepModel
        Versions that are loaded already: they are sound, whatever became of their files, and not
        loaded again.
    """
    found = _find(folder, in_memory)
    here = {artifact.name: artifact for artifact in found.artifacts}
    damaged = {name for name, one in here.items() if one.damaged and name not in in_memory}
    serving = ""
    model: StepModel = AnalyticalModel()
    devices: tuple[AcceleratorSpec, ...] = ()
    for name in sorted(found.best, key=lambda name: name in damaged):
        if name in in_memory:
            serving, model = name, in_memory[name]
            break
        try:
            trained = _load(here[name])
        except Exception as error:  # whatever a model file provokes, the service must start
            found.problems.append(f"The model {name} cannot be loaded: {error}")
            continue
        serving, model, devices = name, trained, _devices(trained)
        found.problems += _absences(trained)
        break
    if serving and serving not in here:
        found.problems.append(f"The files of the model {serving} are gone; it answers from memory.")
    return LoadedModel(
        model=model,
        models=_all_facts(found, serving),
        problems=tuple(dict.fromkeys(found.problems)),
        devices=devices,
    )


def load_version(folder: Path, name: str) -> LoadedModel:
    """Load one version of a model.

    Parameters
    ----------
    folder : Path
        Holds ``<name>/<version>/``.
    name : str
        ``"<name>/<version>"``, one of :func:`version_names`.

    Returns
    -------
    LoadedModel
        Its ``models`` are empty: it was not compared with others.

    Raises
    ------
    DamagedArtifactError
        A file of it is not what was written, or it cannot be loaded.
    """
    artifact = read_artifact(folder / name)
    if artifact.damaged:
        path, reason = next(iter(artifact.damaged.items()))
        raise DamagedArtifactError(f"The file {path} of the model {name} is damaged: {reason}.")
    try:
        trained = _load(artifact)
    except Exception as error:
        raise DamagedArtifactError(f"The model {name} cannot be loaded: {error}") from error
    absent = _absences(trained)
    return LoadedModel(model=trained, problems=tuple(absent), devices=_devices(trained))


def version_names(folder: Path) -> list[str]:
    """Return every version of a folder as answers cite it, the default model's newest first."""
    found = [
        f"{name}/{version}"
        for name in _model_names(folder)
        for version in (
            *(path.name for path in _version_folders(folder, name)),
            *(one.folder.name for one in manifests_elsewhere(folder, name)),
        )
    ]
    return list(dict.fromkeys(found))


def _load(artifact: Artifact) -> ServingModel:
    # Imported here: without a trained model its libraries are not needed.
    from perfmodel.predictors.serving.serving import ServingModel

    return ServingModel.load(artifact.folder)


def _devices(trained: ServingModel) -> tuple[AcceleratorSpec, ...]:
    return (*trained.devices.values(), *trained.adapted.values())


def _absences(trained: ServingModel) -> list[str]:
    return [
        f"The member {member} of the model {trained.version} does not answer: {reason}"
        for member, reason in trained.absent.items()
    ]


def _find(folder: Path, in_memory: Mapping[str, StepModel]) -> _Found:
    found = _Found()
    for name in _model_names(folder):
        artifacts = _read_all(folder, name, found.problems)
        found.artifacts += artifacts
        elsewhere = manifests_elsewhere(folder, name)
        found.elsewhere += elsewhere
        try:
            history = StateLog(LocalFiles(folder), name).history()
        except PerfModelError as error:
            # Which of them may serve is not known; one that was refused must not.
            found.problems.append(error.message)
            continue
        found.problems += history.damaged
        here = [artifact.folder.name for artifact in artifacts]
        known = [version for version in history.served if f"{name}/{version}" in in_memory]
        best = history.may_serve([*here, *known])
        found.best += [f"{name}/{version}" for version in dict.fromkeys(best)]
        versions_there = [*here, *(one.folder.name for one in elsewhere)]
        for version in versions_there:
            found.states[f"{name}/{version}"] = history.state_of(version, versions_there)
    return found


def _read_all(folder: Path, name: str, problems: list[str]) -> list[Artifact]:
    artifacts: list[Artifact] = []
    for version in _version_folders(folder, name):
        try:
            artifact = read_artifact(version)
        except PerfModelError as error:
            problems.append(error.message)
            continue
        artifacts.append(artifact)
        problems += [
            f"The file {path} of the model {artifact.name} is damaged: {reason}."
            for path, reason in artifact.damaged.items()
        ]
    return artifacts


def _model_names(folder: Path) -> list[str]:
    """Return the names of all models of steps, that of the default model first."""
    of_steps = (name for name in names(folder) if name != KERNELS)
    return sorted(of_steps, key=lambda name: (name != DEFAULT_NAME, name))


def _version_folders(folder: Path, name: str) -> list[Path]:
    """Return the versions of a model, newest first."""
    try:
        return versions(folder, name)
    except PerfModelError:
        return []  # a folder without versions is no model


def _all_facts(found: _Found, serving: str) -> tuple[dict[str, Any], ...]:
    return tuple(
        {
            "model": artifact.name,
            "serving": artifact.name == serving,
            "state": found.states.get(artifact.name, State.CANDIDATE).value,
            "damaged": dict(artifact.damaged),
            **{key: artifact.manifest[key] for key in _SHOWN if key in artifact.manifest},
        }
        for artifact in (*found.artifacts, *found.elsewhere)
    )
