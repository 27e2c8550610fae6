"""Two services as processes of their own on one PostgreSQL; one of them is killed."""

from __future__ import annotations

import itertools
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from asking import Service
from bounded_time import bounded_s
from postgresql import PostgresqlServer
from service_process import service_process

#: Longer than a lease and the work of six operations take, however busy the machine is.
_PATIENCE_S = 180.0


def _job(name: str) -> dict[str, Any]:
    return {"job_type": name, "mode": "training", "batch_size": 512}


def _taken_over(service: Service, names: list[str]) -> None:
    """Wait until operations are done."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        done = service.ask("/v1/operations?state=done")["operations"]
        if {one["id"] for one in done} >= set(names):
            return
        assert time.monotonic() < until, done
        time.sleep(0.5)


@pytest.mark.slow
def test_what_one_took_in_the_other_answers_when_it_was_killed(
    postgresql: PostgresqlServer, tmp_path: Path
) -> None:
    url = postgresql.migrated_database()
    for name in "ab":
        (tmp_path / name).mkdir()
    with (
        service_process(url, tmp_path / "a") as (one, here),
        service_process(url, tmp_path / "b") as (_, there),
    ):
        numbers = itertools.count()

        def reaches_the_other_after_s() -> float:
            job = _job(f"click-rates-{next(numbers)}")
            seen = {"job": job, "placement": "T4", "step_time_s": 0.2}
            question = {"job": here.ask("/v1/jobs", {"job": job})["ref"], "placement": "T4"}
            assert here.ask("/v1/observations", [seen])["accepted"] == 1
            stored = time.monotonic()
            wanted = here.ask("/v1/predict", question)
            while there.ask("/v1/predict", question) != wanted:
                assert time.monotonic() < stored + _PATIENCE_S
                time.sleep(0.02)
            return time.monotonic() - stored

        assert bounded_s(reaches_the_other_after_s, within_s=2.0) < 2.0
        matrix = {"jobs": [_job("click-rates-0")] * 20, "placements": ["T4", "A10"] * 5}
        later = {"Prefer": "respond-async"}
        kept = [here.ask("/v1/matrix", matrix, **later)["id"] for _ in range(6)]
        one.kill()
        _taken_over(there, kept)
        # SIGKILL: nothing is written on the way out, and nothing that was acknowledged is lost.
        seen = there.ask("/v1/observations")["observations"]
        assert len(seen) == next(numbers)
        results = [there.ask(f"/v1/operations/{name}/result") for name in kept]
        assert all(result == results[0] for result in results)


@pytest.mark.slow
def test_what_is_taken_back_from_one_the_other_never_heard_of(
    postgresql: PostgresqlServer, tmp_path: Path
) -> None:
    url = postgresql.migrated_database()
    for name in "ab":
        (tmp_path / name).mkdir()
    with (
        service_process(url, tmp_path / "a") as (_, here),
        service_process(url, tmp_path / "b") as (_, there),
    ):
        job = _job("click-rates")
        first = {"job": job, "placement": "T4", "step_time_s": 0.2, "key": "first"}
        assert here.ask("/v1/observations", [first])["accepted"] == 1
        question = {"job": job, "placement": "4xT4"}
        before = here.ask("/v1/predict", question)
        numbers = itertools.count()

        def until_there(wanted: Any) -> float:
            began = time.monotonic()
            while there.ask("/v1/predict", question) != wanted:
                assert time.monotonic() - began < _PATIENCE_S
                time.sleep(0.02)
            return time.monotonic() - began

        def reaches_the_other_after_s(method: str, body: Any = None) -> float:
            key = f"{next(numbers)}"
            sent = {**first, "placement": "4xT4", "step_time_s": 0.9, "key": key}
            assert here.ask("/v1/observations", [sent])["accepted"] == 1
            until_there(here.ask("/v1/predict", question))
            here.ask(f"/v1/observations?key={key}", body, method=method)
            assert here.ask("/v1/predict", question) == before  # here at once
            return until_there(before)

        excluded = {"state": "excluded"}
        for method, body in (("DELETE", None), ("PATCH", excluded)):
            taken_s = bounded_s(partial(reaches_the_other_after_s, method, body), within_s=2.0)
            assert taken_s < 2.0
