"""The quick path: the version that serves takes in what was measured since it was fitted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from perfmodel.errors import TrainingError
from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.serving.serving_parts import JOINT
from perfmodel.store.artifacts import Artifact, read_artifact
from perfmodel.training.adapt import adapt_model, adaptable
from perfmodel.training.learned_steps import read_fitted, step_key


def quick_version(
    base: Path,
    corpus: Sequence[StepSample],
    models: Path,
    progress: Callable[[str], None],
    *,
    created_at: str | None = None,
) -> Path:
    """Write a version that has taken in the steps that another one was not fitted on.

    Steps that the other one has taken in since its fit are taken in again: they take the place of
    themselves.

    Parameters
    ----------
    base : Path
        ``<models>/<name>/<version>`` of the version to start from.
    corpus : sequence of StepSample
        All that is known; what cannot be taken in is told, with its number.
    models : Path
        The folder that gets the new version.

    Returns
    -------
    Path
        ``<models>/<name>/<version>``.

    Raises
    ------
    TrainingError
        Nothing was measured since that the quick path learns from.
    InvalidInputError, DamagedArtifactError, StoreError
        As :func:`~perfmodel.training.adapt.adapt_model`.
    """
    taken, left_out = records_since(base, corpus)
    for reason, count in left_out.items():
        progress(f"left out: {count} steps ({reason})")
    if not taken:
        raise TrainingError(
            f"There is nothing new that {base.name} could take in without a fit; `perfmodel "
            "retrain` without --quick learns from everything."
        )
    devices = Counter(one.step.accelerator.name for one in taken)
    told = ", ".join(f"{count} of {device}" for device, count in sorted(devices.items()))
    progress(f"takes in {len(taken)} steps: {told}")
    return adapt_model(base, taken, models, created_at=created_at)


def records_since(
    base: Path, corpus: Sequence[StepSample]
) -> tuple[list[StepSample], dict[str, int]]:
    """Return the steps that a version can take in and was not fitted on, and why not others.

    The first are as :func:`~perfmodel.training.adapt.adaptable` takes them. Of a version that did
    not note what it was fitted on, they are those of devices that its joint predictor has not
    learned.
    """
    return adaptable(base, _not_fitted(read_artifact(base), corpus))


def _not_fitted(artifact: Artifact, corpus: Sequence[StepSample]) -> list[StepSample]:
    fitted = read_fitted(artifact.folder)
    if fitted is None:
        known = artifact.manifest.get(JOINT, {}).get("devices", {})
        return [one for one in corpus if one.step.accelerator.name not in known]
    return [one for one in corpus if step_key(one.model, one.step) not in fitted]
