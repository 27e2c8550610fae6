"""Questions answered by two versions in one process."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from held_service import HeldModel, NonsenseModel, one_or_another
from migrated import migrated_sqlite

from perfmodel.devices.catalog import Catalog
from perfmodel.estimator import Estimator
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.single.loading import LoadedModel
from perfmodel.store.shadow.asked_questions import AskedQuestion
from perfmodel.store.state.database import Database
from service.answering.answerer import Answerer
from service.answering.question_cache import JobCache
from service.app import create_app
from service.settings import Settings
from service.shadow.comparing import Comparer
from service.state.state import State

JOB = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Answerer]:
    graphs = GraphLibrary(capture=one_or_another, database=Database(migrated_sqlite(tmp_path)))
    estimator = Estimator(
        accelerators=Catalog.default(), model=HeldModel(version="v/1"), graphs=graphs
    )
    state = State.beside(estimator)
    yield Answerer(estimator, state, JobCache(100))
    state.close()


def _beside(serving: Answerer, model: HeldModel) -> Comparer:
    estimator = serving.estimator.with_model(LoadedModel(model=model))
    return Comparer(serving, Answerer(estimator, serving._state, JobCache(100)))


def _asked(**question: Any) -> AskedQuestion:
    return AskedQuestion(content=json.dumps(question, sort_keys=True))


def test_step_times_are_compared_and_questions_described(serving: Answerer) -> None:
    comparer = _beside(serving, HeldModel(version="v/2", times=3))
    question = _asked(job=JOB, placement="2x(4xNVIDIA A10)@eth-10g")
    [one] = comparer.compare([question])
    assert one.question == question.key
    assert (one.label, one.device, one.mode) == (
        "timm/resnet50 training batch 64", "A10", "training",
    )  # fmt: skip
    assert (one.family, one.placement_kind) == ("resnet", "several hosts")
    assert (json.loads(one.placement), json.loads(one.named_placement)) == (
        "2x(4xNVIDIA A10)@eth-10g", "2x(4xA10)@eth-10g",
    )  # fmt: skip
    assert one.serving_s is not None and one.shadow_s is not None
    # Three times the analytical time against two times; there are no gradients to exchange.
    assert one.shadow_s / one.serving_s == pytest.approx(1.5)
    assert one.answered_ratio == pytest.approx(math.log(1.5))


def test_a_shadow_that_answers_nonsense_is_a_finding(serving: Answerer) -> None:
    [one] = _beside(serving, NonsenseModel(version="v/2")).compare(
        [_asked(job=JOB, placement="T4")]
    )
    assert one.serving_problem is None and one.serving_s is not None
    assert one.shadow_s is None and one.shadow_problem
    assert one.answered_ratio is None


def test_a_question_that_nobody_can_answer_any_more_stops_no_other(serving: Answerer) -> None:
    comparer = _beside(serving, HeldModel(version="v/2"))
    gone, unknown, good = comparer.compare(
        [
            _asked(job="0" * 32, placement="T4"),
            _asked(job=JOB, placement="no such accelerator"),
            _asked(job=JOB, placement="T4"),
        ]
    )
    for one in (gone, unknown):
        assert one.serving_problem and one.shadow_problem == one.serving_problem
    assert good.serving_problem is None and good.serving_s == good.shadow_s


def test_job_types_have_nothing_but_what_was_observed(serving: Answerer) -> None:
    typed = _asked(
        job={"job_type": "ResNet-18", "mode": "training", "batch_size": 16},
        placement="V100-SXM2-16GB",
    )
    [one] = _beside(serving, HeldModel(version="v/2", times=3)).compare([typed])
    assert (one.serving_s, one.shadow_s, one.family) == (None, None, "job types")


def test_a_database_in_memory_is_refused(tmp_path: Path) -> None:
    graphs = GraphLibrary(capture=one_or_another, database=Database("sqlite://"))
    estimator = Estimator(accelerators=Catalog.default(), model=HeldModel(), graphs=graphs)
    app = create_app(estimator, Settings(models=tmp_path, keys=tmp_path / "keys.json"))
    with TestClient(app) as client:
        refused = client.post("/v1/models/default/1/shadow")
    assert refused.status_code == 422 and "PERFMODEL_DATABASE" in refused.json()["detail"]
