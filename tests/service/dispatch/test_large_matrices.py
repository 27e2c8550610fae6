"""While a matrix with very many observations is read, others are answered."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.responses import Response
from held_service import held_service
from waiting import PATIENCE_S

from perfmodel.errors import InvalidInputError
from perfmodel.placement.topology.parse import parse_placement
from service.answering.questions import AskedMatrix, attempt, read_matrix
from service.dispatch import dispatcher
from service.http.bodies import etagged_response
from service.routes import answers

JOB = {"model": "timm/known", "mode": "training", "batch_size": 8}


def test_a_large_matrix_is_written_down_beside_the_answers_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by: list[threading.Thread] = []

    def noting(*args: Any) -> Response:
        by.append(threading.current_thread())
        return etagged_response(*args)

    monkeypatch.setattr(answers, "etagged_response", noting)
    with held_service(tmp_path) as service:
        for placements in (["T4"], ["T4"] * 5_000):
            service.ask("matrix", jobs=[JOB], placements=placements)
        main = service.client.portal.call(threading.current_thread)
    assert [one is main for one in by] == [True, False]


def test_so_many_errors_of_a_matrix_are_told(tmp_path: Path) -> None:
    with held_service(tmp_path) as service:
        found = service.ask("matrix", jobs=[{}] * 10_001, placements=["T4"])
    assert len(found["errors"]) == 10_000
    assert found["status"] == [["error"]] * 10_001
    assert "Of 10001 errors 10000 are listed." in found["warnings"]


def test_a_large_matrix_is_read_beside_the_answers_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, told_to_go_on = threading.Event(), threading.Event()
    went_on: list[bool] = []

    def slowly(*question: Any, **options: Any) -> AskedMatrix:
        begun.set()
        went_on.append(told_to_go_on.wait(10.0))
        return read_matrix(*question, **options)

    monkeypatch.setattr(dispatcher, "read_matrix", slowly)
    seen = [{"job": 0, "placement": "T4", "step_time_s": 0.01}] * 2_000  # some 100 kB
    question = {"jobs": [JOB], "placements": ["T4"], "observations": seen}
    with held_service(tmp_path) as service, ThreadPoolExecutor(1) as other:
        large = other.submit(service.ask, "matrix", **question)
        assert begun.wait(PATIENCE_S)
        assert service.client.get("/v2/health/ready").status_code == 200
        told_to_go_on.set()
        assert large.result(PATIENCE_S)["basis"] == [["measured"]]
    assert went_on == [True]


def test_what_is_wrong_with_a_cell_holds_nothing_of_where_it_was_found(tmp_path: Path) -> None:
    with held_service(tmp_path) as service:
        answerer = service.app.state.dispatcher.models.serving
        asked = read_matrix({"jobs": [{}, JOB], "placements": ["T4", "0xT4"]}, max_cells=4)
        errors = answerer.matrix(asked).errors
    assert [one.error.__traceback__ for one in errors] == [None, None]
    # Nor before all of them are read.
    bad = attempt(parse_placement, "0xT4", "/placements/1")
    assert isinstance(bad, InvalidInputError)
    assert bad.__traceback__ is None
