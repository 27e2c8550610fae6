"""Two services as processes of their own on one PostgreSQL; one of them is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from asking import Service
from postgresql import PostgresqlServer
from service_process import service_process
from waiting import PATIENCE_S, until


def _job(name: str) -> dict[str, Any]:
    return {"job_type": name, "mode": "training", "batch_size": 512}


def _taken_over(service: Service, names: list[str]) -> None:
    """Wait until operations are done."""

    def all_are_done() -> bool:
        done = service.ask("/v1/operations?state=done")["operations"]
        return {one["id"] for one in done} >= set(names)

    # A lease has to run out first, and six operations are worked on.
    until(all_are_done, patience_s=2 * PATIENCE_S, every_s=0.5)


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
        job = _job("click-rates")
        seen = {"job": job, "placement": "T4", "step_time_s": 0.2}
        question = {"job": here.ask("/v1/jobs", {"job": job})["ref"], "placement": "T4"}
        assert here.ask("/v1/observations", [seen])["accepted"] == 1
        wanted = here.ask("/v1/predict", question)
        until(lambda: there.ask("/v1/predict", question) == wanted)
        matrix = {"jobs": [job] * 20, "placements": ["T4", "A10"] * 5}
        later = {"Prefer": "respond-async"}
        kept = [here.ask("/v1/matrix", matrix, **later)["id"] for _ in range(6)]
        one.kill()
        _taken_over(there, kept)
        # SIGKILL: nothing is written on the way out, and nothing that was acknowledged is lost.
        assert len(there.ask("/v1/observations")["observations"]) == 1
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

        def until_there(wanted: Any) -> None:
            until(lambda: there.ask("/v1/predict", question) == wanted)

        for method, body in (("DELETE", None), ("PATCH", {"state": "excluded"})):
            sent = {**first, "placement": "4xT4", "step_time_s": 0.9, "key": method}
            assert here.ask("/v1/observations", [sent])["accepted"] == 1
            until_there(here.ask("/v1/predict", question))
            here.ask(f"/v1/observations?key={method}", body, method=method)
            assert here.ask("/v1/predict", question) == before  # here at once
            until_there(before)
