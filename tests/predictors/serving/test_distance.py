"""What counts as new, and what lies nearest."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import synthetic_workloads as made_up

from perfmodel.errors import DamagedArtifactError
from perfmodel.predictors.serving.distance import TrainingDistance
from perfmodel.types import Precision

SAMPLES = made_up.samples(families=10)
DISTANCE = TrainingDistance.fit(SAMPLES)


def test_a_training_sample_is_its_own_nearest() -> None:
    for sample, place in zip(SAMPLES, DISTANCE.measure([s.workload for s in SAMPLES]), strict=True):
        assert place.distance < 0.05 and not place.outside
        assert place.nearest[0].split()[1:] == [
            sample.workload.mode.value, "batch", str(sample.workload.batch_size),
        ]  # fmt: skip


def test_few_families_lie_outside_when_left_out() -> None:
    # The limit is the 98 % quantile of distances to other families, so about 2 % lie outside.
    outside = 0
    for family in {s.family for s in SAMPLES}:
        others = TrainingDistance.fit([s for s in SAMPLES if s.family != family])
        own = [s.workload for s in SAMPLES if s.family == family]
        outside += sum(place.outside for place in others.measure(own))
    assert outside <= 0.2 * len(SAMPLES)


def test_a_precision_that_never_occurred_lies_outside() -> None:
    workload = dataclasses.replace(SAMPLES[0].workload, precision=Precision.AMP_BF16)
    assert DISTANCE.measure([workload])[0].outside


def test_a_huge_network_lies_outside() -> None:
    graph = made_up.mlp(100_000, [8, 8], "relu", training=False)
    place = DISTANCE.measure([made_up.workload(graph, 100_000, training=False)])[0]
    assert place.outside


def test_goes_to_json_and_back() -> None:
    stored = json.loads(json.dumps(DISTANCE.to_dict()))
    again = TrainingDistance.from_dict(stored, Path("x"))
    workloads = [s.workload for s in SAMPLES]
    assert again.measure(workloads) == DISTANCE.measure(workloads)
    with pytest.raises(DamagedArtifactError, match="columns"):
        TrainingDistance.from_dict({**stored, "columns": ["a"]}, Path("x"))
