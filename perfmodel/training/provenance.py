"""What a version was made from: data by source, code, libraries, time."""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import os
import platform
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import perfmodel
from perfmodel.errors import InvalidInputError
from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.predictor import Sample
from perfmodel.training.samples.samples import data_digest
from perfmodel.training.validation.workload_scores import score

#: Distributions whose version may change what is learned.
_LIBRARIES = (
    "numpy", "scipy", "scikit-learn", "xgboost-cpu", "torch", "torch-geometric", "safetensors",
    "timm", "transformers",
)  # fmt: skip


def time_now() -> str:
    """Return the present time as manifests tell it.

    ``SOURCE_DATE_EPOCH`` (seconds since 1970) takes its place, as in reproducible builds.
    """
    stated = os.environ.get("SOURCE_DATE_EPOCH")
    if stated is not None and not stated.isdecimal():
        raise InvalidInputError(
            f"SOURCE_DATE_EPOCH must be whole seconds since 1970; got {stated[:40]!r}."
        )
    now = datetime.datetime.now(datetime.UTC)
    if stated is not None:
        now = datetime.datetime.fromtimestamp(int(stated), datetime.UTC)
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def code_facts() -> dict[str, str]:
    """Return the version of this package and a digest of its source."""
    return {"version": perfmodel.__version__, "source_digest": _source_digest()}


@cache
def _source_digest() -> str:
    """Return a SHA-256 over paths and contents of every source and data file of the package."""
    folder = Path(perfmodel.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".toml", ".json") and path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(folder).as_posix()} {content}\n".encode())
    return digest.hexdigest()


def library_versions() -> dict[str, str]:
    """Return what learned, and under which Python."""
    found = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def snapshot(
    samples: Sequence[Sample],
    corpus: Sequence[StepSample] = (),
    operators: Sequence[StepSample] = (),
) -> dict[str, dict[str, Any]]:
    """Return number and digest of what was learned from, by source.

    Parameters
    ----------
    samples : sequence of Sample
        Own profiles, as the members learn from them: the source ``"workloads"``.
    corpus, operators : sequence of StepSample
        What the joint predictor learns from, by the source of each; operators measured alone as
        ``"<source> operators"``.
    """
    by_source: dict[str, list[StepSample]] = defaultdict(list)
    for one in corpus:
        by_source[one.source].append(one)
    for one in operators:
        by_source[f"{one.source} operators"].append(one)
    return {
        "workloads": {"samples": len(samples), "digest": data_digest(samples)},
        **{
            source: {"samples": len(found), "digest": corpus_digest(found)}
            for source, found in sorted(by_source.items())
        },
    }


def corpus_digest(samples: Sequence[StepSample]) -> str:
    """Return a SHA-256 over what was learned from: graphs, settings, devices and times."""
    lines = sorted(
        repr(
            (
                sample.step.sketch.content_hash,
                sample.step.accelerator.name,
                sample.step.batch_size,
                sample.step.precision.value,
                sample.step.memory_format.value,
                sample.step.compiler.value,
                sorted(sample.step.software.items()),
                sample.step_time_s,
            )
        )
        for sample in samples
    )
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode())
    return digest.hexdigest()


def group_scores(samples: Sequence[Sample], answers_s: FloatArray) -> dict[str, Mapping[str, Any]]:
    """Return the scores of answers by device and mode, ``"<device> <mode>"``."""
    groups = np.array(
        [f"{one.workload.accelerator.name} {one.workload.mode.value}" for one in samples]
    )
    found: dict[str, Mapping[str, Any]] = {}
    for group in sorted(set(groups.tolist())):
        inside = np.flatnonzero(groups == group).tolist()
        found[group] = score([samples[at] for at in inside], answers_s[inside]).to_dict()
    return found
