"""Find the model that answers, and say what is wrong with those that cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import PerfModelError
from perfmodel.estimator.analytical import AnalyticalModel
from perfmodel.estimator.model import StepModel
from perfmodel.store.artifacts import Artifact, names, read_artifact, versions

if TYPE_CHECKING:
    from perfmodel.predictors.serving import ServingModel

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
    model : StepModel
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


def load_model(folder: Path) -> LoadedModel:
    """Load the best model of a folder; a damaged one never stops the start.

    The newest sound version answers. If every version is damaged, the newest of which a part is
    sound; if nothing is, the analytical model.

    Parameters
    ----------
    folder : Path
        Holds ``<name>/<version>/``; may be missing.

    Returns
    -------
    LoadedModel
    """
    artifacts, problems = _read_all(folder)
    sound_first = sorted(artifacts, key=lambda artifact: bool(artifact.damaged))
    serving: Artifact | None = None
    model: StepModel = AnalyticalModel()
    devices: tuple[AcceleratorSpec, ...] = ()
    for artifact in sound_first:
        try:
            trained = _load(artifact)
        except Exception as error:  # whatever a model file provokes, the service must start
            problems.append(f"The model {artifact.name} cannot be loaded: {error}")
            continue
        serving, model = artifact, trained
        devices = (*trained.devices.values(), *trained.adapted.values())
        problems += [
            f"The member {member} of the model {artifact.name} does not answer: {reason}"
            for member, reason in trained.absent.items()
        ]
        break
    facts = [_facts(artifact, serving) for artifact in artifacts]
    return LoadedModel(
        model=model,
        models=tuple(facts),
        problems=tuple(dict.fromkeys(problems)),
        devices=devices,
    )


def _load(artifact: Artifact) -> ServingModel:
    # Imported here: without a trained model its libraries are not needed.
    from perfmodel.predictors.serving import ServingModel

    return ServingModel.load(artifact.folder)


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
