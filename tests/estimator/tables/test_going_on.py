"""What takes long asks between its parts whether it may go on."""

from __future__ import annotations

from types import ModuleType
from typing import Never

import pytest

from perfmodel.estimator import Estimator
from perfmodel.estimator.core import core
from perfmodel.estimator.jobs.capture_terms import AbandonedError
from perfmodel.estimator.tables import filling, ranking, table
from perfmodel.estimator.tables.ranking import RankQuestion
from perfmodel.graph.job import Job
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Mode

JOB = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=64)
TYPE = Job(job_type="click-rates", mode=Mode.TRAINING, batch_size=64)


@pytest.mark.parametrize(
    ("module", "job", "placement"),
    [
        (core, JOB, "A10"),
        (table, JOB, "A10"),
        (filling, JOB, "2xA10"),
        (filling, JOB, "2xA10 tp=2"),
        (filling, TYPE, "A10"),
    ],
    ids=["model", "jobs", "replicas", "other cells", "job types"],
)
def test_a_matrix_ends_between_its_parts(
    estimator: Estimator,
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    job: Job,
    placement: str,
) -> None:
    monkeypatch.setattr(module, "go_on", ended)
    with pytest.raises(AbandonedError):
        estimator.matrix([job], [parse_placement(placement)])


def test_a_ranking_ends_between_its_placements(
    estimator: Estimator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "go_on", ended)
    with pytest.raises(AbandonedError):
        estimator.rank(JOB, [parse_placement("A10")], RankQuestion())


def ended() -> Never:
    raise AbandonedError("Nobody waits for it any more.")
