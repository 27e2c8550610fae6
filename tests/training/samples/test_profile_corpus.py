"""Stored profiles become step samples; their sketches are kept."""

import dataclasses
from pathlib import Path

import pytest
import synthetic_workloads as made_up

from perfmodel.devices.codec import spec_to_dict
from perfmodel.errors import TrainingError
from perfmodel.features.steps.sketch import step_sketch
from perfmodel.graph.job import Job
from perfmodel.records import Measurement, Provenance, StepRecord
from perfmodel.store.profiles import ProfileStore
from perfmodel.training.samples.profile_corpus import profile_corpus
from perfmodel.training.samples.public_data import load_data, read_formats
from perfmodel.zoo.resolve import capture_job

SAMPLE = made_up.samples(families=2)[1]
GRAPH = SAMPLE.workload.graph


def _record(**changes: object) -> StepRecord:
    workload = SAMPLE.workload
    record = StepRecord(
        workload_hash=workload.content_hash, graph_hash=GRAPH.content_hash, model="zoo/made-up",
        family="made-up", job={"model": "zoo/made-up", "mode": workload.mode.value},
        accelerator=workload.accelerator.name, mode=workload.mode,
        batch_size=workload.batch_size, precision=workload.precision,
        memory_format=workload.memory_format, compiler=workload.compiler, step_time_s=0.5,
        samples_s=(0.5,) * 5, low_s=0.5, high_s=0.5, spread=0.01, noisy=False, warmup_steps=2,
        peak_memory_bytes=1e6,
        provenance=Provenance(
            accelerator=spec_to_dict(workload.accelerator), software={"torch": "2.9.0"},
            measured_at="2026-01-01T00:00:00Z", source="made up", threads=2,
        ),
    )  # fmt: skip
    return dataclasses.replace(record, **changes)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> ProfileStore:
    found = ProfileStore(tmp_path / "profiles")
    noisy = _record(workload_hash="0" * 32, job={}, noisy=True, spread=0.8)
    for record in (_record(), noisy):
        found.append(Measurement(step=record), GRAPH)
    return found


def test_a_step_becomes_a_sample_with_the_sketch_of_its_graph(
    store: ProfileStore, tmp_path: Path
) -> None:
    found = profile_corpus(store, cache=tmp_path / "cache")
    (sample,) = found.samples
    assert sample.step.sketch.content_hash == step_sketch(GRAPH).content_hash
    assert (sample.step_time_s, sample.source, sample.family) == (0.5, "profiles", "made-up")
    assert sample.step.threads == 2
    assert sample.step.accelerator == SAMPLE.workload.accelerator
    assert found.dropped == {"too noisy": 1}


def test_kept_sketches_serve_without_the_graphs(
    store: ProfileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = profile_corpus(store, cache=tmp_path / "cache")
    monkeypatch.delattr(ProfileStore, "graphs")
    again = profile_corpus(store, cache=tmp_path / "cache")
    kept, made = again.samples[0].step.sketch, first.samples[0].step.sketch
    assert kept.to_arrays().keys() == made.to_arrays().keys()
    assert kept.ops == made.ops


def test_the_benchmark_takes_profiles_where_there_are_no_tables(
    store: ProfileStore, tmp_path: Path
) -> None:
    data = load_data(None, profiles=store.folder, cache=tmp_path / "cache")
    assert [sample.source for sample in data.samples] == ["profiles"]
    assert data.dropped == {"too noisy": 1}


def test_operators_alone_are_learned_from_as_those_of_tables(
    store: ProfileStore, tmp_path: Path
) -> None:
    graph = capture_job(Job(model="zoo/operator-linear", batch_size=1))
    alone = _record(
        workload_hash="1" * 32, graph_hash=graph.content_hash, family="operator",
        job={"model": "zoo/operator-linear", "mode": "inference"},
    )  # fmt: skip
    store.append(Measurement(step=alone), graph)
    data = load_data(None, profiles=store.folder, cache=tmp_path / "cache")
    assert [one.family for one in data.samples] == ["made-up"]
    assert [(one.family, one.step.alone) for one in data.operators] == [("operator", True)]
    # What a device is adapted to are its records as they are.
    adapted_to = profile_corpus(store, cache=tmp_path / "cache").samples
    assert not any(one.step.alone for one in adapted_to) and len(adapted_to) == 2


def test_a_folder_without_tables_holds_no_formats(tmp_path: Path) -> None:
    assert read_formats(tmp_path, ("timm", "lambda")) == {}
    with pytest.raises(TrainingError, match="nothing to learn from"):
        load_data(tmp_path, cache=tmp_path)
