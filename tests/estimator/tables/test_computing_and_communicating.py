"""What computes and what communicates in a step, in matrices and curves as in single answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator
from perfmodel.estimator.placing.memory import tightest_memory
from perfmodel.estimator.tables import filling
from perfmodel.estimator.tables.curve import CurveQuestion
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.topology.networks import named_network
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Mode, Precision

NAMES = ("step_time_s", "compute_time_s", "sync_time_s")

TRAINING = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=2000)
INFERENCE = Job(model="zoo/two", mode=Mode.INFERENCE, batch_size=2000)
LANGUAGE_MODEL = Job(
    model="zoo/megatron-gpt",
    model_kwargs={"num_layers": 4, "hidden_size": 512, "num_heads": 8, "vocab_size": 1024},
    mode=Mode.TRAINING, batch_size=4, precision=Precision.FP16,
)  # fmt: skip
JOB_TYPE = Job(model=None, job_type="recommender", mode=Mode.TRAINING, batch_size=2000)

PLAIN = ("A10", "8xA10", "2x(4xA10)@eth-25g", "2xH100-SXM5-80GB+3xA10", "4xA10 zero=3")
#: Answered one by one.
SPECIAL = ("2xA10 fraction=0.5", "A10 power=100", "2xA10 cores=2")


def _seen(place: str, step_time_s: float, sync_time_s: float | None = None) -> Observation:
    return Observation(
        placement=parse_placement(place), batch_size=2000, step_time_s=step_time_s,
        sync_time_s=sync_time_s,
    )  # fmt: skip


def _assert_cells_are_single_answers(
    estimator: Estimator,
    jobs: Sequence[Job],
    places: Sequence[str],
    observations: Mapping[int, Sequence[Observation]] | None = None,
) -> None:
    placements = [parse_placement(place) for place in places]
    observations = observations or {}
    matrix = estimator.matrix(jobs, placements, observations)
    assert matrix.answered.all()
    for row, job in enumerate(jobs):
        for column, placement in enumerate(placements):
            one = estimator.estimate(job, placement, observations.get(row, ()))
            for name in NAMES:
                # Columns and plain numbers add up in another order.
                expected = pytest.approx(getattr(one, name), rel=1e-9)
                assert getattr(matrix, name)[row, column] == expected, (row, column, name)


def test_cells_of_whole_accelerators(estimator: Estimator) -> None:
    accumulating = Job(
        model="zoo/two", mode=Mode.TRAINING, batch_size=2000, accumulation_steps=4
    )  # fmt: skip
    jobs = (TRAINING, INFERENCE, accumulating)
    _assert_cells_are_single_answers(estimator, jobs, PLAIN)


@pytest.mark.parametrize(
    "seen",
    [
        (_seen("A10", 3e-3),),
        (_seen("A10", 3e-3), _seen("8xA10", 4e-2)),
        (_seen("A10", 3e-3), _seen("8xA10", 4e-2, 3.5e-2)),
    ],
    ids=["on one", "on several", "with its communication"],
)
def test_cells_that_observations_correct(
    estimator: Estimator, seen: tuple[Observation, ...]
) -> None:
    _assert_cells_are_single_answers(estimator, [TRAINING], (*PLAIN, *SPECIAL), {0: seen})


def test_cells_that_are_answered_one_by_one(estimator: Estimator) -> None:
    _assert_cells_are_single_answers(estimator, [TRAINING, INFERENCE], SPECIAL)
    places = ("A100", "8xA100 tp=2", "8xA100 tp=2 pp=2")
    _assert_cells_are_single_answers(estimator, [LANGUAGE_MODEL], places)


@pytest.mark.parametrize(
    "seen",
    [(_seen("A10", 0.3), _seen("4xA10", 0.4, 0.1)), (_seen("T4", 0.5),)],
    ids=["on one and several", "on one"],
)
def test_cells_of_a_job_that_is_known_by_a_name(
    estimator: Estimator, seen: tuple[Observation, ...]
) -> None:
    places = (*PLAIN[:3], *SPECIAL, "T4", "A10+T4")
    _assert_cells_are_single_answers(estimator, [JOB_TYPE], places, {0: seen})


def test_a_cell_whose_memory_cannot_be_told_costs_itself_alone(
    estimator: Estimator, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def second_untold(*question: Any) -> Any:
        asked.append(question)
        if len(asked) == 2:
            raise InvalidInputError("its memory cannot be told")
        return tightest_memory(*question)

    placements = [parse_placement(place) for place in SPECIAL]
    monkeypatch.setattr(filling, "tightest_memory", second_untold)
    matrix = estimator.matrix([TRAINING], placements)
    assert matrix.answered.tolist() == [[True, False, True]]
    assert np.isfinite(matrix.peak_bytes).tolist() == [[True, False, True]]


def test_cells_without_an_answer_have_no_parts(estimator: Estimator) -> None:
    bad = InvalidInputError("a bad placement")
    matrix = estimator.matrix([TRAINING, Job(model="zoo/none")], [parse_placement("A10"), bad])
    assert matrix.answered.tolist() == [[True, False], [False, False]]
    for name in NAMES:
        np.testing.assert_array_equal(np.isfinite(getattr(matrix, name)), matrix.answered)


@pytest.mark.parametrize(
    "place",
    [
        "2x(8xRTX-4090) tp=8", "2x(8xL40S)@eth-10g tp=8", "8xT4 zero=3 offload=parameters",
        "8xT4 zero=3 offload=optimizer+parameters", "4x(8xA100)@ib-100g zero=3 replicate=4",
    ],
)  # fmt: skip
def test_no_part_is_longer_than_the_step(estimator: Estimator, place: str) -> None:
    one = estimator.estimate(LANGUAGE_MODEL, parse_placement(place))
    # To rounding: the step is what its parts add up to.
    assert max(one.compute_time_s, one.sync_time_s) <= one.step_time_s * (1 + 1e-12)
    assert one.sync_time_s >= one.breakdown.exposed_communication_s


def test_computing_and_communicating_are_apart(estimator: Estimator) -> None:
    placements = [parse_placement(place) for place in ("A10", "8x(1xA10)@eth-10g")]
    matrix = estimator.matrix([TRAINING, INFERENCE], placements)
    # 1 us a sample; replicas of inference share nothing.
    np.testing.assert_allclose(matrix.compute_time_s[:, 0], 2e-3)
    assert matrix.sync_time_s[0, 0] == 0.0
    assert matrix.sync_time_s[1].tolist() == [0.0, 0.0]
    # 67 MB of gradients over 1.25 GB/s: 7/8 * 2 * 67 MB / 1.25 GB/s = 94 ms at least.
    assert matrix.sync_time_s[0, 1] > 0.094


@pytest.mark.parametrize(
    ("job", "seen"),
    [
        (TRAINING, ()),
        (INFERENCE, ()),
        (LANGUAGE_MODEL, ()),
        (TRAINING, (_seen("A100", 3e-3),)),
        (TRAINING, (_seen("A100", 3e-3), _seen("8xA100", 4e-2, 3.5e-2))),
        (JOB_TYPE, (_seen("A100", 0.3), _seen("4xA100", 0.4, 0.1))),
        (JOB_TYPE, (_seen("T4", 0.5),)),
    ],
    ids=[
        "training", "inference", "a plan", "observed on one", "observed on several",
        "known by a name", "known by a name elsewhere",
    ],
)  # fmt: skip
def test_the_points_of_a_curve_are_single_answers(
    estimator: Estimator, job: Job, seen: tuple[Observation, ...]
) -> None:
    question = CurveQuestion(
        accelerator="A100", counts=(1, 2, 8, 16), network=named_network("ib-200g")
    )
    curve = estimator.curve(job, question, seen)
    places = ("A100", "2xA100", "8xA100", "2x(8xA100)@ib-200g")
    for position, place in enumerate(places):
        one = estimator.estimate(job, parse_placement(place), seen)
        for name in NAMES:
            expected = pytest.approx(getattr(one, name), rel=1e-9)
            assert getattr(curve, name)[position] == expected, (place, name)
