"""Retrainings on made-up networks of a made-up device: folders of records, a database, a store."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import synthetic_workloads as made_up

from perfmodel.devices.codec import spec_to_dict
from perfmodel.predictors.predictor import Sample
from perfmodel.records import Measurement, OperatorRecord, Provenance, StepRecord
from perfmodel.registry.file_store import FileStore, open_store
from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.retraining.attempt import Attempt, Ending
from perfmodel.retraining.data.sources import DataSources
from perfmodel.retraining.run_folder import Phase
from perfmodel.retraining.workplace import Workplace
from perfmodel.store.profiles import ProfileStore
from perfmodel.store.retraining import RetrainingStore
from perfmodel.store.retraining.retraining_records import Retraining
from perfmodel.store.state.database import Database

#: As little as learns anything, and nothing that a busy machine could make look slow.
QUICK: dict[str, Any] = {
    "members": ["gbdt"], "folds": 2,
    "margins": {"load_times": 1e3, "load_time_s": 1e3, "answers_share": 1e-3},
}  # fmt: skip
#: Families that FEW holds.
FEW_FAMILIES = (0, 1, 2, 3, 6, 7)
SAMPLES = tuple(made_up.samples(families=24))
#: Twelve steps of six families, of two of which a mode is kept back.
FEW = tuple(
    one
    for one in SAMPLES
    if one.workload.batch_size == 4 and one.family in {f"family{i}" for i in FEW_FAMILIES}
)


def measurement_of(sample: Sample, *, measured_at: str = "2026-01-01T00:00:00Z") -> Measurement:
    """Return a sample as a profiler would have measured it."""
    one, time_s = sample.workload, sample.step_time_s
    step = StepRecord(
        workload_hash=one.content_hash,
        graph_hash=one.graph.content_hash,
        model=sample.model,
        family=sample.family,
        job={"model": f"zoo/{sample.model}", "batch_size": one.batch_size, "mode": one.mode.value},
        accelerator=one.accelerator.name,
        mode=one.mode,
        batch_size=one.batch_size,
        precision=one.precision,
        memory_format=one.memory_format,
        compiler=one.compiler,
        step_time_s=time_s,
        samples_s=(time_s,),
        low_s=time_s,
        high_s=time_s,
        spread=sample.spread,
        noisy=False,
        warmup_steps=1,
        peak_memory_bytes=None,
        provenance=Provenance(
            accelerator=spec_to_dict(one.accelerator),
            software={"torch": "2.0"},
            measured_at=measured_at,
            source="perfmodel 0",
            threads=one.threads,
        ),
    )
    operators = tuple(
        OperatorRecord(
            workload_hash=one.content_hash, node=node, op=one.graph.nodes[node].op,
            phase=one.graph.nodes[node].phase, time_s=node_s,
        )
        for node, node_s in sample.node_times_s.items()
    )  # fmt: skip
    return Measurement(step=step, operators=operators, joined_share=1.0)


def write_profiles(folder: Path, samples: Sequence[Sample] = SAMPLES, **facts: Any) -> Path:
    """Write samples as a folder of records."""
    store = ProfileStore(folder)
    for one in samples:
        store.append(measurement_of(one, **facts), one.workload.graph)
    store.compact()
    return folder


def times(samples: Sequence[Sample], factor: float) -> list[Sample]:
    """Return samples that took so many times as long."""
    return [dataclasses.replace(one, step_time_s=factor * one.step_time_s) for one in samples]


@dataclass
class RetrainingWorld:
    """A database, folders of records, a store of models.

    Parameters
    ----------
    url : str
        Of a database of the newest schema.
    """

    url: str
    folder: Path
    files: FileStore | None = None
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.database = Database(self.url)
        self.store = RetrainingStore(self.database.connections)
        self.profiles = self.folder / "profiles"
        self.models = self.folder / "models"
        self.runs = self.folder / "runs"
        self.registry = ModelRegistry(self.files or open_store(self.models), by="a retraining")

    def close(self) -> None:
        """Give back every connection."""
        self.database.close()

    @property
    def place(self) -> Workplace:
        """Where retrainings are done."""
        return self.sources(self.profiles)

    def sources(self, *profiles: Path) -> Workplace:
        """Return where they are done from some folders of records."""
        return Workplace(
            database=self.url,
            models=str(self.models),
            folder=self.runs,
            sources=DataSources(profiles=profiles),
            workers=1,
            cache=self.folder / "sketches",
        )

    def quick(self, **settings: Any) -> dict[str, Any]:
        """Return settings with which a retraining takes as little as it can."""
        return {**QUICK, **settings}

    def claim(self, lease_s: float = 600.0, **settings: Any) -> Retraining:
        """Enter a retraining, unless one is open, and take it on."""
        self.store.start("default", why="a test", settings=self.quick(**settings))
        claim = self.store.claim("here", lease_s=lease_s)
        assert claim is not None
        return claim

    def cancel(self) -> None:
        """End the retraining that is open."""
        open_one = self.store.open_of("default")
        assert open_one is not None and self.store.cancel(open_one.name)

    def attempt(self, claim: Retraining, place: Workplace | None = None) -> Attempt:
        """Return an attempt at it."""

        def tell(phase: Phase, text: str) -> None:
            self.said.append(f"{phase.value}: {text}")

        return Attempt(claim, place or self.place, self.database, self.registry, tell)

    def retrain(self, *, place: Workplace | None = None, **settings: Any) -> Ending:
        """Do a retraining from its beginning to its end."""
        claim = self.claim(**settings)
        ending = self.attempt(claim, place).run()
        assert self.store.end(claim, ending.state, version=ending.version, reason=ending.reason)
        return ending
