"""From stored measurements to samples, and what is left out on the way."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import synthetic_workloads as made_up

from perfmodel.devices.codec import spec_to_dict
from perfmodel.errors import TrainingError
from perfmodel.predictors.predictor import Sample
from perfmodel.records import Measurement, OperatorRecord, Provenance, StepRecord
from perfmodel.store.profiles import ProfileStore
from perfmodel.training.samples.samples import NOISY_WEIGHT, load_samples
from perfmodel.types import Compiler

SAMPLE = made_up.samples(families=2)[1]


def _measurement(sample: Sample = SAMPLE, *, joined_share: float = 0.9) -> Measurement:
    workload = sample.workload
    step = StepRecord(
        workload_hash=workload.content_hash,
        graph_hash=workload.graph.content_hash,
        model=sample.model,
        family=sample.family,
        job={"model": f"zoo/{sample.model}", "mode": workload.mode.value},
        accelerator=workload.accelerator.name,
        mode=workload.mode,
        batch_size=workload.batch_size,
        precision=workload.precision,
        memory_format=workload.memory_format,
        compiler=workload.compiler,
        step_time_s=sample.step_time_s,
        samples_s=(sample.step_time_s,) * 5,
        low_s=sample.step_time_s,
        high_s=sample.step_time_s,
        spread=0.01,
        noisy=False,
        warmup_steps=2,
        peak_memory_bytes=1e6,
        provenance=Provenance(
            accelerator=spec_to_dict(workload.accelerator),
            software={"torch": "2"},
            measured_at="2026-01-01T00:00:00Z",
            source="perfmodel test",
            threads=2,
        ),
    )
    operators = tuple(
        OperatorRecord(
            workload_hash=step.workload_hash,
            node=node,
            op=workload.graph.nodes[node].op,
            phase=workload.graph.nodes[node].phase,
            time_s=time_s,
        )
        for node, time_s in sample.node_times_s.items()
    )
    return Measurement(step=step, operators=operators, joined_share=joined_share)


def _store(folder: Path, *measurements: Measurement) -> ProfileStore:
    store = ProfileStore(folder)
    for measurement in measurements:
        store.append(measurement, SAMPLE.workload.graph)
    return store


def _changed(measurement: Measurement, **changes: object) -> Measurement:
    return dataclasses.replace(measurement, step=dataclasses.replace(measurement.step, **changes))  # type: ignore[arg-type]


def test_a_measurement_becomes_the_workload_that_was_measured(tmp_path: Path) -> None:
    found = load_samples(_store(tmp_path, _measurement()))
    (sample,) = found.samples
    assert sample.step_time_s == SAMPLE.step_time_s
    assert sample.family == SAMPLE.family
    assert sample.workload.graph.content_hash == SAMPLE.workload.graph.content_hash
    assert sample.workload.accelerator == SAMPLE.workload.accelerator
    assert sample.workload.threads == 2
    assert found.dropped == {}


def test_operator_times_stay_with_their_nodes(tmp_path: Path) -> None:
    (sample,) = load_samples(_store(tmp_path, _measurement())).samples
    assert dict(sample.node_times_s) == pytest.approx(dict(SAMPLE.node_times_s))
    ops = [node.op for node in sample.workload.graph.nodes]
    assert ops == [node.op for node in SAMPLE.workload.graph.nodes]


def test_badly_joined_operator_times_are_not_used_and_counted(tmp_path: Path) -> None:
    found = load_samples(_store(tmp_path, _measurement(joined_share=0.2)))
    assert found.samples[0].node_times_s == {}
    assert sum(found.notes.values()) == 1


def test_noisy_measurements_are_dropped_and_counted(tmp_path: Path) -> None:
    quiet = _measurement()
    noisy = _changed(quiet, noisy=True, spread=0.8, workload_hash="0" * 32, job={})
    found = load_samples(_store(tmp_path, quiet, noisy))
    assert len(found.samples) == 1
    assert found.dropped == {"too noisy": 1}


def test_times_below_the_bound_are_noted(tmp_path: Path) -> None:
    fast = _changed(_measurement(), step_time_s=1e-9)
    assert load_samples(_store(tmp_path, fast)).notes == {"faster than the bound of the device": 1}


def test_nothing_usable_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="Profile some"):
        load_samples(ProfileStore(tmp_path))


def test_a_noisy_measurement_weighs_less(tmp_path: Path) -> None:
    # Throttled or shared, its spread may well be small.
    (sample,) = load_samples(_store(tmp_path, _changed(_measurement(), noisy=True))).samples
    assert sample.weight == NOISY_WEIGHT < 1.0
    (quiet,) = load_samples(_store(tmp_path / "quiet", _measurement())).samples
    assert quiet.weight == 1.0


def test_what_no_predictor_learns_is_left_out_by_name(tmp_path: Path) -> None:
    openvino = _changed(
        _measurement(), compiler=Compiler.OPENVINO, job={"a": 1}, workload_hash="a" * 32
    )
    graphs = _changed(
        _measurement(), execution="device_graphs", job={"b": 1}, workload_hash="b" * 32
    )
    found = load_samples(_store(tmp_path, _measurement(), openvino, graphs))
    assert len(found.samples) == 1
    assert found.dropped == {
        "no predictor learns openvino yet": 1,
        "run in another way than its compiler's usual one": 1,
    }
