"""Which steps a version has learned from, and which none ever does.

A version notes the keys of its steps, so that nobody judges it on what it has seen. Whether a step
is kept back for judging follows from the name and the mode of its job alone: the same steps in
every snapshot, whatever their source, batch or device.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from perfmodel.errors import DamagedArtifactError
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.graph.workload import Workload
from perfmodel.predictors.folds import unit_hash
from perfmodel.predictors.predictor import Sample
from perfmodel.predictors.predictor_checks import json_bytes, read_json
from perfmodel.predictors.serving.serving_parts import LEARNED
from perfmodel.types import Mode

#: In the file of keys: the device of each step that was taken in since the last fit, by key.
_SINCE = "since"
#: Share of the jobs, by name and mode, that no retraining ever learns from.
KEPT_BACK = 0.1


def step_key(model: str, step: Workload | Step) -> str:
    """Return 16 hexadecimal digits that name a measured step in every source."""
    facts = (
        model, step.accelerator.name, step.mode.value, step.batch_size, step.precision.value,
        step.memory_format.value, step.compiler.value, sorted(step.software.items()), step.threads,
    )  # fmt: skip
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def is_kept_back(model: str, mode: Mode) -> bool:
    """Tell whether steps of a job are judged on and never learned from."""
    return unit_hash(f"judged: {model} {mode.value}") < KEPT_BACK


def learned_keys(samples: Sequence[Sample], corpus: Iterable[StepSample]) -> list[str]:
    """Return the keys of what is learned from, sorted."""
    keys = {step_key(one.model, one.workload) for one in samples}
    keys.update(step_key(one.model, one.step) for one in corpus)
    return sorted(keys)


def with_records(content: bytes, records: Iterable[StepSample]) -> bytes:
    """Return :data:`LEARNED` of a version that has taken in records since it was fitted.

    They stand in the place of those that it had taken in before of the same devices.
    """
    stated = json.loads(content)
    own = {step_key(one.model, one.step): one.step.accelerator.name for one in records}
    devices = set(own.values())
    since = {key: device for key, device in stated.get(_SINCE, {}).items() if device not in devices}
    fitted = set(stated["keys"]) - set(stated.get(_SINCE, {}))
    since |= {key: device for key, device in own.items() if key not in fitted}
    return json_bytes({"keys": sorted(fitted | set(since)), _SINCE: since})


def read_fitted(version: Path) -> frozenset[str] | None:
    """Return the keys of what a version was fitted on; None where it did not note them.

    Raises
    ------
    DamagedArtifactError
        The file holds something else.
    """
    learned = read_learned(version)
    if learned is None:
        return None
    return learned - frozenset(read_json(version / LEARNED).get(_SINCE, {}))


def read_learned(version: Path) -> frozenset[str] | None:
    """Return the keys of what a version has learned from; None where it did not note them.

    Raises
    ------
    DamagedArtifactError
        The file holds something else.
    """
    path = version / LEARNED
    if not path.exists():
        return None
    keys = read_json(path).get("keys")
    if not isinstance(keys, list):
        raise DamagedArtifactError(f"{path} holds no keys.")
    return frozenset(map(str, keys))
