"""A single cell is answered on plain numbers as a table answers it in columns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator
from perfmodel.estimator.evidence import observed as observed_steps
from perfmodel.estimator.evidence.observed_job import observed_job
from perfmodel.estimator.evidence.observed_rows import weighed_steps
from perfmodel.estimator.evidence.strangers import Strangers
from perfmodel.estimator.tables.estimates import answer_cell
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import LADDER, Basis, Mode, Precision

JOB = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=2000)
OTHER = replace(JOB, precision=Precision.TF32)
#: Observed, near, elsewhere, over hosts, of two kinds, shared out, limited.
PLACES = (
    "A10", "4xA10", "8xA100-SXM4-80GB", "2x(4xA10)@eth-25g", "1xA10+1xT4@eth-25g",
    "4xA10 zero=1", "A10 power=100",
)  # fmt: skip


def seen(place: str, step_time_s: float, **more: object) -> Observation:
    facts = {"batch_size": JOB.batch_size, "step_time_s": step_time_s, **more}
    return Observation(placement=parse_placement(place), **facts)  # type: ignore[arg-type]


OWN = (
    seen("A10", 3e-3), seen("2xA10", 3e-2, sync_time_s=2e-2), seen("A10", 5e-3, batch_size=4000),
)  # fmt: skip
TOLD = tuple(
    replace(one, job=OTHER, step_time_s=2 * one.step_time_s, sync_time_s=None) for one in OWN
)
REPORTED = [replace(one, reporter=name) for name in "abcdef" for one in TOLD]


def columns(
    estimator: Estimator, place: str, own: tuple[Observation, ...], strangers: Strangers | None
) -> list[object]:
    table = estimator.matrix([JOB], [parse_placement(place)], {0: own}, strangers)
    numbers = ("samples_per_second", "low", "high", "step_time_s", "compute_time_s", "sync_time_s")
    return [
        *(float(getattr(table, name)[0, 0]) for name in numbers),
        LADDER[int(table.basis[0, 0])],
        set(table.warnings),
    ]


def numbers(answer: Estimate) -> list[object]:
    rate = answer.throughput
    return [
        rate.samples_per_second, rate.low, rate.high, answer.step_time_s, answer.compute_time_s,
        answer.sync_time_s, answer.basis, set(answer.warnings),
    ]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("known", ["own", "told", "both", "strangers"])
def test_one_cell_is_that_of_a_table(estimator: Estimator, place: str, known: str) -> None:
    own = {"own": OWN, "told": TOLD, "both": (*OWN, *TOLD), "strangers": ()}[known]
    strangers = Strangers(estimator.core, REPORTED) if known == "strangers" else None
    prepared = estimator.core.prepare(JOB)
    observed = observed_job(estimator.core, prepared, own, strangers)
    resolved = estimator.core.resolve(parse_placement(place))
    plain = answer_cell(estimator.core, prepared, resolved)
    found = numbers(answer_cell(estimator.core, prepared, resolved, observed))
    expected = columns(estimator, place, own, strangers)
    assert found[:6] == pytest.approx(expected[:6], rel=1e-9)
    assert found[6:] == expected[6:]
    if place in ("A10", "4xA10"):
        assert found[3] != pytest.approx(plain.step_time_s, rel=1e-3)


def test_a_cell_that_was_observed_is_worked_out_once_and_again_when_it_is_observed_again(
    estimator: Estimator, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = estimator.core.prepare(JOB)
    resolved = estimator.core.resolve(parse_placement("A10"))
    observed = observed_job(estimator.core, prepared, OWN)
    first = answer_cell(estimator.core, prepared, resolved, observed)
    assert first.basis is Basis.MEASURED
    with monkeypatch.context() as without_columns:
        without_columns.delattr(observed_steps, "Correction")
        assert numbers(answer_cell(estimator.core, prepared, resolved, observed)) == numbers(first)
    slower = observed_job(estimator.core, prepared, [replace(one, step_time_s=0.2) for one in OWN])
    # Each knows its own: whatever was asked of the other, it answers as if asked first.
    second = answer_cell(estimator.core, prepared, resolved, slower)
    assert second.step_time_s > 10 * first.step_time_s
    assert numbers(answer_cell(estimator.core, prepared, resolved, observed)) == numbers(first)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_synchronisation_of_steps_that_share_nothing_is_a_part_of_them(
    estimator: Estimator, share: float
) -> None:
    serving = replace(JOB, mode=Mode.INFERENCE)
    plain_s = estimator.estimate(serving, parse_placement("4xA10")).step_time_s
    stated = seen("4xA10", 2 * plain_s, sync_time_s=share * 2 * plain_s)
    found, expected = (
        estimator.estimate(serving, one.placement, [one])
        for one in (stated, replace(stated, sync_time_s=None))
    )
    assert found.basis is Basis.MEASURED
    assert found.step_time_s == expected.step_time_s
    assert found.step_time_s == pytest.approx(2 * plain_s, rel=0.1)


def test_steps_that_are_weighed_together_are_those_of_each(estimator: Estimator) -> None:
    some = (*OWN, seen("A10 power=100", 4e-3), seen("4xA10 zero=1", 3e-2))
    together = weighed_steps(estimator.core, JOB, some, [""] * len(some), "job").pooled()
    each = [weighed_steps(estimator.core, JOB, [one], [""], "job") for one in some]
    alone = ObservedSteps.join(each).pooled()
    assert together.cells.identities() == alone.cells.identities()
    for name in ("compute_s", "exposed_communication_s", "communication_s"):
        expected = getattr(alone.cells.parts, name)
        assert getattr(together.cells.parts, name) == pytest.approx(expected, rel=1e-12)
    assert together.step_time_s.tolist() == alone.step_time_s.tolist()


@pytest.mark.parametrize(
    ("bad", "part"),
    [(seen("A10", 1e-9), "step_time_s"), (seen("3xNobody", 1.0), "placement/nodes/0/accelerator")],
)
def test_the_one_that_is_wrong_is_pointed_at(
    estimator: Estimator, bad: Observation, part: str
) -> None:
    with pytest.raises(InvalidInputError) as error:
        estimator.estimate(JOB, parse_placement("A10"), (*OWN, bad))
    assert error.value.pointer == f"/observations/3/{part}"
