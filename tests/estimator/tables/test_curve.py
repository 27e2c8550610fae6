"""A job over the number of accelerators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator
from perfmodel.estimator.tables.curve import CurveQuestion, doubling_counts
from perfmodel.estimator.tables.estimates import NO_ROOM_WARNING
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Basis, Mode, Precision

JOB = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=2000)


OTHER = Job(model="zoo/one", mode=Mode.TRAINING, batch_size=500)
PLACES = ("A100", "2xA100", "8xA100", "2x(8xA100)")


def _seen(place: str, step_s: float, job: Job | None = None) -> Observation:
    batch = (job or JOB).batch_size
    return Observation(
        placement=parse_placement(place), batch_size=batch, step_time_s=step_s, job=job
    )


def test_its_points_are_those_of_single_answers(estimator: Estimator) -> None:
    question = CurveQuestion(accelerator="A100", counts=(1, 2, 8, 16))
    observed = (
        (),
        (_seen("A100", 3e-3),),
        (_seen("A100", 3e-3), _seen("8xA100", 2e-2)),
        (_seen("8xA100", 2e-3, OTHER),),
    )
    for seen in observed:
        curve = estimator.curve(JOB, question, seen)
        points = [estimator.estimate(JOB, parse_placement(place), seen) for place in PLACES]
        for name in ("samples_per_second", "low", "high"):
            single = [getattr(point.throughput, name) for point in points]
            assert getattr(curve, name).tolist() == pytest.approx(single, rel=1e-12), (name, seen)
        step_s = [point.step_time_s for point in points]
        assert curve.step_time_s.tolist() == pytest.approx(step_s, rel=1e-12)
        assert curve.peak_bytes.tolist() == [point.memory.peak_bytes for point in points]
        assert curve.basis == tuple(point.basis for point in points)
        said = {text for point in points for text in point.warnings}
        assert set(curve.warnings) == said
        assert any("No network" in text for text in said)


@pytest.mark.parametrize("kind", ["GB200", "TPU-v4"])
def test_hosts_that_links_join_are_counted_as_stated(estimator: Estimator, kind: str) -> None:
    placement = parse_placement(f"2x(4x{kind})")
    seen = (replace(_seen("A100", 4e-3), placement=placement),)
    question = CurveQuestion(accelerator=kind, counts=(8,), per_host=4)
    single = estimator.estimate(JOB, placement, seen)
    assert single.basis is Basis.MEASURED
    curve = estimator.curve(JOB, question, seen)
    assert curve.basis == (single.basis,)
    assert curve.step_time_s[0] == pytest.approx(single.step_time_s, rel=1e-12)


def test_what_does_not_fit_is_said(estimator: Estimator) -> None:
    large = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=10**9)
    curve = estimator.curve(large, CurveQuestion(accelerator="A10", counts=(1, 2)))
    assert not curve.fits.any()
    assert NO_ROOM_WARNING in curve.warnings


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
