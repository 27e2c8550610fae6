"""A job type and a job on the same accelerators: both are slowed by the law of known pairs."""

from collections.abc import Mapping
from typing import Any

import pytest

from perfmodel.estimator import Estimator, basis_names
from perfmodel.estimator.placing.slowdowns import UNKNOWN_LOAD_WARNING
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.sharing.colocation import load_of_type, slowdown_beside
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Basis, Mode

KIND = "V100-SXM2-16GB"
MYSTERY = Job(job_type="mystery", mode=Mode.TRAINING, batch_size=32)
#: A family whose pairs were measured on this kind.
LSTM = Job(job_type="LM", mode=Mode.TRAINING, batch_size=20)
CAPTURED = {"model": "zoo/two", "mode": "training", "batch_size": 64}


def on(*beside: Any) -> Any:
    return parse_placement({"nodes": [{"accelerator": KIND}], "shared_with": list(beside)})


def steps(times_s: Mapping[Any, float], batch_size: int) -> list[Observation]:
    return [
        Observation(placement=placement, batch_size=batch_size, step_time_s=step_s)
        for placement, step_s in times_s.items()
    ]


@pytest.fixture
def ask(estimator: Estimator):
    def answer(job: Job, *beside: Any, also: Mapping[Any, float] | None = None) -> Estimate:
        seen = steps({on(): 0.1, **(also or {})}, job.batch_size)
        return estimator.estimate(job, on(*beside), seen)

    return answer


def slowdown(ask: Any, job: Job, *beside: Any) -> float:
    return ask(job, *beside).step_time_s / ask(job).step_time_s


def test_the_partner_counts(ask) -> None:
    # A batch of 16 keeps the device busy for less of its step than one of 128 does.
    light, heavy = (f"ResNet-50 (batch size {size})" for size in (16, 128))
    assert 1 < slowdown(ask, MYSTERY, light) < slowdown(ask, MYSTERY, heavy)
    assert slowdown(ask, MYSTERY, CAPTURED) > 1


def test_a_known_label_is_slowed_as_the_pair_table_says(ask) -> None:
    partner = "ResNet-50 (batch size 64)"
    alone_s = ask(LSTM).compute_time_s
    own = load_of_type("LM (batch size 20)", KIND, alone_s)
    expected = slowdown_beside(own, [load_of_type(partner, KIND, 0.1)], KIND)
    assert slowdown(ask, LSTM, partner) == pytest.approx(expected, rel=0.02)
    assert ask(LSTM, partner).basis is Basis.INTERPOLATED
    assert ask(MYSTERY, partner).basis is Basis.EXTRAPOLATED
    assert ask(LSTM, partner).throughput.high > ask(LSTM, partner).throughput.samples_per_second


def test_of_two_loads_that_nobody_knows_cells_say_more_than_the_law(ask) -> None:
    beside = ask(MYSTERY, "another mystery")
    assert beside.step_time_s > ask(MYSTERY).step_time_s
    # Any name will do: nothing is known of it.
    assert ask(MYSTERY, "a third").step_time_s == pytest.approx(beside.step_time_s)


def test_a_partner_whose_load_is_a_guess_is_named(ask) -> None:
    said = UNKNOWN_LOAD_WARNING.format("another mystery")
    for job in (MYSTERY, LSTM):
        assert said in ask(job, "another mystery").warnings
        assert not any("How busy" in text for text in ask(job, CAPTURED).warnings)
    # Where the pair was observed nothing is guessed.
    assert said not in ask(MYSTERY, "another mystery", also={on("another mystery"): 0.3}).warnings


def test_a_pair_that_was_observed_stands_over_the_law(ask) -> None:
    seen = ask(MYSTERY, CAPTURED, also={on(CAPTURED): 0.5})
    assert seen.basis is Basis.MEASURED
    assert seen.step_time_s == pytest.approx(0.5, rel=0.2)


def test_a_job_type_written_as_a_job_is_the_neighbour_of_that_name(estimator: Estimator) -> None:
    written = {"job_type": "LM", "mode": "training", "batch_size": 20}
    assert on(written) == on("LM (batch size 20)")
    job = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=64)
    beside, alone = estimator.estimate(job, on(written)), estimator.estimate(job, on())
    assert beside.step_time_s > alone.step_time_s
    assert beside.neighbours[0].name == "LM (batch size 20)"


def test_a_neighbour_that_nobody_can_capture_costs_its_own_cells(estimator: Estimator) -> None:
    unknown = {"model": "zoo/none", "mode": "training", "batch_size": 1}
    captured = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=64)
    placements = [on(unknown), on(), on(CAPTURED)]
    table = estimator.matrix([MYSTERY, captured], placements, {0: steps({on(): 0.1}, 32)})
    assert table.answered.tolist() == [[False, True, True]] * 2
    assert {(one.job, one.placement) for one in table.errors} == {(0, 0), (1, 0)}
    assert basis_names(table.basis)[0][0] is None
    one = estimator.estimate(MYSTERY, placements[2], steps({on(): 0.1}, 32))
    assert table.step_time_s[0, 2] == pytest.approx(one.step_time_s)
