"""What is kept of questions, whoever takes them in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
from held_service import held_service
from migrated import migrated_sqlite
from two_hosts import two_hosts

from perfmodel.store.shadow.asked_questions import AskedQuestionStore
from perfmodel.store.sql.connections import Connections
from service.shadow.asked_questions import AskedQuestions, cells_of

JOB = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}


def _kept(url: str) -> list[dict[str, Any]]:
    connections = Connections(url)
    found = AskedQuestionStore(connections, most=1_000, most_bytes=1_000_000).newest()
    connections.close()
    return [json.loads(one.content) for one in reversed(found)]


def test_cells_of_all_kinds_of_questions_are_kept(tmp_path: Path) -> None:
    with held_service(tmp_path, shadow_poll_s=0) as service:
        observed = [{"placement": "T4", "batch_size": 64, "step_time_s": 0.005}]
        service.ask("predict", job=JOB, placement="T4", observations=observed, deadline_ms=9e4)
        service.ask("explain", job=JOB, placement="A10", most=3)
        service.ask("matrix", jobs=[JOB], placements=["T4", "2xT4"])
        service.ask("curve", job=JOB, accelerator="T4", counts=[4, 16])
        service.ask("rank", job=JOB, placements=["8xT4"])
        # What is refused was not answered.
        service.ask("predict", 422, job=JOB, placement="nothing")
        service.dispatcher.shadow.asked.poll()
        url = service.dispatcher.state.database.url
        node = {"accelerator": "T4", "count": 4, "link": None}
        kept = _kept(url)
        assert [one["placement"] for one in kept] == [
            "T4", "A10", "2xT4", {"nodes": [node], "plan": {"zero_stage": 0}}, "8xT4",
        ]  # fmt: skip
        assert all(one.keys() == {"job", "placement"} and one["job"] == JOB for one in kept)
        # Asked again soon: it is not written again.
        service.ask("predict", job=JOB, placement="T4")
        assert service.dispatcher.shadow.asked.poll() == 0


def test_hosts_add_up(new_migrated_url: Any, tmp_path: Path) -> None:
    url = new_migrated_url()
    with two_hosts(url, tmp_path) as hosts:
        for host, placement in zip(hosts, ("T4", "A10"), strict=True):
            ask = {"job": JOB, "placement": placement}
            assert host.post("/v1/predict", json=ask).status_code == 200
            dispatcher: Any = host.app.state.dispatcher  # type: ignore[attr-defined]
            dispatcher.shadow.asked.poll()
        assert [one["placement"] for one in _kept(url)] == ["T4", "A10"]


def test_what_waits_to_be_kept_is_bounded(tmp_path: Path) -> None:
    connections = Connections(migrated_sqlite(tmp_path))
    store = AskedQuestionStore(connections, most=1_000, most_bytes=1_000_000)
    asked = AskedQuestions(store)
    asked.note(b" " * 300_000)
    assert asked.poll() == 0
    for number in range(100):
        asked.note(orjson.dumps({"job": JOB, "placement": f"{number + 1}xT4"}))
    # The last 64 of them.
    assert asked.poll() == 64
    asked.note(orjson.dumps({"job": {"model": "x" * 20_000}, "placement": "T4"}))
    assert asked.poll() == 0
    connections.close()


def test_a_table_is_sampled_over_its_jobs_and_placements() -> None:
    table = {"jobs": [{"n": n} for n in range(20)], "placements": [f"{n}xT4" for n in range(1, 31)]}
    cells = cells_of(table)
    assert len(cells) == 8 == len({one["job"]["n"] for one in cells})
    assert len({one["placement"] for one in cells}) == 8
    assert cells_of(table) == cells


def test_nothing_is_kept_where_nothing_shall_be(tmp_path: Path) -> None:
    with held_service(tmp_path, shadow_questions=0, shadow_poll_s=0) as service:
        service.ask("predict", job=JOB, placement="T4")
        service.dispatcher.shadow.asked.poll()
        assert _kept(service.dispatcher.state.database.url) == []


def test_what_schedulers_ask_is_kept_too(tmp_path: Path) -> None:
    with held_service(tmp_path, shadow_poll_s=0, kubernetes_wait_s=60) as service:
        paths = service.client.get("/openapi.json").json()["paths"]
        asked = service.dispatcher.shadow.asked
        for route, placements in (
            ("/v1/adapters/slurm", 2),
            ("/v1/adapters/dstack/apply_policies/on_run_apply", 2),
            ("/kubernetes/scheduler/prioritize", 2),
        ):
            content = paths[route]["post"]["requestBody"]["content"]["application/json"]
            [example] = content["examples"].values()
            assert service.client.post(route, json=example["value"]).status_code == 200
            assert asked.poll() == placements, route
        kept = _kept(service.dispatcher.state.database.url)
        for one in kept:
            service.ask("predict", **one)
