"""While a matrix with very many observations is read, others are answered."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from held_service import held_service
from waiting import PATIENCE_S

from service.answering.questions import AskedMatrix, read_matrix
from service.dispatch import dispatcher

JOB = {"model": "timm/known", "mode": "training", "batch_size": 8}


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
