"""A version that is asked questions to be judged: the candidate, or the one that serves."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from perfmodel.errors import PerfModelError
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.features.arrays import FloatArray
from perfmodel.features.tabular import SCHEMA_VERSION
from perfmodel.graph.workload import Workload
from perfmodel.predictors.prediction import StepModel
from perfmodel.predictors.serving.serving import ServingModel
from perfmodel.predictors.serving.serving_parts import ADAPTED, JOINT, MEASURED, read_measured
from perfmodel.store.artifacts import read_artifact
from perfmodel.training.learned_steps import read_learned

#: How often a version is loaded and asked, for the shortest times.
_REPEATS = 3


@dataclass(frozen=True, kw_only=True)
class VersionAtHand:
    """A version, loaded as far as that can be done.

    Parameters
    ----------
    name : str
        ``"<name>/<version>"``, or ``"roofline"`` where no version serves.
    model : StepModel or None
        None: it cannot be loaded, as ``problem`` says.
    folder : Path or None
        None for the analytical model.
    learned : frozenset of str or None
        Keys of what it learned from; None where it did not note them.
    measured : mapping of str to tuple of float
        Times that it repeats, by content hash.
    """

    name: str
    model: StepModel | None
    folder: Path | None = None
    manifest: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    damaged: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    learned: frozenset[str] | None = None
    measured: Mapping[str, tuple[float, float]] = field(
        default_factory=lambda: MappingProxyType({})
    )

    @property
    def serving_model(self) -> ServingModel | None:
        """The model, where it was trained."""
        return self.model if isinstance(self.model, ServingModel) else None

    @property
    def devices(self) -> frozenset[str]:
        """Devices that it has learned."""
        joint = self.manifest.get(JOINT, {}).get("devices", {})
        adapted = self.manifest.get(ADAPTED, {})
        return frozenset({*self.manifest.get("devices", ()), *joint, *adapted})

    @property
    def schema_version(self) -> int:
        """Of its columns; those of this code for the analytical model."""
        if self.folder is None:
            return SCHEMA_VERSION
        found = self.manifest.get("schema", {}).get("version", 0)
        return found if isinstance(found, int) else 0

    @property
    def size_bytes(self) -> float:
        """Of all its files; infinite for the analytical model, with which none is compared."""
        if self.folder is None:
            return math.inf
        return float(sum(entry["size_bytes"] for entry in self.manifest["files"].values()))

    def has_learned(self, key: str, content_hash: str = "") -> bool:
        """Tell whether it has seen a step of the own records."""
        return content_hash in self.measured or (self.learned is not None and key in self.learned)

    def answers_jointly(self, spec: Any) -> bool:
        """Tell whether it answers for steps on a device of which there is a sketch alone."""
        model = self.serving_model
        return model is not None and model.answers_jointly(spec)


def analytical_version() -> VersionAtHand:
    """Return what answers as long as no version serves."""
    return VersionAtHand(name=AnalyticalModel.version, model=AnalyticalModel())


def version_at(folder: Path) -> VersionAtHand:
    """Load a version; what is wrong with it is said, not raised.

    Raises
    ------
    DamagedArtifactError
        Its manifest is not what was written, so that nothing is known of it.
    """
    artifact = read_artifact(folder)
    damaged = dict(artifact.damaged)
    model: ServingModel | None = None
    learned, measured = None, {}
    try:
        model = ServingModel.load(folder)
        learned, measured = read_learned(folder), read_measured(folder / MEASURED)
        damaged |= {f"members/{name}": reason for name, reason in model.absent.items()}
    except PerfModelError as error:
        damaged.setdefault("all", error.message)
    except Exception as error:  # whatever a file provokes, that is what is wrong with it
        damaged.setdefault("all", f"it cannot be loaded: {error!r}")
    return VersionAtHand(
        name=artifact.name,
        model=model,
        folder=folder,
        manifest=artifact.manifest,
        damaged=damaged,
        learned=learned,
        measured=measured,
    )


@dataclass(frozen=True, kw_only=True)
class Timed:
    """How quickly a version is loaded and answers, in seconds of the processor."""

    load_time_s: float
    answers_per_s: float


def timed(versions: Sequence[VersionAtHand], workloads: Sequence[Workload]) -> list[Timed]:
    """Load versions and ask them, in turns, and return the best of a few times each.

    Whatever else the machine does costs no time of this process: a clock on the wall would call the
    version slow that was asked while another process was at work.

    Parameters
    ----------
    workloads : sequence of Workload
        Questions, of which no memory knows the answer.
    """
    loads: list[list[float]] = [[] for _ in versions]
    asks: list[list[float]] = [[] for _ in versions]
    for _ in range(_REPEATS):
        for place, version in enumerate(versions):
            load_s, ask_s = _once(version, workloads)
            loads[place].append(load_s)
            asks[place].append(ask_s)
    return [
        Timed(load_time_s=min(load), answers_per_s=len(workloads) / max(min(ask), 1e-9))
        for load, ask in zip(loads, asks, strict=True)
    ]


def _once(version: VersionAtHand, workloads: Sequence[Workload]) -> tuple[float, float]:
    if version.folder is None:
        return math.inf, math.inf
    if version.model is None:
        return math.nan, math.nan
    begin_s = time.process_time()
    fresh = ServingModel.load(version.folder)
    loaded_s = time.process_time()
    fresh.predict(workloads)
    return loaded_s - begin_s, time.process_time() - loaded_s


def log_times(version: VersionAtHand, workloads: Sequence[Workload]) -> FloatArray:
    """Return the logarithms of what a version answers; NaN where it does not."""
    if version.model is None or not workloads:
        return np.full(len(workloads), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        answers: FloatArray = np.log([one.time_s for one in version.model.predict(workloads)])
    return answers
