"""The parts of a trained artefact: where each lies, and how it is read.

A part that is damaged, or lacks a library, is named with the reason where the rest can do without.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmodel.devices.codec import spec_from_dict
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import DamagedArtifactError, InvalidInputError, MissingExtraError
from perfmodel.predictors.predictor import Predictor
from perfmodel.predictors.predictor_checks import finite, read_json
from perfmodel.predictors.registry import predictor_class
from perfmodel.store.artifacts import MANIFEST, Artifact

if TYPE_CHECKING:
    from perfmodel.predictors.joint.joint import JointPredictor

SERVING = "serving.json"
MEASURED = "measured.json"
#: Keys of what a version has learned from; nothing is answered from it.
LEARNED = "learned.json"
FALLBACK = "efficiency"
JOINT = "joint"
#: What a manifest calls the devices that the joint predictor was adapted to.
ADAPTED = "adapted"
MEMBERS = "members"


def load_members(
    artifact: Artifact, weights: Mapping[str, float], without: Collection[str]
) -> tuple[dict[str, Predictor], dict[str, str]]:
    """Read the members that have weights; return them, and why others do not answer."""
    members: dict[str, Predictor] = {}
    absent: dict[str, str] = {}
    for member in weights:
        if member in without:
            absent[member] = "left out on request"
            continue
        try:
            artifact.check(f"{MEMBERS}/{member}/")
            predictor = predictor_class(member).load(artifact.folder / MEMBERS / member)
        except (DamagedArtifactError, MissingExtraError) as error:
            absent[member] = error.message
            continue
        members[member] = predictor
    return members, absent


def load_joint_part(
    artifact: Artifact, absent: dict[str, str], without: Collection[str]
) -> JointPredictor | None:
    """Load the predictor for all devices, where the artefact has one that is sound."""
    if JOINT not in artifact.manifest:
        return None
    if JOINT in without:
        absent[JOINT] = "left out on request"
        return None
    try:
        artifact.check(f"{JOINT}/")
        # Imported here: it needs what not every installation has.
        from perfmodel.predictors.joint.joint_store import load_joint

        return load_joint(artifact.folder / JOINT)
    except (DamagedArtifactError, MissingExtraError) as error:
        absent[JOINT] = error.message
    return None


def read_devices(stored: Any, path: Path) -> dict[str, AcceleratorSpec]:
    """Read the devices that were profiled, by name, as they were measured.

    Raises
    ------
    DamagedArtifactError
        None, or one that is no device.
    """
    if not isinstance(stored, list) or not stored:
        raise DamagedArtifactError(f"{path} names no devices.")
    return _specs(stored, path)


def read_adapted(artifact: Artifact) -> dict[str, AcceleratorSpec]:
    """Read the devices that the joint predictor was adapted to, by name; as a rule none."""
    stored = artifact.manifest.get(ADAPTED, {})
    return _specs([facts["spec"] for facts in stored.values()], artifact.folder / MANIFEST)


def _specs(stored: list[Any], path: Path) -> dict[str, AcceleratorSpec]:
    try:
        specs = [spec_from_dict(plain) for plain in stored]
    except InvalidInputError as error:
        raise DamagedArtifactError(f"{path} holds a damaged device: {error}") from error
    return {spec.name: spec for spec in specs}


def read_measured(path: Path) -> dict[str, tuple[float, float]]:
    """Read the measured workloads: by hash, seconds and their relative spread.

    Raises
    ------
    DamagedArtifactError
        A pair that is none, or numbers that are no times.
    """
    measured = {}
    for key, pair in read_json(path).items():
        if not isinstance(pair, list) or len(pair) != 2:
            raise DamagedArtifactError(f"{path} holds {pair!r} where a measured time belongs.")
        measured[key] = (finite(pair[0], path, low=1e-12), finite(pair[1], path, low=0.0))
    return measured
