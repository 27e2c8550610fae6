"""The batch of the greatest goodput is one that single answers know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from perfmodel.client.answers import Batch
from perfmodel.devices.catalog import Catalog
from perfmodel.estimator.facade import Estimator
from perfmodel.estimator.jobs.capture import capture_in_process
from perfmodel.estimator.jobs.captured_step import CapturedStep
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.estimator.tables.ranking import Criterion, Ranked, RankQuestion
from perfmodel.graph.job import Job
from perfmodel.json_values import MAX_COUNT
from perfmodel.placement.calibration.observation import RAN_OUT_S, Observation
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Mode, Precision

pytest.importorskip("torch")


def _adaptation(noise: float, first: int, most: int) -> Mapping[str, Any]:
    return {
        "gradient_noise_scale": noise,
        "initial_batch_size": first,
        "batch_size_bounds": (first, most),
    }


IMAGES = Job(
    model="timm/resnet18",
    mode=Mode.TRAINING,
    batch_size=32,
    adaptation=_adaptation(2000.0, 64, 4096),
)
TEXT = Job(
    model="zoo/megatron-gpt",
    model_kwargs={"num_layers": 4, "hidden_size": 1024, "num_heads": 16, "vocab_size": 8192},
    mode=Mode.TRAINING,
    batch_size=4,
    precision=Precision.AMP_FP16,
    optimizer="adam",
    adaptation=_adaptation(200.0, 16, 512),
)
UNEQUAL = {
    "nodes": [{"accelerator": "A10", "count": 2}, {"accelerator": "T4", "count": 2}],
    "network": "eth-25g",
}


def test_no_batch_is_asked_about_that_no_job_may_state() -> None:
    asked: list[int] = []

    def noting(job: Job) -> CapturedStep:
        asked.append(job.batch_size)
        return capture_in_process(job)

    estimator = Estimator(
        accelerators=Catalog.default(),
        model=AnalyticalModel(),
        graphs=GraphLibrary(capture=noting),
    )
    question = RankQuestion(by=Criterion.GOODPUT)
    huge = replace(TEXT, batch_size=MAX_COUNT)
    estimator.rank(huge, [parse_placement("A10")], question)
    assert max(asked) == MAX_COUNT


@pytest.fixture(scope="module")
def estimator() -> Estimator:
    library = GraphLibrary(capture=capture_in_process)
    return Estimator(accelerators=Catalog.default(), model=AnalyticalModel(), graphs=library)


def _best(
    estimator: Estimator, job: Job, placement: Any, seen: tuple[Observation, ...] = ()
) -> tuple[Ranked, Batch]:
    question = RankQuestion(by=Criterion.GOODPUT, fits=False)
    (found,) = estimator.rank(job, [parse_placement(placement)], question, seen).best
    assert found.batch is not None
    return found, found.batch


@pytest.mark.parametrize(
    ("job", "placement"),
    [
        (IMAGES, "A10"),
        (IMAGES, "8xA10"),
        (IMAGES, "2x(4xA10)@eth-10g"),
        (IMAGES, "4xA10 power=75"),
        (IMAGES, "4xA10 fraction=0.5"),
        (IMAGES, "4xA10 cores=2"),
        (IMAGES, UNEQUAL),
        (IMAGES, {**UNEQUAL, "plan": {"batch_split": "proportional"}}),
        (TEXT, "4xT4"),
    ],
)
def test_the_best_batch_takes_as_long_as_its_own_answer(
    estimator: Estimator, job: Job, placement: Any
) -> None:
    found, batch = _best(estimator, job, placement)
    asked = replace(job, batch_size=batch.batch_size, accumulation_steps=batch.accumulation_steps)
    answer = estimator.estimate(asked, parse_placement(placement))
    assert batch.step_time_s == pytest.approx(answer.step_time_s, rel=0.05)
    assert batch.samples_per_second == pytest.approx(answer.throughput.samples_per_second, rel=0.05)
    assert answer.memory.fits
    assert found.score == pytest.approx(batch.samples_per_second * batch.efficiency)


@pytest.mark.parametrize("zero_stage", [0, 1])
def test_the_best_batch_hardly_depends_on_the_one_that_is_stated(
    estimator: Estimator, zero_stage: int
) -> None:
    place = f"8xA10 zero={zero_stage}"
    found = [_best(estimator, replace(IMAGES, batch_size=n), place)[1] for n in (1, 32, 256)]
    for batch in found:
        asked = replace(
            IMAGES, batch_size=batch.batch_size, accumulation_steps=batch.accumulation_steps
        )
        answer = estimator.estimate(asked, parse_placement(place))
        assert batch.step_time_s == pytest.approx(answer.step_time_s, rel=0.05)
        assert batch.goodput == pytest.approx(found[1].goodput, rel=0.05)


def test_what_slows_a_job_down_lowers_its_goodput(estimator: Estimator) -> None:
    scores = [
        _best(estimator, IMAGES, placement)[0].score
        for placement in ("4xA10", "4xA10 power=75", "4xA10 cores=1")
    ]
    assert scores == sorted(scores, reverse=True)
    assert scores[1] < 0.97 * scores[0]
    assert scores[2] < 0.5 * scores[0]


def test_observed_steps_lower_the_goodput(estimator: Estimator) -> None:
    place = parse_placement("4xA10")
    alone = estimator.estimate(IMAGES, place).step_time_s
    seen = Observation(placement=place, batch_size=32, step_time_s=2 * alone)
    plain, slower = (
        _best(estimator, IMAGES, "4xA10", observed)[0].score for observed in ((), (seen,))
    )
    assert 0.4 < slower / plain < 0.7


def test_what_ran_lets_larger_batches_fit(estimator: Estimator) -> None:
    job = replace(IMAGES, adaptation=_adaptation(1e7, 64, 2**16))
    place = parse_placement("4xA10")
    most = _best(estimator, job, "4xA10")[1].batch_size
    large = replace(job, batch_size=2 * most)
    assert estimator.estimate(large, place).memory.fits is False
    took_s = estimator.estimate(large, place).step_time_s
    seen = Observation(placement=place, batch_size=2 * most, step_time_s=took_s)
    assert _best(estimator, job, "4xA10", (seen,))[1].batch_size >= 2 * most


def test_what_ran_out_lets_smaller_batches_fit_alone(estimator: Estimator) -> None:
    job = replace(IMAGES, adaptation=_adaptation(1e7, 64, 2**16))
    most = _best(estimator, job, "4xA10")[1].batch_size
    seen = Observation(
        placement=parse_placement("4xA10"), batch_size=most // 2, step_time_s=RAN_OUT_S
    )
    best = _best(estimator, job, "4xA10", (seen,))[1]
    assert best.batch_size < most // 2
    asked = replace(job, batch_size=best.batch_size, accumulation_steps=best.accumulation_steps)
    assert estimator.estimate(asked, parse_placement("4xA10"), (seen,)).memory.fits


@pytest.mark.parametrize("placement", ["T4", "A10", "8xA10"])
def test_gradients_that_wait_for_further_micro_batches_take_their_room(
    estimator: Estimator, placement: str
) -> None:
    # 0.6 billion parameters, whose gradients lie there from the second micro-batch on.
    kwargs = {"num_layers": 12, "hidden_size": 2048, "num_heads": 16, "vocab_size": 8192}
    job = replace(TEXT, model_kwargs=kwargs, batch_size=1, adaptation=_adaptation(1e7, 8, 4096))
    _, best = _best(estimator, job, placement)
    assert best.accumulation_steps > 1
    asked = replace(job, batch_size=best.batch_size, accumulation_steps=best.accumulation_steps)
    assert estimator.estimate(asked, parse_placement(placement)).memory.fits


def test_the_best_batch_fits_beside_other_jobs(estimator: Estimator) -> None:
    job = replace(IMAGES, adaptation=_adaptation(1e7, 64, 2**16))
    neighbour = {"model": "timm/resnet18", "mode": "training", "batch_size": 200}
    beside = {"nodes": [{"accelerator": "A10", "count": 1}], "shared_with": [neighbour]}
    alone, shared = (_best(estimator, job, place)[1] for place in ("A10", beside))
    assert shared.batch_size < alone.batch_size
    asked = replace(job, batch_size=shared.batch_size, accumulation_steps=shared.accumulation_steps)
    assert estimator.estimate(asked, parse_placement(beside)).memory.fits


def test_steps_observed_at_other_batches_count_at_all_of_them(estimator: Estimator) -> None:
    place = parse_placement("4xA10")
    for batches in ((8,), (32, 256), (128,)):
        seen = tuple(
            Observation(placement=place, batch_size=batch, step_time_s=0.08 + batch * 2e-4)
            for batch in batches
        )
        for script in (None, True):
            job = replace(IMAGES, script=script)
            found, batch = _best(estimator, job, "4xA10", seen)
            asked = replace(
                job, batch_size=batch.batch_size, accumulation_steps=batch.accumulation_steps
            )
            answer = estimator.estimate(asked, place, seen)
            assert batch.step_time_s == pytest.approx(answer.step_time_s, rel=0.03), batches


def test_a_bound_that_cannot_be_met_is_pointed_at(estimator: Estimator) -> None:
    job = replace(IMAGES, adaptation=_adaptation(2000.0, 9, 9))
    ranking = estimator.rank(job, [parse_placement("8xA10")], RankQuestion(by=Criterion.GOODPUT))
    assert getattr(ranking.errors[0], "pointer", "") == "/job/adaptation/batch_size_bounds"
