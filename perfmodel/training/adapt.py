"""Records of devices are taken into account by a trained model without a fit: the quick path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perfmodel.devices.codec import spec_to_dict
from perfmodel.errors import InvalidInputError, TrainingError, UnknownAcceleratorError
from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.folds import unit_hash
from perfmodel.predictors.joint.joint_store import FACTS, facts_bytes, load_joint
from perfmodel.predictors.serving.serving import JOINT_KINDS
from perfmodel.predictors.serving.serving_parts import ADAPTED, JOINT, LEARNED
from perfmodel.store.artifacts import Artifact, read_artifact, write_artifact
from perfmodel.store.profiles import ProfileStore
from perfmodel.training.learned_steps import step_key, with_records
from perfmodel.training.model_card import CARD, model_card
from perfmodel.training.provenance import corpus_digest, time_now
from perfmodel.training.samples.corpus import Corpus
from perfmodel.training.samples.profile_corpus import profile_corpus
from perfmodel.training.samples.samples import TOO_NOISY, left_out
from perfmodel.training.train import version_folder

#: Records of one device that are taken in; beyond, a fit has more to learn from them.
MOST_RECORDS = 1000


def adapt_model(
    version: Path,
    probes: Sequence[StepSample],
    models: Path,
    *,
    created_at: str | None = None,
) -> Path:
    """Write a new version of a model that has taken records of devices into account.

    Only what the joint predictor says about these devices changes: how far they are from what was
    predicted, and what is known of the jobs that were measured there. Records take the place of
    those of an earlier adaptation to the same device: a folder of profiles that has grown
    counts none twice.

    Parameters
    ----------
    version : Path
        ``<models>/<name>/<version>`` of the model to start from.
    probes : sequence of StepSample
        What :func:`adaptable` takes, and no other.
    models : Path
        The folder that holds all models; the new version goes there.
    created_at : str or None
        The time that the version states, as :func:`~perfmodel.training.provenance.time_now`
        returns it, which is the default.

    Returns
    -------
    Path
        ``<models>/<name>/<version>``.

    Raises
    ------
    InvalidInputError
        The model has no joint predictor.
    TrainingError
        No records.
    DamagedArtifactError
        A file of the model is not what was written.
    StoreError
        The new version could not be written.
    """
    artifact = read_artifact(version)
    artifact.check("")
    by_device = _by_device(probes)
    _check_model(artifact)
    joint = load_joint(version / JOINT).forget(by_device).adapt(probes)
    files = {path: (version / path).read_bytes() for path in artifact.manifest["files"]}
    files[f"{JOINT}/{FACTS}"] = facts_bytes(joint)
    if LEARNED in files:
        files[LEARNED] = with_records(files[LEARNED], probes)
    manifest = _manifest(artifact, by_device)
    manifest["created_at"] = created_at or time_now()
    files[CARD] = model_card(manifest).encode()
    return write_artifact(version_folder(models / manifest["name"], manifest), files, manifest)


def adaptable(
    version: Path, samples: Sequence[StepSample]
) -> tuple[list[StepSample], dict[str, int]]:
    """Return the steps that would change answers of a model, and why others are left out.

    Returns
    -------
    taken : list of StepSample
        By device, at most :data:`MOST_RECORDS` of each, chosen by hash.
    left_out : dict of str to int
        Reasons, with the number of steps.
    """
    devices = read_artifact(version).manifest["devices"]
    left_out: Counter[str] = Counter()
    by_device: dict[str, list[StepSample]] = {}
    for one in samples:
        device, kind = one.step.accelerator.name, one.step.accelerator.kind
        if device in devices:
            left_out[f"{device} has members of its own, which a fit alone changes"] += 1
        elif kind not in JOINT_KINDS:
            left_out[f"the joint predictor does not answer for a {kind}"] += 1
        else:
            by_device.setdefault(device, []).append(one)
    taken: list[StepSample] = []
    for device, own in sorted(by_device.items()):
        own.sort(key=lambda one: unit_hash(f"taken in: {step_key(one.model, one.step)}"))
        taken += own[:MOST_RECORDS]
        if len(own) > MOST_RECORDS:
            left_out[f"{MOST_RECORDS} of {device} are enough without a fit"] = (
                len(own) - MOST_RECORDS
            )
    return taken, dict(left_out)


def reasons(left_out: Mapping[str, int]) -> str:
    """Say how many steps are left out, and why."""
    return ", ".join(f"{count} steps ({reason})" for reason, count in left_out.items())


def usable_probes(store: ProfileStore, device: str | None = None) -> Corpus:
    """Return the stored records that a model can be adapted with.

    Parameters
    ----------
    device : str or None
        One accelerator, by the name in the records; all by default.

    Raises
    ------
    UnknownAcceleratorError
        The store holds nothing of that device.
    TrainingError
        The store is empty, or holds nothing usable.
    """
    found = profile_corpus(store, device=device)
    if found.samples:
        return found
    if device is not None and not found.dropped and store.devices():
        raise UnknownAcceleratorError(
            device,
            known=store.devices(),
            hint=f"{store.folder} holds no records of it; perfmodel profile on it writes some.",
        )
    raise TrainingError(
        f"No usable measurement in {store.folder}{left_out(found.dropped)}. "
        + (
            "Measure them again while nothing else uses the device: --retry-noisy."
            if TOO_NOISY in found.dropped
            else "Profile a few workloads first; perfmodel probe-plan names those worth most."
        )
    )


def _by_device(probes: Sequence[StepSample]) -> dict[str, list[StepSample]]:
    if not probes:
        raise TrainingError("There are no records to adapt to; profile a few workloads first.")
    found: dict[str, list[StepSample]] = {}
    for probe in probes:
        found.setdefault(probe.step.accelerator.name, []).append(probe)
    return dict(sorted(found.items()))


def _check_model(artifact: Artifact) -> None:
    if JOINT not in artifact.manifest:
        raise InvalidInputError(
            f"The model {artifact.name} has no joint predictor, which alone can be adapted. "
            "`perfmodel train --data FOLDER` makes a model that has one."
        )


def _manifest(artifact: Artifact, by_device: Mapping[str, Sequence[StepSample]]) -> dict[str, Any]:
    """Return the manifest of a model with what adapting changes about it."""
    before = artifact.manifest
    now = {
        device: {
            "records": len(records),
            "sources": dict(sorted(Counter(record.source for record in records).items())),
            "digest": corpus_digest(records),
            "spec": spec_to_dict(records[0].step.accelerator),
        }
        for device, records in by_device.items()
    }
    return {
        **{key: value for key, value in before.items() if key != "files"},
        "name": artifact.folder.parent.name,
        "trained_at": before.get("trained_at", before["created_at"]),
        "parent": artifact.name,
        ADAPTED: {**before.get(ADAPTED, {}), **now},
    }
