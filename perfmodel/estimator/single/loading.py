"""Find the model that answers, and say what is wrong with those that cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import DamagedArtifactError, PerfModelError
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.estimator.single.step_model import StepModel
from perfmodel.store.artifacts import Artifact, names, read_artifact, versions

if TYPE_CHECKING:
    from perfmodel.predictors.serving.serving import ServingModel

#: Name of the model that answers where several are installed.
DEFAULT_NAME = "default"

_SHOWN = (
    "scores", "data", "created_at", "devices", "licence", "libraries", "members", "weights",
    "joint", "adapted", "parent",
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


def load_model(
    folder: Path, in_memory: Mapping[str, StepModel] = MappingProxyType({})
) -> LoadedModel:
    """Load the best model of a folder; a damaged one never stops the start.

    The newest sound version answers. If every version is damaged, the newest of which a part is
    sound; if nothing is, the analytical model.

    Parameters
    ----------
    folder : Path
        Holds ``<name>/<version>/``; may be missing.
    in_memory : mapping of str to StepModel
        Versions that are loaded already: they are sound, whatever became of their files, and not
        loaded again.
    """
    artifacts, problems = _read_all(folder)
    serving: Artifact | None = None
    model: StepModel = AnalyticalModel()
    devices: tuple[AcceleratorSpec, ...] = ()
    for artifact in sorted(artifacts, key=lambda a: bool(a.damaged) and a.name not in in_memory):
        known = in_memory.get(artifact.name)
        if known is not None:
            serving, model = artifact, known
            break
        try:
            trained = _load(artifact)
        except Exception as error:  # whatever a model file provokes, the service must start
            problems.append(f"The model {artifact.name} cannot be loaded: {error}")
            continue
        serving, model, devices = artifact, trained, _devices(trained)
        problems += _absences(trained)
        break
    return LoadedModel(
        model=model,
        models=tuple(_facts(artifact, serving) for artifact in artifacts),
        problems=tuple(dict.fromkeys(problems)),
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
    return [f"{path.parent.name}/{path.name}" for path in _version_folders(folder)]


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


def _read_all(folder: Path) -> tuple[list[Artifact], list[str]]:
    artifacts: list[Artifact] = []
    problems: list[str] = []
    for version in _version_folders(folder):
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
    return artifacts, problems


def _version_folders(folder: Path) -> Iterator[Path]:
    """Yield every version, those of the default model first, newest first."""
    for name in sorted(names(folder), key=lambda name: (name != DEFAULT_NAME, name)):
        try:
            yield from versions(folder, name)
        except PerfModelError:
            continue  # a folder without versions is no model


def _facts(artifact: Artifact, serving: Artifact | None) -> dict[str, Any]:
    return {
        "model": artifact.name,
        "serving": artifact is serving,
        "damaged": dict(artifact.damaged),
        **{key: artifact.manifest[key] for key in _SHOWN if key in artifact.manifest},
    }
