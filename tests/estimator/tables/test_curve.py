"""A job over the number of accelerators."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator
from perfmodel.estimator.tables.curve import CurveQuestion, doubling_counts
from perfmodel.graph.job import Job
from perfmodel.placement.topology.networks import named_network
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Mode, Precision

JOB = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=2000)


def test_its_points_are_those_of_single_answers(estimator: Estimator) -> None:
    question = CurveQuestion(
        accelerator="A100", counts=(1, 2, 8, 16), network=named_network("ib-200g")
    )
    curve = estimator.curve(JOB, question)
    placements = ("A100", "2xA100", "8xA100", "2x(8xA100)@ib-200g")
    for position, written in enumerate(placements):
        single = estimator.estimate(JOB, parse_placement(written))
        assert curve.step_time_s[position] == pytest.approx(single.step_time_s)
        assert curve.samples_per_second[position] == pytest.approx(
            single.throughput.samples_per_second
        )
        assert curve.peak_bytes[position] == pytest.approx(single.memory.peak_bytes)
        assert curve.basis[position] is single.basis


def test_no_count_beats_ideal_scaling(estimator: Estimator) -> None:
    curve = estimator.curve(JOB, CurveQuestion(accelerator="A10", counts=tuple(range(1, 200))))
    assert curve.efficiency[0] == pytest.approx(1.0)
    assert (curve.efficiency <= 1.0 + 1e-12).all()
    assert (curve.low <= curve.samples_per_second).all()
    assert (curve.samples_per_second <= curve.high).all()
    per_accelerator = curve.samples_per_second / curve.counts
    assert (np.diff(per_accelerator) <= 1e-9 * per_accelerator[:-1]).all()


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"counts": ()}, "/counts"),
        ({"counts": (1, 0)}, "/counts/1"),
        ({"per_host": 0}, "/accelerators_per_host"),
    ],
)
def test_nonsense_is_refused(change: dict[str, object], pointer: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        CurveQuestion(**{"accelerator": "A10", "counts": (1,), **change})  # type: ignore[arg-type]
    assert refused.value.pointer == pointer


def test_doubling_ends_where_it_should() -> None:
    assert list(doubling_counts(1)) == [1]
    assert list(doubling_counts(8)) == [1, 2, 4, 8]


def test_a_language_model_has_the_points_of_its_single_answers(estimator: Estimator) -> None:
    kwargs = {"num_layers": 4, "hidden_size": 512, "num_heads": 8, "vocab_size": 1024}
    job = Job(
        model="zoo/megatron-gpt", model_kwargs=kwargs, mode=Mode.TRAINING, batch_size=4,
        precision=Precision.FP16,
    )  # fmt: skip
    question = CurveQuestion(accelerator="A100", counts=(1, 4, 12), zero_stage=1)
    curve = estimator.curve(job, question)
    placements = (
        {"nodes": [{"accelerator": "A100", "count": 4}], "plan": {"zero_stage": 1}},
        {
            "nodes": [{"accelerator": "A100", "count": 8}, {"accelerator": "A100", "count": 4}],
            "plan": {"zero_stage": 1},
        },
    )
    for position, written in enumerate(placements, start=1):
        single = estimator.estimate(job, parse_placement(written))
        assert curve.step_time_s[position] == pytest.approx(single.step_time_s)
    assert curve.efficiency[0] == pytest.approx(1.0)
